from __future__ import annotations

import json
import tomllib
from datetime import datetime
from pathlib import Path

import pytest

import gbgnn
from gbgnn.cli import files
from gbgnn.registry import FAMILIES, PARAMETERS
from gbgnn.runs import RunFolder


def test_closing_table_and_run_folder(run) -> None:
    result = run("fit", "karate", *run.quick, "--out", "club")
    assert "karate: 34 nodes, 78 edges, 34 features, 2 classes (Mr. Hi, Officer)" in result.stderr
    assert "round 4/4" in result.stderr
    for word in ("train", "test", "macro-F1", "best round 4 of 4", "written to club", "seed 0"):
        assert word in result.stdout
    assert {p.name for p in Path("club").iterdir()} == run.files
    assert len(Path("club/history.jsonl").read_text().splitlines()) == 4
    assert [p.name for p in Path().iterdir()] == ["club"]


def test_json_is_all_there_is_on_stdout(run) -> None:
    result = run("fit", *run.tiny, *run.quick, "--json", "--out", "r")
    report = json.loads(result.stdout)
    assert list(report["splits"]) == ["train", "val", "test"]
    assert report["run"] == "r"
    assert report["stop_reason"] == "rounds_exhausted"
    saved = json.loads(Path("r/metrics.json").read_text())
    assert saved == {k: v for k, v in report.items() if k != "run"}


def test_quiet_writes_no_progress(run) -> None:
    assert run("fit", "karate", *run.quick, "--quiet", "--out", "r").stderr == ""


