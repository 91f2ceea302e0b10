from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

import gbgnn
from gbgnn import MLP, Callback, Checkpoint, EarlyStopping, GBGNNClassifier, StopReason
from gbgnn._random import Seeds
from gbgnn.aggregation import Adjacency
from gbgnn.boosting import RoundReport, RoundSelection, Samme, boost
from gbgnn.errors import ParameterError
from gbgnn.testing import problem_of, two_blocks

GRAPH, Y = two_blocks(60, n_classes=3)
TRAIN, VAL = np.arange(15), np.arange(15, 35)
VALIDATION = (VAL, Y[VAL])


def model(**settings: object) -> GBGNNClassifier:
    defaults = {"learner": MLP(epochs=5, units=8), "n_rounds": 12, "random_state": 0}
    return GBGNNClassifier(**{**defaults, **settings})


def test_validation_selects_the_most_accurate_round_and_the_lower_loss_among_equals() -> None:
    fitted = model().fit(TRAIN, Y[TRAIN], graph=GRAPH, validation=VALIDATION)
    keys = list(zip(fitted.history_["val_accuracy"], [-x for x in fitted.history_["val_loss"]], strict=True))
    assert fitted.best_round_ == int(max(range(12), key=lambda i: keys[i])) + 1
    assert fitted.score(VAL, Y[VAL]) == max(fitted.history_["val_accuracy"])


def test_gradient_selects_the_smallest_norm() -> None:
    fitted = model(select="gradient", rule="samme").fit(TRAIN, Y[TRAIN], graph=GRAPH)
    assert fitted.best_round_ == int(np.argmin(fitted.history_["gradient_norm"])) + 1


def test_last_is_last_and_auto_without_validation_too() -> None:
    assert model(select="last").fit(TRAIN, Y[TRAIN], graph=GRAPH, validation=VALIDATION).best_round_ == 12
    assert model().fit(TRAIN, Y[TRAIN], graph=GRAPH).best_round_ == 12


def test_selected_scores_are_those_of_the_selected_round() -> None:
    fitted = model(select="gradient", rule="samme").fit(TRAIN, Y[TRAIN], graph=GRAPH)
    staged = list(fitted.staged_predict_proba(np.arange(60)))
    np.testing.assert_array_equal(fitted.predict_proba(np.arange(60)), staged[fitted.best_round_ - 1])


def test_early_stopping_stops_after_n_rounds_without_a_better_one() -> None:
    fitted = model(n_rounds=100, n_iter_no_change=3).fit(TRAIN, Y[TRAIN], graph=GRAPH, validation=VALIDATION)
    assert fitted.stop_reason_ is StopReason.NO_IMPROVEMENT
    assert len(fitted.ensemble_) == fitted.best_round_ + 3
    again = model(n_rounds=100, callbacks=[EarlyStopping(3)]).fit(
        TRAIN, Y[TRAIN], graph=GRAPH, validation=VALIDATION
    )
    assert len(again.ensemble_) == len(fitted.ensemble_)


@pytest.mark.parametrize("settings", [{"n_iter_no_change": 3}, {"select": "validation"}])
def test_what_needs_validation_says_so(settings: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match="validation"):
        model(**settings).fit(TRAIN, Y[TRAIN], graph=GRAPH)


def test_selection_forgets_the_run_before() -> None:
    selection = RoundSelection("last")
    problem = problem_of(GRAPH, Y, TRAIN)
    for n_rounds in (3, 1):
        boost(
            problem,
            Adjacency(),
            MLP(epochs=2),
            Samme(),
            n_rounds=n_rounds,
            seeds=Seeds(0),
            callbacks=[selection],
        )
        assert selection.best_round == n_rounds


class _Kill(Callback):
    def on_round(self, report: RoundReport) -> StopReason | None:
        if report.t == 7:
            raise KeyboardInterrupt
        return None


class _Watch(Callback):
    """Sees that the file never goes back to fewer rounds."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_round(self, report: RoundReport) -> StopReason | None:
        assert len(gbgnn.load(self.path).ensemble_) >= 6
        return None


def test_killed_run_goes_on_from_its_checkpoint_to_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.gbgnn"
    killed = model(callbacks=[Checkpoint(path, every=3), _Kill()])
    with pytest.raises(KeyboardInterrupt):
        killed.fit(TRAIN, Y[TRAIN], graph=GRAPH, validation=VALIDATION)
    assert len(killed.ensemble_) == 7  # what was trained is kept
    assert killed.stop_reason_ is StopReason.INTERRUPTED
    resumed = gbgnn.load(path)
    assert len(resumed.ensemble_) == 6
    resumed.set_params(warm_start=True, callbacks=[Checkpoint(path, every=3), _Watch(path)])
    resumed.fit(TRAIN, Y[TRAIN], graph=GRAPH, validation=VALIDATION)
    whole = model().fit(TRAIN, Y[TRAIN], graph=GRAPH, validation=VALIDATION)
    assert resumed.scores_.tobytes() == whole.scores_.tobytes()
    assert resumed.best_round_ == whole.best_round_


def test_checkpoint_needs_an_estimator(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="use it with GBGNNClassifier"):
        boost(
            problem_of(GRAPH, Y, TRAIN),
            Adjacency(),
            MLP(epochs=1),
            Samme(),
            n_rounds=1,
            seeds=Seeds(0),
            callbacks=[Checkpoint(tmp_path / "x")],
        )


def test_verbose_logs_every_kth_round_and_the_last(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="gbgnn"):
        model(verbose=5).fit(TRAIN, Y[TRAIN], graph=GRAPH, validation=VALIDATION)
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split()[1] for line in lines] == ["5/12", "10/12", "12/12"]
    assert "val acc" in lines[0]


def test_verbose_reaches_the_screen_when_logging_is_not_set_up(capfd: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("gbgnn")
    root_handlers, logging.root.handlers = logging.root.handlers, []
    try:
        model(verbose=12, n_rounds=1).fit(TRAIN, Y[TRAIN], graph=GRAPH)
    finally:
        logging.root.handlers = root_handlers
        logger.handlers.clear()
        logger.setLevel(logging.NOTSET)
    assert "round 1/1" in capfd.readouterr().err
