"""What a published site needs, from settings in ``_config.yml``.

``html: baseurl`` is the address of the site. While it is empty nothing here names an address. Once it is
set, Sphinx gives every page its canonical link, and this extension writes ``sitemap.xml`` and
``robots.txt``. ``slr_moved`` maps the old name of a page that moved to its new one; the old
address then leads on.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ConfigError
from sphinx.util.osutil import relative_uri


def check_address(app: Sphinx, config: Config) -> None:
    """Refuse an address of the site to which the name of a page cannot be added."""
    base = config.html_baseurl
    parts = urlsplit(base)
    if base and (parts.scheme not in ("http", "https") or not parts.netloc
                 or not parts.path.endswith("/") or parts.query or parts.fragment):
        raise ConfigError(f"html: baseurl is {base!r}; allowed is empty, or an http(s) address "
                          "that ends with '/'")


def sitemap(base: str, pages: list[str]) -> str:
    """Return the text of ``sitemap.xml``: the address of each page below the address of the site."""
    rows = "".join(f"  <url><loc>{escape(urljoin(base, page + '.html'))}</loc></url>\n"
                   for page in sorted(pages))
    return ('<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{rows}</urlset>\n')


def robots(base: str) -> str:
    """Return the text of ``robots.txt``: every page may be read, and where the sitemap is."""
    return f"User-agent: *\nAllow: /\nSitemap: {urljoin(base, 'sitemap.xml')}\n"


def stub(old: str, new: str) -> str:
    """Return the page at the address of ``old`` that leads on to ``new``, by a relative link."""
    target = escape(relative_uri(f"{old}.html", f"{new}.html"))
    return ('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<title>This page has moved</title>\n<meta name="robots" content="noindex">\n'
            f'<meta http-equiv="refresh" content="0; url={target}">\n</head>\n'
            f'<body><p>This page has moved: <a href="{target}">go on</a>.</p></body>\n</html>\n')


def check_moved(moved: dict[str, str], pages: set[str]) -> None:
    """Refuse a move that would hide a page, leave the site, or lead nowhere."""
    for old, new in moved.items():
        if old in pages or old.startswith("/") or ".." in old.split("/"):
            raise ConfigError(f"slr_moved names {old!r} as moved; allowed is the name, without "
                              "'.html', of a page that is no longer there")
        if new not in pages:
            raise ConfigError(f"slr_moved leads from {old!r} to {new!r}; allowed is a page of the book")


def check_pages(app: Sphinx, env: object) -> None:
    """Check the moved pages once all pages are known."""
    check_moved(app.config.slr_moved, set(app.env.found_docs))


def publish(app: Sphinx, exception: Exception | None) -> None:
    """Write the files of the published site."""
    if exception is not None or app.builder.format != "html":
        return
    site, base = Path(app.outdir), app.config.html_baseurl
    for name, text in (("sitemap.xml", sitemap(base, list(app.env.found_docs))), ("robots.txt", robots(base))):
        if base:
            (site / name).write_text(text, encoding="utf8")
        else:
            (site / name).unlink(missing_ok=True)
    for old, new in app.config.slr_moved.items():
        page = site / f"{old}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(stub(old, new), encoding="utf8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_config_value("slr_moved", {}, "html", [dict])
    app.connect("config-inited", check_address)
    app.connect("env-updated", check_pages)
    app.connect("build-finished", publish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
