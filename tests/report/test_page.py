from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from plotly.offline import get_plotlyjs

from gbgnn.errors import DataError, MissingDependencyError, ParameterError
from gbgnn.report import Subject, render, write_report
from gbgnn.report.page import as_script

from .conftest import HOSTILE


class Parsed(HTMLParser):
    """What a browser makes of a page: its elements, their attributes, and the contents of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.is_in_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")
            self.is_in_script = True

    def handle_endtag(self, tag: str) -> None:
        self.is_in_script = False

    def handle_data(self, data: str) -> None:
        if self.is_in_script:
            self.scripts[-1] += data
        else:
            self.words.append(data)


PLOTLY = as_script(get_plotlyjs())
KINDS = ("classes", "labels", "numbers", "average", "bare")


@pytest.fixture(scope="session")
def pages(request: pytest.FixtureRequest) -> dict[str, str]:
    found = {kind: request.getfixturevalue(kind) for kind in KINDS}
    texts = {kind: render([subject], n_nodes=30) for kind, subject in found.items()}
    return texts | {"all": render(list(found.values()), n_nodes=30)}


@pytest.fixture(scope="session")
def parsed(pages: dict[str, str]) -> dict[str, Parsed]:
    return {kind: Parsed(text) for kind, text in pages.items()}


@pytest.mark.parametrize("kind", [*KINDS, "all"])
def test_names_from_outside_are_text_and_nothing_else(kind: str, parsed: dict[str, Parsed]) -> None:
    page = parsed[kind]
    assert [attrs.get("type") for tag, attrs in page.tags if tag == "script"] == [
        "application/json",
        None,
        None,
    ]
    assert not [tag for tag, _ in page.tags if tag in ("img", "iframe", "object", "link", "base", "form")]
    for _, attrs in page.tags:
        assert not [name for name in attrs if name.startswith("on")]
        assert (attrs.get("href") or "#").startswith("#")
        assert "src" not in attrs
    words = "".join(page.words)
    if kind in ("classes", "all"):
        assert all(name in words for name in HOSTILE)


@pytest.mark.parametrize("kind", [*KINDS, "all"])
def test_nothing_is_loaded_from_elsewhere(kind: str, pages: dict[str, str]) -> None:
    own = pages[kind].replace(PLOTLY, "")
    assert not re.search(r"(https?:)?//[a-z]", own)
    assert "default-src &#39;none&#39;" in own


def test_the_policy_allows_the_scripts_of_the_page_and_no_other(parsed: dict[str, Parsed]) -> None:
    page = parsed["classes"]
    policy = next(attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv"))
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in page.scripts[1:]]
    assert re.findall(r"'sha256-([^']+)'", policy) == hashes
    assert "script-src 'sha256-" in policy
    assert "unsafe-inline'" not in policy.split("style-src")[0]


def test_one_copy_of_plotly_serves_all_runs(pages: dict[str, str]) -> None:
    assert pages["all"].count("plotly.js v") == 1
    assert len(pages["all"]) < 6_000_000
    assert len(pages["bare"]) - len(get_plotlyjs()) < 60_000


@pytest.mark.parametrize("kind", [*KINDS, "all"])
def test_every_figure_has_its_data_and_a_name(kind: str, parsed: dict[str, Parsed]) -> None:
    page = parsed[kind]
    store = json.loads(page.scripts[0])
    plots = [attrs for _, attrs in page.tags if attrs.get("class") == "plot"]
    assert sorted(attrs["id"] for attrs in plots) == sorted(store["figures"])
    assert all(attrs["role"] == "img" and len(attrs["aria-label"]) > 20 for attrs in plots)


@pytest.mark.parametrize("kind", [*KINDS, "all"])
def test_every_reference_inside_the_page_leads_somewhere(kind: str, parsed: dict[str, Parsed]) -> None:
    page = parsed[kind]
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in page.tags:
        for name in ("aria-labelledby", "aria-controls", "data-copy", "data-save"):
            assert attrs.get(name, ids[0]) in ids
        if (attrs.get("href") or "").startswith("#"):
            assert attrs["href"][1:] in ids


def test_a_page_is_written_and_replaced_by_another(classes: Subject, tmp_path: Path) -> None:
    path = write_report(tmp_path / "new" / "page.html", classes, title="first", n_nodes=3)
    assert "<title>first</title>" in path.read_text("utf-8")
    write_report(path, classes, title="second", n_nodes=3)
    assert "<title>second</title>" in path.read_text("utf-8")


def test_no_other_file_is_replaced(classes: Subject, tmp_path: Path) -> None:
    path = tmp_path / "thesis.html"
    path.write_text("<html>mine</html>")
    with pytest.raises(DataError, match=r"thesis.html exists and is no report of gbgnn's"):
        write_report(path, classes)
    assert path.read_text() == "<html>mine</html>"
    write_report(path, classes, force=True, n_nodes=3)
    with pytest.raises(DataError, match="is a folder; name a file"):
        write_report(tmp_path, classes)


def test_what_makes_no_page_is_said(classes: Subject) -> None:
    with pytest.raises(ParameterError, match="needs a run to be about"):
        render([])
    with pytest.raises(ParameterError, match="n_nodes"):
        render([classes], n_nodes=-1)


@pytest.mark.parametrize("package", ["plotly", "jinja2"])
def test_a_missing_package_names_the_extra(
    package: str, classes: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=rf'needs {package}: pip install "gbgnn\[report\]"'):
        render([classes])


def test_the_package_is_imported_without_the_extra() -> None:
    code = "import sys; sys.modules.update(plotly=None, jinja2=None); import gbgnn.report"
    subprocess.run([sys.executable, "-c", code], check=True)
