from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from sklearn.tree import DecisionTreeClassifier

import gbgnn
from gbgnn import (
    MLP,
    BoostedTrees,
    ConstrainedMLP,
    FineTuner,
    FunctionalGradient,
    GBGNNClassifier,
    Graph,
    GraphNetwork,
    PropagatedResiduals,
    RandomWalk,
    Stages,
)
from gbgnn.aggregation import Adjacency, Hop
from gbgnn.boosting import Round
from gbgnn.errors import MissingDependencyError, ParameterError
from gbgnn.export import _make_model, export_onnx
from gbgnn.learners import TreesHead
from gbgnn.learners.tree_head import AveragedTrees
from gbgnn.testing import learner_round, two_blocks

PAGE = (Path(__file__).parent.parent / "docs" / "export.md").read_text()
GUIDE: dict[str, Any] = {"__name__": "guide"}  # the functions that the guide shows
exec(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[0], GUIDE)

GRAPH, Y = two_blocks(90, n_classes=3)
TRAIN, NODES = np.arange(45), np.arange(90)
LIBRARIES = ("sklearn", "lightgbm", "xgboost")


def fit(learner: Any, y: np.ndarray = Y, graph: Graph = GRAPH, **settings: Any) -> GBGNNClassifier:
    chosen = {"n_rounds": 3, "random_state": 0} | settings
    return GBGNNClassifier(learner=learner, **chosen).fit(TRAIN, y[TRAIN], graph=graph)


def run(path: Path, rows: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (output,) = session.run(["output"], {"X": rows})
    return np.asarray(output)


def check_heads(model: GBGNNClassifier, folder: Path) -> None:
    """Raise unless the files say of the same rows what the heads say."""
    inputs = model.model_.build_inputs()
    X = inputs.features
    for trained in model.ensemble_[: model.best_round_]:
        X = trained.hop(X, inputs)
        path = folder / f"round_{trained.t:02d}.onnx"
        onnx.checker.check_model(onnx.load(path), full_check=True)
        expected = trained.kept_head().evaluate(X)
        output = run(path, X.dense().numpy())
        assert output.dtype == expected.numpy().dtype
        np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)


