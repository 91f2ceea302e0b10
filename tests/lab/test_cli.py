from __future__ import annotations

import io
import json
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from gbgnn import datasets
from gbgnn.cli import screen
from gbgnn_lab.baselines import BASELINES, fit_baseline
from gbgnn_lab.cli import read_options, show_report
from gbgnn_lab.experiments import RecordFile, Report, jobs, searching
from gbgnn_lab.experiments.__main__ import _build_parser
from gbgnn_lab.experiments.jobs import Outcome, run_jobs, single_jobs
from gbgnn_lab.experiments.options import CompareOptions, Options, read_flags
from gbgnn_lab.experiments.report import Entry, Table

SMALL = ("csbm", "--data-option", "n_nodes=60", "--data-option", "per_class=5")


def test_a_leaderboard_is_written_and_shown(run):
    words = ("compare", *SMALL, "--system", "label_propagation", "--model", "sgc", "--runs", "1")
    result = run(*words, "--device", "cpu")
    assert {path.name for path in Path("results/compare").glob("[!.]*")} == {
        "records.jsonl",
        "table.md",
        "table.tex",
        "table.csv",
    }
    assert "Peak MiB" in result.stdout
    assert "2/2  csbm (random, seed 0), " in result.stderr
    again = run(*words, "--device", "cpu", "--json", "--quiet")
    rows = json.loads(again.stdout)["data"]
    assert sorted(row["rank"] for row in rows) in ([1, 2], [1, 1])
    assert {row["system"] for row in rows} == {"label_propagation", "sgc"}


def test_own_tables_are_compared_on(run, tables):
    result = run("compare", tables, "--system", "mlp", "--runs", "2", "--quiet", "--out", "board")
    assert (
        "people: 1 split (public; 2 training, 1 validation and 1 test nodes), 2 seeds each." in result.stdout
    )
    assert Path("board/table.csv").read_text().startswith("dataset,system,rank,measure,mean,std,runs,failed")


def test_what_cannot_be_compared_is_said_in_a_line(run):
    assert (
        "unknown system 'gcnn'. Did you mean 'gcn'?"
        in run("compare", "csbm", "--system", "gcnn", code=1).stderr
    )
    assert "karate has no val nodes" in run("compare", "karate", "--system", "mlp", code=1).stderr
    assert (
        "CompareOptions.splits must be an integer >= 1"
        in run("compare", "csbm", "--splits", "0", code=1).stderr
    )


CSBM = ("--dataset", *SMALL)
FEW = ("--quick", "--runs", "1", "--trials", "2", "--tune-trials", "2", "--device", "cpu")


def test_a_quick_table_1_is_written_and_shown(run):
    result = run("reproduce", "table1", *CSBM, *FEW, "--variant", "adj")
    folder = Path("results/quick/table1")
    assert {path.name for path in folder.glob("[!.]*")} == {
        "records.jsonl",
        "table.md",
        "table.tex",
        "table.csv",
    }
    for text in (result.stdout, (folder / "table.md").read_text()):
        assert "GB-GNN-Adj + FT" in text
        assert "Quick run" in text
    assert "written to results/quick/table1" in result.stdout
    assert "1/1  csbm (random, seed 0), adj, L = 1, fine-tuned, run 0: val " in result.stderr


def test_the_same_command_goes_on_and_the_tables_can_be_made_again(run):
    words = ("reproduce", "table1", *CSBM, *FEW, "--variant", "adj")
    run(*words, "--quiet")
    records = Path("results/quick/table1/records.jsonl")
    before = records.read_bytes()
    assert "0 runs to make, 1 recorded" in run(*words).stderr
    assert records.read_bytes() == before
    Path("results/quick/table1/table.tex").unlink()
    result = run("reproduce", "table1", "--quick", "--tables-only", "--json")
    report = json.loads(result.stdout)
    assert report["failed"] == 0
    assert [row["fine_tune"] for row in report["data"]] == [False, True]
    assert Path("results/quick/table1/table.tex").exists()


def test_an_interrupt_says_how_to_go_on_and_keeps_what_had_ended(run, monkeypatch):
    search = searching.search

    def interrupted(cell, data, runs, **rest):
        if runs == [1]:
            raise KeyboardInterrupt
        return search(cell, data, runs, **rest)

    words = ("reproduce", "table1", *CSBM, *FEW[:1], "--runs", "2", *FEW[3:], "--variant", "adj")
    with monkeypatch.context() as patch:
        patch.setattr(searching, "search", interrupted)
        result = run(*words, code=130)
    assert "runs that had ended are recorded, and the same command goes on from there" in result.stderr
    assert "1 runs to make, 1 recorded" in run(*words).stderr


