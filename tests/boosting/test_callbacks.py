from __future__ import annotations

from pathlib import Path

import pytest

import gbgnn
from gbgnn import MLP, Callback, Checkpoint, FineTuner, StopReason
from gbgnn._random import Seeds
from gbgnn.aggregation import Adjacency
from gbgnn.boosting import EpochReport, RoundReport, Samme, TuningReport, boost
from gbgnn.errors import ParameterError
from gbgnn.testing import problem_of


class _KillInRound(Callback):
    def __init__(self, t: int) -> None:
        self.t = t

    def on_round(self, report: RoundReport) -> StopReason | None:
        if report.t == self.t:
            raise KeyboardInterrupt
        return None


class _KillInEpoch(Callback):
    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_epoch(self, report: EpochReport) -> None:
        if report.epoch == self.epoch:
            raise KeyboardInterrupt


class _Watch(Callback):
    """Sees that the file never goes back to fewer rounds."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_round(self, report: RoundReport) -> StopReason | None:
        assert len(gbgnn.load(self.path).ensemble_) >= 6
        return None


def test_killed_run_goes_on_from_its_checkpoint_to_the_same_bytes(toy, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.gbgnn"
    killed = toy.model(callbacks=[Checkpoint(path, every=3), _KillInRound(7)])
    with pytest.raises(KeyboardInterrupt):
        toy.teach(killed)
    assert len(killed.ensemble_) == 7  # what was trained is kept
    assert killed.stop_reason_ is StopReason.INTERRUPTED
    resumed = gbgnn.load(path)
    assert len(resumed.ensemble_) == 6
    resumed.set_params(warm_start=True, callbacks=[Checkpoint(path, every=3), _Watch(path)])
    toy.teach(resumed)
    whole = toy.fit()
    assert resumed.scores_.tobytes() == whole.scores_.tobytes()
    assert resumed.best_round_ == whole.best_round_


@pytest.mark.parametrize("epoch", [1, 4])
def test_run_killed_in_fine_tuning_goes_on_from_all_boosted_rounds_to_the_same_bytes(
    epoch: int, toy, tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint.gbgnn"
    settings = {"n_rounds": 7, "fine_tune": FineTuner(epochs=5, learning_rate=0.05, keep="tuned")}
    killed = toy.model(**settings, callbacks=[Checkpoint(path, every=3), _KillInEpoch(epoch)])
    with pytest.raises(KeyboardInterrupt):
        toy.teach(killed)
    boosted = toy.fit(n_rounds=7)
    saved = gbgnn.load(path)
    for model in (killed, saved):
        assert model.scores_.tobytes() == boosted.scores_.tobytes()
        assert (len(model.ensemble_), model.fine_tuning_) == (7, None)
    before = path.read_bytes()
    toy.teach(saved.set_params(warm_start=True, callbacks=[Checkpoint(path, every=3)]))
    assert saved.scores_.tobytes() == toy.fit(**settings).scores_.tobytes()
    assert path.read_bytes() == before  # no round was new


def test_checkpoint_needs_an_estimator(toy, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="use it with GBGNNClassifier"):
        boost(
            problem_of(toy.graph, toy.y, toy.train),
            Adjacency(),
            MLP(epochs=1),
            Samme(),
            n_rounds=1,
            seeds=Seeds(0),
            callbacks=[Checkpoint(tmp_path / "x")],
        )


def test_tuning_is_told_by_training_nodes_where_none_validate() -> None:
    numbers = {"train_accuracy": 1.0, "train_loss": 0.5}
    assert str(TuningReport(numbers, numbers, "boosted", 1)) == (
        "fine-tuned 1 epoch: train accuracy 1.0000 to 1.0000, train loss 0.5000 to 0.5000; "
        "the boosted model was kept"
    )
