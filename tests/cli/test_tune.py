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
from gbgnn.cli import files
from gbgnn.cli.files import Source, to_toml
from gbgnn.cli.tune import build_space, describe_trial, load_hidden, name_study, to_document
from gbgnn.errors import DataError, ParameterError
from gbgnn.search import (
    VARIANTS,
    Choice,
    Integer,
    Real,
    SearchSpace,
    TrialReport,
    default_space,
    objective,
    paper_space,
)

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


def test_the_data_of_a_search_has_no_test_label() -> None:
    data = load_hidden(Source("csbm"))
    whole = datasets.load("csbm")
    seen = [*data.train, *data.val]
    assert data.y[seen].tolist() == whole.y[seen].tolist()
    assert set(data.y[whole.test].tolist()) == {-1}


def test_data_without_validation_nodes_is_refused() -> None:
    with pytest.raises(
        DataError, match="karate has no validation nodes, .* draw some with --split stratified"
    ):
        load_hidden(Source("karate"))


def test_studies_are_named_after_what_they_search() -> None:
    data = datasets.load("karate")
    space = default_space("ii", hidden_layers=2, fine_tune=True)
    assert name_study(data, space, seed=4) == "karate-injection-samme-L2-fine-tuned-seed4"
    assert (
        name_study(data, SearchSpace({}, {"rule": Choice(["samme", "gradient"])}), seed=0) == "karate-seed0"
    )


def test_trials_are_described_in_a_few_words() -> None:
    assert describe_trial(TrialReport("complete", 0.5, 0.75, 1, 9)) == "complete 0.5000  best 0.7500"
    assert describe_trial(TrialReport("failed", None, None, 9, 9)) == "failed  best -"


def _build(file: Path | None = None, **options) -> SearchSpace:
    usual = {
        "variant": None,
        "is_paper": False,
        "hidden_layers": None,
        "fine_tune": False,
        "n_train": 20,
        "fixed": {},
    }
    return build_space(file, **{**usual, **options})


def _read(text: str, tmp_path: Path, **options) -> SearchSpace:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return _build(path, **options)


