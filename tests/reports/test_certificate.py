from __future__ import annotations

from dataclasses import replace

import numpy as np

from gbgnn import ConstrainedMLP, GBGNNClassifier, depth_bound
from gbgnn.reports import certificate_figure
from gbgnn.testing import two_blocks


def fit(n_rounds: int = 5) -> GBGNNClassifier:
    graph, y = two_blocks(40)
    learner = ConstrainedMLP(epochs=5)
    model = GBGNNClassifier(learner=learner, n_rounds=n_rounds, random_state=0)
    return model.fit(np.arange(20), y[:20], graph=graph)


def test_curves_are_the_certificate() -> None:
    certificate = fit().certificate_
    progress, angle, gradient, bound = certificate_figure(certificate, title="Five rounds").axes
    actual, guaranteed = (line.get_ydata() for line in progress.lines)
    np.testing.assert_allclose(actual, np.cumsum([r.actual for r in certificate.rounds]))
    np.testing.assert_allclose(guaranteed, np.cumsum([r.guaranteed for r in certificate.rounds]))
    assert (np.array(actual) >= np.array(guaranteed) - 1e-6).all()
    np.testing.assert_array_equal(angle.lines[0].get_ydata(), [r.cosine for r in certificate.rounds])
    np.testing.assert_array_equal(
        gradient.lines[0].get_ydata(), [r.gradient_norm for r in certificate.rounds]
    )
    assert gradient.lines[1].get_xdata()[0] == certificate.best_round
    assert bound.get_title(loc="left") == "Bound of the training error"
    np.testing.assert_allclose(bound.lines[0].get_ydata()[1:], certificate.training_bounds()[1:])
    assert np.isnan(bound.lines[0].get_ydata()[0])


def test_terms_of_the_bound_by_depth_are_drawn_one_by_one() -> None:
    model = fit(n_rounds=50)
    depth = depth_bound(model)
    axes = certificate_figure(model.certificate_, depth).axes[3]
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert words == ["training", "complexity", "partition", "deviation", "total", "vacuous from here up"]
    np.testing.assert_allclose(axes.lines[1].get_ydata(), depth.complexity)
    np.testing.assert_allclose(axes.lines[4].get_ydata()[1:], depth.totals[1:])


def test_without_a_bound_the_reason_stands_in_its_place() -> None:
    certificate = fit().certificate_
    first, second, *rest = certificate.rounds
    too_long = replace(second, alpha=None, beta=None, gamma=None)
    axes = certificate_figure(replace(certificate, rounds=(first, too_long, *rest))).axes[3]
    assert "a round took a step that the" in axes.texts[0].get_text()
