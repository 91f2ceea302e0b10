from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics import fbeta_score, make_scorer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import gbgnn
from gbgnn import (
    MLP,
    BoostedTrees,
    FineTuner,
    FunctionalGradient,
    GBGNNClassifier,
    Graph,
    InputInjection,
    KernelTargetAlignment,
    Lazy,
    datasets,
)
from gbgnn.aggregation import Linear, NonLinear
from gbgnn.boosting.history import without_measurements
from gbgnn.errors import MissingDependencyError, ModelFileError, ParameterError
from gbgnn.persistence import _digest, read_header, save
from gbgnn.registry import as_device
from gbgnn.testing import two_blocks

GRAPH, Y = two_blocks(40, n_classes=3)
NAMES = np.array(["ant", "bee", "cat"])[Y]
TRAIN = np.arange(20)
NODES = np.arange(40)
OLD = Path(__file__).parent / "data" / "format2"
EXPECTED = json.loads((OLD / "expected.json").read_text())


def fit(**settings: Any) -> GBGNNClassifier:
    defaults = {"learner": MLP(epochs=5, units=8), "n_rounds": 4, "random_state": 0}
    return GBGNNClassifier(**{**defaults, **settings}).fit(TRAIN, NAMES[TRAIN], graph=GRAPH)


def saved(model: GBGNNClassifier, folder: Path) -> GBGNNClassifier:
    """The model as it comes back from a file."""
    model.save(folder / "m.gbgnn")
    return gbgnn.load(folder / "m.gbgnn")


@settings(max_examples=30)
@given(
    aggregation=st.sampled_from(
        [
            "adjacency",
            "kta",
            InputInjection(mixing=0.3),
            KernelTargetAlignment(degree=1),
            Linear(max_norm=0.9),
            NonLinear(optimizer="adam"),
        ]
    ),
    rule=st.sampled_from(
        [
            *("gradient", "samme", "samme_r"),
            *(FunctionalGradient(target="labels"), FunctionalGradient(loss="softmax")),
        ]
    ),
    hidden_layers=st.integers(0, 3),
    dtype=st.sampled_from(["float32", "float64"]),
    class_weight=st.sampled_from([None, "balanced", {"ant": 1.0, "bee": 2.0, "cat": 3.0}]),
    feature_norm=st.sampled_from([None, "l1", "l2"]),
)
def test_loaded_model_predicts_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, **settings_: Any
) -> None:
    hidden_layers = settings_.pop("hidden_layers")
    model = fit(learner=MLP(hidden_layers=hidden_layers, epochs=30, units=12, dropout=0.0), **settings_)
    path = tmp_path_factory.mktemp("models") / "model.gbgnn"
    model.save(path)
    loaded = gbgnn.load(path)
    assert loaded.predict_proba(NODES).tobytes() == model.predict_proba(NODES).tobytes()
    assert loaded.predict(NODES).tolist() == model.predict(NODES).tolist()
    other, _ = two_blocks(30, n_classes=3, seed=9)
    on_other = [m.predict_proba(np.arange(30), graph=other).tobytes() for m in (model, loaded)]
    assert on_other[0] == on_other[1]
    staged = [np.stack(list(m.staged_predict_proba(NODES, graph=GRAPH))).tobytes() for m in (model, loaded)]
    assert staged[0] == staged[1]
    assert repr(loaded.get_params()["aggregation"]) == repr(model.get_params()["aggregation"])
    assert loaded.history_.rows == without_measurements(model.history_.rows)
    assert loaded.certificate_.rows() == model.certificate_.rows()
    assert (loaded.task_.record(), loaded.voting_.record()) == (model.task_.record(), model.voting_.record())
    assert loaded.train_nodes_.tolist() == model.train_nodes_.tolist()
    assert loaded.class_weight == model.class_weight


def test_file_holds_no_pickle_and_a_readable_header(tmp_path: Path) -> None:
    fit().save(tmp_path / "m.gbgnn")
    header = read_header(tmp_path / "m.gbgnn")
    assert header["format_version"] == 3
    assert header["library_version"] == gbgnn.__version__
    assert header["task"] == {
        "name": "classification",
        "record": {"dtype": "<U3", "classes": ["ant", "bee", "cat"]},
    }
    assert header["loss"] == {"name": "softmax", "params": {}}
    assert header["voting"] == {"name": "outputs", "record": {"n_outputs": 3}}
    assert header["inputs"] == {
        "propagation": {"name": "augmented", "params": {}},
        "feature_norm": None,
        "dtype": "float32",
        "device": str(as_device("auto")),
        "n_features": 5,
        "column_names": None,
        "encoder": None,
        "neighbourhood": None,
        "n_targets": 0,
        "takes_gaps": False,
        "hears_labels": False,
    }
    assert header["metric"] == "accuracy"
    assert header["graph"] == GRAPH.checksum
    assert header["depends_on"] == dict(fit().depends_on_)
    assert len(header["rounds"]) == 4