def test_a_default_folder_that_another_process_just_made_gets_a_number(
    run, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = files._default_path
    other = RunFolder("runs/taken")

    def choose(data) -> Path:
        if other.partial.exists():
            return usual(data)
        other.start({"config.toml": ""})
        return other.path

    monkeypatch.setattr(files, "_default_path", choose)
    run("fit", *run.tiny, *run.quick, "-q")
    assert sorted(path.name.split("-")[0] for path in Path("runs").iterdir()) == ["csbm", "taken.partial"]


def test_default_folder_is_named_after_data_and_time(run) -> None:
    run("fit", "karate", *run.quick, "-q")
    (folder,) = Path("runs").iterdir()
    assert folder.name.startswith("karate-2")


def test_fits_in_the_same_second_have_folders_of_their_own(run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Frozen(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, 2, 3, 4, 5)

    monkeypatch.setattr("gbgnn.cli.files.datetime", Frozen)
    for _ in range(3):
        run("fit", "karate", *run.quick, "--rounds", "1", "-q")
    names = sorted(path.name for path in Path("runs").iterdir())
    assert names == ["karate-20260102-030405", "karate-20260102-030405_2", "karate-20260102-030405_3"]


def test_every_option_reaches_the_model(run) -> None:
    run(
        *("fit", *run.tiny, "-q", "--out", "r", "--rounds", "2", "--seed", "3", "--learning-rate", "0.5"),
        *("--aggregation", "kta", "--kta-degree", "1", "--kta-solver", "gradient", "--kta-optimizer", "sgd"),
        *("--kta-learning-rate", "0.1", "--kta-epochs", "2", "--no-kta-rescale"),
        *("--propagation", "random_walk", "--self-loops", "--learner", "mlp", "--hidden-layers", "2"),
        *("--units", "3", "--dropout", "0.1", "--optimizer", "rmsprop", "--lr", "0.02", "--momentum", "0.5"),
        *(
            "--weight-decay",
            "0",
            "--epochs",
            "2",
            "--batch-size",
            "5",
            "--patience",
            "2",
            "--no-standardize",
            "--basis",
            "rows",
        ),
        *("--rule", "gradient", "--loss", "softmax", "--rule-target", "labels", "--min-cosine", "0.0"),
        *("--retries", "1", "--on-failure", "stop", "--select", "last", "--class-weight", "balanced"),
        *("--n-iter-no-change", "9", "--no-keep-learners", "--device", "cpu", "--dtype", "float64"),
        *("--feature-norm", "l2"),
    )
    config = tomllib.loads(Path("r/config.toml").read_text())
    assert config["run"]["versions"]["gbgnn"] == gbgnn.__version__
    expected = {
        "n_rounds": 2,
        "random_state": 3,
        "learning_rate": 0.5,
        "select": "last",
        "class_weight": "balanced",
        "feature_norm": "l2",
        "n_iter_no_change": 9,
        "keep_learners": False,
        "device": "cpu",
        "dtype": "float64",
        "aggregation": {
            "name": "kta",
            "degree": 1,
            "solver": "gradient",
            "optimizer": "sgd",
            "learning_rate": 0.1,
            "epochs": 2,
            "rescale": False,
        },
        "propagation": {"name": "random_walk", "self_loops": True},
        "learner": {
            "name": "mlp",
            "hidden_layers": 2,
            "units": 3,
            "dropout": 0.1,
            "optimizer": "rmsprop",
            "learning_rate": 0.02,
            "momentum": 0.5,
            "weight_decay": 0.0,
            "epochs": 2,
            "batch_size": 5,
            "patience": 2,
            "standardize": False,
            "basis": "rows",
        },
        "rule": {
            "name": "gradient",
            "loss": "softmax",
            "target": "labels",
            "min_cosine": 0.0,
            "retries": 1,
            "on_failure": "stop",
        },
        "data": {"dataset": "csbm", "options": {"n_nodes": 60, "per_class": 6}},
    }
    for key, value in expected.items():
        if isinstance(value, dict):
            assert config[key] | value == config[key]
        else:
            assert config[key] == value


def test_samme_rules_take_their_floors(run) -> None:
    run("fit", "karate", *run.quick, "-q", "--rule", "samme", "--error-floor", "0.001", "--out", "a")
    run("fit", "karate", *run.quick, "-q", "--rule", "samme_r", "--proba-floor", "0.001", "--out", "b")
    assert "error_floor = 0.001" in Path("a/config.toml").read_text()
    assert "proba_floor = 0.001" in Path("b/config.toml").read_text()


def test_learners_with_norms_take_their_options(run) -> None:
    words = ("fit", "karate", "-q", "--rounds", "2", "--seed", "0")
    run(*words, "--learner", "constrained", "--max-norm", "2", "--bias", "--epochs", "5", "--out", "a")
    wide = ("--learner", "wide", "--alpha", "2", "--beta", "1", "--max-epochs", "50", "--units", "64")
    run(*words, *wide, "--out", "b")
    first, second = (tomllib.loads(Path(f"{r}/config.toml").read_text())["learner"] for r in "ab")
    assert (first["max_norm"], first["bias"]) == (2.0, True)
    assert (second["alpha"], second["beta"], second["max_epochs"]) == (2.0, 1.0, 50)


def test_mixing_norm_belongs_to_the_aggregations_that_mix_columns(run) -> None:
    words = ("fit", "karate", "-q", "--rounds", "2", "--seed", "0", "--out", "a")
    assert "belongs to aggregation linear or nonlinear" in run(*words, "--mixing-norm", "0.5", code=2).stderr
    run(*words, "--aggregation", "linear", "--mixing-norm", "0.5")
    assert tomllib.loads(Path("a/config.toml").read_text())["aggregation"]["max_norm"] == 0.5


def test_help_names_every_part(run) -> None:
    text = run("fit", "--help").stdout
    assert all(name in text for family in PARAMETERS for name in FAMILIES[family])


def test_a_runs_own_record_repeats_it(run) -> None:
    run("fit", *run.tiny, *run.quick, "-q", "--aggregation", "lazy", "--out", "a")
    run("fit", "--config", "a/config.toml", "-q", "--out", "b")
    first, second = gbgnn.load("a/model.gbgnn"), gbgnn.load("b/model.gbgnn")
    assert first.scores_.tobytes() == second.scores_.tobytes()


def test_a_drawn_seed_is_recorded(run) -> None:
    run("fit", "karate", "--rounds", "2", "--epochs", "2", "-q", "--out", "a")
    run("fit", "--config", "a/config.toml", "-q", "--out", "b")
    assert gbgnn.load("a/model.gbgnn").scores_.tobytes() == gbgnn.load("b/model.gbgnn").scores_.tobytes()


def test_options_override_the_file(run) -> None:
    Path("s.toml").write_text(
        'n_rounds = 9\nrandom_state = 0\n[learner]\nunits = 9\nepochs = 1\n[data]\ndataset = "karate"\n'
        '[class_weight]\n"Mr. Hi" = 2.0\n1 = 1.0\n'
    )
    run("fit", "--config", "s.toml", "--rounds", "2", "--units", "4", "-q", "--out", "r")
    config = tomllib.loads(Path("r/config.toml").read_text())
    assert config["n_rounds"] == 2
    assert config["learner"]["units"] == 4
    assert config["learner"]["epochs"] == 1
    assert config["class_weight"] == {"0": 2.0, "1": 1.0}
    assert config["data"]["dataset"] == "karate"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n_round = 3", "s.toml: unknown key 'n_round'. Did you mean 'n_rounds'?"),
        ("[data]\nsplits = 1", "unknown key data.splits. Did you mean 'split'?"),
        ("[class_weight]\nnobody = 1.0", "class_weight has class 'nobody', which karate does not have"),
        ("n_rounds = = 3", "s.toml is not a TOML file"),
    ],
)
def test_mistakes_in_the_file(run, text: str, message: str) -> None:
    Path("s.toml").write_text(text)
    assert message in run("fit", "karate", "--config", "s.toml", code=1).stderr


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ["--aggregation", "adjacency", "--mixing", "0.5"],
            2,
            "--mixing belongs to aggregation injection or lazy",
        ),
        (["--kta-degree", "2"], 2, "--kta-degree belongs to aggregation kta; the aggregation of this run is"),
        (["--estimator", "sklearn.svm.SVC"], 2, "--estimator belongs to learner sklearn"),
        (["--rule", "sammy"], 1, "unknown rule 'sammy'. Did you mean 'samme'?"),
        (["--units", "0"], 1, "--units must be an integer >= 1; got 0."),
        (["--config", "none.toml"], 1, "none.toml: No such file or directory."),
        (["--data-option", "n_nodes"], 2, "--data-option must look like NAME=VALUE"),
        (["--checkpoint-every", "0"], 1, "--checkpoint-every must be an integer >= 1; got 0."),
        (["--checkpoint-every", "2", "--no-keep-learners"], 1, "leave out --no-keep-learners"),
        (["--learner", "sklearn"], 1, "learner sklearn needs an estimator"),
    ],
)
def test_wrong_options_are_one_line_and_leave_nothing(run, words: list[str], code: int, message: str) -> None:
    result = run("fit", "karate", "-q", "--out", "r", *words, code=code)
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1
    assert list(Path().iterdir()) == []


