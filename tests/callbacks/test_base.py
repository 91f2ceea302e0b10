from __future__ import annotations

import logging
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
import torch

from gbgnn import MLP, Callback, EarlyStopping, FineTuner, FittedModel, GBGNNClassifier, Graph, StopReason
from gbgnn.callbacks import EpochReport, FineTuningReport, LogProgress, RoundReport, StartReport, announce
from gbgnn.errors import ParameterError


class Recorder(Callback):
    """Writes down what it is told; asks boosting to stop after round ``until``."""

    def __init__(self, until: int | None = None) -> None:
        self.until = until

    def on_start(self, start: StartReport) -> None:
        self.events: list[tuple[Any, ...]] = [("start", start.n_rounds, start.n_known)]
        self.problem = start.problem

    def on_round(self, report: RoundReport) -> StopReason | None:
        self.events.append(("round", report.t))
        return StopReason.REQUESTED if report.t == self.until else None

    def on_end(self, model: FittedModel) -> None:
        self.events.append(("end", str(model.stop_reason)))

    def on_epoch(self, report: EpochReport) -> None:
        self.events.append(("epoch", report.epoch))

    def on_fine_tuned(self, report: FineTuningReport) -> None:
        self.events.append(("tuned", report.epochs))


def test_a_callback_sees_every_event_and_can_end_boosting(toy) -> None:
    recorder = Recorder(until=2)
    model = toy.fit(n_rounds=5, callbacks=[recorder, Callback()])
    assert recorder.events == [("start", 5, 0), ("round", 1), ("round", 2), ("end", "requested")]
    assert model.stop_reason_ is StopReason.REQUESTED
    assert len(model.ensemble_) == 2
    assert recorder.problem.train.size == 15


def test_fine_tuning_is_told_epoch_by_epoch_and_at_its_end(toy) -> None:
    recorder = Recorder()
    toy.fit(n_rounds=2, callbacks=[recorder], fine_tune=FineTuner(epochs=2))
    assert recorder.events[3:] == [
        ("end", "rounds_exhausted"),
        *(("epoch", k) for k in (0, 1, 2)),
        ("tuned", 2),
    ]


def test_one_object_serves_many_fits_and_a_warm_start_says_what_is_known(toy) -> None:
    recorder = Recorder()
    model = toy.fit(n_rounds=3, callbacks=[recorder])
    toy.teach(model.set_params(n_rounds=4, warm_start=True))
    assert recorder.events == [
        ("start", 4, 3),
        *(("round", t) for t in (1, 2, 3, 4)),
        ("end", "rounds_exhausted"),
    ]


def test_a_report_holds_the_model_as_it_is_now(toy) -> None:
    """It predicts, can be saved, and is not the model of the next round."""
    seen = []

    class Look(Callback):
        def on_round(self, report: RoundReport) -> StopReason | None:
            seen.append((report, report.model.predict_proba(np.arange(60)), report.scores.clone()))
            return None

    model = toy.fit(n_rounds=4, callbacks=[Look()], select="last")
    for t, (report, proba, scores) in enumerate(seen, start=1):
        assert (report.t, len(report.ensemble), report.n_rounds) == (t, t, 4)
        assert (len(report.history), report.row["round"]) == (t, t)
        assert report.model.stop_reason is StopReason.INTERRUPTED
        assert torch.equal(report.scores, scores)
        shorter = toy.fit(n_rounds=t, select="last")
        assert shorter.predict_proba(np.arange(60)).tobytes() == proba.tobytes()
    assert model.stop_reason_ is StopReason.ROUNDS_EXHAUSTED
    with pytest.raises(FrozenInstanceError):
        seen[0][0].n_rounds = 9


def test_a_report_knows_how_good_its_round_is(toy) -> None:
    rows = []

    class Look(Callback):
        def on_round(self, report: RoundReport) -> StopReason | None:
            rows.append((report.row["round"], report.validation_score, report.validation_key))
            return None

    model = toy.fit(n_rounds=3, metric="neg_log_loss", callbacks=[Look()])
    history = model.history_
    assert [t for t, *_ in rows] == [1, 2, 3]
    assert [score for _, score, _ in rows] == history["val_neg_log_loss"]
    expected = zip(history["val_neg_log_loss"], history["val_loss"], strict=True)
    assert [key for *_, key in rows] == [(score, -loss) for score, loss in expected]
    scores = []

    class Without(Callback):
        def on_round(self, report: RoundReport) -> StopReason | None:
            scores.append(report.validation_score)
            return None

    toy.fit(validation=False, n_rounds=1, callbacks=[Without()])
    assert scores == [None]