@pytest.mark.parametrize("aggregation", ["kta", "lazy", "injection", "adjacency", "identity"])
def test_loaded_hops_are_as_free_as_the_saved_ones(tmp_path: Path, aggregation: str) -> None:
    model = fit(aggregation=aggregation)
    assert [r.hop for r in saved(model, tmp_path).ensemble_] == [r.hop for r in model.ensemble_]


def test_file_whose_hops_do_not_say_what_is_free_is_read(tmp_path: Path) -> None:
    path, model = tmp_path / "m.gbgnn", fit(aggregation="kta")
    model.save(path)
    rewrite(path, lambda header: [row["hop"]["record"].pop("free") for row in header["rounds"]])
    loaded = gbgnn.load(path)
    assert loaded.predict_proba(NODES).tobytes() == model.predict_proba(NODES).tobytes()
    assert {r.hop.free for r in loaded.ensemble_} == {None}


def test_own_matrix_is_stored_with_the_model(tmp_path: Path) -> None:
    model = fit(propagation=GRAPH.adjacency / 10)
    loaded = saved(model, tmp_path)
    first, second = (list(m.staged_predict_proba(NODES, graph=GRAPH))[-1] for m in (model, loaded))
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize(
    ("learner", "rule"),
    [
        (DecisionTreeClassifier(max_depth=2), "samme"),
        (Ridge(), "gradient"),
        (BoostedTrees(library="sklearn", n_trees=5), "gradient"),
        (BoostedTrees(library="sklearn", n_trees=5), "samme_r"),
        (BoostedTrees(library="lightgbm", n_trees=5), "gradient"),
        (BoostedTrees(library="xgboost", n_trees=5), "samme"),
    ],
)
def test_trees_and_estimators_predict_other_graphs_from_a_file(
    tmp_path: Path, learner: Any, rule: str
) -> None:
    model = fit(learner=learner, rule=rule)
    loaded = saved(model, tmp_path)
    other, _ = two_blocks(60, n_classes=3, seed=5)
    nodes = np.arange(60)
    first, second = (m.decision_function(nodes, graph=other).tobytes() for m in (model, loaded))
    assert first == second
    assert saved(loaded, tmp_path).decision_function(nodes, graph=other).tobytes() == first


def test_forged_trees_are_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "m.gbgnn"
    fit(learner=BoostedTrees(library="sklearn", n_trees=5)).save(path)
    with safe_open(path, framework="pt") as file:
        header = file.metadata()["gbgnn"]
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    tensors["round.1.model.0"] = tensors["round.1.model.0"][:-100].clone()
    metadata = {"gbgnn": header, "sha256": _digest(header, tensors)}  # whoever forges can count, too
    save_file(tensors, path, metadata=metadata)
    with pytest.raises(ModelFileError, match="m.gbgnn is damaged: its boosted trees cannot be read"):
        gbgnn.load(path)


def test_model_of_an_estimator_that_needs_pickle_is_saved_without_its_learners_only(tmp_path: Path) -> None:
    model = fit(learner=KNeighborsClassifier(3, algorithm="kd_tree"), rule="samme")
    with pytest.raises(
        ModelFileError, match="KNeighborsClassifier cannot be stored without pickle.*KDTree.*learners=False"
    ):
        model.save(tmp_path / "m.gbgnn")
    assert list(tmp_path.iterdir()) == []  # nothing half-written
    model.save(tmp_path / "m.gbgnn", learners=False)
    loaded = gbgnn.load(tmp_path / "m.gbgnn")
    assert loaded.predict_proba(NODES).tobytes() == model.predict_proba(NODES).tobytes()
    with pytest.raises(ValueError, match="learners were not kept"):
        loaded.predict(NODES, graph=GRAPH)


