from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import optuna
import pytest

import gbgnn
from gbgnn import datasets
from gbgnn.search import objective

SPACE = """
[space]
n_rounds = 4
rule = "samme_r"
[space.learner]
epochs = {low = 2, high = 6, step = 1}
units = {low = 2, high = 8}
"""
WORDS = ("tune", "csbm", "--data-option", "n_nodes=60", "--data-option", "per_class=6", "--space", "s.toml")


@pytest.fixture
def tune(run):
    """The command on a small graph, with a small space."""
    Path("s.toml").write_text(SPACE)

    def call(*words: str, code: int = 0):
        return run(*WORDS, *words, code=code)

    return call


def _rows(folder: str) -> list[dict]:
    rows = [json.loads(line) for line in Path(folder, "trials.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def test_closing_tables_and_run_folder(tune) -> None:
    result = tune("--trials", "12", "--storage", "s.log", "--out", "r")
    for words in (
        "csbm: 60 nodes",
        "searching learner__epochs, learner__learning_rate",
        "trial 12/12",
        " s\n",
    ):
        assert words in result.stderr
    for words in (
        "learner__units",
        "2 to 8, log scale",
        "importance",
        "12 trials: ",
        " complete, ",
        "validation accuracy ",
        "seed 0",
        "written to r; test nodes: gbgnn evaluate r",
        "the study 'csbm-adjacency-samme_r-L1-seed0': optuna-dashboard s.log",
    ):
        assert words in result.stdout
    files = {"config.toml", "history.jsonl", "metrics.json", "model.gbgnn", "space.toml", "trials.jsonl"}
    assert {p.name for p in Path("r").iterdir()} == files
    assert len(_rows("r")) == 12


def test_another_metric_judges_and_is_named(tune, run) -> None:
    Path("s.toml").write_text(SPACE.replace("n_rounds = 4", 'n_rounds = 4\nmetric = "f1_macro"'))
    result = tune("--trials", "3", "--out", "r")
    report = json.loads(Path("r/metrics.json").read_text())
    assert report["metric"] == "f1_macro"
    assert report["best_value"] == pytest.approx(report["splits"]["val"]["macro_f1"])
    assert f"validation f1_macro {report['best_value']:.4f}, " in result.stdout
    for row in _rows("r"):
        assert row["value"] == pytest.approx(max(row["val_f1_macro"]))
    assert tomllib.loads(Path("r/space.toml").read_text())["space"]["metric"] == "f1_macro"
    assert tomllib.loads(Path("r/config.toml").read_text())["metric"] == "f1_macro"
    again = (*WORDS[:-1], "r/space.toml", "--trials", "3", "--out", "again")
    run(*again)
    assert _rows("again") == _rows("r")


def test_json_is_all_there_is_on_stdout(tune) -> None:
    result = tune("--trials", "3", "--json", "--quiet", "--out", "r")
    assert result.stderr == ""
    report = json.loads(result.stdout)
    assert report["trials"] == {"complete": 3, "pruned": 0, "failed": 0}
    assert report["best_value"] == report["splits"]["val"]["accuracy"]
    assert set(report["best_settings"]) == {
        *("learner__epochs", "learner__units", "learner__dropout"),
        *("learner__learning_rate", "learner__weight_decay"),
    }
    assert report["importances"] == {}  # too few trials
    assert json.loads(Path("r/metrics.json").read_text()) == {k: v for k, v in report.items() if k != "run"}


def test_test_accuracy_is_left_to_evaluate(run, tune) -> None:
    result = tune("--trials", "2", "--json", "--out", "r")
    assert list(json.loads(result.stdout)["splits"]) == ["train", "val"]
    assert "test" in json.loads(run("evaluate", "r", "--json").stdout)["splits"]


def test_fit_repeats_the_best_model_from_its_record(run, tune) -> None:
    tune("--trials", "3", "--seed", "5", "--out", "r")
    config = tomllib.loads(Path("r/config.toml").read_text())
    assert (config["random_state"], config["rule"]["name"], config["n_rounds"]) == (5, "samme_r", 4)
    run("fit", "--config", "r/config.toml", "-q", "--out", "again")
    one, other = (gbgnn.load(f"{folder}/model.gbgnn").predict_proba(range(60)) for folder in ("r", "again"))
    assert one.tobytes() == other.tobytes()


def test_the_written_space_repeats_the_search(run, tune) -> None:
    tune("--trials", "3", "--out", "r")
    run(*WORDS[:-1], "r/space.toml", "--trials", "3", "--out", "again")
    assert _rows("again") == _rows("r")
    assert Path("again/space.toml").read_text() == Path("r/space.toml").read_text()


@pytest.mark.parametrize("labels", ["scrambled", "absent"])
def test_the_labels_of_test_nodes_change_nothing(run, labels: str) -> None:
    """The same files, in which test nodes have other classes, or none and no place in the split."""
    random = np.random.default_rng(0)
    data = datasets.csbm(n_nodes=60, per_class=6)
    part = np.full(60, "", dtype="<U5")
    for name in ("train", "val", "test"):
        part[getattr(data, name)] = name

    def write(folder: str, y: list[str], split: list[str]) -> None:
        Path(folder).mkdir()
        sources, targets = data.graph.adjacency.nonzero()
        lines = [f"n{i},n{j}" for i, j in zip(sources, targets, strict=True) if i < j]
        Path(folder, "edges.csv").write_text("\n".join(["source,target", *lines]) + "\n")
        rows = [
            ",".join([f"n{i}", y[i], split[i], *map(str, data.graph.features[i].tolist())]) for i in range(60)
        ]
        names = ",".join(f"x{k}" for k in range(data.graph.n_features))
        Path(folder, "nodes.csv").write_text("\n".join([f"id,label,split,{names}", *rows]) + "\n")

    truth = [f"c{label}" for label in data.y]
    write("whole", truth, list(part))
    others, split = list(truth), list(part)
    for i in data.test:
        others[i] = f"c{random.integers(2)}" if labels == "scrambled" else ""
        split[i] = "test" if labels == "scrambled" else ""
    assert others != truth
    write("other", others, split)
    Path("s.toml").write_text(SPACE)
    for folder in ("whole", "other"):
        words = ("--space", "s.toml", "--trials", "12", "--storage", f"{folder}.log", "--study", "one")
        run("tune", folder, *words, "-q", "--out", f"runs/{folder}")
    assert _rows("runs/other") == _rows("runs/whole")
    studies = [optuna.load_study(study_name="one", storage=_journal(f"{n}.log")) for n in ("whole", "other")]
    assert studies[0].user_attrs["data"] == studies[1].user_attrs["data"]
    models = [gbgnn.load(f"runs/{folder}/model.gbgnn") for folder in ("whole", "other")]
    assert models[0].predict_proba(range(60)).tobytes() == models[1].predict_proba(range(60)).tobytes()


def _journal(path: str) -> optuna.storages.BaseStorage:
    return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(path))


def test_the_tuning_code_is_not_given_test_labels(tune, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    usual = objective.TrainingData.__init__

    def look(self, nodes, y, graph, validation):
        seen.extend([*nodes, *validation[0]])
        usual(self, nodes, y, graph, validation)

    monkeypatch.setattr(objective.TrainingData, "__init__", look)
    tune("--trials", "1", "--out", "r")
    test = datasets.csbm(n_nodes=60, per_class=6).test
    assert seen
    assert set(seen).isdisjoint(test.tolist())


@pytest.mark.parametrize("storage", [None, "s.log"])
def test_ctrl_c_says_what_was_kept(tune, storage: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = optuna.Trial.report

    def report(self, value, step):
        if self.number == 2:
            raise KeyboardInterrupt
        usual(self, value, step)

    words = ("--trials", "5", "--out", "r", *(() if storage is None else ("--storage", storage)))
    with monkeypatch.context() as patch:
        patch.setattr(optuna.Trial, "report", report)
        told = tune(*words, code=130).stderr
    assert not Path("r").exists()
    if storage is None:
        assert "interrupted after 2 of 5 trials, which are lost; with --storage study.log they would" in told
        return
    assert "interrupted after 2 of 5 trials, kept in s.log; the same command goes on." in told
    tune(*words)
    tune("--trials", "5", "--out", "whole")
    rows = [[{k: v for k, v in row.items() if k != "trial"} for row in _rows(f)] for f in ("r", "whole")]
    assert rows[0] == rows[1]


def test_fine_tuning_is_searched_and_recorded(tune) -> None:
    Path("s.toml").write_text(SPACE + "[space.fine_tune]\nepochs = {low = 1, high = 3, step = 1}\n")
    report = json.loads(tune("--trials", "2", "--out", "r", "--json").stdout)
    assert "fine_tune__epochs" in report["best_settings"]
    assert Path("r/fine_tuning.jsonl").exists()
    assert tomllib.loads(Path("r/config.toml").read_text())["fine_tune"]["epochs"] <= 3


def test_a_failure_leaves_no_folder(tune, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(self, path, learners=True):
        raise OSError(28, "No space left on device", "model.gbgnn")

    monkeypatch.setattr(gbgnn.GBGNNClassifier, "save", save)
    assert "No space left on device" in tune("--trials", "1", "--out", "r", code=1).stderr
    assert not Path("r.partial").exists()


def test_mistakes_are_one_line(run, tune) -> None:
    Path("r").mkdir()
    Path("r/thesis.txt").write_text("do not lose")
    assert "will not be replaced" in tune("--out", "r", "--force", code=1).stderr
    assert "storage must be a file ending in" in tune("--storage", "x", code=1).stderr
    assert "tune.n_trials must be an integer >= 1" in tune("--trials", "0", code=1).stderr
    assert "karate has no validation nodes" in run("tune", "karate", code=1).stderr


def test_without_optuna_the_extra_is_named(tmp_path: Path) -> None:
    code = "import sys; sys.modules['optuna'] = None; from gbgnn.cli import main; main()"
    command = [sys.executable, "-c", code, "tune", "karate"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=env)
    assert ended.returncode == 1
    assert 'error: gbgnn.search needs optuna: pip install "gbgnn[tune]".' in ended.stderr


def test_several_seeds_choose_settings_and_rounds(tune) -> None:
    words = ("--trials", "6", "--population", "6", "--seeds-per-trial", "2", "--confirm", "3", "--out", "r")
    result = tune(*words)
    assert "confirmed" in result.stdout
    settings = tomllib.loads(Path("r", "config.toml").read_text())
    rounds = json.loads(Path("r", "metrics.json").read_text())
    assert settings["select"] == "last"
    assert rounds["rounds"] == rounds["best_round"] == settings["n_rounds"]