def check_scores(model: GBGNNClassifier, folder: Path, graph: Graph = GRAPH) -> None:
    """Raise unless the guide's NumPy, and the document, give the scores of the model."""
    scores = GUIDE["predict_scores"](folder, graph.adjacency, np.asarray(graph.features))
    nodes = np.arange(graph.n_nodes)
    expected = model.model_.find_scores(nodes, graph=graph).numpy()
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "learner",
    [
        MLP(hidden_layers=0, epochs=5),
        MLP(hidden_layers=2, units=8, epochs=5),
        MLP(hidden_layers=2, units=8, epochs=5, norm="layer", scale_by="columns"),
        ConstrainedMLP(epochs=5),
        *(BoostedTrees(library=name, n_trees=6) for name in LIBRARIES),
    ],
    ids=repr,
)
def test_files_give_what_the_heads_give_and_the_guide_the_scores(tmp_path, learner: Any, dtype: str) -> None:
    model = fit(learner, dtype=dtype)
    paths = export_onnx(model, tmp_path / "out")
    assert [path.name for path in paths[:-1]] == [f"round_{t + 1:02d}.onnx" for t in range(model.best_round_)]
    check_heads(model, tmp_path / "out")
    if "xgboost" in repr(learner) and dtype == "float32":
        return  # its thresholds are values of rows, which another order of sums rounds to their other side
    check_scores(model, tmp_path / "out")
    check_scores(model, tmp_path / "out", two_blocks(50, n_classes=3)[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("label_share", [0.0, 0.5])
def test_a_graph_network_is_one_file_with_the_entries_of_p(tmp_path, dtype: str, label_share: float) -> None:
    learner = Stages(
        first=MLP(epochs=5), then=GraphNetwork(epochs=5, depth=3, units=8, label_share=label_share)
    )
    model = fit(learner, dtype=dtype, n_rounds=2, propagation="random_walk")
    paths = export_onnx(model, tmp_path)
    names = ["round_01.onnx", "round_02.onnx", "columns_02.npz", "propagation.json"]
    assert [path.name for path in paths] == names
    said = json.loads(paths[-1].read_text())
    assert said["rounds"][1]["n_labels"] == (4 if label_share else 0)
    assert any("P_rows" in step for step in said["steps"])
    graph = two_blocks(50, n_classes=3)[0]  # of which no label is known
    inputs, P = model.model_.build_inputs(graph), RandomWalk().build(graph.adjacency).to_scipy().tocoo()
    with np.load(paths[2]) as maps:
        own = np.column_stack([np.asarray(graph.features), np.log1p(np.diff(graph.adjacency.indptr))])
        X = np.column_stack([np.interp(*each) for each in zip(own.T, *maps.values(), strict=True)])
    X = np.hstack([X, np.zeros((50, said["rounds"][1]["n_labels"]))]).astype(dtype)
    onnx.checker.check_model(onnx.load(paths[1]), full_check=True)
    session = onnxruntime.InferenceSession(paths[1], providers=["CPUExecutionProvider"])
    entries = {"P_rows": P.row.astype(np.int64), "P_columns": P.col.astype(np.int64)}
    (output,) = session.run(["output"], {"X": X, **entries, "P_values": P.data.astype(dtype)})
    expected = model.ensemble_[1].kept_head().evaluate(inputs.features, inputs)
    np.testing.assert_allclose(output, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("learner", "words"),
    [
        (
            GraphNetwork(epochs=3, depth=1, units=4, mixing="both"),
            "graph network of round 1 cannot be written",
        ),
        (PropagatedResiduals(), "learner of round 1, a ResidualsHead, cannot be written"),
    ],
)
def test_learners_along_the_graph_without_a_form_say_so(tmp_path, learner, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        export_onnx(fit(learner, n_rounds=1, propagation="random_walk"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("rule", ["samme", "samme_r", FunctionalGradient(target="labels")], ids=repr)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_voting_and_number_of_classes(tmp_path, library: str, rule: Any, n_classes: int) -> None:
    graph, y = two_blocks(90, n_classes=n_classes)
    model = fit(BoostedTrees(library=library, n_trees=4), y, graph, rule=rule, dtype="float64")
    export_onnx(model.model_, tmp_path)
    check_heads(model, tmp_path)
    check_scores(model, tmp_path, graph)


@pytest.mark.parametrize(
    "settings",
    [
        {"aggregation": "injection"},
        {"aggregation": "lazy", "propagation": "random_walk"},
        {"aggregation": "kta", "propagation": "normalized"},
        {"aggregation": "linear"},
        {"aggregation": "nonlinear"},
        {"propagation": "laplacian", "feature_norm": "l2"},
        {"propagation": gbgnn.RandomWalk(self_loops=True), "feature_norm": "l1"},
        {"propagation": "given"},
        {"fine_tune": FineTuner(epochs=3), "rule": "samme"},
    ],
    ids=str,
)
def test_every_hop_and_matrix(tmp_path, settings: dict[str, Any]) -> None:
    model = fit(MLP(epochs=5, units=8), **settings)
    paths = export_onnx(model, tmp_path)
    assert all(path.exists() for path in paths)
    check_scores(model, tmp_path)


def test_missing_values_take_the_same_way(tmp_path) -> None:
    random = np.random.default_rng(0)
    rows = torch.tensor(random.normal(size=(60, 4)), dtype=torch.float32)
    rows[torch.rand(60, 4, generator=torch.Generator().manual_seed(0)) < 0.3] = torch.nan
    for library in LIBRARIES:
        head = BoostedTrees(library=library, n_trees=5).fit(learner_round(rows, torch.arange(60) % 3))
        proto = _make_model(Round(1, Adjacency().hop(), head, 1.0), torch.float32)
        onnx.save_model(proto, str(tmp_path / f"{library}.onnx"))
        output = run(tmp_path / f"{library}.onnx", rows.numpy())
        np.testing.assert_allclose(output, head(rows), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_averages_are_one_sum_of_trees(tmp_path, library: str, n_classes: int) -> None:
    rows = torch.tensor(np.random.default_rng(0).normal(size=(60, 4)), dtype=torch.float32)
    targets = torch.arange(60) % n_classes if n_classes else rows[:, :2] * rows[:, 2:]
    narrow, wide = (
        BoostedTrees(library=library, n_trees=5).fit(learner_round(rows[:, :n], targets)).models
        for n in (2, 4)
    )
    head = TreesHead([AveragedTrees(0.3, narrow), AveragedTrees(0.7, wide)], n_classes or 2, 4)
    proto = _make_model(Round(1, Adjacency().hop(), head, 1.0), torch.float32)
    onnx.save_model(proto, str(tmp_path / "mean.onnx"))
    np.testing.assert_allclose(run(tmp_path / "mean.onnx", rows.numpy()), head(rows), rtol=1e-5, atol=1e-5)


def test_the_document_says_all_that_it_takes(tmp_path) -> None:
    model = fit(BoostedTrees(n_trees=4), aggregation="injection")
    export_onnx(model, tmp_path)
    said = json.loads((tmp_path / "propagation.json").read_text())
    assert said["n_features"] == 5
    assert said["propagation"]["name"] == "augmented"
    assert "(A + I)" in said["propagation"]["matrix"]
    assert said["task"]["name"] == "classification"
    assert said["voting"] == {"name": "outputs", "direction": "f = output", "n_outputs": 3}
    assert [row["eta"] for row in said["rounds"]] == list(model.etas_[: model.best_round_])
    assert said["rounds"][1]["hop"] == {
        "name": "polynomial",
        "powers": [1],
        "coefficients": [0.9],
        "injection": pytest.approx(0.1),
    }


def test_what_has_no_form_is_refused_and_nothing_written(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fit(DecisionTreeClassifier(max_depth=2), rule="samme")
    with pytest.raises(ParameterError, match="round 1, a DecisionTreeClassifier, cannot be written as ONNX"):
        export_onnx(model, tmp_path / "out")
    bare = fit(MLP(epochs=2), keep_learners=False)
    with pytest.raises(ParameterError, match="learners were not kept"):
        export_onnx(bare, tmp_path / "out")
    monkeypatch.setattr("gbgnn.learners.trees.find_categories", lambda context: np.eye(5)[0] > 0)
    features = np.asarray(GRAPH.features).copy()
    features[:, 0] = Y
    split = fit(BoostedTrees(n_trees=4), graph=Graph(GRAPH.adjacency, features))
    with pytest.raises(ParameterError, match="trees of round 1 split by categories"):
        export_onnx(split, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_hop_of_another_kind_is_refused(tmp_path) -> None:
    class Turn(Hop):
        def __call__(self, X, inputs):
            return X

        def record(self):
            return {}

        @classmethod
        def from_record(cls, record, state):
            return cls()

    class Turns(Adjacency):
        def fit(self, context):
            return Turn()

    model = fit(MLP(epochs=5), aggregation=Turns(), select="last")
    with pytest.raises(ParameterError, match="the hop of round 2, a Turn, has no form"):
        export_onnx(model, tmp_path / "out")


def test_a_folder_with_something_in_it_is_left_alone(tmp_path) -> None:
    model = fit(MLP(epochs=2))
    (tmp_path / "mine.txt").write_text("mine")
    for place in (tmp_path, tmp_path / "mine.txt"):
        with pytest.raises(ParameterError, match="is there already, and not an empty folder"):
            export_onnx(model, place)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_onnx_missing_is_said(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fit(MLP(epochs=2))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        MissingDependencyError, match=r'exporting to ONNX needs onnx: pip install "gbgnn\[onnx\]"'
    ):
        export_onnx(model, tmp_path / "out")
