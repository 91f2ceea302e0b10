from __future__ import annotations

import math

import pytest

from gbgnn.cli import screen


def test_messages_go_to_stderr_results_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    screen.error("no [bold] here")
    screen.warn("w")
    screen.out("r")
    told = capsys.readouterr()
    assert told.err == "error: no [bold] here\nwarning: w\n"
    assert told.out == "r\n"


def test_long_lines_are_not_folded(capsys: pytest.CaptureFixture[str]) -> None:
    screen.error("x" * 500)
    assert capsys.readouterr().err == f"error: {'x' * 500}\n"


def test_tables_print_brackets_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    screen.show_table(("name", "n"), [("[red]", "1")], left=("name",))
    assert "[red]" in capsys.readouterr().out


def test_a_table_without_rows_shows_its_headings(capsys):
    screen.show_table(("name", "n"), [])
    assert capsys.readouterr().out.split()[:2] == ["name", "n"]


@pytest.mark.parametrize(("width", "there"), [(80, "a b c prose"), (50, "a c prose"), (40, "a prose")])
def test_narrow_terminals_lose_the_columns_that_matter_least(
    width: int, there: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    row = ("1" * 4, "2" * 10, "3" * 4, "some words " * 5)
    screen.show_table(("a", "b", "c", "prose"), [row], prose="prose", drop=("b", "c"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == there.split()
    assert max(map(len, lines)) <= width


def test_sparkline_keeps_to_its_width() -> None:
    assert len(screen.sparkline([float(i) for i in range(1000)], width=40)) == 40
    assert screen.sparkline([1.0, 1.0]) == "▁▁"
    assert screen.sparkline([None, math.nan]) == ""


def test_names_in_data_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    screen.note("class \x1b[2J")
    screen.out("a\tb\x07")
    screen.show_table(("name",), [("\x1b]0;x",)], left=("name",))
    told = capsys.readouterr()
    assert told.err == "class \\x1b[2J\n"
    assert told.out.startswith("a")
    assert "\x1b" not in told.out
    assert "\x07" not in told.out