def test_unknown_data_sets_are_one_line(run) -> None:
    assert "Did you mean 'cora'?" in run("fit", "cara", code=1).stderr


def test_a_run_is_kept_unless_forced(run, fitted: Path) -> None:
    assert "club exists; choose another --out" in run("fit", "karate", "--out", "club", code=1).stderr
    run("fit", "karate", *run.quick, "--rounds", "1", "-q", "--out", "club", "--force")
    assert len(gbgnn.load("club/model.gbgnn").ensemble_) == 1


def test_learners_that_cannot_be_stored_are_left_out_and_that_is_said(run) -> None:
    tree = ("--learner", "sklearn", "--estimator", "sklearn.neighbors.KNeighborsClassifier")
    words = (
        "fit",
        "karate",
        "-q",
        "--rounds",
        "2",
        "--rule",
        "samme",
        *tree,
        *("--estimator-param", "algorithm=kd_tree", "--estimator-param", "n_neighbors=1"),
    )
    assert "without its learners" in run(*words, "--out", "r").stdout
    assert json.loads(Path("r/metrics.json").read_text())["notes"]
    assert "n_neighbors = 1" in Path("r/config.toml").read_text()
    assert gbgnn.load("r/model.gbgnn").ensemble_[0].head is None
    refused = run(*words, "--out", "s", "--checkpoint-every", "1", code=1).stderr
    assert "such as mlp or trees" in refused