@pytest.mark.parametrize(
    "settings",
    [
        {"aggregation": "kta", "rule": "samme_r"},
        {"learner": "wide"},
        {"fine_tune": FineTuner(epochs=3, keep="tuned")},
        {"learner": DecisionTreeClassifier(max_depth=2), "rule": "samme"},
        {"learner": BoostedTrees(library="sklearn", n_trees=5)},
        {"learner": BoostedTrees(library="lightgbm", n_trees=5)},
        {"learner": BoostedTrees(library="xgboost", n_trees=5)},
    ],
    ids=["mlp", "wide", "tuned", "tree", "sklearn", "lightgbm", "xgboost"],
)
def test_equal_fits_are_equal_files(settings: dict[str, Any], tmp_path: Path) -> None:
    """However long they took, and after a detour through a file."""
    first, other = fit(**settings), fit(**settings)
    assert first.history_["seconds"] != other.history_["seconds"]
    assert first.history_["peak_memory"][0] > 0
    loaded = saved(first, tmp_path)
    expected = (tmp_path / "m.gbgnn").read_bytes()
    assert loaded.history_["seconds"] == loaded.history_["peak_memory"] == [None] * 4
    for model in (other, loaded):
        model.save(tmp_path / "again.gbgnn")
        assert (tmp_path / "again.gbgnn").read_bytes() == expected


def test_metadata_are_in_order(tmp_path: Path) -> None:
    """safetensors writes the two of them in any."""
    for _ in range(8):
        fit(n_rounds=1).save(tmp_path / "m.gbgnn")
        assert (tmp_path / "m.gbgnn").read_bytes()[8:].startswith(b'{"__metadata__":{"gbgnn":')


def test_loaded_model_has_no_graph_and_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"loaded from a file, which does not hold its graph; pass graph="):
        list(saved(fit(), tmp_path).staged_predict(NODES))


def test_unfitted_model_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        GBGNNClassifier().save(tmp_path / "m.gbgnn")


def test_part_without_a_name_cannot_be_saved(tmp_path: Path) -> None:
    class Mine(MLP):
        pass

    with pytest.raises(ModelFileError, match="Mine has no name; register it"):
        fit(learner=Mine(epochs=1)).save(tmp_path / "m.gbgnn")


def test_every_flipped_byte_and_every_truncation_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "m.gbgnn"
    fit().save(path)
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    for position in random.choice(len(whole), size=60, replace=False):
        damaged = bytearray(whole)
        damaged[position] ^= 0x41
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match="damaged|not one that gbgnn wrote|has format"):
            gbgnn.load(path)
    for length in [0, 1, 7, 8, 100, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError, match="damaged"):
            gbgnn.load(path)


