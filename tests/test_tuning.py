from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

import gbgnn
from gbgnn import MLP, FineTuner, GBGNNClassifier, Graph, _tuning, generalisation_bound
from gbgnn._tuning import as_tuner
from gbgnn.boosting import Boosted, EpochReport, StartReport, TuningReport
from gbgnn.errors import ParameterError
from gbgnn.testing import two_blocks

GRAPH, Y = two_blocks(60, n_classes=3)
TRAIN, VAL, NODES = np.arange(15), np.arange(15, 30), np.arange(60)


def fit(validation: bool = True, **settings: object) -> GBGNNClassifier:
    defaults = {
        "learner": MLP(epochs=3, units=6),
        "n_rounds": 4,
        "random_state": 0,
        "select": "last",
        "fine_tune": FineTuner(epochs=15, learning_rate=0.01, keep="tuned"),
    }
    model = GBGNNClassifier(**defaults | settings)
    return model.fit(TRAIN, Y[TRAIN], graph=GRAPH, validation=(VAL, Y[VAL]) if validation else None)


@pytest.mark.parametrize("rule", ["gradient", "samme", "samme_r"])
@pytest.mark.parametrize("aggregation", ["adjacency", "injection", "kta"])
def test_tuned_models_save_load_stage_and_predict_other_graphs(
    rule: str, aggregation: str, tmp_path: Path
) -> None:
    model = fit(rule=rule, aggregation=aggregation)
    assert model.fine_tuning_["kept"] == "tuned"
    assert model.is_soft_ == (rule == "samme")
    assert len(model.fine_tuning_["history"]) == 15
    proba = model.predict_proba(NODES)
    np.testing.assert_allclose(proba, model.predict_proba(NODES, graph=GRAPH), rtol=1e-4, atol=1e-6)
    *_, last = model.staged_predict_proba(NODES)
    np.testing.assert_allclose(proba, last, rtol=1e-4, atol=1e-6)
    model.save(tmp_path / "m.gbgnn")
    again = gbgnn.load(tmp_path / "m.gbgnn")
    np.testing.assert_array_equal(again.predict_proba(NODES), proba)
    assert again.fine_tuning_ == model.fine_tuning_
    assert again.get_params()["fine_tune__epochs"] == 15
    part = np.arange(40)
    smaller = Graph(GRAPH.adjacency[part][:, part], np.asarray(GRAPH.features)[part])
    inductive = again.predict_proba(part, graph=smaller)
    np.testing.assert_allclose(inductive, model.predict_proba(part, graph=smaller), rtol=1e-4, atol=1e-6)


def test_tuning_lowers_the_training_loss() -> None:
    tuning = fit().fine_tuning_
    assert tuning["after"]["train_loss"] < tuning["before"]["train_loss"]
    boosted = fit(fine_tune=None)
    assert tuning["before"]["train_loss"] == pytest.approx(boosted.history_["train_loss"][-1], rel=1e-5)


def test_the_better_model_is_kept_and_both_are_told() -> None:
    ruinous = FineTuner(epochs=30, learning_rate=0.5, optimizer="sgd")
    model, boosted = fit(fine_tune=ruinous), fit(fine_tune=None)
    tuning = model.fine_tuning_
    before, after = ((m["val_accuracy"], -m["val_loss"]) for m in (tuning["before"], tuning["after"]))
    assert tuning["kept"] == ("tuned" if after >= before else "boosted")
    if tuning["kept"] == "boosted":
        assert model.scores_.tobytes() == boosted.scores_.tobytes()
        assert not model.is_soft_


def test_only_the_rounds_that_predict_are_tuned() -> None:
    model = fit(select="validation", n_rounds=6)
    assert len(model.ensemble_) == model.best_round_ == len(model.etas_)


def test_same_seed_same_bytes_and_a_refit_forgets() -> None:
    model = fit(rule="samme")
    first = model.scores_.tobytes()
    assert fit(rule="samme").scores_.tobytes() == first
    model.set_params(fine_tune=None).fit(TRAIN, Y[TRAIN], graph=GRAPH, validation=(VAL, Y[VAL]))
    assert model.fine_tuning_ is None
    assert model.is_soft_ is False
    np.testing.assert_array_equal(model.predict(NODES, graph=GRAPH), model.predict(NODES))