def test_what_an_estimator_refuses_is_one_line(run) -> None:
    tree = ("--learner", "sklearn", "--estimator", "sklearn.tree.DecisionTreeClassifier", "--rule", "samme")
    message = run("fit", "karate", *tree, "--estimator-param", "max_depth=-3", code=1).stderr
    assert "DecisionTreeClassifier cannot be fitted in round 1: The 'max_depth' parameter" in message
    assert "Got -3 instead" in message


def test_own_tables_train(run, tables: Path) -> None:
    result = run("fit", tables, *run.quick, "--out", "r")
    assert "repaired: dropped 1 self loops" in result.stderr
    assert tomllib.loads(Path("r/config.toml").read_text())["data"]["dataset"] == str(tables.resolve())


def test_validation_fraction_takes_the_place_of_the_datas_own(run) -> None:
    run("fit", *run.tiny, *run.quick, "-q", "--validation-fraction", "0.5", "--out", "r")
    assert json.loads(Path("r/history.jsonl").read_text().splitlines()[0])["val_accuracy"] is not None


def test_resume_takes_no_other_settings(run) -> None:
    words = ("fit", "karate", "--resume", "r", "--units", "3", "--no-keep-learners")
    message = run(*words, code=2).stderr
    assert "leave out the data set, --units, --keep-learners" in message
    assert "there is no run r" in run("fit", "--resume", "r", code=1).stderr


def test_fine_tuning_by_options_is_recorded_repeated_and_shown(run) -> None:
    words = ("fit", *run.tiny, *run.quick, "-q")
    tuned = (
        "--fine-tune",
        "--fine-tune-epochs",
        "7",
        "--fine-tune-lr",
        "0.01",
        "--fine-tune-memory-limit",
        "100MB",
    )
    text = run(
        *words, *tuned, "--fine-tune-moves", "learners", "--fine-tune-moves", "etas", "--out", "a"
    ).stdout
    assert "fine-tuned 7 epochs: val accuracy" in text
    assert "model was kept" in text
    table = tomllib.loads(Path("a/config.toml").read_text())["fine_tune"]
    assert (table["epochs"], table["learning_rate"], table["memory_limit"]) == (7, 0.01, "100MB")
    assert table["moves"] == ["learners", "etas"]
    run("fit", "--config", "a/config.toml", "-q", "--out", "b")
    first, second = (gbgnn.load(Path(r) / "model.gbgnn") for r in "ab")
    assert first.scores_.tobytes() == second.scores_.tobytes()
    assert json.loads(Path("a/metrics.json").read_text())["fine_tuning"]["epochs"] == 7
    assert "fine-tuned" not in run(*words, "--out", "c").stdout
    assert tomllib.loads(Path("c/config.toml").read_text())["fine_tune"] is False


def test_fine_tuning_mistakes_are_one_line(run) -> None:
    words = ("fit", *run.tiny, *run.quick, "-q", "--out", "a")
    assert "--memory-limit must be" in run(*words, "--memory-limit", "lots", code=1).stderr
    Path("f.toml").write_text("[fine_tune]\nepoch = 3\n")
    message = run(*words, "--config", "f.toml", code=1).stderr
    assert "fine_tune.epoch is unknown: fine-tuning has no such setting" in message
    assert "epochs" in message


@pytest.mark.parametrize(
    "words",
    [
        ("--aggregation", "kta", "--rule", "samme"),
        ("--fine-tune", "--fine-tune-epochs", "3", "--keep", "tuned", "--rule", "samme_r"),
        ("--learner", "trees", "--library", "sklearn", "--n-trees", "3", "--aggregation", "lazy"),
        ("--learner", "best_of", "--rounds", "1"),
    ],
)
def test_a_run_is_repeated_from_its_record_to_the_same_file(run, words: tuple[str, ...]) -> None:
    quick = ("--rounds", "3", "--seed", "0", "-q")
    run("fit", *run.tiny, *words, *quick, "--out", "r")
    run("fit", "--config", "r/config.toml", "-q", "--out", "again")
    assert Path("again/model.gbgnn").read_bytes() == Path("r/model.gbgnn").read_bytes()
