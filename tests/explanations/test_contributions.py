"""Parts sum to scores, whatever the model; what they are is checked against models taken apart by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.tree import DecisionTreeClassifier

from gbgnn import (
    MLP,
    BestOf,
    BoostedTrees,
    ConsistentNetwork,
    CrossFitted,
    FunctionalGradient,
    GBGNNClassifier,
    GBGNNRegressor,
    Graph,
    GraphNetwork,
    KernelTargetAlignment,
    Neighbourhood,
    PropagatedResiduals,
    Stages,
    load,
)
from gbgnn.errors import AbsentError, ParameterError
from gbgnn.explanations.scales import AVERAGE
from gbgnn.testing import two_blocks

N = 90
GRAPH, Y = two_blocks(N, n_classes=3, n_features=4)
TRAIN, VAL, NODES = np.arange(40), np.arange(40, 60), np.array([3, 70, 55, 3])
QUICK = MLP(units=6, epochs=15)
LOSS = FunctionalGradient(target="loss", learning_rate=1.0, retries=0)
SMALL_TREES = BoostedTrees(library="sklearn", n_trees=6, max_leaves=4, columns="all")
NETWORK = GraphNetwork(depth=2, units=8, epochs=20)
NEARBY = Neighbourhood(hops=2, targets=1, positions=2)


def fit(y: Any = Y, graph: Graph = GRAPH, **settings: Any) -> Any:
    kind = GBGNNRegressor if np.asarray(y).dtype.kind == "f" else GBGNNClassifier
    known = {"preset": "fast", "random_state": 0, "n_rounds": 3, "learner": QUICK, "select": "last"}
    model = kind(**known | settings)
    return model.fit(TRAIN, y[TRAIN], graph=graph, validation=(VAL, y[VAL]))


KINDS: dict[str, dict[str, Any]] = {
    "gradient": {},
    "samme": {"rule": "samme"},
    "samme_r": {"rule": "samme_r"},
    "labels": {"rule": FunctionalGradient(target="labels")},
    "learned polynomial": {"aggregation": KernelTargetAlignment(degree=2)},
    "injection": {"aggregation": "injection"},
    "injection, samme_r": {"aggregation": "injection", "rule": "samme_r"},
    "two hidden layers": {"aggregation": "lazy", "learner": MLP(units=5, hidden_layers=2, epochs=15)},
    "standardised units": {"aggregation": "lazy", "learner": MLP(units=5, norm="layer", epochs=15)},
    "linear": {"aggregation": "lazy", "learner": MLP(hidden_layers=0, epochs=15)},
    "beside": {"aggregation": "beside"},
    "mixed columns": {"aggregation": "linear"},
    "fine-tuned": {"aggregation": "injection", "fine_tune": True},
    "wide": {"learner": "wide"},
    "trees": {"learner": SMALL_TREES, "neighbourhood": NEARBY, "aggregation": "identity"},
    "trees on hops": {"learner": SMALL_TREES},
    "network on columns of neighbours": {
        "neighbourhood": Neighbourhood(hops=1, targets=0, positions=2),
        "aggregation": "lazy",
    },
    "trees, then a graph network": {
        "learner": Stages(first=SMALL_TREES, then=NETWORK),
        "rule": LOSS,
        "neighbourhood": NEARBY,
        "aggregation": "identity",
        "n_rounds": 2,
    },
    "cross-fitted trees, then residuals": {
        "learner": Stages(first=CrossFitted(inner=SMALL_TREES, n_folds=3), then=PropagatedResiduals()),
        "rule": LOSS,
        "neighbourhood": NEARBY,
        "aggregation": "identity",
        "n_rounds": 2,
    },
    "best of two": {
        "learner": BestOf(one=ConsistentNetwork(n_hops=3, units=8, epochs=20), other=NETWORK),
        "rule": LOSS,
        "aggregation": "identity",
        "n_rounds": 1,
    },
    "estimator of scikit-learn": {"learner": DecisionTreeClassifier(max_depth=2), "rule": "samme"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_parts_sum_to_scores_and_are_the_same_every_time(kind: str, tmp_path: Path) -> None:
    model = fit(**KINDS[kind])
    told, scores = model.contributions(NODES), model.scores_[NODES]
    size = np.abs(scores).max()
    assert told.by_round.shape == (4, model.best_round_, scores.shape[1])
    np.testing.assert_allclose(told.scores, scores, atol=2e-6 * size)
    assert told.values is not None, told.why_no_scales
    np.testing.assert_allclose(told.values.sum(axis=2), told.by_round, atol=1e-12 * size)
    assert told.remainder < 5e-3 * size
    assert sum(told.shares.values()) == pytest.approx(1)
    assert AVERAGE not in told.shares
    assert set(told.decided_by) <= set(told.scales)
    assert told.decided_by[0] == told.decided_by[3]
    again = model.contributions(NODES)
    assert again.by_round.tobytes() == told.by_round.tobytes()
    assert again.values.tobytes() == told.values.tobytes()
    if kind != "estimator of scikit-learn":
        model.save(tmp_path / "m.gbgnn")
        loaded = load(tmp_path / "m.gbgnn").contributions(NODES, graph=GRAPH)
        assert loaded.values.tobytes() == told.values.tobytes()
        with pytest.raises(ParameterError, match="loaded from a file"):
            load(tmp_path / "m.gbgnn").contributions(NODES)


def test_what_rounds_added_is_the_difference_of_stages() -> None:
    model = fit(aggregation="kta")
    told = model.contributions(NODES).by_round
    stages = np.array([scores.numpy() for _, scores in model.model_.stage(NODES)])
    steps = np.diff(stages, axis=0, prepend=0 * stages[:1])
    np.testing.assert_allclose(told, steps.transpose(1, 0, 2), atol=1e-6)


def test_where_a_round_sees_one_distance_all_of_it_is_of_that() -> None:
    for settings in ({}, {"rule": "samme"}, {"aggregation": "linear"}):
        told = fit(**settings).contributions(NODES)
        assert told.scales == ["own columns", "1 hop", "2 hops"]
        assert told.steps == [0, 1, 2]
        np.testing.assert_array_equal(told.by_scale, told.by_round)
        np.testing.assert_array_equal(told.values[:, 1, [0, 2]], 0)


def test_a_linear_model_is_taken_apart_by_its_weights() -> None:
    learner = MLP(hidden_layers=0, epochs=15)
    model = fit(aggregation="injection", learner=learner, n_rounds=2, dtype="float64")
    told, P = model.contributions(NODES), model.model_.build_inputs().P.to_scipy().toarray()
    X = GRAPH.features - GRAPH.features.mean(axis=0)
    expected = np.zeros_like(told.by_scale)
    coefficients = ((1.0,), (0.1, 0.9))
    for trained, own in zip(model.ensemble_, coefficients, strict=True):
        weight = trained.head.layers[0].weight.numpy()
        for k, share in enumerate(own):
            expected[:, k] += trained.eta * share * (np.linalg.matrix_power(P, k) @ X)[NODES] @ weight.T
    assert told.scales == ["own columns", "1 hop", AVERAGE]
    np.testing.assert_allclose(told.by_scale[:, :2], expected[:, :2], atol=1e-10)


def test_integrals_of_a_hidden_layer_are_those_of_many_small_steps() -> None:
    model = fit(aggregation="lazy", n_rounds=2, dtype="float64")
    told = model.contributions(NODES)
    second = model.ensemble_[1]
    P = model.model_.build_inputs().P.to_scipy().toarray()
    mean = GRAPH.features.mean(axis=0)
    heard = [0.5 * (GRAPH.features - mean), 0.5 * P @ (GRAPH.features - mean)]
    start = 0.5 * (1 + P.sum(axis=1))[:, None] * mean
    end = start + sum(heard)
    places = (np.arange(4000) + 0.5) / 4000
    for i, node in enumerate(NODES):
        rows = torch.tensor(start[node] + places[:, None] * (end - start)[node], requires_grad=True)
        for k in range(3):
            (slopes,) = torch.autograd.grad(second.head(rows)[:, k].sum(), rows)
            for scale in range(2):
                value = second.eta * float(slopes.numpy().mean(axis=0) @ heard[scale][node])
                assert told.values[i, 1, scale, k] == pytest.approx(value, abs=2e-3)


def test_trees_are_taken_apart_by_the_distance_of_their_columns() -> None:
    model = fit(**KINDS["trees"], random_state=1)
    told = model.contributions(NODES)
    assert told.scales is not None
    assert set(told.scales) <= {
        *("own columns", "1 hop", "2 hops", "labels nearby", "position in the graph", AVERAGE)
    }
    assert told.steps is not None
    assert told.steps[-1] is None


def test_a_graph_network_and_residuals_stay_whole() -> None:
    for kind, scale in (
        ("trees, then a graph network", "graph network"),
        ("cross-fitted trees, then residuals", "labels nearby"),
    ):
        told = fit(**KINDS[kind]).contributions(NODES)
        assert told.scales is not None
        at = told.scales.index(scale)
        np.testing.assert_allclose(told.values[:, 1, at], told.by_round[:, 1])


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"aggregation": "injection", "rule": "samme"}, "a round votes for one class"),
        ({"aggregation": "learned"}, "LearnedHop makes every column of several others"),
        ({"aggregation": "lazy", "learner": SMALL_TREES}, "split on sums over several hops"),
        (
            {"aggregation": "lazy", "learner": DecisionTreeClassifier(max_depth=2), "rule": "samme"},
            "SklearnHead of round 2 says is not known as a sum over columns",
        ),
    ],
)
def test_where_a_round_has_no_parts_that_is_said_and_rounds_are_there(
    settings: dict[str, Any], why: str
) -> None:
    model = fit(**settings)
    told = model.contributions(NODES)
    np.testing.assert_allclose(told.scores, model.scores_[NODES], rtol=1e-5, atol=1e-5)
    assert told.scales is None
    assert told.steps is None
    assert told.describe(0)["by_scale"] is None
    for ask in (lambda: told.by_scale, lambda: told.shares, lambda: told.decided_by, model.scale_shares):
        with pytest.raises(AbsentError, match=f"there are no contributions by scale: .*{why}"):
            ask()


def test_the_learners_must_have_been_kept() -> None:
    with pytest.raises(ParameterError, match="keep_learners=True"):
        fit(keep_learners=False).contributions(NODES)


def test_numbers_labels_and_two_classes_have_parts() -> None:
    numbers = fit(GRAPH.features[:, 0] * 3 + Y, aggregation="injection")
    told = numbers.contributions(NODES)
    assert told.outputs == ["y"]
    assert told.decided_by[0] in told.scales
    labels = np.stack([Y == 0, Y > 0, Y == 2], axis=1)
    several = fit(labels, task="multilabel").contributions(NODES)
    assert several.by_round.shape == (4, 3, 3)
    assert several.decided_by[0] in several.scales
    two = fit(np.where(Y == 1, "yes", "no"))
    found = two.contributions(NODES)
    assert found.outputs == ["yes"]
    assert (found.lead(found.by_round).sum(axis=1) >= 0).all()


def test_the_scale_that_decided_has_the_largest_part_in_the_lead() -> None:
    told = fit(aggregation="kta").contributions(NODES)
    scores = told.scores
    for i, decided in enumerate(told.decided_by):
        first, second = np.argsort(-scores[i])[:2]
        parts = dict(zip(told.scales, told.by_scale[i, :, first] - told.by_scale[i, :, second], strict=True))
        parts.pop(AVERAGE)
        assert decided == max(parts, key=lambda name: parts[name])
    silent = replace(told, values=-np.abs(told.values) * (np.arange(3) == scores.argmax(axis=1)[0]))
    assert silent.decided_by[0] == AVERAGE


def test_shares_of_the_whole_graph_are_those_of_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fit(aggregation="kta")
    whole = model.contributions(np.arange(N)).shares
    assert model.scale_shares() == pytest.approx(whole)
    assert model.scale_shares(NODES) == pytest.approx(model.contributions(NODES).shares)
    monkeypatch.setattr("gbgnn.model._FEWEST_AT_ONCE", 7)
    monkeypatch.setattr("gbgnn.model._NUMBERS_AT_ONCE", 1)
    monkeypatch.setattr("gbgnn.explanations.walks._BLOCK_BYTES", 1)
    assert model.scale_shares() == pytest.approx(whole)


def test_a_node_is_described_for_programs() -> None:
    told = fit(aggregation="lazy").contributions(NODES).describe(1)
    assert told["node"] == 70
    assert list(told["by_round"]) == ["round 1", "round 2", "round 3"]
    assert list(told["by_scale"]) == ["own columns", "1 hop", "2 hops", AVERAGE]
    np.testing.assert_allclose(np.sum(list(told["by_scale"].values()), axis=0), told["scores"])


def test_another_graph_has_contributions_of_its_own() -> None:
    model, (other, _) = fit(), two_blocks(60, n_classes=3, n_features=4, seed=5)
    told = model.contributions([1, 2], graph=other)
    np.testing.assert_allclose(told.scores, model.decision_function([1, 2], graph=other), atol=1e-5)
