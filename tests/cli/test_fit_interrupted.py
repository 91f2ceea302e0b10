from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gbgnn
from gbgnn import Callback, datasets
from gbgnn.boosting.history import without_measurements
from gbgnn.cli import fit
from gbgnn.cli.files import Source
from gbgnn.learners import MLP


class _StopAt(Callback):
    """Fails in a round or an epoch, as a full disk or an impatient person would."""

    def __init__(self, t: int | None, error: BaseException, epoch: int | None = None) -> None:
        self.t, self.error, self.epoch = t, error, epoch

    def on_round(self, report) -> None:
        if report.t == self.t:
            raise self.error

    def on_epoch(self, report) -> None:
        if report.epoch == self.epoch:
            raise self.error


def _break_at(
    monkeypatch: pytest.MonkeyPatch, t: int | None, error: BaseException, epoch: int | None = None
) -> None:
    usual = fit._checkpoints
    monkeypatch.setattr(fit, "_checkpoints", lambda job: [*usual(job), _StopAt(t, error, epoch)])


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _model(folder: str) -> bytes:
    return Path(folder, "model.gbgnn").read_bytes()


KILL_IN_ROUND_5 = """
import os, signal
from gbgnn import Callback
from gbgnn.cli import main, fit

class Kill(Callback):
    def on_round(self, report):
        if report.t == 5:
            os.kill(os.getpid(), signal.SIGKILL)

usual = fit._checkpoints
fit._checkpoints = lambda job: [*usual(job), Kill()]
main()
"""


