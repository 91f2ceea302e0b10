from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbgnn_lab.experiments.paper import Accuracy
from gbgnn_lab.experiments.records import Record
from gbgnn_lab.experiments.report import (
    Entry,
    Report,
    Table,
    best_settings,
    describe_failures,
    describe_origin,
    format_duration,
    group_by_name,
    group_records,
    summarize,
    tell_numbers,
)

TABLE = Table(
    "Accuracy in %",
    ["Model", "Cora"],
    [[Entry("A_B | C"), Entry("80.1 ± 0.3", strong=True, mark="a")], [Entry("D"), Entry("-")]],
)


def test_markdown_is_exact():
    assert TABLE.markdown() == (
        "| Model | Cora |\n| --- | ---: |\n| A_B \\| C | **80.1 ± 0.3** <sup>a</sup> |\n| D | - |"
    )


def test_latex_is_exact():
    assert TABLE.latex() == "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            r"  \caption{Accuracy in \%}",
            r"  \begin{tabular}{lr}",
            r"    \toprule",
            r"    Model & Cora \\",
            r"    \midrule",
            r"    A\_B | C & \textbf{80.1 $\pm$ 0.3}$^{a}$ \\",
            r"    D & - \\",
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


def test_signs_that_latex_takes_for_commands_are_written_out():
    assert Entry(r"a\b{c}^~<>").latex() == (
        r"a\textbackslash{}b\{c\}\textasciicircum{}\textasciitilde{}$<$$>$"
    )


def test_a_page_of_one_table_has_its_caption_as_a_sentence():
    assert Report("Title", [TABLE], ["A note."]).markdown() == (
        f"# Title\n\nAccuracy in %\n\n{TABLE.markdown()}\n\nA note.\n"
    )


def test_a_page_of_several_has_headings():
    text = Report("Title", [TABLE, TABLE]).markdown()
    assert text.count("## Accuracy in %\n\n| Model") == 2


def test_csv_has_a_column_for_every_name():
    page = Report("Title", [], data=[{"a": 1, "b": "x,y"}, {"a": 2, "c": None}])
    assert list(csv.reader(io.StringIO(page.csv()))) == [["a", "b", "c"], ["1", "x,y", ""], ["2", "", ""]]


def test_a_page_is_three_files(tmp_path):
    page = Report("Title", [TABLE], ["A note."], [{"a": 1}])
    written = page.write(tmp_path / "new")
    paths = written.files
    assert written.folder == tmp_path / "new"
    assert [path.name for path in paths] == ["table.md", "table.tex", "table.csv"]
    assert [path.read_text() for path in paths] == [page.markdown(), page.latex(), page.csv()]
    assert paths[1].read_text().endswith("% A note.\n")


@given(st.lists(st.floats(0, 100), min_size=2, max_size=20))
def test_summary_equals_numpy(values):
    summary = summarize([Record({}, results={"test_accuracy": value / 100}) for value in values])
    assert summary.mean == pytest.approx(np.mean(values))
    assert summary.std == pytest.approx(np.std(values, ddof=1), abs=1e-6)


def test_runs_without_a_result_do_not_count():
    runs = [Record({}, results={"test_accuracy": 0.5}), Record({}, failure="no"), Record({})]
    assert summarize(runs) == Accuracy(50.0, None)
    assert summarize(runs[1:]) is None


def test_groups_keep_the_order_in_which_they_come():
    runs = [Record({"run": run}) for run in (2, 1, 2)]
    assert {key: len(found) for key, found in group_records(runs, "run").items()} == {2: 2, 1: 1}


def test_failures_are_told_apart():
    runs = [Record({}, failure="a"), Record({}, failure="b"), Record({}), Record({}, failure="a")]
    assert describe_failures(runs) == ["Failed, 2 runs: a", "Failed, 1 run: b"]
    assert describe_failures(runs[:1], "GCN on Cora") == ["Failed, GCN on Cora: 1 run: a"]


def test_groups_by_name_have_the_known_ones_first():
    runs = [Record({"dataset": name}) for name in ("mine", "pubmed", "cora", "pubmed")]
    found = group_by_name(runs, "dataset", ("cora", "citeseer", "pubmed"))
    assert [(name, len(records)) for name, records in found.items()] == [
        ("cora", 1),
        ("pubmed", 2),
        ("mine", 1),
    ]


def test_numbers_are_for_programs():
    runs = [Record({}, results={"test_accuracy": 0.5}), Record({}, failure="no")]
    assert tell_numbers(runs) == {"runs": 2, "failed": 1, "mean": 50.0, "std": None}
    assert tell_numbers(runs[1:]) == {"runs": 1, "failed": 1, "mean": None, "std": None}


def test_the_best_settings_are_those_of_the_best_search():
    found = [
        Record({"dataset": name}, settings={"units": units}, results={"search_accuracy": value})
        for name, units, value in (("cora", 1, 0.7), ("cora", 2, 0.8), ("cora", 3, 0.8), ("pubmed", 4, 0.9))
    ]
    failed = Record({"dataset": "cora"}, failure="no")
    assert best_settings([failed, *found], {"dataset": "cora"}) == {"units": 2}
    assert best_settings([failed], {"dataset": "cora"}) is None


STAMP = {
    "command": "gbgnn reproduce table1",
    "date": "2026-01-02",
    "machine": {"cpu": "Abacus", "cores": 1, "gpu": None},
    "versions": {"gbgnn": "1.0", "torch": "2.9", "numpy": "2.0"},
}


def test_origin_names_each_thing_once():
    gpu = STAMP | {"machine": {"cpu": "Abacus", "cores": 16, "gpu": "Loom"}, "date": "2026-01-05"}
    runs = [
        Record({"run": run}, seconds=1800, environment=stamp) for run, stamp in enumerate((STAMP, gpu, STAMP))
    ]
    assert describe_origin(runs) == [
        "Made on Abacus, 1 core and on Abacus, 16 cores, Loom, with gbgnn 1.0, torch 2.9; 2026-01-02 to "
        "2026-01-05; 1.5 hours of runs.",
        "Command: `gbgnn reproduce table1`",
    ]
    other = Record({"run": 9}, environment=STAMP | {"command": "gbgnn fit"})
    assert describe_origin([*runs, other])[1] == "Commands: `gbgnn reproduce table1`, `gbgnn fit`"


def test_records_without_a_stamp_have_no_origin():
    assert describe_origin([Record({"run": 0})]) == []


def test_a_time_has_the_unit_that_suits_it():
    assert [format_duration(s) for s in (0, 60, 3599, 3600)] == [
        "0.0 seconds",
        "1.0 minutes",
        "60.0 minutes",
        "1.0 hours",
    ]


def test_threads_are_told_where_they_are_fewer_than_cores():
    used = STAMP | {"machine": {"cpu": "Abacus", "cores": 2, "threads": 1, "gpu": None}}
    assert describe_origin([Record({"run": 0}, environment=used)])[0].startswith(
        "Made on Abacus, 2 cores (1 thread used), with"
    )
