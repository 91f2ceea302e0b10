"""fine_tune: all parameters of a boosted model, moved together."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from gbgnn._optimizers import Stepper
from gbgnn._random import Seeds, generator
from gbgnn._threads import threads_for
from gbgnn.boosting import Ensemble, Voting, apply
from gbgnn.boosting.history import Row
from gbgnn.boosting.selection import validation_key
from gbgnn.errors import GBGNNWarning, ParameterError
from gbgnn.finetuning.network import AGGREGATION, ETAS, LEARNERS, MultiScaleNetwork
from gbgnn.finetuning.representations import Positions, parse_bytes
from gbgnn.finetuning.tuner import FineTuner
from gbgnn.losses import Loss
from gbgnn.metrics import Metric, as_metric
from gbgnn.model import FittedModel
from gbgnn.problem import Problem


@dataclass(frozen=True, eq=False)
class EpochReport:
    """What is known after an epoch of fine-tuning; epoch 0 is the boosted model, before the first step.

    Parameters
    ----------
    epoch, n_epochs
        How many epochs are done, and the most there will be.
    row
        ``epoch``, ``train_loss``, ``val_loss`` and the metric, such as ``val_accuracy`` (both None without
        validation nodes), ``seconds``.
    metric
        Name of the metric.
    """

    epoch: int
    n_epochs: int
    row: Row
    metric: str = "accuracy"


@dataclass(frozen=True, eq=False)
class FineTuningReport:
    """What came of fine-tuning; as text, a sentence.

    Parameters
    ----------
    before, after
        Loss and metric of the boosted and of the fine-tuned model.
    kept
        Which of them predicts: ``"boosted"`` or ``"tuned"``.
    epochs
        How many were taken.
    metric
        Name of the metric.
    """

    before: dict[str, float]
    after: dict[str, float]
    kept: str
    epochs: int
    metric: str = "accuracy"

    @classmethod
    def from_model(cls, model: FittedModel) -> FineTuningReport:
        """Return the report of a fine-tuned model."""
        done = model.fine_tuning
        assert done is not None
        return cls(done["before"], done["after"], done["kept"], len(done["history"]), model.metric.name)

    def __str__(self) -> str:
        part = "val" if "val_loss" in self.after else "train"
        changes = [
            f"{part} {what} {self.before[f'{part}_{what}']:.4f} to {self.after[f'{part}_{what}']:.4f}"
            for what in (self.metric, "loss")
        ]
        noun = "epoch" if self.epochs == 1 else "epochs"
        return f"fine-tuned {self.epochs} {noun}: {', '.join(changes)}; the {self.kept} model was kept"


Listener = Callable[[EpochReport], None]


@dataclass(frozen=True, eq=False)
class FineTuned:
    """What came of fine-tuning."""

    ensemble: Ensemble  # the model to use: fine-tuned, or as it was boosted
    voting: Voting  # how it predicts: a fine-tuned model whose learners chose one class votes by softmax
    # before, after: loss and metric of the boosted model (its steps scaled as fine-tuning begins, where the
    # voting asks for that) and of the fine-tuned one, on the labelled nodes (train_loss, train_accuracy) and
    # on the validation nodes (val_loss, val_accuracy) where there are any.
    before: dict[str, float]
    after: dict[str, float]
    kept: str  # "tuned" or "boosted"
    # A row per epoch: epoch, train_loss (as seen on the way), val_loss and val_accuracy (after it; None
    # without validation nodes), seconds.
    history: list[Row]


def fine_tune_model(
    model: FittedModel, problem: Problem, tuner: FineTuner, on_epoch: Listener | None = None
) -> FittedModel:
    """Fine-tune the rounds that predict, and return the better model (or the fine-tuned one, as asked)."""
    tuned = fine_tune(
        model.ensemble[: model.best_round],
        problem,
        model.voting,
        model.loss,
        tuner,
        Seeds(model.seed).fine_tuning(),
        metric=model.metric,
        on_epoch=on_epoch,
    )
    done = {"before": tuned.before, "after": tuned.after, "kept": tuned.kept, "history": tuned.history}
    if tuned.kept == "boosted":
        return replace(model, fine_tuning=done)
    scores = apply(tuned.ensemble, problem.inputs, tuned.voting)
    return replace(model, ensemble=tuned.ensemble, voting=tuned.voting, score_tensor=scores, fine_tuning=done)


def fine_tune(
    ensemble: Ensemble,
    problem: Problem,
    voting: Voting,
    loss: Loss,
    tuner: FineTuner,
    seed: int,
    *,
    metric: Metric | None = None,
    on_epoch: Listener | None = None,
) -> FineTuned:
    """Lower the loss of the labelled nodes in all parameters of a model at once; the model stays as it is.

    Epochs and models are judged on the validation nodes by ``metric``; None is the task's default.
    ``on_epoch`` is called after every epoch, and with what the boosted model measures, as epoch 0, before the
    first.
    """
    tuner.check(has_validation=problem.validation is not None)
    if not len(ensemble):
        raise ParameterError("the ensemble has no rounds, so there is nothing to fine-tune; boost one first.")
    started = time.perf_counter()
    limit = parse_bytes("FineTuner", "memory_limit", tuner.memory_limit)
    is_batched = tuner.batch_size is not None and tuner.batch_size < problem.train.size
    total = voting.fine_tuning_total()
    network = MultiScaleNetwork(
        ensemble if total is None else ensemble.rescaled(total),
        problem,
        voting,
        loss,
        metric=as_metric(problem.task.default_metric) if metric is None else metric,
        moves=tuner.moves,
        memory_limit=limit,
        is_batched=is_batched,
    )
    before = network.measure(voting)
    if on_epoch is not None:
        on_epoch(EpochReport(0, tuner.epochs, _row(0, before, started, network), network.metric.name))
    with threads_for(network.work):
        history = list(descend(network, tuner, seed, on_epoch))
    after = network.measure(network.voting)
    kept = choose(before, after, tuner.keep, network.metric.name)
    return FineTuned(
        ensemble=network.rebuild() if kept == "tuned" else ensemble,
        voting=network.voting if kept == "tuned" else voting,
        before=before,
        after=after,
        kept=kept,
        history=history,
    )


def descend(
    network: MultiScaleNetwork, tuner: FineTuner, seed: int, on_epoch: Listener | None
) -> Iterator[Row]:
    """Take the steps, epoch by epoch; yield a row for each."""
    steppers = {kind: _stepper(kind, moved, tuner, network) for kind, moved in network.parameters().items()}
    random = generator(seed)
    best = None if network.validation is None else _Best(network, tuner.patience)
    for epoch in range(1, tuner.epochs + 1):
        started, train_loss = time.perf_counter(), 0.0
        for positions, share in batches(network.train, tuner.batch_size, random):
            # Of a batch, the expectation is the loss of all; over an epoch, the shares sum to one.
            train_loss += share * network.accumulate(positions, 1 / share)
            gradients = network.take_gradients()
            with torch.no_grad():
                for kind, stepper in steppers.items():
                    stepper.step(gradients[kind])
            network.hops.project()
        network.after_epoch()
        measured = network.measure_validation()
        row = _row(epoch, {"train_loss": train_loss, **measured}, started, network)
        if on_epoch is not None:
            on_epoch(EpochReport(epoch, tuner.epochs, row, network.metric.name))
        yield row
        if not math.isfinite(train_loss):
            warnings.warn(
                f"fine-tuning diverged in epoch {epoch} (training loss {train_loss}); try a smaller "
                f"learning_rate than {tuner.learning_rate:g}.",
                GBGNNWarning,
                stacklevel=3,
            )
            break
        if best is not None and best.is_time_to_stop(measured):
            break
    if best is not None:
        best.restore()


def batches(
    train: slice, batch_size: int | None, random: torch.Generator
) -> Iterator[tuple[Positions, float]]:
    """Yield the positions of an epoch's batches, and the share of all labelled nodes that each is."""
    n_rows = train.stop - train.start
    if batch_size is None or batch_size >= n_rows:
        yield train, 1.0
        return
    for chosen in torch.randperm(n_rows, generator=random).split(batch_size):
        yield chosen, len(chosen) / n_rows