def test_a_killed_run_goes_on_to_the_same_bytes(run) -> None:
    words = (*run.tiny, *run.quick, "--rounds", "7", "--aggregation", "kta")
    command = [sys.executable, "-c", KILL_IN_ROUND_5, "fit", *words, "--out", "r", "--checkpoint-every", "3"]
    killed = subprocess.run(command, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not Path("r").exists()
    assert "unfinished run; go on with --resume r" in run("fit", *run.tiny, "--out", "r", code=1).stderr
    result = run("fit", "--resume", "r")
    assert "going on from round 3 of 7" in result.stderr
    assert "round 3/7" not in result.stderr
    assert "round 4/7" in result.stderr
    assert {p.name for p in Path("r").iterdir()} == run.files
    run("fit", *words, "-q", "--out", "whole")
    assert _model("r") == _model("whole")
    assert "r is finished" in run("fit", "--resume", "r", code=1).stderr


def test_ctrl_c_keeps_the_rounds_that_are_done(run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        _break_at(patch, 3, KeyboardInterrupt())
        told = run("fit", *run.tiny, *run.quick, "--out", "r", code=130).stderr
    assert "interrupted after round 3; go on with: gbgnn fit --resume r" in told
    assert "3 rounds" in run("inspect", "r.partial").stdout
    run("fit", "--resume", "r.partial", "-q")
    run("fit", *run.tiny, *run.quick, "-q", "--out", "whole")
    assert _model("r") == _model("whole")


def test_rows_on_disk_are_in_the_run_until_it_is_whole(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gbgnn.storage.expected_bytes", lambda *_: 2**60)
    words = ("fit", *run.tiny, *run.quick, "--preset", "fast", "--memory-limit", "64GB")
    run(*words, "-q", "--out", "whole")
    assert {p.name for p in Path("whole").iterdir()} == run.files
    told = run("predict", "whole").stdout
    assert len(told.splitlines()) == 61
    with monkeypatch.context() as patch:  # no room for scores: then the graph is read
        patch.setattr("gbgnn.storage.Disk.room_for_scores", lambda self: 0)
        run(*words, "-q", "--out", "lean")
        assert gbgnn.load("lean/model.gbgnn").model_.kept_scores is None
        assert run("predict", "lean").stdout == told
    with monkeypatch.context() as patch:
        _break_at(patch, 3, KeyboardInterrupt())
        told = run(*words, "--out", "r", code=130).stderr
    assert f"representations are written to {Path('r.partial/rows')}" in told
    assert len(list(Path("r.partial/rows").glob("*.rows"))) == 3
    mine = Path("r.partial/rows/mine.txt")
    mine.write_text("what no run wrote stays")
    run("fit", "--resume", "r", "-q")
    assert _model("r") == _model("whole")
    assert [path.name for path in Path("r/rows").iterdir()] == [mine.name]


def test_too_little_memory_is_said_before_anything_is_trained(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gbgnn.storage.expected_bytes", lambda *_: 2**60)
    told = run("fit", *run.tiny, "--memory-limit", "1MB", "--out", "r", code=1).stderr
    assert "memory_limit=1,000,000 bytes is too little" in told
    assert "round 1" not in told
    assert not Path("r.partial").exists()


def test_ctrl_c_while_rounds_are_replayed_keeps_the_checkpoint(run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        _break_at(patch, 3, KeyboardInterrupt())
        run("fit", *run.tiny, *run.quick, "-q", "--out", "r", code=130)
    before = Path("r.partial/checkpoint.gbgnn").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(MLP, "fit_many", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        told = run("fit", "--resume", "r", "-q", code=130).stderr
    assert "interrupted after round 3" in told
    assert Path("r.partial/checkpoint.gbgnn").read_bytes() == before


TUNED = ("--fine-tune", "--fine-tune-epochs", "6", "--fine-tune-lr", "0.05", "--keep", "tuned")
AGAIN = "interrupted in fine-tuning; begin it again from the 4 boosted rounds with: gbgnn fit --resume r"


@pytest.mark.parametrize("epoch", [0, 3, 6])
def test_ctrl_c_in_fine_tuning_keeps_the_boosted_rounds(
    run, epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("fit", *run.tiny, *run.quick, *TUNED)
    with monkeypatch.context() as patch:
        _break_at(patch, None, KeyboardInterrupt(), epoch)
        assert AGAIN in run(*words, "--out", "r", code=130).stderr
        before = Path("r.partial/checkpoint.gbgnn").read_bytes()
        assert AGAIN in run("fit", "--resume", "r", code=130).stderr  # and once more
        assert Path("r.partial/checkpoint.gbgnn").read_bytes() == before
    assert gbgnn.load("r.partial/checkpoint.gbgnn").fine_tuning_ is None
    told = run("fit", "--resume", "r").stderr
    assert "going on from round 4 of 4" in told
    assert "round 4/4" not in told
    assert "epoch 6/6" in told
    run(*words, "-q", "--out", "whole")
    assert _model("r") == _model("whole")


def test_ctrl_c_after_fine_tuning_never_puts_tuned_rounds_in_the_place_of_boosted_ones(
    run, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("fit", *run.tiny, *run.quick, *TUNED, "--out", "r")
    with monkeypatch.context() as patch:
        patch.setattr(fit, "score_splits", _interrupt)
        assert AGAIN in run(*words, code=130).stderr
        assert len(gbgnn.load("r.partial/checkpoint.gbgnn").ensemble_) == 4
        assert AGAIN in run(*words, "--force", "--checkpoint-every", "3", code=130).stderr
    assert len(gbgnn.load("r.partial/checkpoint.gbgnn").ensemble_) == 4
    run("fit", "--resume", "r", "-q")
    run(*words[:-1], "whole", "-q")
    assert _model("r") == _model("whole")


def test_ctrl_c_keeps_nothing_where_nothing_can_be_kept(run, monkeypatch: pytest.MonkeyPatch) -> None:
    _break_at(monkeypatch, 2, KeyboardInterrupt())
    told = run("fit", *run.tiny, *run.quick, "--no-keep-learners", "--out", "r", code=130).stderr
    assert "interrupted; nothing was kept." in told
    tree = ("--learner", "sklearn", "--estimator", "sklearn.tree.DecisionTreeClassifier", "--rule", "samme_r")
    told = run("fit", *run.tiny, "--rounds", "3", *tree, "--out", "r", code=130).stderr
    assert "interrupted; nothing was kept." in told
    assert list(Path().iterdir()) == []


@pytest.mark.usefixtures("third_is_best")
def test_a_tuned_run_records_its_epochs_and_all_rounds_of_boosting(run) -> None:
    words = ("fit", *run.tiny, *run.quick, *TUNED)
    result = run(*words, "--out", "r")
    metrics = json.loads(Path("r/metrics.json").read_text())
    model = gbgnn.load("r/model.gbgnn")
    assert (len(model.ensemble_), metrics["best_round"], metrics["rounds"]) == (3, 3, 4)
    assert "best round 3 of 4 (" in result.stdout
    rows = [json.loads(row) for row in Path("r/fine_tuning.jsonl").read_text().splitlines()]
    assert all(row["seconds"] > 0 for row in rows)
    assert without_measurements(rows) == model.fine_tuning_["history"]
    short = metrics["fine_tuning"]
    assert list(short) == ["before", "after", "kept", "epochs", "metric"]
    assert (short["kept"], short["epochs"], short["metric"]) == ("tuned", 6, "accuracy")
    assert short["before"]["val_loss"] == pytest.approx(model.history_["val_loss"][2], rel=1e-5)
    shown = "val accuracy {:.4f} to {:.4f}".format(*(short[k]["val_accuracy"] for k in ("before", "after")))
    assert f"fine-tuned 6 epochs: {shown}, val loss " in result.stdout
    assert result.stderr.count("\nepoch ") == 7
    assert run(*words, "-q", "--out", "quiet").stderr == ""


def test_an_error_before_the_first_round_leaves_no_folder(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MLP, "check", lambda self: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    run("fit", *run.tiny, *run.quick, "--out", "r", code=1)
    assert list(Path().iterdir()) == []


def test_an_error_keeps_the_rounds_that_are_done(run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        _break_at(patch, 2, OSError(5, "Input/output error", "features.npy"))
        told = run("fit", *run.tiny, *run.quick, "-q", "--out", "r", code=1).stderr
    assert told == (
        "error: features.npy: Input/output error. It ended after round 2; go on with: gbgnn fit --resume r\n"
    )
    run("fit", "--resume", "r", "-q")
    run("fit", *run.tiny, *run.quick, "-q", "--out", "whole")
    assert _model("r") == _model("whole")


def test_changed_data_is_not_gone_on_with(run, tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        _break_at(patch, 2, KeyboardInterrupt())
        run("fit", tables, *run.quick, "-q", "--out", "r", code=130)
    nodes = tables / "nodes.csv"
    nodes.write_text(nodes.read_text().replace("0.9", "0.8"))
    assert "people changed since r was started" in run("fit", "--resume", "r", code=1).stderr


def test_test_labels_are_read_after_training(run, monkeypatch: pytest.MonkeyPatch) -> None:
    data = datasets.load("karate")
    seen: list[str] = []

    class Labels:
        """Labels that remember when those of test nodes are asked for."""

        dtype = data.y.dtype

        def __getitem__(self, nodes):
            if set(map(int, nodes)) & set(data.test.tolist()):
                seen.append("test")
            return data.y[nodes]

    class Spy:
        def __getattr__(self, name: str):
            return Labels() if name == "y" else getattr(data, name)

    usual = gbgnn.GBGNNClassifier.fit

    def fit(self, *args, **kwargs):
        assert seen == []
        return usual(self, *args, **kwargs)

    monkeypatch.setattr(Source, "load", lambda self: Spy())
    monkeypatch.setattr(gbgnn.GBGNNClassifier, "fit", fit)
    run("fit", "karate", *run.quick, "--out", "r")
    assert seen == ["test"]


def test_checkpoint_rhythm_is_taken_over(run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        _break_at(patch, 1, KeyboardInterrupt())
        run("fit", *run.tiny, *run.quick, "-q", "--checkpoint-every", "2", "--out", "r", code=130)
    job = fit.resumed_job(Path("r"), data_dir=None, checkpoint_every=None)
    assert (job.n_known, job.checkpoint_every) == (1, 2)
    assert os.listdir() == ["r.partial"]


def test_a_run_goes_on_with_as_many_threads_as_it_began_with(run, monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        with monkeypatch.context() as patch:
            _break_at(patch, 2, KeyboardInterrupt())
            run("fit", *run.tiny, *run.quick, "-q", "--out", "r", code=130)
        assert "threads = 3" in Path("r.partial/config.toml").read_text()
        torch.set_num_threads(1)
        run("fit", "--resume", "r", "-q")
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
