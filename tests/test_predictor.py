from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from gbgnn import MLP, GBGNNClassifier
from gbgnn._predictor import NodePredictor
from gbgnn.testing import two_blocks


def fit(n_classes: int = 3, **settings: object) -> GBGNNClassifier:
    graph, y = two_blocks(40, n_classes=n_classes)
    model = GBGNNClassifier(learner=MLP(epochs=5, units=4), n_rounds=4, random_state=0, **settings)
    return model.fit(np.arange(20), y[:20], graph=graph)


@pytest.mark.parametrize("rule", ["gradient", "samme", "samme_r"])
def test_what_is_looked_up_is_what_applying_the_rounds_gives(rule: str) -> None:
    model, nodes = fit(rule=rule), np.arange(40)
    *_, last = model.staged_predict_proba(nodes)
    np.testing.assert_allclose(model.predict_proba(nodes), last, rtol=1e-5)
    applied = model.predict_proba(nodes, graph=model.graph_)
    np.testing.assert_allclose(model.predict_proba(nodes), applied, rtol=1e-5)


def test_two_classes_have_one_decision_whatever_the_loss() -> None:
    from gbgnn import FunctionalGradient

    for loss in ("sigmoid", "softmax"):
        model = fit(2, rule=FunctionalGradient(loss=loss))
        decision = model.decision_function(np.arange(40))
        assert decision.shape == (40,)
        np.testing.assert_array_equal(decision > 0, model.predict(np.arange(40)) == 1)


def test_nothing_is_answered_before_a_fit() -> None:
    for ask in (NodePredictor.predict, NodePredictor.predict_proba, NodePredictor.decision_function):
        with pytest.raises(NotFittedError):
            ask(GBGNNClassifier(), [0])
