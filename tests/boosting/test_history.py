from __future__ import annotations

import json

import pytest

from gbgnn import MLP, Adjacency, FunctionalGradient, GBGNNClassifier, Regression
from gbgnn._random import Seeds
from gbgnn.boosting import History, boost
from gbgnn.errors import ParameterError
from gbgnn.testing import make_problem

COLUMNS = {
    *("round", "eta", "train_loss", "train_accuracy", "val_loss", "val_accuracy", "gradient_norm"),
    *("cosine", "alpha", "beta", "gamma", "gamma_total", "guaranteed_decrease", "weighted_error"),
    *("edge", "exp_cosine", "exp_alpha", "exp_beta", "exp_gamma", "decrease", "rounding"),
    *("coefficients", "alignment", "learner", "attempts", "seconds", "peak_memory"),
}
# What a rule, a hop or a learner may have nothing to say about.
OPTIONAL = {"alpha", "beta", "gamma", "edge", "alignment", "learner"}
EXPONENTIAL = {name for name in COLUMNS if name.startswith("exp_")}


def test_rows_and_columns() -> None:
    history = History()
    history.append({"round": 1, "gamma": 0.5})
    history.append({"round": 2, "gamma": None})
    history.append({"round": 3, "gamma": 0.25})
    assert history["gamma_total"] == [0.5, 0.5, 0.75]
    assert history[-1]["round"] == 3
    assert [row["round"] for row in history] == [1, 2, 3]
    assert repr(history) == "History(3 rounds)"


def test_a_copy_does_not_grow() -> None:
    history = History(metric="f1")
    history.append({"round": 1, "gamma": 0.5})
    copy = history.copy()
    history.append({"round": 2, "gamma": 0.5})
    assert (len(copy), copy.metric, copy.rows) == (1, "f1", history.rows[:1])


def test_unknown_column_gets_a_hint() -> None:
    with pytest.raises(ParameterError, match="no column 'gama'. Did you mean 'gamma'"):
        History([{"gamma": 1}])["gama"]


@pytest.mark.parametrize("rule", ["gradient", "samme", "samme_r"])
def test_every_rule_records_every_column_as_json(rule: str, blocks: tuple) -> None:
    graph, y = blocks
    model = GBGNNClassifier(rule=rule, aggregation="kta", n_rounds=3, random_state=0)
    model.fit(range(15), y[:15], graph=graph, validation=(range(15, 25), y[15:25]))
    for row in model.history_:
        assert set(row) == COLUMNS
        assert all(row[name] is not None for name in COLUMNS - OPTIONAL - EXPONENTIAL)
        assert (row["exp_cosine"] is None) == (rule == "gradient")
    assert json.loads(json.dumps(model.history_.rows)) == model.history_.rows
    assert model.history_["alignment"][0] is None  # round 1 sees the raw features
    assert model.history_["alignment"][1] > 0
    assert len(model.history_["coefficients"][1]) == 5


@pytest.mark.parametrize("metric", ["neg_log_loss", "f1_macro"])
def test_columns_have_the_name_of_the_metric(metric: str, blocks: tuple) -> None:
    graph, y = blocks
    model = GBGNNClassifier(n_rounds=2, metric=metric, learner=MLP(epochs=3), random_state=0)
    model.fit(range(15), y[:15], graph=graph, validation=(range(15, 25), y[15:25]))
    assert model.history_.metric == metric
    renamed = {name.replace("accuracy", metric) for name in COLUMNS}
    assert all(set(row) == renamed for row in model.history_)
    with pytest.raises(ParameterError, match="the history has no column 'val_accuracy'"):
        model.history_["val_accuracy"]


def test_numbers_have_no_share_of_errors(blocks: tuple) -> None:
    graph, y = blocks
    problem = make_problem(graph, 1.5 * y, y.argsort()[:15], task=Regression())
    parts = (Adjacency(), MLP(epochs=3), FunctionalGradient())
    history = boost(problem, *parts, n_rounds=2, seeds=Seeds(0)).history
    assert history["weighted_error"] == [None, None]
    assert history.metric == "r2"
    assert all(isinstance(value, float) for value in history["train_r2"])
    assert history["val_r2"] == history["val_loss"] == [None, None]
    assert json.loads(json.dumps(history.rows)) == history.rows
