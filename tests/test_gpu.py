"""The same call on a GPU. CI has none: benchmarks/gpu.py compares too, and its results are committed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gbgnn import FineTuner, GBGNNClassifier, datasets

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]
DATA = datasets.csbm(n_nodes=2000, n_classes=3, n_features=16, seed=0)


def fit(device: str, **settings: object) -> GBGNNClassifier:
    model = GBGNNClassifier(random_state=0, device=device, **settings)
    return model.fit(DATA.train, DATA.y[DATA.train], graph=DATA.graph)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"aggregation": "kta"},
        {"aggregation": "linear"},
        {"rule": "samme_r"},
        {"learner": "constrained"},
        {"learner": "wide"},
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
