"""Pages in a real Chromium: nothing is complained of, nothing is loaded, and the controls work."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gbgnn.report import Subject, write_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: gbgnn[browser]")

_NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        own = Path(driver.chromium.executable_path)
        found = str(own) if own.is_file() else next(filter(None, map(shutil.which, _NAMES)), None)
        if found is None:
            pytest.skip("no Chromium is installed; make browser finds or fetches one")
        chromium = driver.chromium.launch(executable_path=found)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def path(
    classes: Subject,
    labels: Subject,
    numbers: Subject,
    average: Subject,
    bare: Subject,
    tmp_path_factory: Any,
) -> Path:
    """A page about five runs of all kinds, with hostile names."""
    return write_report(tmp_path_factory.mktemp("page") / "all.html", classes, labels, numbers, average, bare)


class Opened:
    """A page in the browser, with all that it complained of and asked for."""

    def __init__(self, browser: Any, path: Path, width: int, scheme: str) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 850}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda told: self.complaints.append(told.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda asked: self._note(asked.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("#run-1 .nodes table")  # which the script makes last

    def _note(self, url: str) -> None:
        if not url.startswith(("file:", "blob:", "data:")):
            self.complaints.append(url)

    def draw_all(self) -> None:
        height = self.page.evaluate("document.body.scrollHeight")
        for y in range(0, height, 600):
            self.page.evaluate(f"scrollTo(0, {y})")
            self.page.wait_for_timeout(40)
        self.page.wait_for_timeout(200)

    def width(self) -> int:
        return int(self.page.evaluate("document.documentElement.scrollWidth"))


@pytest.fixture
def opened(browser: Any, path: Path) -> Iterator[Opened]:
    view = Opened(browser, path, 1280, "light")
    yield view
    view.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_run_is_drawn_without_a_complaint(browser: Any, path: Path, width: int, scheme: str) -> None:
    view = Opened(browser, path, width, scheme)
    tabs = view.page.get_by_role("tab")
    for i in range(tabs.count()):
        tabs.nth(i).click()
        view.draw_all()
        assert view.width() <= width
    figures, drawn = view.page.locator(".plot"), view.page.locator(".plot .main-svg:first-child")
    assert drawn.count() >= figures.count() > 20
    assert view.page.evaluate("window.hacked") is None
    assert view.complaints == []
    view.context.close()


def test_tabs_work_by_keyboard(opened: Opened) -> None:
    tabs = opened.page.get_by_role("tab")
    tabs.first.focus()
    opened.page.keyboard.press("ArrowRight")
    assert tabs.nth(1).get_attribute("aria-selected") == "true"
    assert opened.page.locator("#run-2").is_visible()
    assert not opened.page.locator("#run-1").is_visible()
    opened.page.keyboard.press("End")
    assert opened.page.locator("#run-5").is_visible()
    opened.page.keyboard.press("ArrowRight")
    assert opened.page.locator("#run-1").is_visible()
    assert opened.complaints == []


def test_nodes_are_searched_filtered_sorted_and_explained(opened: Opened) -> None:
    home = opened.page.locator("#run-1 .nodes")
    status, rows = home.get_by_role("status"), home.locator("tbody tr:visible")
    assert "60 of 60 nodes, page 1 of 3" in status.inner_text()
    home.get_by_role("button", name="Next").click()
    assert "page 2 of 3" in status.inner_text()
    home.get_by_label("Part").select_option("validation")
    assert "10 of 60 nodes, page 1 of 1" in status.inner_text()
    home.get_by_role("searchbox").fill("27 ")
    assert rows.count() == 1
    assert rows.first.locator("th").inner_text().startswith("27 <")
    rows.first.get_by_role("button").click()
    assert rows.count() == 2
    assert "Most probable" in rows.nth(1).inner_text()
    home.get_by_role("searchbox").fill("no such node")
    assert "No node is like that." in status.inner_text()
    home.get_by_role("searchbox").fill("")
    sort = home.get_by_role("button", name="how sure")
    sort.click()
    low = rows.first.locator("td").nth(3).inner_text()
    sort.click()
    assert home.locator("th[aria-sort=descending]").inner_text().startswith("how sure")
    assert float(low.split()[0]) <= float(rows.first.locator("td").nth(3).inner_text().split()[0])
    assert opened.page.evaluate("window.hacked") is None
    assert opened.complaints == []


def test_colours_change_with_the_theme(opened: Opened) -> None:
    def colours() -> tuple[str, str]:
        return (
            opened.page.evaluate("getComputedStyle(document.body).backgroundColor"),
            opened.page.locator("#run-1-quality .plot .xtick text").first.evaluate("e => e.style.fill"),
        )

    opened.page.locator("#run-1-quality").scroll_into_view_if_needed()
    opened.page.wait_for_selector("#run-1-quality .plot .xtick text")
    light = colours()
    opened.page.get_by_label("Colours").select_option("dark")
    opened.page.wait_for_timeout(200)
    dark = colours()
    assert all(a != b for a, b in zip(light, dark, strict=True))
    opened.page.get_by_label("Colours").select_option("")
    opened.page.wait_for_timeout(200)
    assert colours() == light
    opened.page.emulate_media(color_scheme="dark")
    opened.page.wait_for_timeout(200)
    assert colours() == dark


def test_a_figure_is_saved_and_settings_are_copied(opened: Opened) -> None:
    with opened.page.expect_download() as caught:
        opened.page.locator("#run-1-quality [data-save]").click()
    assert Path(caught.value.path()).read_bytes().startswith(b"\x89PNG")
    opened.page.locator("#run-1-again [data-copy]").first.click()
    playwright.expect(opened.page.locator("#said")).to_have_text(re.compile("copied|selected"))
    assert opened.complaints == []


def test_text_has_contrast(opened: Opened) -> None:
    for scheme in ("light", "dark"):
        opened.page.get_by_label("Colours").select_option(scheme)
        pairs = opened.page.evaluate(_PAIRS)
        for front, back in pairs:
            assert contrast(front, back) >= 4.5, (scheme, front, back)


_PAIRS = """() => {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(name).trim();
  const fronts = ["--ink", "--quiet", "--accent", "--right", "--wrong"];
  const pairs = fronts.flatMap((name) => [[value(name), value("--page")], [value(name), value("--card")]]);
  return [...pairs, [value("--warn"), value("--warn-page")], [value("--page"), value("--accent")]];
}"""


def contrast(front: str, back: str) -> float:
    """Return the ratio of luminances as the Web Content Accessibility Guidelines define it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    high, low = sorted((luminance(front), luminance(back)), reverse=True)
    return (high + 0.05) / (low + 0.05)
