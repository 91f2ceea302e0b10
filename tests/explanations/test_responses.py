from __future__ import annotations

import numpy as np
import pytest

from gbgnn import MLP, ConsistentNetwork, FunctionalGradient, GBGNNClassifier, Graph
from gbgnn.errors import AbsentError, ParameterError
from gbgnn.testing import two_blocks

GRAPH, Y = two_blocks(60, n_classes=2)
TRAIN = np.arange(30)


def fit(graph: Graph = GRAPH, **settings: object) -> GBGNNClassifier:
    known = {"preset": "fast", "n_rounds": 4, "learner": MLP(units=4, epochs=5), "select": "last"}
    return GBGNNClassifier(random_state=0, dtype="float64", **known | settings).fit(
        TRAIN, Y[TRAIN], graph=graph
    )


@pytest.mark.parametrize("aggregation", ["adjacency", "lazy", "injection", "kta"])
@pytest.mark.parametrize("propagation", ["augmented", "random_walk", "laplacian"])
def test_curves_are_what_representations_are_multiplied_by(aggregation: str, propagation: str) -> None:
    model = fit(aggregation=aggregation, propagation=propagation)
    curves = model.response_curves()
    inputs = model.model_.build_inputs()
    P, X = inputs.P.to_scipy().toarray(), inputs.features
    values = np.linalg.eigvals(P).real
    assert curves.rounds == [1, 2, 3, 4]
    assert curves.values.shape == curves.hops.shape == (4, 201)
    assert curves.eigenvalues[0] == pytest.approx(values.min(), abs=1e-5)
    assert curves.eigenvalues[-1] == pytest.approx(values.max(), abs=1e-5)
    for trained, coefficients, curve in zip(model.ensemble_, curves.coefficients, curves.values, strict=True):
        X = trained.hop(X, inputs)
        expected = sum(c * np.linalg.matrix_power(P, k) @ GRAPH.features for k, c in enumerate(coefficients))
        np.testing.assert_allclose(X.dense().numpy(), expected, atol=1e-10)
        powers = curves.eigenvalues[:, None] ** np.arange(len(coefficients))
        np.testing.assert_allclose(curve, powers @ coefficients, atol=1e-12)
    np.testing.assert_allclose(curves.values[0], 1)
    if aggregation != "injection":
        np.testing.assert_allclose(curves.values, np.cumprod(curves.hops, axis=0), atol=1e-12)


def test_hops_inside_a_network_have_a_curve() -> None:
    rule = FunctionalGradient(target="loss")
    learner = ConsistentNetwork(n_hops=2, units=4, epochs=5)
    model = fit(learner=learner, aggregation="identity", rule=rule, n_rounds=1)
    curves = model.response_curves(n_points=3)
    points = curves.eigenvalues
    np.testing.assert_allclose(curves.values[0], (1 + points + points**2) / 3, atol=1e-6)
    np.testing.assert_array_equal(curves.values, curves.hops)


def test_where_there_are_none_that_is_said() -> None:
    with pytest.raises(AbsentError, match="BesideHop of round 2 is no polynomial in P"):
        fit(aggregation="beside").response_curves()
    with pytest.raises(AbsentError, match="MixingHop of round 2 is no polynomial"):
        fit(aggregation="linear").response_curves()
    directed = Graph(np.triu(GRAPH.adjacency.toarray()), GRAPH.features)
    with pytest.raises(AbsentError, match="not symmetric up to a scaling"):
        fit(directed).response_curves()
    with pytest.raises(ParameterError, match="n_points must be"):
        fit().response_curves(n_points=1)