def test_with_a_population_the_runs_of_a_cell_are_made_together(run, monkeypatch):
    teams: list[list[int]] = []
    search = searching.search

    def noted(cell, data, runs, **rest):
        teams.append(runs)
        return search(cell, data, runs, **rest)

    monkeypatch.setattr(searching, "search", noted)
    words = ("reproduce", "table1", *CSBM, "--quick", *FEW[3:], "--variant", "adj", "--population", "2")
    assert "2/2  csbm (random, seed 0), adj, L = 1, run 1: val " in run(*words, "--runs", "2").stderr
    result = run(*words, "--runs", "3")
    assert "1 runs to make, 2 recorded" in result.stderr
    assert "2 trials (TPE, median stopping, 2 at a time)" in " ".join(result.stdout.split())
    assert teams == [[0, 1], [2]]


def test_figures_are_drawn(run):
    run("reproduce", "depth", *CSBM, *FEW[:3], "--system", "sgc", "--depth", "1", "--depth", "2", "--quiet")
    assert Path("results/quick/depth/depth.png").stat().st_size > 10_000


def test_failures_are_a_warning(run, monkeypatch):
    monkeypatch.setattr(searching, "search", lambda *args, **rest: 1 / 0)
    result = run("reproduce", "table1", *CSBM, *FEW, "--variant", "adj", "--layers", "0")
    assert "warning: 1 run failed; the same command tries again." in result.stderr
    assert "ZeroDivisionError" in result.stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ("tabel1",),
            2,
            "EXPERIMENT must be one of table1, table4, figures, comparison, depth; got 'tabel1'",
        ),
        (("table1", "--runs", "0"), 1, "Options.runs must be an integer >= 1, or None; got 0"),
        (("table1", "--space", "wide"), 1, "Options.space must be one of paper, default, quick; got 'wide'"),
        (("table1", "--tables-only"), 1, "there are no records in results/table1/records.jsonl"),
    ],
)
def test_what_cannot_be_reproduced_is_said_in_a_line(run, words, code, message):
    assert message in run("reproduce", *words, code=code).stderr


@pytest.mark.parametrize(("command", "kind"), [("reproduce", Options), ("compare", CompareOptions)])
def test_the_command_has_every_option(run, monkeypatch, command, kind):
    monkeypatch.setenv("COLUMNS", "200")
    text = run(command, "--help").stdout
    for flag in read_flags(kind).values():
        words = (
            [flag.metavar] if flag.is_argument else [word for name in flag.names for word in name.split("/")]
        )
        assert all(word in text for word in words)


def test_both_ways_in_offer_the_same():
    offered = {name for action in _build_parser()._actions for name in action.option_strings}
    assert {name for flag in read_flags(Options).values() for name in flag.names} <= offered


def test_what_is_not_given_has_its_default():
    given = dict.fromkeys(read_flags(Options)) | {"layers": [0, 2], "jobs": 3, "data_options": ["n_nodes=60"]}
    assert read_options(Options, given) == Options(layers=(0, 2), jobs=3, data_options={"n_nodes": 60})


def test_names_and_their_old_spelling(run):
    for name in ("--fine-tune-trials", "--tune-trials"):
        told = run("reproduce", "table1", name, "0", code=1).stderr
        assert "Options.tune_trials must be an integer >= 1, or None; got 0" in told


CELL = {"dataset": "cora", "variant": "adj", "hidden_layers": 1, "fine_tune": False}


@pytest.fixture
def shown(monkeypatch):
    """What a terminal shows."""
    out = io.StringIO()
    terminal = Console(file=out, force_terminal=True, color_system=None, width=150)
    monkeypatch.setattr(screen, "console", lambda **options: terminal)
    return out


