from __future__ import annotations

import json

import pytest

from gbgnn import GBGNNClassifier
from gbgnn.boosting import History
from gbgnn.errors import ParameterError

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
    history.append(1, {"gamma": 0.5})
    history.append(2, {"gamma": None})
    history.append(3, {"gamma": 0.25})
    assert history["gamma_total"] == [0.5, 0.5, 0.75]
    assert history[-1]["round"] == 3
    assert [row["round"] for row in history] == [1, 2, 3]
    assert all(seconds >= 0 for seconds in history["seconds"])
    assert repr(history) == "History(3 rounds)"


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
