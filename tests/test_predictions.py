from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from gbgnn import MLP, GBGNNClassifier, Graph, predictions_frame, predictor
from gbgnn.errors import ParameterError
from gbgnn.predictions import predict_columns
from gbgnn.testing import two_blocks

GRAPH, Y = two_blocks(20, n_classes=2)
NAMED = Graph(GRAPH.adjacency, GRAPH.features, node_ids=[f"n{i}" for i in range(20)])


def _fitted(y: np.ndarray = Y, **settings: object) -> GBGNNClassifier:
    small = {"n_rounds": 2, "learner": MLP(epochs=5, units=4), "random_state": 0}
    return GBGNNClassifier(**{**small, **settings}).fit(np.arange(10), y[:10], graph=GRAPH)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_frames_of_every_kind_hold_ids_labels_and_probabilities(kind: str) -> None:
    pytest.importorskip("pyarrow" if kind == "arrow" else kind)
    model = _fitted()
    frame = predictions_frame(
        model, [3, 1], ids=NAMED.node_ids, class_names={"0": "no", "1": "yes"}, kind=kind
    )
    columns = (
        frame.to_pydict() if kind == "arrow" else {name: frame[name].to_list() for name in frame.columns}
    )
    assert list(columns) == ["node", "label", "proba_no", "proba_yes"]
    assert columns["node"] == ["n3", "n1"]
    assert columns["label"] == np.array(["no", "yes"])[model.predict([3, 1])].tolist()
    assert columns["proba_yes"] == pytest.approx(model.predict_proba([3, 1])[:, 1])


def test_without_names_labels_are_themselves_and_nodes_are_counted() -> None:
    model = _fitted()
    columns = predict_columns(model.model_)
    assert columns["node"].tolist() == list(range(20))
    assert columns["label"].tolist() == model.predict(range(20)).tolist()
    other = predict_columns(model, graph=NAMED)
    assert other["node"].tolist() == [f"n{i}" for i in range(20)]
    assert other["proba_0"] == pytest.approx(columns["proba_0"], abs=1e-6)


def test_numbers_have_one_column_and_several_are_numbered() -> None:
    def predict_blocks(rows: np.ndarray, graph: Graph | None) -> Iterator[dict[str, np.ndarray]]:
        yield {"predict": rows / 2}

    numbers = SimpleNamespace(n_nodes=4, predict_blocks=predict_blocks)
    assert {k: v.tolist() for k, v in predict_columns(numbers, [0, 3]).items()} == {
        "node": [0, 3],
        "prediction": [0, 1.5],
    }
    both = np.stack([Y, 1 - Y], axis=1)
    model = _fitted(both, task="multilabel")
    assert list(predict_columns(model, [0])) == ["node", "label_0", "label_1", "proba_0", "proba_1"]


def test_mistakes_are_named() -> None:
    model = _fitted()
    with pytest.raises(ParameterError, match="ids has 3 entries, but the graph has 20 nodes"):
        predictions_frame(model, ids=[1, 2, 3])
    with pytest.raises(ParameterError, match=r"kind must be one of pandas, polars, arrow; got 'panda'"):
        predictions_frame(model, kind="panda")


def test_blocks_of_rows_are_the_frame_cut(monkeypatch) -> None:
    monkeypatch.setattr(predictor, "_ROWS", 2)
    model = _fitted().model_
    whole = model.predict_all(range(20))
    blocks = list(model.predict_blocks(range(20)))
    assert [len(block["predict"]) for block in blocks] == [8, 8, 4]
    for name, values in whole.items():
        assert np.array_equal(np.concatenate([block[name] for block in blocks]), values)
    assert {name: len(values) for name, values in predict_columns(model, []).items()} == dict.fromkeys(
        ("node", "label", "proba_0", "proba_1"), 0
    )
