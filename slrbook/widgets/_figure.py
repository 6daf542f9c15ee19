"""What the interactive figures share: state, script, and the form that needs no kernel."""

from __future__ import annotations

from html import escape
import json
from pathlib import Path
import re

import anywidget

_FOLDER = Path(__file__).resolve().parent


def bundle(module: str) -> str:
    """Return one ES module: the shared code, then the figure's own, without its import of it.

    JupyterLab is handed a single text, in which an import of a neighbouring file cannot resolve.
    The site serves the files as they are.
    """
    shared = (_FOLDER / "common.js").read_text(encoding="utf8")
    own = (_FOLDER / module).read_text(encoding="utf8")
    shared = re.sub(r"(?m)^export ", "", shared)
    return shared + re.sub(r'import \{[^}]*\} from "./common.js";\n', "", own)


class Figure(anywidget.AnyWidget):
    """An interactive figure that is drawn by JavaScript, with or without a kernel.

    A subclass sets ``_module`` (the file name of its ES module), ``_esm = bundle(...)``, its
    state as traits tagged ``sync=True``, and ``fallback``. In JupyterLab the figure is a widget;
    on the site the stored HTML carries the state and the page mounts the same module.
    """

    _module: str
    _css = (_FOLDER / "common.css").read_text(encoding="utf8")

    def state(self) -> dict[str, object]:
        """Return the figure's own traits, which is all that its script reads."""
        shared = anywidget.AnyWidget.class_trait_names(sync=True)
        return {name: getattr(self, name) for name in sorted(self.trait_names(sync=True))
                if name not in shared and not name.startswith("_")}

    def fallback(self) -> str:
        """Return HTML that says the same without a script."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **kwargs: object) -> tuple[dict, dict]:
        data, metadata = super()._repr_mimebundle_(**kwargs)
        data["text/plain"] = f"{type(self).__name__}({self.state()})"
        data["text/html"] = (
            f'<div class="slr-widget" data-module="{self._module}" '
            f'data-state="{escape(json.dumps(self.state()))}">\n{self.fallback()}\n</div>')
        return data, metadata