def test_all_callbacks_are_told_of_a_round_and_the_first_wish_counts(toy) -> None:
    first, second, third = Recorder(), Recorder(until=1), Recorder(until=1)
    second.on_round = lambda report: StopReason.NO_IMPROVEMENT  # type: ignore[method-assign]
    model = toy.fit(n_rounds=4, callbacks=[first, second, third])
    assert model.stop_reason_ is StopReason.NO_IMPROVEMENT
    assert first.events[1:] == [("round", 1), ("end", "no_improvement")]
    assert third.events[1:] == [("round", 1), ("end", "no_improvement")]
    assert announce([], "on_round", seen_report(toy)) is None


def seen_report(toy) -> RoundReport:
    model = toy.fit(n_rounds=1).model_
    return RoundReport(model, 1, model.score_tensor)


def test_tuning_is_told_by_training_nodes_where_none_validate() -> None:
    numbers = {"train_accuracy": 1.0, "train_loss": 0.5}
    assert str(FineTuningReport(numbers, numbers, "boosted", 1)) == (
        "fine-tuned 1 epoch: train accuracy 1.0000 to 1.0000, train loss 0.5000 to 0.5000; "
        "the boosted model was kept"
    )


def test_tuning_is_told_by_the_metric_of_the_fit(toy) -> None:
    reports = []

    class Look(Callback):
        def on_fine_tuned(self, report: FineTuningReport) -> None:
            reports.append(report)

    model = toy.fit(n_rounds=2, metric="neg_log_loss", fine_tune=FineTuner(epochs=2), callbacks=[Look()])
    (report,) = reports
    assert report.metric == "neg_log_loss"
    assert report.before == model.fine_tuning_["before"]
    assert str(report).startswith("fine-tuned 2 epochs: val neg_log_loss -")


def fit_on_errors(toy, **settings: object) -> GBGNNClassifier:
    """Some labels are wrong: later rounds are surer of their classes, not righter."""
    y, wrong = toy.y.copy(), np.random.default_rng(1).permutation(35)[:14]
    y[wrong] = (y[wrong] + 1) % 3
    model = toy.model(n_rounds=100, learning_rate=1.0, **settings)
    return model.fit(toy.train, y[toy.train], graph=toy.graph, validation=(toy.val, y[toy.val]))


def test_early_stopping_stops_after_n_rounds_without_a_better_one(toy) -> None:
    fitted = toy.fit(n_rounds=100, n_iter_no_change=3)
    assert fitted.stop_reason_ is StopReason.NO_IMPROVEMENT
    assert len(fitted.ensemble_) == fitted.best_round_ + 3
    again = toy.fit(n_rounds=100, callbacks=[EarlyStopping(3)])
    assert len(again.ensemble_) == len(fitted.ensemble_)


def test_early_stopping_follows_the_metric(toy) -> None:
    by_accuracy = fit_on_errors(toy, n_iter_no_change=3)
    by_loss = fit_on_errors(toy, n_iter_no_change=3, metric="neg_log_loss")
    column = by_loss.history_["val_neg_log_loss"]
    assert by_loss.stop_reason_ is StopReason.NO_IMPROVEMENT
    assert len(by_loss.ensemble_) == by_loss.best_round_ + 3
    assert by_loss.best_round_ == int(np.argmax(column)) + 1
    assert len(by_loss.ensemble_) != len(by_accuracy.ensemble_)


def test_of_equal_metrics_the_lower_loss_is_an_improvement(toy) -> None:
    """A metric that never changes leaves the decision to the loss."""

    def constant(estimator: object, X: object, y: object) -> float:
        return 1.0

    fitted = fit_on_errors(toy, n_iter_no_change=3, metric=constant)
    assert set(fitted.history_["val_constant"]) == {1.0}
    assert fitted.best_round_ == int(np.argmin(fitted.history_["val_loss"])) + 1
    assert len(fitted.ensemble_) == fitted.best_round_ + 3