def test_a_bar_shows_the_newest_run_and_keeps_failures(shown, tmp_path):
    file = RecordFile(tmp_path / "records.jsonl")
    with screen.show_progress(n_lines=None) as progress:

        def work(run, tell):
            tell("trial 5 of 9")
            progress.bars.refresh()
            if run == 2:
                raise MemoryError("too large")
            return Outcome(results={"test_accuracy": 0.8})

        run_jobs(single_jobs(CELL, 1, work), file)
        run_jobs(single_jobs(CELL, 3, work), file, progress=progress)
        assert "1/3" in shown.getvalue()
        assert "cora, adj, L = 1, run 1: trial 5 of 9" in shown.getvalue()
        assert "2/3" in shown.getvalue()
        run_jobs(single_jobs(CELL, 2, work), file, progress=progress)
        progress.bars.refresh()
        run_jobs([], file, progress=progress)
    assert "cora, adj, L = 1, run 2: failed: MemoryError: too large" in shown.getvalue()
    assert "0/0" not in shown.getvalue()


def test_where_it_is_quiet_there_is_nothing(tmp_path, capsys):
    with screen.show_progress(quiet=True) as progress:
        failing = single_jobs(CELL, 1, lambda run, tell: 1 / 0)
        run_jobs(failing, RecordFile(tmp_path / "records.jsonl"), progress=progress)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize(
    "words",
    [("reproduce", "depth", "--runs", "1", "--depth", "1", "--dataset"), ("compare",)],
    ids=lambda w: w[0],
)
def test_a_signal_has_its_exit_code_and_it_is_said_how_to_go_on(run, monkeypatch, words, name, code):
    def interrupted(*job):
        os.kill(os.getpid(), getattr(signal, name))
        return []

    for way in ("run_job", "_run_apart"):
        monkeypatch.setattr(jobs, way, interrupted)
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored
    try:
        told = run(*words, "csbm", "--system", "sgc", "--device", "cpu", code=code).stderr
    finally:
        signal.signal(signal.SIGINT, usual)
    assert "runs that had ended are recorded, and the same command goes on from there" in told


def test_tables_notes_and_warnings_are_shown(tmp_path, capsys):
    table = Table("Caption", ["Model", "Cora"], [[Entry("A"), Entry("80.1", strong=True, mark="a")]])
    made = Report(
        "Title", [table], ["A note."], n_failed=2, folder=tmp_path, missing="drawing needs matplotlib."
    )
    show_report(made, as_json=False)
    told = capsys.readouterr()
    for words in ("Caption", "80.1 a", "A note.", f"written to {tmp_path}"):
        assert words in told.out
    assert "warning: 2 runs failed; the same command tries again." in told.err
    assert "warning: no figures: drawing needs matplotlib." in told.err


def test_list_names_every_baseline_with_its_paper(run) -> None:
    text = run("baseline", "--list").stdout
    for entry in BASELINES.values():
        assert entry.name in text
        assert entry.reference.split(",")[0] in text
    entries = json.loads(run("baseline", "--list", "--json").stdout)["baselines"]
    assert [entry["name"] for entry in entries] == list(BASELINES)
    assert {entry["name"] for entry in entries if entry["predicts_numbers"]} > {"lightgbm", "residual_gcn"}
    gcnii = next(entry for entry in entries if entry["name"] == "gcnii")
    assert gcnii["settings"]["depth"] == 64
    assert gcnii["settings_by_dataset"]["pubmed"]["depth"] == 16
    assert gcnii["cited"] == {"cora": 85.5, "citeseer": 73.4, "pubmed": 80.2}


def test_table_has_mean_and_spread(run) -> None:
    result = run("baseline", "sgc", *run.tiny, "--runs", "3", "--seed", "4", "--set", "epochs=20")
    assert "SGC (Wu et al., Simplifying graph convolutional networks" in result.stdout
    assert "depth 2, learning_rate 0.2, weight_decay 5e-06, epochs 20" in result.stdout
    for word in ("3 runs (seeds 4 to 6)", "accuracy", "AUC", "val ", "test ", "seconds a run", "peak memory"):
        assert word in result.stdout
    assert result.stdout.count(" ± ") >= 2 * 3 + 1
    assert [line[:7] for line in result.stderr.splitlines()] == ["run 1/3", "run 2/3", "run 3/3"]


