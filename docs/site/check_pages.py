"""Open the pages of the built site in Chromium, on a desktop and on a phone, in light and in dark.

``python docs/site/check_pages.py build/site`` visits every page, and says which ones report an error, fetch
anything from elsewhere, lack a picture, have text that is hard to tell from what is behind it, or are wider
than the screen. ``--pictures FOLDER --only PAGE ...`` photographs pages to be looked at. Needs the extra
``browser`` and a Chromium. Links are followed by ``check_links.py``, without a browser.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, Playwright, sync_playwright

SCREENS = {"desktop": (1280, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")
NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING_PICTURES = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
LEADING = Path("index.html")
"""It does nothing but lead to the first page."""

LEAST_CONTRAST = 4.5
"""Of text, by the Web Content Accessibility Guidelines."""
CONTRASTS = """(least) => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const over = ([r, g, b, a = 1], back) => [r, g, b].map((part, i) => part * a + back[i] * (1 - a));
  const straighten = (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  const luminance = (colour) => {
    const linear = colour.map((part) => straighten(part / 255));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const behind = (element) => {
    if (!element) return [255, 255, 255];
    const own = parts(getComputedStyle(element).backgroundColor);
    return own[3] === 0 ? behind(element.parentElement) : over(own, behind(element.parentElement));
  };
  const found = new Map();
  const isSeen = {visibilityProperty: true, opacityProperty: true};
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.data.trim(), element = texts.currentNode.parentElement;
    const isText = text && !element.closest("svg, script, style, math");
    if (!isText || !element.checkVisibility(isSeen)) continue;
    const back = behind(element), front = over(parts(getComputedStyle(element).color), back);
    const [low, high] = [luminance(front), luminance(back)].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05), key = `${front} ${back}`;
    const told = `${ratio.toFixed(1)} (${text.slice(0, 30)}, ${element.className || element.tagName})`;
    if (ratio < least && !found.has(key)) found.set(key, told);
  }
  return [...found.values()];
}"""


def find_faults(page: Page, address: str) -> Iterator[str]:
    """Yield what is wrong with one page on the present screen, whatever the colours."""
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    yield from said
    yield from (f"asks for {url}" for url in asked if not url.startswith(("file:", "data:")))
    yield from (f"no picture at {source}" for source in page.evaluate(MISSING_PICTURES))
    excess = page.evaluate(TOO_WIDE)
    if excess > 1:
        yield f"{excess} pixels wider than the screen"


def find_pages(site: Path, only: list[str] | None) -> dict[str, Path]:
    """Return the pages to visit by their names."""
    if only:
        return {name: site / f"{name}.html" for name in only}
    found = (path.relative_to(site) for path in sorted(site.rglob("*.html")))
    return {path.with_suffix("").as_posix(): site / path for path in found if path != LEADING}


def visit(browser: Browser, pages: dict[str, Path], screen: str, pictures: Path | None) -> Iterator[str]:
    """Yield the faults of all pages on one screen, in light and in dark."""
    width, height = SCREENS[screen]
    context = browser.new_context(viewport={"width": width, "height": height}, is_mobile=screen == "phone")
    for name, path in pages.items():
        page = context.new_page()
        yield from (f"{name} ({screen}): {fault}" for fault in find_faults(page, path.as_uri()))
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            for contrast in page.evaluate(CONTRASTS, LEAST_CONTRAST):
                yield f"{name} ({screen}, {scheme}): text with a contrast of {contrast}"
            if pictures:
                page.screenshot(path=str(pictures / f"{name.replace('/', '-')}-{screen}-{scheme}.png"))
        page.close()
    context.close()


def find_chromium(playwright: Playwright) -> str | None:
    """Return where there is a Chromium, playwright's own or the system's; None where there is none."""
    own = playwright.chromium.executable_path
    return own if Path(own).is_file() else next(filter(None, map(shutil.which, NAMES)), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("--pictures", type=Path, help="a folder for photographs")
    parser.add_argument("--only", nargs="*", help="pages such as docs/index")
    arguments = parser.parse_args()
    pages = find_pages(arguments.site.resolve(), arguments.only)
    if arguments.pictures:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    n_faults = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(playwright), args=["--no-sandbox"])
        for screen in SCREENS:
            for fault in visit(browser, pages, screen, arguments.pictures):
                n_faults += 1
                print(fault, flush=True)
        browser.close()
    print(f"{len(pages)} pages, {n_faults} faults")
    sys.exit(n_faults > 0)


if __name__ == "__main__":
    main()