def test_it_stops_by_validation_whatever_selects_the_round(toy) -> None:
    fitted = toy.fit(n_rounds=100, n_iter_no_change=3, select="last")
    assert len(fitted.ensemble_) == toy.fit(n_rounds=100, n_iter_no_change=3).best_round_ + 3
    assert fitted.best_round_ == len(fitted.ensemble_)


def test_one_object_serves_many_fits(toy) -> None:
    callback = EarlyStopping(3)
    lengths = [len(toy.fit(n_rounds=100, callbacks=[callback]).ensemble_) for _ in range(2)]
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize("settings", [{"n_iter_no_change": 3}, {"select": "validation"}])
def test_what_needs_validation_says_so(settings: dict[str, object], toy) -> None:
    with pytest.raises(ParameterError, match="validation"):
        toy.fit(validation=False, **settings)


def test_patience_is_a_positive_integer(toy) -> None:
    with pytest.raises(ParameterError, match="n_iter_no_change must be an integer >= 1; got 0"):
        toy.fit(n_iter_no_change=0)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_verbose_logs_every_kth_round_and_the_last(toy, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="gbgnn"):
        toy.fit(verbose=5)
    lines = logged(caplog)
    assert [line.split()[1] for line in lines] == ["5/12", "10/12", "12/12"]
    assert "val acc" in lines[0]


def test_verbose_logs_the_boosted_model_every_kth_epoch_the_last_and_what_came_of_it(
    toy, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="gbgnn"):
        model = toy.fit(n_rounds=2, verbose=3, fine_tune=FineTuner(epochs=7))
    rounds, *epochs, end = logged(caplog)
    assert rounds.startswith("round 2/2  ")
    assert [line.split()[:2] for line in epochs] == [["epoch", f"{k}/7"] for k in (0, 3, 6, 7)]
    told = model.fine_tuning_
    rows = {0: told["before"]} | {row["epoch"]: row for row in told["history"]}
    for line, k in zip(epochs, (0, 3, 6, 7), strict=True):
        numbers = f"loss {rows[k]['train_loss']:.4f}  val acc {rows[k]['val_accuracy']:.3f}"
        assert line.startswith(f"epoch {k}/7  {numbers}  ")
        assert line.endswith(" s")
    assert end.startswith("fine-tuned 7 epochs: val accuracy ")
    assert end.endswith(f"the {told['kept']} model was kept")


def test_without_validation_nodes_no_line_speaks_of_them(toy, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="gbgnn"):
        toy.fit(validation=False, n_rounds=2, verbose=1, fine_tune=FineTuner(epochs=1))
    assert len(logged(caplog)) == 5
    assert not any("val" in line for line in logged(caplog))


def test_rhythm_is_a_positive_integer(toy) -> None:
    with pytest.raises(ParameterError, match="LogProgress.every must be an integer >= 1; got 0"):
        toy.fit(callbacks=[LogProgress(0)])


def test_verbose_reaches_the_screen_when_logging_is_not_set_up(
    toy, capfd: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("gbgnn")
    root_handlers, logging.root.handlers = logging.root.handlers, []
    try:
        toy.fit(validation=False, verbose=12, n_rounds=1)
    finally:
        logging.root.handlers = root_handlers
        logger.handlers.clear()
        logger.setLevel(logging.NOTSET)
    assert "round 1/1" in capfd.readouterr().err


def test_lines_name_the_metric_of_the_fit(toy, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="gbgnn"):
        model = toy.fit(n_rounds=1, verbose=1, metric="f1_macro", fine_tune=FineTuner(epochs=1))
    first, _, epoch, _ = logged(caplog)
    row = model.history_[0]
    assert f"  f1_macro {row['train_f1_macro']:.3f}  val f1_macro {row['val_f1_macro']:.3f}  cos " in first
    assert "  val f1_macro " in epoch


def test_a_time_limit_ends_boosting_after_the_round_that_it_falls_in(
    blocks: tuple[Graph, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(100))
    monkeypatch.setattr("gbgnn.callbacks.time.monotonic", lambda: float(next(clock)))
    graph, y = blocks
    model = GBGNNClassifier(learner=MLP(units=8, epochs=20), n_rounds=9, time_limit=3, random_state=0)
    model.fit(np.arange(20), y[:20], graph=graph)
    assert len(model.ensemble_) == 3
    assert model.stop_reason_.message == "the time limit was reached"
