"""What the site needs beyond Jupyter Book: MathJax and the interactive figures, served by itself."""

from __future__ import annotations

from pathlib import Path
import shutil

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
MATHJAX = ROOT / "node_modules" / "mathjax" / "es5"
#: The parts of MathJax that a page may ask for: the loader, TeX extensions, fonts, accessibility.
MATHJAX_PARTS = ("tex-mml-chtml.js", "input/tex/extensions", "output/chtml", "a11y", "sre", "ui")
WIDGETS = ROOT / "slrbook" / "widgets"


def copy_assets(app: Sphinx, exception: Exception | None) -> None:
    """Copy MathJax and the modules of the interactive figures below ``_static``."""
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


def load_where_used(app: Sphinx, pagename: str, templatename: str, context: dict,
                    doctree: object) -> None:
    """Load the scripts of the interactive figures only on pages that have one."""
    if 'class="slr-widget"' in context.get("body", ""):
        app.add_css_file("widgets/common.css")
        app.add_js_file("mount.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("html-page-context", load_where_used)
    app.connect("build-finished", copy_assets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
