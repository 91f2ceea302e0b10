from __future__ import annotations

from pathlib import Path

import pytest

import gbgnn
from gbgnn import Callback, Checkpoint, FineTuner, StopReason, callbacks
from gbgnn.callbacks import EpochReport, RoundReport
from gbgnn.errors import GBGNNWarning, ParameterError


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


def test_a_checkpoint_is_the_model_of_its_round_whatever_comes_after(toy, tmp_path: Path) -> None:
    """Order among callbacks does not matter: it saves the model that the report holds."""
    first, last = tmp_path / "first.gbgnn", tmp_path / "last.gbgnn"
    toy.fit(n_rounds=5, callbacks=[Checkpoint(first, every=4), Callback(), Checkpoint(last, every=4)])
    expected = toy.fit(n_rounds=4)
    for path in (first, last):
        loaded = gbgnn.load(path)
        assert len(loaded.ensemble_) == 4
        assert loaded.scores_.tobytes() == expected.scores_.tobytes()
        assert loaded.best_round_ == expected.best_round_


def test_one_checkpoint_serves_many_fits(toy, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.gbgnn"
    callback = Checkpoint(path, every=2)
    for n_rounds in (4, 2):
        toy.fit(n_rounds=n_rounds, callbacks=[callback])
        assert len(gbgnn.load(path).ensemble_) == n_rounds


def test_without_a_round_of_its_rhythm_no_file_is_written(toy, tmp_path: Path) -> None:
    toy.fit(n_rounds=2, callbacks=[Checkpoint(tmp_path / "x.gbgnn", every=3)])
    assert list(tmp_path.iterdir()) == []


def test_rhythm_is_a_positive_integer(toy, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="Checkpoint.every must be an integer >= 1, or None; got 0"):
        toy.fit(callbacks=[Checkpoint(tmp_path / "x.gbgnn", every=0)])
    with pytest.raises(ParameterError, match=r"Checkpoint.seconds must be in \[0, inf\)"):
        toy.fit(callbacks=[Checkpoint(tmp_path / "x.gbgnn", seconds=-1.0)])


class _Clock(Callback):
    """A round takes half a second on it, and a write as long as was said; it notes the rounds written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cost: float) -> None:
        self.now, self.cost, self.saved = 0.0, cost, []
        monkeypatch.setattr(callbacks.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(callbacks, "save", self.save)

    def on_round(self, report: RoundReport) -> None:
        self.now += 0.5

    def save(self, model, path) -> None:
        self.now += self.cost
        self.saved.append(len(model.ensemble))


@pytest.mark.parametrize(("cost", "saved"), [(0.0, [3, 6, 9]), (0.1, [3]), (0.01, [3, 6, 9])])
def test_by_time_it_saves_after_so_many_seconds_and_later_where_that_takes_long(
    toy, monkeypatch: pytest.MonkeyPatch, cost: float, saved: list[int]
) -> None:
    clock = _Clock(monkeypatch, cost)
    toy.fit(n_rounds=9, callbacks=[clock, Checkpoint("x.gbgnn", every=None, seconds=1.4)])
    assert clock.saved == saved


def test_a_file_that_cannot_be_written_is_a_warning(toy, tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("not one")
    path = tmp_path / "folder" / "x.gbgnn"
    with pytest.warns(GBGNNWarning, match=r"x.gbgnn could not be written \(.*\); training goes on"):
        model = toy.fit(n_rounds=3, callbacks=[Checkpoint(path, every=1)])
    assert len(model.ensemble_) == 3
