"""Every page of the site, for readers with poor sight, without a mouse, or in the dark."""

from __future__ import annotations

import pytest

from conftest import SITE, built_pages

PAGES = [page for page in built_pages() if page != "search.html"]
AXE = SITE.parents[1] / "node_modules" / "axe-core" / "axe.min.js"

#: Contrast of every text of the article with the colour behind it, by the formula of WCAG 2.
CONTRAST = """() => {
  const context = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = (css) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = css;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const light = (rgb) => rgb.slice(0, 3).map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return [255, 255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.querySelector('article'), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const node = walker.currentNode.parentElement;
    if (!text || !node.checkVisibility() || node.closest('script, style, mjx-assistive-mml, select')) continue;
    const style = getComputedStyle(node);
    const ink = node instanceof SVGElement ? style.fill : style.color;
    const [a, b] = [light(rgba(ink)), light(ground(node))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), text.slice(0, 60)]);
  }
  return found;
}"""


@pytest.mark.parametrize("theme, width", [("light", 1280), ("dark", 390)])
@pytest.mark.parametrize("path", built_pages())
def test_no_serious_accessibility_finding(visitor, path, theme, width):
    page = visitor(theme, width).go(path)
    page.wait_for_timeout(400)  # the theme waits 300 ms before it looks for code that scrolls
    page.add_script_tag(path=AXE)
    findings = page.evaluate("axe.run()")["violations"]
    grave = [(finding["id"], [node["html"][:200] for node in finding["nodes"]])
             for finding in findings if finding["impact"] in ("serious", "critical")]
    assert grave == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_text_stands_out_from_its_ground(visitor, path, theme):
    page = visitor(theme).go(path)
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    faint = [(round(ratio, 2), text) for ratio, text in page.evaluate(CONTRAST) if ratio < 4.5]
    assert faint == []


@pytest.mark.parametrize("path", PAGES)
def test_plots_show_on_white_in_dark_mode(visitor, path):
    for image in visitor("dark").go(path).locator("article .cell_output img").all():
        assert image.evaluate("node => getComputedStyle(node).backgroundColor") == "rgb(255, 255, 255)"
        assert image.evaluate("node => getComputedStyle(node).filter") == "none"