def rewrite(path: Path, change: object, digest: bool = True) -> None:
    """Write the file again with its header changed and, if asked, a checksum that fits."""
    from gbgnn.persistence import _digest

    with safe_open(path, "pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    header = json.loads(metadata["gbgnn"])
    change(header)
    text = json.dumps(header)
    save_file(
        tensors, path, {"gbgnn": text, "sha256": _digest(text, tensors) if digest else metadata["sha256"]}
    )


@pytest.mark.parametrize(
    ("change", "digest", "message"),
    [
        (
            lambda h: h.update(format_version=99, library_version="9.9"),
            True,
            "has format 99, written by gbgnn 9.9",
        ),
        (lambda h: h.update(format_version=1), True, "has format 1, from before the first release"),
        (lambda h: h.update(seed=1), False, "do not match their checksum"),
        (lambda h: h.pop("task"), True, "its header does not fit"),
        (lambda h: h["task"]["record"].pop("classes"), True, "its header does not fit"),
        (lambda h: h["voting"].update(name="os.system"), True, "unknown voting 'os.system'"),
        (lambda h: h["voting"]["record"].update(weight=1), True, "its header does not fit"),
        (lambda h: h["loss"].update(name="hinge"), True, "unknown loss 'hinge'"),
        (lambda h: h["inputs"].update(dtype="float16"), True, "dtype must be one of"),
        (lambda h: h["inputs"].update(device="elsewhere"), True, "its header does not fit"),
        (lambda h: h.update(stop_reason="bored"), True, "its header does not fit"),
        (lambda h: h["rounds"][0]["hop"].update(name="os.system"), True, "its header does not fit"),
        (
            lambda h: h["rounds"][0]["hop"]["record"].update(free="all"),
            True,
            "does not fit.*free must be one of",
        ),
        (lambda h: h["params"].update(learner={"name": "builtins.eval", "params": {}}), True, "does not fit"),
        (lambda h: h.pop("format_version"), True, "its header cannot be read"),
    ],
    ids=[
        *("newer", "older", "checksum", "missing", "task", "voting name", "voting record", "loss", "dtype"),
        *("device", "value", "hop name", "hop record", "part name", "version"),
    ],
)
def test_tampered_header_is_a_clear_error(tmp_path: Path, change: object, digest: bool, message: str) -> None:
    path = tmp_path / "m.gbgnn"
    fit().save(path)
    rewrite(path, change, digest)
    with pytest.raises(ModelFileError, match=message):
        gbgnn.load(path)


def test_other_files_are_told_apart(tmp_path: Path) -> None:
    import torch

    with pytest.raises(ModelFileError, match="there is no model file"):
        gbgnn.load(tmp_path / "none.gbgnn")
    save_file({"x": torch.zeros(1)}, tmp_path / "x.safetensors")
    with pytest.raises(ModelFileError, match="not one that gbgnn wrote"):
        gbgnn.load(tmp_path / "x.safetensors")


def test_missing_safetensors_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(MissingDependencyError, match=r'needs safetensors: pip install "gbgnn\[save\]"'):
        fit().save(tmp_path / "m.gbgnn")


def test_a_loaded_file_predicts_in_a_new_process(tmp_path: Path) -> None:
    model = fit()
    model.save(tmp_path / "m.gbgnn")
    code = f"import gbgnn; print(gbgnn.load({str(tmp_path / 'm.gbgnn')!r}).predict([0, 39]).tolist())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == str(model.predict([0, 39]).tolist())


def test_loaded_model_refuses_a_graph_of_other_features(tmp_path: Path) -> None:
    other = Graph(np.eye(3), np.ones((3, 2)))
    with pytest.raises(ValueError, match="graph has 2 features per node, but the model was fitted with 5"):
        saved(fit(), tmp_path).predict([0], graph=other)


def test_parameters_of_a_fitted_model_are_saved_as_they_were_at_the_fit(tmp_path: Path) -> None:
    model = fit(aggregation=Lazy(mixing=0.25), rule="samme_r")
    model.set_params(aggregation__mixing=0.75, rule="samme", propagation="laplacian", n_rounds=9)
    loaded = saved(model, tmp_path)
    assert (loaded.aggregation.mixing, loaded.rule, loaded.propagation) == (0.25, "samme_r", "augmented")
    assert (loaded.n_rounds, loaded.random_state) == (4, 0)
    assert loaded.predict_proba(NODES, graph=GRAPH).tobytes() == model.predict_proba(NODES).tobytes()


def test_a_loaded_model_does_not_go_on_unasked(tmp_path: Path) -> None:
    """Whoever loads a model and fits other data wants other rounds."""
    loaded = saved(fit(warm_start=True), tmp_path)
    assert loaded.warm_start is False
    other, y = two_blocks(30, n_classes=2, seed=8)
    loaded.fit(np.arange(20), y[:20], graph=other)
    fresh = GBGNNClassifier(learner=MLP(epochs=5, units=8), n_rounds=4, random_state=0)
    fresh.fit(np.arange(20), y[:20], graph=other)
    assert loaded.scores_.tobytes() == fresh.scores_.tobytes()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"aggregation": Lazy(mixing=np.float64(0.25)), "learner": MLP(epochs=np.int64(5), units=8)},
        {"rule": "samme", "learner": MLP(epochs=30), "class_weight": {"ant": 1.0, "bee": 2.0, "cat": 3.0}},
        {"rule": FunctionalGradient(loss="softmax"), "feature_norm": "l2", "dtype": "float64"},
        {"propagation": GRAPH.adjacency.toarray() / 10},
        {"propagation": GRAPH.adjacency / 10},
        {"learning_rate": 0.2, "aggregation": "kta"},
        {"learner": "wide"},  # which has something to say of its training
        {"rule": FunctionalGradient(min_cosine=0.1)},  # which asks several learners
        {"learner": BoostedTrees(library="sklearn", n_trees=5)},
    ],
    ids=["plain", "numbers", "samme", "loss", "dense P", "sparse P", "kta", "wide", "retry", "trees"],
)
def test_a_loaded_model_goes_on_as_if_it_had_never_been_saved(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    loaded = saved(fit(n_rounds=2, **settings), tmp_path).set_params(warm_start=True, n_rounds=4)
    loaded.fit(TRAIN, NAMES[TRAIN], graph=two_blocks(40, n_classes=3)[0])
    assert len(loaded.ensemble_) == 4
    loaded.save(tmp_path / "resumed.gbgnn")
    fit(**settings).save(tmp_path / "whole.gbgnn")
    assert (tmp_path / "resumed.gbgnn").read_bytes() == (tmp_path / "whole.gbgnn").read_bytes()


def test_a_loaded_model_goes_on_with_the_graph_and_data_of_the_fit_only(tmp_path: Path) -> None:
    loaded = saved(fit(n_rounds=2), tmp_path).set_params(warm_start=True)
    other, _ = two_blocks(40, n_classes=3, seed=1)
    with pytest.raises(ParameterError, match="depend on the graph, and that has changed"):
        loaded.fit(TRAIN, NAMES[TRAIN], graph=other)
    with pytest.raises(ParameterError, match="depend on labelled nodes, and that has changed"):
        loaded.fit(TRAIN + 1, NAMES[TRAIN], graph=GRAPH)
    with pytest.raises(ParameterError, match=r"depend on learner, .*units=8.*, and is .*units=3"):
        loaded.set_params(learner__units=3).fit(TRAIN, NAMES[TRAIN], graph=GRAPH)


def test_a_model_that_is_loaded_and_saved_again_still_knows_its_graph(tmp_path: Path) -> None:
    once = saved(fit(n_rounds=2), tmp_path)
    twice = saved(once, tmp_path).set_params(warm_start=True, n_rounds=4)
    assert twice.predict_proba(NODES).tobytes() == fit(n_rounds=2).predict_proba(NODES).tobytes()
    assert twice.fit(TRAIN, NAMES[TRAIN], graph=GRAPH).scores_.tobytes() == fit().scores_.tobytes()


@pytest.mark.parametrize("metric", ["auto", "accuracy", "f1_macro", "neg_log_loss"])
def test_a_metric_by_name_survives(metric: str, tmp_path: Path) -> None:
    model = fit(metric=metric)
    loaded = saved(model, tmp_path)
    assert loaded.metric == metric
    assert loaded.history_.metric == loaded.metric_.name == model.metric_.name
    assert loaded.model_.evaluate(NODES, NAMES) == model.model_.evaluate(NODES, NAMES)


def test_of_a_metric_of_the_users_own_the_name_survives(tmp_path: Path) -> None:
    model = fit(metric=make_scorer(fbeta_score, beta=2, average="macro"))
    loaded = saved(model, tmp_path)
    assert loaded.metric == loaded.metric_.name == "fbeta_score"
    assert loaded.history_["train_fbeta_score"] == model.history_["train_fbeta_score"]
    assert loaded.predict_proba(NODES).tobytes() == model.predict_proba(NODES).tobytes()
    with pytest.raises(
        ParameterError, match="'fbeta_score' cannot judge .* it is a function that a model file does not hold"
    ):
        loaded.model_.evaluate(NODES, NAMES)
    with pytest.raises(ParameterError, match="unknown metric 'fbeta_score'"):
        loaded.fit(TRAIN, NAMES[TRAIN], graph=GRAPH)
    assert saved(loaded, tmp_path).metric_.name == "fbeta_score"


@pytest.mark.parametrize("kept", ["tuned", "boosted"])
def test_a_fine_tuned_model_comes_back_as_it_votes(kept: str, tmp_path: Path) -> None:
    tuner = FineTuner(epochs=3, keep="tuned", learning_rate=1e-3 if kept == "tuned" else float("1e30"))
    settings = {"rule": "samme", "learner": MLP(epochs=30), "fine_tune": tuner}
    if kept == "boosted":
        with pytest.warns(UserWarning, match="diverged"):
            model = fit(**settings)
    else:
        model = fit(**settings)
    assert model.fine_tuning_["kept"] == kept
    loaded = saved(model, tmp_path)
    assert loaded.is_soft_ == model.is_soft_ == (kept == "tuned")
    assert loaded.fine_tuning_["kept"] == kept
    assert loaded.fine_tune.get_params() == tuner.get_params() | {"moves": list(tuner.moves)}
    told = [m.predict_proba(NODES, graph=GRAPH).tobytes() for m in (model, loaded)]
    assert told[0] == told[1]


def test_a_model_is_saved_as_well_as_its_estimator(tmp_path: Path) -> None:
    """The rounds so far, as a callback has them."""
    model = dataclasses.replace(fit().model_, best_round=2)
    save(model, tmp_path / "m.gbgnn")
    loaded = gbgnn.load(tmp_path / "m.gbgnn")
    assert (loaded.best_round_, len(loaded.ensemble_)) == (2, 4)
    assert loaded.model_.settings["n_rounds"] == 4


def test_a_model_of_a_device_that_is_not_here_is_loaded_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    fit(device="cpu").save(tmp_path / "m.gbgnn")
    rewrite(tmp_path / "m.gbgnn", lambda header: header["inputs"].update(device="cuda:3"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    loaded = gbgnn.load(tmp_path / "m.gbgnn")
    assert loaded.inputs_.device == torch.device("cpu")
    assert loaded.predict(NODES, graph=GRAPH).shape == (40,)


def old_graphs(name: str) -> tuple[Graph, Graph]:
    """The graph of the fit, and the other one that was predicted (see data/format2/README.md)."""
    if name == "karate":
        graph = datasets.load("karate").graph
        return graph, graph
    graph, _ = two_blocks(24, n_classes=3, n_features=3)
    if name == "given":
        return graph, Graph(graph.adjacency, np.asarray(graph.features)[::-1].copy())
    return graph, two_blocks(15, n_classes=3, seed=7, n_features=3)[0]


def check_old(model: GBGNNClassifier, name: str) -> None:
    """See that a model says what the code that wrote it said."""
    expected, (graph, other) = EXPECTED[name], old_graphs(name)
    nodes = np.arange(graph.n_nodes)
    assert model.classes_.tolist() == expected["classes"]
    assert (model.best_round_, str(model.stop_reason_)) == (expected["best_round"], expected["stop_reason"])
    assert model.is_soft_ == expected["is_soft"]
    assert model.etas_.tolist() == expected["etas"]
    assert model.predict(nodes).tolist() == expected["predict"]
    close = {"rtol": 1e-6, "atol": 1e-6}
    np.testing.assert_allclose(model.predict_proba(nodes), expected["proba"], **close)
    np.testing.assert_allclose(model.decision_function(nodes), expected["decision"], **close)
    staged = list(model.staged_predict_proba(nodes, graph=graph))
    np.testing.assert_allclose(staged, expected["staged"], **close)
    on_other = model.predict_proba(np.arange(other.n_nodes), graph=other)
    np.testing.assert_allclose(on_other, expected["other"], **close)
    again = model.predict_proba(nodes, graph=graph)
    np.testing.assert_allclose(again, expected["proba"], **close)
    rounds = [[r.gamma_total, r.guaranteed, r.actual] for r in model.certificate_.rounds]
    np.testing.assert_allclose(rounds, expected["certificate"], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", EXPECTED)
def test_files_of_format_2_are_read_and_predict_the_same(name: str, tmp_path: Path) -> None:
    path = OLD / f"{name}.gbgnn"
    assert read_header(path)["format_version"] == 2
    model = gbgnn.load(path)
    check_old(model, name)
    model.save(tmp_path / "new.gbgnn")
    assert read_header(tmp_path / "new.gbgnn")["format_version"] == 3
    check_old(gbgnn.load(tmp_path / "new.gbgnn"), name)


def test_files_of_format_2_bring_their_settings(tmp_path: Path) -> None:
    assert gbgnn.load(OLD / "labels.gbgnn").rule.target == "labels"
    assert gbgnn.load(OLD / "labels.gbgnn").scores_.dtype == np.float64
    samme = gbgnn.load(OLD / "samme.gbgnn")
    assert samme.class_weight == {"ant": 1.0, "bee": 2.0, "cat": 1.5}
    assert (samme.metric, samme.metric_.name) == ("auto", "accuracy")
    assert gbgnn.load(OLD / "soft_samme.gbgnn").fine_tuning_["kept"] == "tuned"
    assert gbgnn.load(OLD / "sigmoid.gbgnn").scores_.shape == (24, 1)
    assert gbgnn.load(OLD / "gradient.gbgnn").inputs_.feature_norm == "l2"


def test_files_of_format_2_are_not_gone_on_with(tmp_path: Path) -> None:
    """They do not say on what their rounds were trained; a fit from the start works as with any model."""
    graph, y = two_blocks(24, n_classes=3, n_features=3)
    train = np.arange(12)
    for path in (OLD / "given.gbgnn", tmp_path / "again.gbgnn"):
        model = gbgnn.load(path).set_params(warm_start=True, n_rounds=5)
        with pytest.raises(ParameterError, match="of a file of format 2, which does not say on what"):
            model.fit(train, y[train], graph=graph)
        model.save(tmp_path / "again.gbgnn")
    assert len(model.set_params(warm_start=False).fit(train, y[train], graph=graph).ensemble_) == 5
