from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
import torch

from gbgnn import Callback, FineTuner, FittedModel, StopReason
from gbgnn.callbacks import EpochReport, FineTuningReport, RoundReport, StartReport, announce


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
