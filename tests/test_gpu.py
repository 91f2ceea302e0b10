"""The same call on a GPU. CI has none: benchmarks/gpu.py compares too, and its results are committed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn import Beside, BoostedTrees, FineTuner, GBGNNClassifier, Graph, GraphNetwork, Stages, datasets

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
    pytest.mark.filterwarnings("ignore:WideReLU came within"),
]
DATA = datasets.csbm(n_nodes=2000, n_classes=3, n_features=16, seed=0)


def fit(device: str, graph: Graph = DATA.graph, **settings: object) -> GBGNNClassifier:
    model = GBGNNClassifier(random_state=0, device=device, **settings)
    return model.fit(DATA.train, DATA.y[DATA.train], graph=graph)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"aggregation": "kta"},
        {"aggregation": "linear"},
        {"aggregation": Beside(statistics=("mean", "max", "sum"), directions="both")},
        {"aggregation": "learned", "n_rounds": 3},
        {"aggregation": "learned", "n_rounds": 3, "fine_tune": FineTuner(epochs=10, memory_limit="20MB")},
        {"rule": "samme_r"},
        {"learner": "constrained"},
        {"learner": "wide"},
        {"learner": GraphNetwork(epochs=40), "propagation": "random_walk", "n_rounds": 2},
        {
            "learner": Stages(
                first=BoostedTrees(library="sklearn"), then=GraphNetwork(dropout=0.0, label_share=0.0)
            ),
            "n_rounds": 2,
        },
        {"fine_tune": True},
        {"fine_tune": True, "aggregation": "kta", "rule": "samme"},
        {"fine_tune": FineTuner(batch_size=20, memory_limit="4MB"), "aggregation": "lazy", "rule": "samme_r"},
    ],
    ids=repr,
)
def test_gpu_agrees_with_cpu_and_with_itself(settings: dict[str, object]) -> None:
    nodes = np.arange(DATA.graph.n_nodes)
    first, second, on_cpu = fit("cuda", **settings), fit("cuda", **settings), fit("cpu", **settings)
    assert first.scores_.tobytes() == second.scores_.tobytes()
    assert (first.predict(nodes) == on_cpu.predict(nodes)).mean() > 0.95
    assert first.predict_proba(nodes, graph=DATA.graph).tobytes() == first.predict_proba(nodes).tobytes()


def test_scores_stay_on_the_device_and_a_model_can_leave_it() -> None:
    nodes, model = np.arange(DATA.graph.n_nodes), fit("cuda").model_
    assert model.score_tensor.device.type == model.train.rows.device.type == "cuda"
    moved = model.with_device(torch.device("cpu"))
    assert moved.score_tensor.device.type == moved.train.rows.device.type == "cpu"
    np.testing.assert_allclose(moved.predict_proba(nodes), model.predict_proba(nodes), atol=1e-6)
    inductive = moved.predict_proba(nodes, graph=DATA.graph)
    np.testing.assert_allclose(inductive, model.predict_proba(nodes), atol=1e-2)


@pytest.mark.parametrize("memory_limit", ["2GB", "1MB"])
def test_sparse_features_are_tuned_on_a_gpu_as_on_a_cpu(memory_limit: str) -> None:
    hidden = np.where(np.abs(DATA.graph.features) > 1.7, DATA.graph.features, 0)  # one entry in ten stays
    graph = Graph(DATA.graph.adjacency, sp.csr_array(hidden))
    settings = {"aggregation": "kta", "dtype": "float64", "n_rounds": 5}
    settings["fine_tune"] = FineTuner(epochs=5, memory_limit=memory_limit, keep="tuned")
    on_gpu, on_cpu = (fit(device, graph, **settings) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(on_gpu.scores_, on_cpu.scores_, rtol=1e-6, atol=1e-6)
