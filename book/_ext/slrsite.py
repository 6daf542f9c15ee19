"""What the site needs beyond Jupyter Book.

MathJax and the interactive figures are served by the site itself, the ledger of claims is written
from ``book/claims.yml``, the table of symbols from ``book/notation.yml``, and a few flaws of the theme that hinder screen readers are mended.
"""

from __future__ import annotations

from pathlib import Path
import shutil

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
import yaml

ROOT = Path(__file__).resolve().parents[2]
MATHJAX = ROOT / "node_modules" / "mathjax" / "es5"
#: The parts of MathJax that a page may ask for: the loader, TeX extensions, fonts, accessibility.
MATHJAX_PARTS = ("tex-mml-chtml.js", "input/tex/extensions", "output/chtml", "a11y", "sre", "ui")
WIDGETS = ROOT / "slrbook" / "widgets"
CLAIMS = ROOT / "book" / "claims.yml"
SYMBOLS = ROOT / "book" / "notation.yml"

#: Text of the finished pages that is replaced, and by what.
MENDED = {
    # The button's name must hold the text that is seen on it, so it is left to that text.
    'search-button-field search-button__button" title="Search" aria-label="Search"':
        'search-button-field search-button__button" title="Search"',
    # Here too: the summary says "Show code cell source".
    '<summary aria-label="Toggle hidden content">': '<summary>',
    # A list role is wrong here: the children are not list items.
    '<div role="list" class="citation-list">': '<div class="citation-list">',
}


def claim_text(claim: dict, *, ledger: bool) -> str:
    """Return the MyST source of one claim: a sentence, the numbers, where it is shown and tested."""
    fields = {name.capitalize(): claim[name] for name in ("claimed", "measured", "tolerance", "note")
              if name in claim}
    fields["Source"] = claim["source"]
    if ledger:
        fields["Shown in"] = f"{{doc}}`/book/{claim['chapter']}`"
    fields["Test"] = f"`{claim['test']}`"
    rows = "\n".join(f":{name}: {str(value).strip()}" for name, value in fields.items())
    label = f"(claim-{claim['id']})=\n" if ledger else ""
    return (f"{label}:::{{admonition}} {claim['id']}: {claim['verdict']}\n"
            f":class: slr-claim slr-{claim['verdict']}\n{claim['claim'].strip()}\n\n{rows}\n:::\n")


class Claims(SphinxDirective):
    """``{claims} CHAPTER`` lists the claims of one chapter; ``{claims}`` lists the whole ledger."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Parse the entries of the ledger into the page."""
        self.env.note_dependency(str(CLAIMS))
        claims = yaml.safe_load(CLAIMS.read_text(encoding="utf8"))
        if self.arguments:
            claims = [claim for claim in claims if claim["chapter"] == self.arguments[0]]
            if not claims:
                raise self.error(f"no claim of chapter {self.arguments[0]!r} in {CLAIMS.name}")
        text = "\n".join(claim_text(claim, ledger=not self.arguments) for claim in claims)
        return self.parse_text_to_nodes(text)


def symbol_row(entry: dict) -> str:
    """Return the row of one symbol: what it means, where it is introduced, what else it may be."""
    words = entry["meaning"]
    if "label" in entry:
        equation = entry["label"].startswith("eq-")  # its number comes in parentheses
        words += f" {{eq}}`{entry['label']}`" if equation else f" ({{prf:ref}}`{entry['label']}`)"
    for chapter, other in entry.get("elsewhere", {}).items():
        words += f"; in {{doc}}`/book/{chapter}` {other}"
    return f"* - ${entry['symbol']}$\n  - {words}\n"


class Notation(SphinxDirective):
    """``{notation}`` shows the symbols of the book, a table for each group."""

    def run(self) -> list[nodes.Node]:
        """Parse the tables into the page."""
        self.env.note_dependency(str(SYMBOLS))
        groups = yaml.safe_load(SYMBOLS.read_text(encoding="utf8"))
        text = "\n".join(
            f":::{{rubric}} {group['group']}\n:::\n\n```{{list-table}}\n:header-rows: 1\n"
            ":class: slr-symbols\n\n* - Symbol\n  - Meaning\n"
            + "".join(symbol_row(entry) for entry in group["symbols"]) + "```\n" for group in groups)
        return self.parse_text_to_nodes(text)


def load_where_used(app: Sphinx, pagename: str, templatename: str, context: dict,
                    doctree: object) -> None:
    """Load the scripts of the interactive figures only on pages that have one."""
    if 'class="slr-widget"' in context.get("body", ""):
        app.add_css_file("widgets/common.css")
        app.add_js_file("mount.js", loading_method="defer")


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Copy MathJax and the interactive figures below ``_static``, and mend the pages."""
    if exception is not None:
        return
    static = Path(app.outdir) / "_static"
    for part in MATHJAX_PARTS:
        source, target = MATHJAX / part, static / "mathjax" / part
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    (static / "widgets").mkdir(exist_ok=True)
    for source in (*WIDGETS.glob("*.js"), *WIDGETS.glob("*.css")):
        shutil.copy2(source, static / "widgets" / source.name)
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf8")
        mended = text
        for flaw, remedy in MENDED.items():
            mended = mended.replace(flaw, remedy)
        if mended != text:
            page.write_text(mended, encoding="utf8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_directive("claims", Claims)
    app.add_directive("notation", Notation)
    app.connect("html-page-context", load_where_used)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
