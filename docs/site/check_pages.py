"""Open the pages of the built site in Chromium, on a desktop and on a phone, in light and in dark.

``python docs/site/check_pages.py build/site`` visits every page of the guide, the gallery and the reference,
and says which ones report an error, fetch anything from elsewhere, lack a picture, or are wider than the
screen. ``--pictures FOLDER --only PAGE ...`` photographs pages to be looked at. Needs the extra ``browser``
and a Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

SCREENS = {"desktop": (1280, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")
UNVISITED = {"_modules", "files", "index.html"}  # source code, and the page that leads to the first
MISSING_PICTURES = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def find_faults(page: Page, address: str) -> Iterator[str]:
    """Yield what is wrong with one page on the present screen."""
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
    return {path.with_suffix("").as_posix(): site / path for path in found if path.parts[0] not in UNVISITED}


def visit(browser: Browser, pages: dict[str, Path], screen: str, scheme: str, pictures: Path | None) -> int:
    """Print the faults of all pages on one screen, and return how many there are."""
    width, height = SCREENS[screen]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        is_mobile=screen == "phone",
    )
    n_faults = 0
    for name, path in pages.items():
        page = context.new_page()
        for fault in find_faults(page, path.as_uri()):
            n_faults += 1
            print(f"{name} ({screen}, {scheme}): {fault}")
        if pictures:
            page.screenshot(path=str(pictures / f"{name.replace('/', '-')}-{screen}-{scheme}.png"))
        page.close()
    context.close()
    return n_faults


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("--pictures", type=Path, help="a folder for photographs")
    parser.add_argument("--only", nargs="*", help="pages such as docs/index")
    arguments = parser.parse_args()
    pages = find_pages(arguments.site.resolve(), arguments.only)
    if arguments.pictures:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        # Colours change nothing of what can be wrong: they are for photographs.
        views = product(SCREENS, SCHEMES if arguments.pictures else SCHEMES[:1])
        n_faults = sum(visit(browser, pages, *view, arguments.pictures) for view in views)
        browser.close()
    print(f"{len(pages)} pages, {n_faults} faults")
    sys.exit(n_faults > 0)


if __name__ == "__main__":
    main()