def test_other_labels_never_matter() -> None:
    scrambled = Y.copy()
    scrambled[30:] = np.random.default_rng(0).permutation(Y[30:])
    model = GBGNNClassifier(learner=MLP(epochs=3), n_rounds=3, random_state=0, fine_tune=True)
    first = model.fit(TRAIN, Y[TRAIN], graph=GRAPH).scores_.tobytes()
    assert clone(model).fit(TRAIN, scrambled[TRAIN], graph=GRAPH).scores_.tobytes() == first


def test_settings_reach_the_tuner() -> None:
    model = GBGNNClassifier().set_params(fine_tune__epochs=7)
    assert model.fine_tune.epochs == 7
    model.set_params(fine_tune=True).set_params(fine_tune__optimizer="sgd")
    assert (model.fine_tune.epochs, model.fine_tune.optimizer) == (100, "sgd")
    assert as_tuner(False) is None
    with pytest.raises(ParameterError, match="fine_tune must be None, True or a FineTuner object; got 'yes'"):
        fit(fine_tune="yes")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"learner": DecisionTreeClassifier(max_depth=2), "rule": "samme"},
            "which SklearnLearner.*has none of; use MLP",
        ),
        ({"keep_learners": False}, "fine_tune needs the fitted learners; set keep_learners=True"),
        ({"fine_tune": FineTuner(epochs=-1)}, "FineTuner.epochs must be an integer >= 0"),
        ({"validation": False, "fine_tune": FineTuner(patience=3)}, "patience stops on validation nodes"),
    ],
)
def test_what_cannot_be_tuned_is_said_before_any_work(changed: dict, message: str) -> None:
    seen = []

    class Watch(gbgnn.Callback):
        def on_start(self, start: object) -> None:
            seen.append(start)

    with pytest.raises(ParameterError, match=message):
        fit(callbacks=[Watch()], **changed)
    assert not seen


class _Witness(gbgnn.Callback):
    """Notes what it is told, in order, and what the model is at the end of it."""

    def on_start(self, start: StartReport) -> None:
        self.model, self.told = start.model, []

    def on_end(self, result: Boosted) -> None:
        self.told.append("boosted")

    def on_epoch(self, report: EpochReport) -> None:
        assert self.model.fine_tuning_ is None
        self.told.append(report.row)

    def on_tuned(self, report: TuningReport) -> None:
        assert self.model.fine_tuning_["kept"] == report.kept
        self.told.append(report)


@pytest.mark.parametrize("keep", ["best", "tuned"])
def test_callbacks_are_told_of_every_epoch_and_of_the_end_when_the_model_is_published(keep: str) -> None:
    witness = _Witness()
    tuner = FineTuner(epochs=4, learning_rate=5.0, optimizer="sgd", keep=keep)
    for _ in range(2):  # one object serves many fits
        model = fit(callbacks=[witness], fine_tune=tuner)
        boosted, first, *rows, end = witness.told
        tuning = model.fine_tuning_
        assert boosted == "boosted"
        assert first["epoch"] == 0
        assert first["val_loss"] == tuning["before"]["val_loss"]
        assert rows == tuning["history"]
        assert (end.before, end.after, end.kept, end.epochs) == (
            *(tuning[k] for k in ("before", "after", "kept")),
            4,
        )
    fit(callbacks=[witness], fine_tune=None)
    assert witness.told == ["boosted"]


def test_interrupted_when_the_tuned_scores_are_computed_is_a_boosted_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    models = []

    class Keep(gbgnn.Callback):
        def on_start(self, start: StartReport) -> None:
            models.append(start.model)

    with monkeypatch.context() as patch:
        patch.setattr(_tuning, "apply", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fit(rule="samme", callbacks=[Keep()])
    boosted = fit(rule="samme", fine_tune=None)
    models[0].save(tmp_path / "m.gbgnn")
    for model in (models[0], gbgnn.load(tmp_path / "m.gbgnn")):
        assert (model.fine_tuning_, model.is_soft_) == (None, False)
        assert model.scores_.tobytes() == boosted.scores_.tobytes()
        assert model.etas_.tolist() == boosted.etas_.tolist()


def test_tuned_rounds_are_not_boosted_on_and_have_no_bound() -> None:
    model = fit(learner="constrained", warm_start=True)
    with pytest.raises(ParameterError, match="these rounds were fine-tuned; fit anew"):
        model.set_params(n_rounds=6).fit(TRAIN, Y[TRAIN], graph=GRAPH, validation=(VAL, Y[VAL]))
    with pytest.raises(ParameterError, match="no bound covers a fine-tuned model"):
        generalisation_bound(model)
