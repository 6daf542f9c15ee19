"""The reference of the package, written from its docstrings, and links to it from the chapters.

The page ``book/api`` holds a mark; when it is read, the mark is replaced by an entry for every
public name. A name in prose, such as ``solve_erm``, becomes a link where a page first uses it.
"""

from __future__ import annotations

import ast
from importlib import import_module
import inspect
from pathlib import Path
import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

PACKAGE = Path(__file__).resolve().parents[2] / "slrbook"
PAGE, MARK = "book/api", "<!-- every public name -->"
#: What serves the project and not the reader who computes.
TOOLS = {"__init__", "__main__", "notebooks", "published"}
#: The order in which one meets them; others follow in alphabetical order.
FIRST = ("tasks", "activations", "population", "state_evolution", "bayes_limit", "erm", "store",
         "figures", "widgets", "lengths", "gaussian")


def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf8"))


def exported() -> set[str]:
    """Return the names that ``from slrbook import ...`` finds."""
    return {alias.name for node in ast.walk(_tree(PACKAGE / "__init__.py"))
            if isinstance(node, ast.ImportFrom) and node.level for alias in node.names}


def public_names() -> dict[str, list[str]]:
    """Return the documented public names of every module, in the order of the source."""
    modules = [file.stem for file in sorted(PACKAGE.glob("*.py"))
               if file.stem not in TOOLS and not file.stem.startswith("_")]
    modules = sorted([*modules, "widgets"],
                     key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    names = {}
    for module in modules:
        if module == "widgets":
            exports = _tree(PACKAGE / "widgets" / "__init__.py").body
            found = [alias.name for node in exports if isinstance(node, ast.ImportFrom)
                     and node.module != "__future__" for alias in node.names]
        else:
            found = [node.name for node in _tree(PACKAGE / f"{module}.py").body
                     if isinstance(node, (ast.ClassDef, ast.FunctionDef))
                     and not node.name.startswith("_") and ast.get_docstring(node)]
        if found:
            names[module] = found
    return names


def full_name(module: str, name: str, top: set[str]) -> str:
    """Return the shortest dotted name under which a reader imports a thing."""
    return f"slrbook.{name}" if name in top else f"slrbook.{module}.{name}"


def _members(kind: type) -> dict[str, str]:
    """Return the documented methods and properties that the package itself gives to a class."""
    found = {}
    for base in kind.__mro__:
        if not base.__module__.startswith("slrbook"):
            continue
        for name, value in vars(base).items():
            wanted = not name.startswith("_") or (name == "__call__" and callable(value))
            if wanted and (inspect.isfunction(value) or isinstance(value, property)) and value.__doc__:
                found[name] = "property" if isinstance(value, property) else "method"
    return found


def entries() -> str:
    """Return the MyST source of the reference."""
    top, parts = exported(), []
    for module, names in public_names().items():
        loaded = import_module(f"slrbook.{module}")
        parts.append(f"## slrbook.{module}\n\n```{{eval-rst}}\n.. automodule:: slrbook.{module}\n")
        for name in names:
            thing = getattr(loaded, name)
            kind = "class" if inspect.isclass(thing) else "function"
            if kind == "class" and issubclass(thing, BaseException):
                kind = "exception"
            path = full_name(module, name, top)
            parts.append(f".. auto{kind}:: {path}\n")
            for member, form in (_members(thing) if inspect.isclass(thing) else {}).items():
                parts.append(f"   .. auto{form}:: {path}.{member}\n")
        parts.append("```\n")
    return "\n".join(parts)


def fill(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the mark on the page of the reference."""
    if docname == PAGE:
        source[0] = source[0].replace(MARK, entries())
        for file in PACKAGE.rglob("*.py"):
            app.env.note_dependency(str(file))


def prepare(app: Sphinx, what: str, name: str, thing: object, options: object,
            lines: list[str]) -> None:
    """Give a docstring the form that napoleon reads: "Source:" is a section, attributes stand alone."""
    text, shared = "\n".join(lines), r"(?m)^(\w+(?:, \w+)+) : (.+)\n((?:    .*\n?)+)"
    text = re.sub(r"(?m)^Source: (.*(?:\n(?!\s*$).*)*)", r"Source\n------\n\1", text)
    head, mark, tail = text.partition("Attributes\n----------\n")
    tail = re.sub(shared, lambda match: "".join(
        f"{each} : {match[2]}\n{match[3].rstrip()}\n" for each in match[1].split(", ")), tail)
    lines[:] = (head + mark + tail).split("\n")


class LinkNames(SphinxPostTransform):
    """Make the first mention of each exported name on a page a link to its entry."""

    default_priority = 5

    def run(self, **kwargs: object) -> None:
        """Wrap literals of prose; code blocks and headings stay as they are."""
        domain, waiting = self.env.get_domain("py"), exported()
        for literal in list(self.document.findall(nodes.literal)):
            name = literal.astext().removesuffix("()")
            around, inside = literal.parent, False
            while around is not None and not inside:
                inside = isinstance(around, (nodes.reference, nodes.title, nodes.caption))
                around = around.parent
            if name not in waiting or inside:
                continue
            link = domain.resolve_xref(self.env, self.env.docname, self.app.builder, "obj",
                                       f"slrbook.{name}", nodes.Element(), literal.deepcopy())
            if link is not None:
                literal.replace_self(link)
                waiting.discard(name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", prepare, priority=400)  # before napoleon
    app.add_post_transform(LinkNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
