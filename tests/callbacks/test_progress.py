from __future__ import annotations

import logging

import pytest

from gbgnn import FineTuner
from gbgnn.callbacks import LogProgress
from gbgnn.errors import ParameterError


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
