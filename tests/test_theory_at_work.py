"""The theory example: its numbers are the library's, its committed page is made from committed numbers."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from gbgnn import generalisation_bound
from gbgnn.propagation import Propagator
from gbgnn.testing import path4
from gbgnn.theory import partition_term

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("theory_at_work")


@pytest.fixture
def report(example: ModuleType) -> ModuleType:
    return importlib.import_module("theory_at_work_report")


@pytest.fixture
def committed() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((EXAMPLES / "results" / "theory_at_work.json").read_text())
    return found


def test_total_by_count_is_the_generalisation_bound(example: ModuleType) -> None:
    graph, y = example.draw_graph(400, seed=3)
    train, _, _ = example.draw_nodes(len(y), seed=3)
    model = example.boost(graph, y, train, n_rounds=4)
    rows, facts = example.promises_and_outcomes(model, y, train, n_draws=32)
    bound = generalisation_bound(model, complexity="monte_carlo", n_draws=32, form="corrected", steps="fixed")
    assert rows[-1]["margin_error"] == bound.training
    assert rows[-1]["total_counted"] == pytest.approx(bound.total)
    assert rows[-1]["train_error"] == pytest.approx(1 - model.score(train, y[train]))
    others = np.setdiff1d(np.arange(len(y)), train)
    assert rows[-1]["test_error"] == pytest.approx(1 - model.score(others, y[others]))
    assert facts["any_steps"]["total"] > bound.total


def test_graph_is_connected_and_its_features_centred(example: ModuleType) -> None:
    graph, y = example.draw_graph(3000, seed=0)
    assert graph.n_isolated == 0
    assert len(y) == graph.n_nodes < 3000
    assert np.abs(graph.features.mean(axis=0)).max() < 1e-6


def test_labelled_nodes_are_drawn_uniformly(example: ModuleType) -> None:
    draws = [example.draw_nodes(21, seed) for seed in range(2000)]
    for parts in draws[:10]:
        assert sorted(np.concatenate(parts)) == list(range(21))
    share = np.bincount(np.concatenate([train for train, _, _ in draws])) / len(draws)
    np.testing.assert_allclose(share, 10 / 21, atol=5 * 0.5 / np.sqrt(len(draws)))


def test_gradient_of_a_hop_is_that_of_the_dense_product(example: ModuleType) -> None:
    P = example.AugmentedAdjacency().build(path4().adjacency)
    dense = torch.tensor(P.toarray(), dtype=torch.float64)
    first, second = (torch.randn(len(dense), 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    second.data.copy_(first)
    out = example.Hop.apply(Propagator(P, dtype=torch.float64), first)
    torch.testing.assert_close(out, dense @ second)
    out.square().sum().backward()
    (dense @ second).square().sum().backward()
    torch.testing.assert_close(first.grad, second.grad)


def test_committed_run_kept_every_promise_and_every_bound(committed: dict[str, Any]) -> None:
    large, splits = committed["large"], committed["small"]["splits"]
    assert [r["round"] for r in large["rounds"]] == list(range(1, 101))
    for r in large["rounds"]:
        assert r["kept"] >= r["promised"]
        assert r["training_bound"] is None or r["training_bound"] >= r["margin_error"]
        assert r["total_counted"] >= r["test_error"]
    for run in (large, *splits):
        assert run["certificate_holds"]
        assert 1 > run["any_steps"]["total"] >= run["rounds"][-1]["test_error"]
    assert len(splits) == 5


def test_committed_page_is_made_from_the_committed_numbers(
    committed: dict[str, Any], report: ModuleType
) -> None:
    assert (EXAMPLES / "results" / "theory_at_work.md").read_text() == report.page(committed)
    assert f"{partition_term(140, 2568):.2f}" == "0.45"  # as the page says


def test_figure_has_a_panel_per_question(committed: dict[str, Any], report: ModuleType) -> None:
    pytest.importorskip("matplotlib")
    titles = [axes.get_title(loc="left") for axes in report.figure(committed).axes]
    assert [title.split()[0] for title in titles if title] == ["Training", "Bound", "Error,", "Distance"]