def test_json_has_every_run_as_the_library_gives_it(run) -> None:
    words = ("--runs", "2", "--depth", "3", "--set", "units=8", "--set", "epochs=10", "--device", "cpu")
    report = json.loads(run("baseline", "gcn", *run.tiny, *words, "--json", "-q").stdout)
    data = datasets.csbm(n_nodes=60, per_class=6)
    expected = [
        fit_baseline("gcn", data, seed=seed, depth=3, units=8, epochs=10).predictions for seed in (0, 1)
    ]
    accuracies = [(labels == data.y)[data.test].mean() for labels in expected]
    assert [row["test_accuracy"] for row in report["runs"]] == accuracies
    own = fit_baseline("gcn", data, seed=1, depth=3, units=8, epochs=10).judge(data.val, data.y[data.val])
    assert {name: report["runs"][1][f"val_{name}"] for name in own} == own
    assert report["mean"]["test_accuracy"] == np.mean(accuracies)
    assert report["std"]["test_accuracy"] == np.std(accuracies)
    assert (report["settings"]["depth"], report["settings"]["units"]) == (3, 8)
    assert (report["device"], report["dataset"]) == ("cpu", "csbm")
    assert report["peak_memory"] > 2**20
    assert report["cited_accuracy"] is None


def test_cited_accuracy_is_that_of_the_public_split(run, planetoid_folder) -> None:
    words = ("baseline", "sgc", "cora", "--data-dir", planetoid_folder, "--runs", "1", "-q")
    assert "81.0" in run(*words).stdout
    assert "cited: 81.0 % (its paper)" in run(*words).stdout
    assert json.loads(run(*words, "--split", "random", "--json").stdout)["cited_accuracy"] is None


def test_without_validation_and_test_nodes_nothing_is_judged(run, tables) -> None:
    (tables / "nodes.csv").write_text(
        "id,label,split,x,y\nann,red,train,1,0\nbob,red,,1,0.2\ncat,blue,train,0,1\ndan,,,0,1\neve,,,0,1\n"
    )
    text = run("baseline", "label_propagation", tables, "--runs", "1").stdout
    assert "there are neither validation nor test nodes to judge it by" in text
    assert "1 run (seed 0)" in text


def test_a_baseline_predicts_numbers_where_it_can(run, tmp_path) -> None:
    data = datasets.csbm(n_nodes=60, per_class=6)
    edges, y = data.graph.adjacency, data.graph.features[:, 0] * 10
    path = tmp_path / "prices.npz"
    np.savez(path, indptr=edges.indptr, indices=edges.indices, feat=data.graph.features, y=y)
    words = ("baseline", "histgb_1hop", path, "--runs", "2", "-q")
    text = run(*words).stdout
    for word in ("R2", "MAE", "RMSE", "2 runs (seeds 0 to 1)", "numbers from"):
        assert word in text
    report = json.loads(run(*words, "--json").stdout)
    expected = fit_baseline("histgb_1hop", datasets.load(str(path)), seed=1)
    judged = datasets.load(str(path))
    own = expected.judge(judged.test, judged.y[judged.test])
    assert {name: report["runs"][1][f"test_{name}"] for name in own} == own
    assert (
        "the baseline gcn is for classes; those that predict" in run("baseline", "gcn", path, code=1).stderr
    )


def test_a_bar_on_a_terminal(run, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, color_system=None, width=100)
    plain = screen.console
    monkeypatch.setattr(screen, "console", lambda stderr=False: console if stderr else plain())
    run("baseline", "sgc", *run.tiny, "--runs", "2", "--set", "epochs=2")
    assert "run 0/2" in shown.getvalue()
    assert re.search(r"run 2/2 ━+ val 0\.\d+ ", shown.getvalue())


def test_embedded_digits_are_the_default(run) -> None:
    assert "digits: 1,797 nodes" in run("baseline", "label_propagation", "--runs", "1").stdout


def test_mistakes_are_one_line_before_anything_slow(run) -> None:
    assert "name a baseline" in run("baseline", code=2).stderr
    assert "Did you mean 'gcn'?" in run("baseline", "gcnn", "nowhere", code=1).stderr
    assert "the baseline mlp has no setting 'depth'" in run("baseline", "mlp", "--depth", "2", code=1).stderr
    assert "--set must look like NAME=VALUE" in run("baseline", "gcn", "--set", "units", code=2).stderr
    assert "GCN.units must be an integer >= 1" in run("baseline", "gcn", "--set", "units=0", code=1).stderr


def test_without_the_extra_one_line_says_what_to_install(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    monkeypatch.setitem(sys.modules, "torch_geometric.nn", None)
    told = run("baseline", "gat", *run.tiny, code=1).stderr
    assert 'the baseline gat needs torch_geometric: pip install "gbgnn[lab]".' in told


def test_help_teaches_by_examples(run) -> None:
    assert 2 <= run("baseline", "--help").stdout.count("$ gbgnn baseline") <= 5
