from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeClassifier

import gbgnn
from gbgnn import MLP, GBGNNClassifier, Graph, InputInjection, KernelTargetAlignment
from gbgnn.aggregation import Linear, NonLinear
from gbgnn.errors import MissingDependencyError, ModelFileError
from gbgnn.persistence import read_header
from gbgnn.testing import two_blocks

GRAPH, Y = two_blocks(40, n_classes=3)
TRAIN = np.arange(20)
NODES = np.arange(40)


def fit(**settings: object) -> GBGNNClassifier:
    defaults = {"learner": MLP(epochs=5, units=8), "n_rounds": 4, "random_state": 0}
    names = np.array(["ant", "bee", "cat"])
    return GBGNNClassifier(**{**defaults, **settings}).fit(TRAIN, names[Y[TRAIN]], graph=GRAPH)


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
    rule=st.sampled_from(["gradient", "samme", "samme_r"]),
    hidden_layers=st.integers(0, 3),
    dtype=st.sampled_from(["float32", "float64"]),
    class_weight=st.sampled_from([None, "balanced", {"ant": 1.0, "bee": 2.0, "cat": 3.0}]),
    feature_norm=st.sampled_from([None, "l1", "l2"]),
)
def test_loaded_model_predicts_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, **settings_: object
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
    assert loaded.history_.rows == model.history_.rows
    assert loaded.class_weight == model.class_weight


def test_file_holds_no_pickle_and_a_readable_header(tmp_path: Path) -> None:
    fit().save(tmp_path / "m.gbgnn")
    header = read_header(tmp_path / "m.gbgnn")
    assert header["format_version"] == 2
    assert header["library_version"] == gbgnn.__version__
    assert header["classes"]["values"] == ["ant", "bee", "cat"]
    assert len(header["rounds"]) == 4


@pytest.mark.parametrize("aggregation", ["kta", "lazy", "injection", "adjacency", "identity"])
def test_loaded_hops_are_as_free_as_the_saved_ones(tmp_path: Path, aggregation: str) -> None:
    model = fit(aggregation=aggregation)
    model.save(tmp_path / "m.gbgnn")
    assert [r.hop for r in gbgnn.load(tmp_path / "m.gbgnn").ensemble_] == [r.hop for r in model.ensemble_]


def test_file_whose_hops_do_not_say_what_is_free_is_read(tmp_path: Path) -> None:
    path, model = tmp_path / "m.gbgnn", fit(aggregation="kta")
    model.save(path)
    rewrite(path, lambda header: [row["hop"]["record"].pop("free") for row in header["rounds"]])
    loaded = gbgnn.load(path)
    assert loaded.predict_proba(NODES).tobytes() == model.predict_proba(NODES).tobytes()
    assert {r.hop.free for r in loaded.ensemble_} == {None}


def test_own_matrix_is_stored_with_the_model(tmp_path: Path) -> None:
    model = fit(propagation=GRAPH.adjacency / 10)
    model.save(tmp_path / "m.gbgnn")
    loaded = gbgnn.load(tmp_path / "m.gbgnn")
    first, second = (list(m.staged_predict_proba(NODES, graph=GRAPH))[-1] for m in (model, loaded))
    assert first.tobytes() == second.tobytes()


def test_tree_model_is_saved_without_its_learners_only(tmp_path: Path) -> None:
    model = fit(learner=DecisionTreeClassifier(max_depth=2), rule="samme")
    with pytest.raises(
        ModelFileError, match="DecisionTreeClassifier cannot be stored without pickle.*learners=False"
    ):
        model.save(tmp_path / "m.gbgnn")
    assert list(tmp_path.iterdir()) == []  # nothing half-written
    model.save(tmp_path / "m.gbgnn", learners=False)
    loaded = gbgnn.load(tmp_path / "m.gbgnn")
    assert loaded.predict_proba(NODES).tobytes() == model.predict_proba(NODES).tobytes()
    with pytest.raises(ValueError, match="learners were not kept"):
        loaded.predict(NODES, graph=GRAPH)


def test_loaded_model_has_no_graph_and_says_so(tmp_path: Path) -> None:
    fit().save(tmp_path / "m.gbgnn")
    with pytest.raises(ValueError, match=r"loaded from a file, which does not hold its graph; pass graph="):
        list(gbgnn.load(tmp_path / "m.gbgnn").staged_predict(NODES))


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
        (lambda h: h.pop("classes"), True, "its header does not fit"),
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
    ids=["newer", "older", "checksum", "missing", "value", "hop name", "hop record", "part name", "version"],
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
    fit().save(tmp_path / "m.gbgnn")
    other = Graph(np.eye(3), np.ones((3, 2)))
    with pytest.raises(ValueError, match="graph has 2 features per node, but the model was fitted with 5"):
        gbgnn.load(tmp_path / "m.gbgnn").predict([0], graph=other)
