from __future__ import annotations

import numpy as np
import torch

from gbgnn import GBGNNClassifier
from gbgnn.dask.scores import advance, predict_chunk


def fitted(make_graph):
    graph = make_graph()
    y = (graph.features[:, 0] > 0).astype(int)
    model = GBGNNClassifier(n_rounds=2, preset="fast", aggregation="identity", random_state=0)
    return model.fit(np.arange(30), y[:30], graph=graph).model_, graph


def test_scores_of_rows_advance_as_those_of_all_nodes(make_graph) -> None:
    model, graph = fitted(make_graph)
    scores, some = None, None
    ids = np.array([3, 50])
    for trained in model.ensemble:
        scores = advance(scores, graph.features, None, torch.float32, trained, model.voting)
        some = advance(some, graph.features, ids, torch.float32, trained, model.voting)
    assert np.allclose(scores, model.scores, atol=1e-6)
    assert np.allclose(some, model.scores[ids], atol=1e-6)


def test_a_chunk_is_predicted_as_by_the_model(make_graph) -> None:
    model, _ = fitted(make_graph)
    frame = predict_chunk(model, model.scores[10:15], None, 10)
    assert frame["node"].tolist() == list(range(10, 15))
    assert frame["label"].tolist() == model.predict(np.arange(10, 15)).tolist()
    assert np.array_equal(frame["proba_1"], model.predict_proba(np.arange(10, 15))[:, 1])
    assert predict_chunk(model, model.scores[:2], np.array(["a", "b"]), 0)["node"].tolist() == ["a", "b"]
