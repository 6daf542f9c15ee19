"""A symbol means one thing in the whole book, or the notation page owns up to it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
import re

import nbformat
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
BOOK = ROOT / "book"
SYMBOLS = [entry for group in yaml.safe_load((BOOK / "notation.yml").read_text(encoding="utf8"))
           for entry in group["symbols"]]
#: The chapters in the order of the book. Pages beside the book may look ahead.
CHAPTERS = [Path(entry["file"]).name for entry in
            yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf8"))["parts"][0]["chapters"]]

#: One thing, one spelling: what is not to be written, and what is.
SPELLING = {
    r"\varepsilon": r"\epsilon", r"\mathbf": "a plain letter", r"\boldsymbol": "a plain letter",
    r"\vec": "a plain letter", r"\langle": r"\mathbb{E}", r"\mathrm{E}": r"\mathbb{E}",
    r"\ln": r"\log", r"\star": "*", r"\widehat": r"\hat", r"\overline": r"\bar",
}
MACRO = re.compile(r"\\(?:(?:re)?newcommand|providecommand|g?def|let|DeclareMathOperator|require)\b")

_ACCENT = r"\\(?:hat|bar|tilde|mathbb|mathcal|mathsf|mathrm)"
#: A letter or Greek command with what changes its meaning: accent, star, index.
_TOKEN = re.compile(rf"(?:(?P<accent>{_ACCENT})\s*)?(?P<brace>\{{)?(?P<base>\\[A-Za-z]+|[A-Za-z])(?(brace)\}})"
                    r"(?P<star>\^\*|\^\{\*\})?(?:_(?P<index>\{[^{}]*\}|\\[A-Za-z]+|[A-Za-z0-9]))?")


@lru_cache(maxsize=None)
def text(chapter: str) -> str:
    """The prose of a chapter, without its code."""
    notebook = nbformat.read(BOOK / f"{chapter}.ipynb", as_version=4)
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def formulas(source: str) -> list[str]:
    """All that is maths in MyST source, without words that stand in it."""
    display = re.compile(r"\$\$(.*?)\$\$|```\{math\}(.*?)```", re.DOTALL)
    found = ["".join(match.groups(default="")) for match in display.finditer(source)]
    found += re.findall(r"\$([^$]+)\$", display.sub("", source))
    words = re.compile(r"\\(?:text|mathrm|operatorname\*?|begin|end)\s*\{[^}]*\}|:label:.*")
    return [words.sub(" ", formula) for formula in found]


def symbols(source: str) -> set[tuple[str, str]]:
    """The symbols of MyST source, each as itself without and with its index."""
    found = set()
    for formula in formulas(source):
        for match in _TOKEN.finditer(formula):
            accent, base = match["accent"] or "", match["base"]
            name = accent + (f"{{{base}}}" if accent in (r"\mathbb", r"\mathcal") else
                             f" {base}" if accent and base.isalpha() else base)
            name += "^*" if match["star"] else ""
            index = (match["index"] or "").strip("{} ").partition("+")[0]
            found.add((name, f"{name}_{index}" if index else name))
    return found


def uses(source: str, symbol: str) -> bool:
    """Whether MyST source has a symbol; one without an index stands for all its indices too."""
    own = {entry["symbol"] for entry in SYMBOLS if entry["symbol"] != symbol}
    return any(symbol in pair and pair[1] not in own for pair in symbols(source))


def block(chapter: str, label: str) -> str:
    """The directive that carries a label."""
    lines = text(chapter).splitlines()
    at = lines.index(f":label: {label}")
    start = max(i for i in range(at) if re.match(r"(:{3,}|`{3,})\{", lines[i]))
    fence = re.match(r":+|`+", lines[start])[0]
    stop = next(i for i in range(at, len(lines)) if lines[i].strip() == fence)
    return "\n".join(lines[start:stop + 1])


@pytest.mark.parametrize("source, expected", [
    (r"$m_k$ and $\hat m_\ell$", {("m", "m_k"), (r"\hat m", r"\hat m_\ell")}),
    (r"$\chi^*_\epsilon$", {(r"\chi^*", r"\chi^*_\epsilon")}),
    (r"$\hat\chi$, $\hat{V}$", {(r"\hat\chi", r"\hat\chi"), (r"\hat V", r"\hat V")}),
    (r"$\mathbb{E}\, b$", {(r"\mathbb{E}", r"\mathbb{E}"), ("b", "b")}),
    (r"$R_{\text{Bayes}}$", {("R", "R")}),
])
def test_symbols_are_read_from_formulas(source, expected):
    assert expected <= symbols(source)


def test_every_symbol_is_told_once():
    names = [entry["symbol"] for entry in SYMBOLS]
    assert len(names) == len(set(names)) > 40


@pytest.mark.parametrize("entry", [entry for entry in SYMBOLS if "label" in entry],
                         ids=lambda entry: entry["symbol"])
def test_a_symbol_is_introduced_where_the_page_says_and_not_used_before(entry):
    chapter = entry["label"].split("-")[1]
    assert uses(block(chapter, entry["label"]), entry["symbol"])
    before = {name for name in CHAPTERS[:CHAPTERS.index(chapter)] if uses(text(name), entry["symbol"])}
    # The first chapter speaks of tokens, scores and directions in words, and writes them down.
    before -= set(entry.get("elsewhere", {})) | {"needle"}
    assert before == set()


@pytest.mark.parametrize("entry", [entry for entry in SYMBOLS if "elsewhere" in entry],
                         ids=lambda entry: entry["symbol"])
def test_a_second_meaning_is_used_where_the_page_says(entry):
    for chapter in entry["elsewhere"]:
        assert uses(text(chapter), entry["symbol"])


@pytest.mark.parametrize("chapter", [path.stem for path in sorted(BOOK.glob("*.ipynb"))])
def test_chapters_define_no_macros_and_keep_to_one_spelling(chapter):
    assert MACRO.search(text(chapter)) is None
    strange = [f"{wrong} for {right}" for wrong, right in SPELLING.items()
               if any(re.search(re.escape(wrong) + r"(?![A-Za-z])", formula)
                      for formula in formulas(text(chapter)))]
    assert strange == []
