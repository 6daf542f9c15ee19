"""Fail unless the build produced a page for every entry of the table of contents."""

from pathlib import Path
import sys

import yaml

ROOT = Path(__file__).resolve().parents[2]


def pages() -> list[str]:
    """Return the pages of ``_toc.yml``, the root first, without file endings."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf8"))
    found = [toc["root"]]

    def walk(entry: object) -> None:
        if isinstance(entry, dict):
            if "file" in entry:
                found.append(entry["file"])
            for value in entry.values():
                walk(value)
        elif isinstance(entry, list):
            for value in entry:
                walk(value)

    walk({key: value for key, value in toc.items() if key not in ("root", "format")})
    return found


if __name__ == "__main__":
    missing = [page for page in pages() if not (ROOT / f"_build/html/{page}.html").is_file()]
    if missing:
        sys.exit(f"The build ended without an error but left out: {', '.join(missing)}")