@pytest.mark.parametrize("fine_tune", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_spaces_survive_a_file(variant: str, fine_tune: bool, tmp_path: Path) -> None:
    paper = paper_space(variant, n_train=20, fine_tune=fine_tune)
    ours = default_space(variant, hidden_layers=3, fine_tune=fine_tune)
    listed = {"fine_tune__moves": [["learners", "etas"]]} if fine_tune else {}
    for space in (paper, ours, ours.changed({"rule": "gradient", **listed})):
        again = _read(to_toml(to_document(space)), tmp_path)
        assert again == space
        assert again.to_document() == space.to_document()


def test_a_space_without_parts_or_with_plain_fine_tuning_survives_too(tmp_path: Path) -> None:
    space = SearchSpace({"fine_tune": True}, {"n_rounds": Integer(1, 9)})
    assert tomllib.loads(to_toml(to_document(space)))["space"]["fine_tune"] is True
    assert _read(to_toml(to_document(space)), tmp_path) == space


def test_options_choose_the_space_that_a_file_changes(tmp_path: Path) -> None:
    assert _build() == default_space("adj")
    assert _build(variant="kta", is_paper=True, hidden_layers=2, fine_tune=True) == paper_space(
        "kta", hidden_layers=2, fine_tune=True, n_train=20
    )
    text = '[space]\nvariant = "kta"\n'
    assert _read(text, tmp_path) == default_space("kta")
    assert _read(text, tmp_path, variant="ii") == default_space("ii")
    assert _read("[space.learner]\nhidden_layers = 3", tmp_path, hidden_layers=2) == _build(hidden_layers=2)


def test_a_file_narrows_fixes_and_widens(tmp_path: Path) -> None:
    space = _read(
        """
        [space]
        variant = "kta"
        n_rounds = {low = 5, high = 60}
        select = "last"
        [space.learner]
        units = {low = 16, high = 64}
        optimizer = ["adam"]
        epochs = 50
        momentum = {low = 0, high = 0.9}
        [space.aggregation]
        degree = [2, 3]
        """,
        tmp_path,
    )
    expected = default_space("kta").changed(
        {
            "n_rounds": Integer(5, 60),
            "select": "last",
            "learner__units": Integer(16, 64, log=True),
            "learner__optimizer": "adam",
            "learner__epochs": 50,
            "learner__momentum": Real(0.0, 0.9),
            "aggregation__degree": Choice([2, 3]),
        }
    )
    assert space == expected


def test_a_table_of_fine_tuning_turns_it_on(tmp_path: Path) -> None:
    space = _read("[space.fine_tune]\nepochs = 20\n", tmp_path)
    assert space == default_space("adj", fine_tune=True).changed({"fine_tune__epochs": 20})
    assert not _read("[space]\nfine_tune = false\n", tmp_path).build({}, seed=0).fine_tune


def test_another_part_brings_its_own_settings(tmp_path: Path) -> None:
    space = _read('[space.rule]\nname = "gradient"\nlearning_rate = {low = 0.1, high = 1.0}\n', tmp_path)
    assert "rule__error_floor" not in space.ranges
    assert space.ranges["rule__learning_rate"] == Real(0.1, 1.0)
    assert _read('[space]\nrule = "gradient"\n', tmp_path).base["rule"] == "gradient"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[spaces]\n", r"mine.toml: unknown key 'spaces'. Did you mean 'space'\? Known: space."),
        ("space = 3\n", r"mine.toml: space must be a table, \[space\]; got 3."),
        (
            '[space]\nvariant = "ktaa"\n',
            r"variant must be one of adj, .*, custom; got 'ktaa'. Did you mean 'kta'",
        ),
        ("[space]\nvariant = 3\n", "variant must be one of adj, kta, ii, samme_r, custom; got 3.$"),
        ("[space]\nn_round = 3\n", r"mine.toml, \[space\]: unknown key 'n_round'. Did you mean 'n_rounds'"),
        ("[space.learner]\nunitz = 3\n", r"\[space\]: learner.unitz is unknown: .* Did you mean 'units'"),
        (
            "[space.aggregation]\nmixing = 0.5\n",
            "aggregation.mixing belongs to aggregation injection or lazy; the aggregation of this run is adj",
        ),
        (
            "[space.learner]\nunits = {low = 3}\n",
            r"mine.toml, \[space\]: learner.units: a range needs high; got {'low': 3}. Write {low = 1, high",
        ),
        ("[space]\nrandom_state = 3\n", "random_state is no part of a space"),
    ],
)
def test_mistakes_are_named_with_their_key(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=message):
        _read(text, tmp_path)


def test_what_is_no_toml_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="mine.toml is not a TOML file"):
        _read("[space\n", tmp_path)


def test_what_an_option_fixes_is_not_searched(tmp_path: Path) -> None:
    space = _build(fixed={"learner__units": 16, "n_rounds": 7, "learner__momentum": 0.5})
    assert space == default_space("adj").changed(
        {"learner__units": 16, "n_rounds": 7, "learner__momentum": 0.5}
    )
    text = "[space.learner]\nunits = {low = 2, high = 8}\nepochs = 3\n"
    assert _read(text, tmp_path, fixed={"learner__units": 16, "learner__epochs": 5}) == default_space(
        "adj"
    ).changed({"learner__units": 16, "learner__epochs": 5})


def test_the_learning_rate_of_the_model_is_that_of_the_rule_in_options_and_files(tmp_path: Path) -> None:
    by_option = _build(fixed={"learning_rate": 0.5})
    assert "rule__learning_rate" not in by_option.ranges
    assert by_option.base["rule__learning_rate"] == 0.5
    assert _read("[space]\nlearning_rate = 0.5\n", tmp_path) == by_option
    assert default_space("adj").changed({"learning_rate": 0.5}) == by_option
    searched = _read("[space]\nlearning_rate = {low = 0.1, high = 0.5}\n", tmp_path)
    assert searched.ranges["rule__learning_rate"] == Real(0.1, 0.5)
    assert "learning_rate" not in searched.ranges


