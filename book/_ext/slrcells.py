"""Cells of a chapter, shown on another page.

``{cell} CHAPTER ID`` shows the code and the stored output of one cell, so that the home page and
the German edition repeat no result by hand. The body of the directive is the caption of the figure.
"""

from __future__ import annotations

import base64
from functools import lru_cache
import json
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
#: Pictures taken out of notebooks; Sphinx copies those that a page shows.
PICTURES = ROOT / "_build" / "pictures"


@lru_cache(maxsize=None)
def _cells(chapter: str, changed: float) -> dict[str, dict]:
    notebook = json.loads((BOOK / f"{chapter}.ipynb").read_text(encoding="utf8"))
    return {cell["id"]: cell for cell in notebook["cells"]}


def cells(chapter: str) -> dict[str, dict]:
    """Return the cells of a chapter by their identifiers, in their order."""
    path = BOOK / f"{chapter}.ipynb"
    return _cells(chapter, path.stat().st_mtime)


def text(value: str | list[str]) -> str:
    """Return a text of a notebook file, which may be stored line by line."""
    return value if isinstance(value, str) else "".join(value)


def picture(cell: dict) -> bytes | None:
    """Return the picture that a cell drew, if it drew one."""
    for output in cell.get("outputs", []):
        if "image/png" in output.get("data", {}):
            return base64.b64decode(text(output["data"]["image/png"]))
    return None


def place_picture(cell: dict) -> str:
    """Write the picture of a cell where Sphinx finds it, and return its address for Sphinx."""
    path = PICTURES / f"{cell['id']}.png"
    found = picture(cell)
    if not path.is_file() or path.read_bytes() != found:
        PICTURES.mkdir(parents=True, exist_ok=True)
        path.write_bytes(found)
    return f"/{path.relative_to(ROOT).as_posix()}"


class Cell(SphinxDirective):
    """``{cell} CHAPTER ID``: code and output of a cell; ``:output:`` leaves out the code."""

    required_arguments = 2
    has_content = True
    option_spec = {"output": directives.flag, "alt": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Build the nodes."""
        chapter, name = self.arguments
        if not (BOOK / f"{chapter}.ipynb").is_file():
            raise self.error(f"no chapter {chapter!r}")
        self.env.note_dependency(str(BOOK / f"{chapter}.ipynb"))
        if name not in cells(chapter):
            raise self.error(f"chapter {chapter!r} has no cell {name!r}")
        cell = cells(chapter)[name]
        whole = nodes.container(classes=["cell"])
        if "output" not in self.options and "hide-input" not in cell["metadata"].get("tags", []):
            code = nodes.literal_block(text(cell["source"]), text(cell["source"]), language="ipython3")
            whole += nodes.container("", code, classes=["cell_input"])
        shown = nodes.container(classes=["cell_output"])
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "text" in output:
                shown += nodes.literal_block("", text(output["text"]), language="none",
                                             classes=["output", "stream"])
            elif "text/html" in data:
                shown += nodes.raw("", text(data["text/html"]), format="html")
            elif "image/png" in data:
                shown += self.figure(cell)
            elif "text/plain" in data:
                shown += nodes.literal_block("", text(data["text/plain"]), language="none")
        if not shown.children:
            return [whole]
        return [whole + shown] if whole.children else [shown]

    def figure(self, cell: dict) -> nodes.figure:
        """Return the picture of a cell with this directive's caption."""
        if not self.content or "alt" not in self.options:
            raise self.error(f"cell {cell['id']!r} draws a figure: give :alt: and a caption")
        caption, = self.parse_content_to_nodes()
        return nodes.figure(
            "", nodes.image(uri=place_picture(cell), alt=self.options["alt"]),
            nodes.caption("", "", *caption.children), align="default")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_directive("cell", Cell)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
