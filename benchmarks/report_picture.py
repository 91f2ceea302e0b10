"""The picture in docs/report.md: a page about a run on the embedded digits, on a desk and on a phone.

Needs a Chromium (``make browser`` finds or fetches one): python benchmarks/report_picture.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

PICTURE = Path(__file__).parent.parent / "docs" / "report.png"
DESK, PHONE = (1180, 844), (390, 844)
N_COLOURS = 128


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "digits")
        gbgnn = [sys.executable, "-m", "gbgnn"]
        told = ("digits", "--seed", "0", "--calibration-fraction", "0.5", "--quiet", "--out", str(run))
        subprocess.run([*gbgnn, "fit", *told], check=True)
        subprocess.run([*gbgnn, "report", str(run)], check=True)
        with sync_playwright() as driver:
            own = Path(driver.chromium.executable_path)
            path = own if own.is_file() else shutil.which("chromium")
            browser = driver.chromium.launch(executable_path=path)
            shots = [
                shoot(browser, run / "report.html", DESK, "light", "h1"),
                shoot(browser, run / "report.html", PHONE, "dark", "#run-1-nodes"),
            ]
            browser.close()
    gap = 30
    whole = Image.new("RGB", (DESK[0] + gap + PHONE[0], DESK[1]), "white")
    whole.paste(shots[0], (0, 0))
    whole.paste(shots[1], (DESK[0] + gap, 0))
    whole.quantize(N_COLOURS).save(PICTURE, optimize=True)
    print(f"{PICTURE.name}: {PICTURE.stat().st_size / 1024:.0f} KB")


def shoot(browser: Browser, page: Path, size: tuple[int, int], scheme: str, place: str) -> Image.Image:
    """Return what is seen of a page from a place on, the first row of the table of nodes opened."""
    view = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    view.goto(page.as_uri())
    view.locator(".open").first.click()
    view.evaluate("document.querySelectorAll('nav').forEach(each => each.style.position = 'static')")
    view.evaluate("document.documentElement.style.scrollPaddingTop = '10px'")  # without the menu
    view.evaluate("place => document.querySelector(place).scrollIntoView({block: 'start'})", place)
    view.wait_for_timeout(1500)
    with tempfile.NamedTemporaryFile(suffix=".png") as file:
        view.screenshot(path=file.name)
        return Image.open(file.name).convert("RGB")


if __name__ == "__main__":
    main()
