"""What is wrong with a built site is found: links that lead nowhere, and what a browser sees."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs" / "site"))

import check_links  # noqa: E402

PAGE = "<!doctype html><meta name=viewport content='width=device-width'><title>t</title>{}"
GOOD = PAGE.format("<h1 id=top>Good</h1><a href='#top'>up</a> <a href='sub/other.html#here'>other</a>")
FAULTS = {
    "a script that fails": ("<script>undefined_name()</script>", "undefined_name is not defined"),
    "an error in the console": ("<script>console.error('sorry')</script>", "sorry"),
    "a picture that is not there": ("<img src='none.png'>", "no picture at"),
    "something from elsewhere": ("<img src='http://127.0.0.1:9/x.png'>", "asks for http://127.0.0.1:9/x.png"),
    "a line wider than the screen": ("<div style='width: 3000px'>wide</div>", "pixels wider than the screen"),
    "grey on grey": (
        "<p style='color: #999; background: #ccc'>Hardly there</p>",
        "text with a contrast of 1.8 (Hardly there",
    ),
    "black on black in the dark": (
        "<style>@media (prefers-color-scheme: dark) {body {background: #000}}</style><p>Night</p>",
        "dark): text with a contrast of 1.0 (Night",
    ),
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text(PAGE.format("<a href='good.html'>in</a>"))
    (tmp_path / "good.html").write_text(GOOD)
    (tmp_path / "sub" / "other.html").write_text(
        PAGE.format("<h2 id=here>Here</h2><a href='../good.html'>up</a>")
    )
    return tmp_path


def test_links_that_lead_somewhere_are_no_fault(site: Path) -> None:
    assert list(check_links.find_dead_links(site)) == []


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ("<a href='none.html'>x</a>", "bad.html: none.html is not there"),
        ("<a href='sub/other.html#there'>x</a>", "bad.html: sub/other.html#there has no such place"),
        ("<a href='../../etc/passwd'>x</a>", "bad.html: ../../etc/passwd is not there"),
        ("<img srcset='a.png, b.png 2x'>", "bad.html: a.png is not there"),
        ("<script src='s.js'></script>", "bad.html: s.js is not there"),
        ("<a href='#nowhere'>x</a>", "bad.html: #nowhere has no such place"),
    ],
)
def test_links_that_lead_nowhere_are_named(site: Path, link: str, fault: str) -> None:
    (site / "bad.html").write_text(PAGE.format(link))
    assert fault in list(check_links.find_dead_links(site))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: gbgnn[browser]")
    import check_pages

    with api.sync_playwright() as driver:
        found = check_pages.find_chromium(driver)
        if found is None:
            pytest.skip("no Chromium is installed; make browser finds or fetches one")
        chromium = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def test_a_browser_finds_what_is_wrong_and_nothing_else(browser: Any, site: Path) -> None:
    import check_pages

    for name, (content, _) in FAULTS.items():
        (site / f"{name}.html").write_text(PAGE.format(content))
    pages = check_pages.find_pages(site, None)
    assert pages.keys() == {"good", "sub/other", *FAULTS}
    found = [
        fault for screen in check_pages.SCREENS for fault in check_pages.visit(browser, pages, screen, None)
    ]
    for name, (_, fault) in FAULTS.items():
        for screen in check_pages.SCREENS:
            assert any(each.startswith(f"{name} ({screen}") and fault in each for each in found), (
                name,
                found,
            )
    assert {each.partition(" (")[0] for each in found} == FAULTS.keys()


def test_pages_are_photographed(browser: Any, site: Path) -> None:
    import check_pages

    pages = check_pages.find_pages(site, ["good"])
    assert list(check_pages.visit(browser, pages, "phone", site)) == []
    for scheme in ("light", "dark"):
        assert (site / f"good-phone-{scheme}.png").read_bytes().startswith(b"\x89PNG")


def test_every_link_of_the_built_site_leads_somewhere() -> None:
    built = ROOT / "build" / "site-unplotted"
    if not (built / "docs" / "index.html").is_file():
        pytest.skip("build/site-unplotted is not built; make site, the step before the tests, builds it")
    assert list(check_links.find_dead_links(built)) == []