def test_a_part_that_an_option_names_is_searched_as_the_file_says(tmp_path: Path) -> None:
    text = "[space.aggregation]\nmixing = {low = 0.1, high = 0.9}\n"
    space = _read(text, tmp_path, fixed={"aggregation": "lazy"})
    assert (space.base["aggregation"], space.ranges["aggregation__mixing"]) == ("lazy", Real(0.1, 0.9))
    assert "aggregation__epochs" not in _build(variant="kta", fixed={"aggregation": "adjacency"}).ranges
    space = _read('[space.rule]\nname = "samme"\nerror_floor = 0.1\n', tmp_path, fixed={"rule": "samme_r"})
    assert (space.base["rule"], "rule__error_floor" in space.base) == ("samme_r", False)


def test_an_option_of_fine_tuning_turns_it_on() -> None:
    space = _build(fixed={"fine_tune__epochs": 3})
    assert space == default_space("adj", fine_tune=True).changed({"fine_tune__epochs": 3})


def test_options_of_the_model_fix_settings_of_the_command(run, tune) -> None:
    tree = ("--learner", "sklearn", "--estimator", "sklearn.tree.DecisionTreeClassifier")
    words = (*tree, "--estimator-param", "max_depth=2", "--rounds", "3", "--metric", "f1_macro")
    Path("s.toml").write_text('[space]\nn_rounds = 4\nmetric = "accuracy"\n')
    report = json.loads(tune(*words, "--trials", "2", "--json", "--out", "r").stdout)
    assert set(report["best_settings"]) == {"rule__error_floor", "rule__learning_rate"}
    assert report["metric"] == "f1_macro"
    config = tomllib.loads(Path("r/config.toml").read_text())
    assert (config["n_rounds"], config["learner"]["estimator_params"]) == (3, {"max_depth": 2})
    run(*WORDS[:-1], "r/space.toml", "--trials", "2", "--out", "again")
    assert _rows("again") == _rows("r")


def test_options_that_do_not_go_with_the_space_are_usage_errors(run, tune) -> None:
    told = tune("--mixing", "0.5", code=2).stderr
    assert "--mixing belongs to aggregation injection or lazy; the aggregation of this run is adj" in told
    assert "--validation-fraction is for gbgnn fit" in tune("--validation-fraction", "0.5", code=2).stderr
    told = run("tune", "csbm", "--learner", "constrained", "--rule", "gradient", code=1).stderr
    assert "the space has no range, so there is nothing to search" in told
    assert "unknown learner 'mpl'. Did you mean 'mlp'?" in tune("--learner", "mpl", code=1).stderr


def test_an_option_of_the_command_goes_before_the_one_of_the_model_with_its_flag(run) -> None:
    told = run("tune", "--help").stdout
    for flag in ("--hidden-layers ", "--fine-tune ", "--seed ", "--device ", "--units ", "--kta-degree "):
        assert told.count(f"│ {flag}") == 1
    assert "fixes its setting" in " ".join(told.split())


def test_what_a_search_could_not_write_is_written_by_the_same_command(
    tune, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--trials", "3", "--storage", "s.log", "--out", "r", "-q")
    with monkeypatch.context() as patch:

        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device", "r.partial/metrics.json")

        patch.setattr(files, "finish_run", fail)
        told = tune(*words, code=1).stderr
    assert "The trained model is r.partial/model.gbgnn; when the cause is removed, give the command" in told
    assert "give the search's command again with --force" in tune(*words, code=1).stderr
    assert "is what a search was about to write; give its" in run("fit", "--resume", "r", code=1).stderr
    tune(*words, "--force")
    tune(*words[:-3], "--out", "whole", "-q")
    assert Path("r/model.gbgnn").read_bytes() == Path("whole/model.gbgnn").read_bytes()
    assert _rows("r") == _rows("whole")
    assert not Path("r.partial").exists()