def choose(before: dict[str, float], after: dict[str, float], keep: str, metric: str = "accuracy") -> str:
    """Return which model is kept."""
    if not math.isfinite(after["train_loss"]):
        return "boosted"
    if keep == "tuned" or "val_loss" not in after:
        return "tuned"
    return "tuned" if validation_key(after, metric) >= validation_key(before, metric) else "boosted"


def _row(epoch: int, measured: dict[str, Any], started: float, network: MultiScaleNetwork) -> Row:
    names = ("train_loss", "val_loss", f"val_{network.metric.name}")
    columns = {name: measured.get(name) for name in names}
    return {"epoch": epoch, **columns, "seconds": time.perf_counter() - started}


def _stepper(
    kind: str, parameters: list[torch.Tensor], tuner: FineTuner, network: MultiScaleNetwork
) -> Stepper:
    size = 1.0  # of a step, beside one of the learners
    if kind == AGGREGATION:  # a representation is a product of as many hops
        size = 1 / len(network.ensemble)
    elif kind == ETAS:  # they are as large as the rule made them, a hundredth or twenty: in proportion
        size = float(network.etas.detach().abs().mean())
    decay = tuner.weight_decay if kind == LEARNERS else 0.0
    rate = tuner.learning_rate * size
    return Stepper(tuner.optimizer, parameters, rate, weight_decay=decay, momentum=tuner.momentum)


class _Best:
    """The parameters after the epoch with the best :func:`validation_key` so far."""

    def __init__(self, network: MultiScaleNetwork, patience: int | None) -> None:
        self.moved = [value for kind in network.parameters().values() for value in kind]
        self.patience, self.n_since, self.metric = patience, 0, network.metric.name
        self.key, self.best = (-math.inf, -math.inf), [value.detach().clone() for value in self.moved]

    def is_time_to_stop(self, measured: Row) -> bool:
        key = validation_key(measured, self.metric)
        if math.isfinite(measured["val_loss"]) and key > self.key:
            self.key, self.n_since = key, 0
            for kept, value in zip(self.best, self.moved, strict=True):
                kept.copy_(value.detach())
        else:
            self.n_since += 1
        return self.patience is not None and self.n_since >= self.patience

    @torch.no_grad()
    def restore(self) -> None:
        for kept, value in zip(self.best, self.moved, strict=True):
            value.copy_(kept)
