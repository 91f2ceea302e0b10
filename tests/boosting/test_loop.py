from __future__ import annotations

import inspect

import numpy as np
import torch

from gbgnn import MLP, Adjacency, KernelTargetAlignment, Samme
from gbgnn._random import Seeds
from gbgnn.boosting import Callback, RoundReport, StopReason, boost
from gbgnn.learners import Learner
from gbgnn.testing import problem_of, two_blocks

GRAPH, Y = two_blocks(40, n_classes=3)
PROBLEM = problem_of(GRAPH, Y, np.arange(15), np.arange(15, 25))


def run(n_rounds: int, **options: object) -> object:
    parts = (KernelTargetAlignment(epochs=3), MLP(epochs=15, units=8), Samme())
    return boost(PROBLEM, *parts, n_rounds=n_rounds, seeds=Seeds(0), **options)


def test_the_loop_is_short() -> None:
    body = inspect.getsource(boost).split('"""')[2]
    assert len(body.strip().splitlines()) <= 30


def test_round_one_sees_the_raw_features_and_later_ones_mixed() -> None:
    seen: list[torch.Tensor] = []

    class Spy(MLP):
        def fit(self, X: torch.Tensor, task: object, seed: int) -> object:
            seen.append(X.clone())
            return super().fit(X, task, seed)

    boost(PROBLEM, Adjacency(), Spy(epochs=2), Samme(), n_rounds=3, seeds=Seeds(0))
    P = PROBLEM.inputs.P
    torch.testing.assert_close(seen[0], PROBLEM.inputs.features)
    torch.testing.assert_close(seen[1], P(PROBLEM.inputs.features))
    torch.testing.assert_close(seen[2], P(P(PROBLEM.inputs.features)))


def test_a_longer_run_begins_with_the_shorter_one() -> None:
    short, long = run(3), run(6)
    assert long.ensemble[:3].etas == short.ensemble.etas
    for name in ("train_loss", "cosine", "weighted_error"):
        assert long.history[name][:3] == short.history[name]


def test_known_rounds_are_replayed_to_the_byte() -> None:
    calls = []

    class Counting(MLP):
        def fit(self, X: torch.Tensor, task: object, seed: int) -> object:
            calls.append(seed)
            return super().fit(X, task, seed)

    whole = run(6)
    parts = (KernelTargetAlignment(epochs=3), Counting(epochs=15, units=8), Samme())
    again = boost(PROBLEM, *parts, n_rounds=6, seeds=Seeds(0), known=whole.ensemble[:4])
    assert len(calls) == 2
    assert torch.equal(again.scores, whole.scores)
    assert again.history["train_loss"] == whole.history["train_loss"]


def test_dropped_learners_change_no_score() -> None:
    lean, full = run(4, keep_learners=False), run(4)
    assert torch.equal(lean.scores, full.scores)
    assert all(r.head is None for r in lean.ensemble)


def test_callback_can_end_boosting_and_sees_every_event() -> None:
    class Recorder(Callback):
        def on_start(self, start: object) -> None:
            self.events = [("start", start.n_rounds)]

        def on_round(self, report: RoundReport) -> StopReason | None:
            self.events.append(("round", report.t))
            return StopReason.REQUESTED if report.t == 2 else None

        def on_end(self, result: object) -> None:
            self.events.append(("end", str(result.stop)))

    recorder = Recorder()
    result = run(5, callbacks=[recorder, Callback()])
    assert recorder.events == [("start", 5), ("round", 1), ("round", 2), ("end", "requested")]
    assert result.stop is StopReason.REQUESTED
    assert len(result.ensemble) == 2


def test_learner_that_returns_nan_ends_boosting() -> None:
    class Broken(MLP):
        def fit(self, X: torch.Tensor, task: object, seed: int) -> Learner:
            head = super().fit(X, task, seed)
            if not torch.equal(X, PROBLEM.inputs.features):
                head.layers[0].weight.fill_(float("nan"))
            return head

    result = boost(PROBLEM, Adjacency(), Broken(epochs=20), Samme(), n_rounds=5, seeds=Seeds(0))
    assert len(result.ensemble) == 1
    assert result.stop is StopReason.DIVERGED
