"""Fine-tuning: its settings, and the loop that moves all parameters of a boosted model together."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from sklearn.base import BaseEstimator

from gbgnn._checks import as_bytes, check_choice, check_integer, check_number
from gbgnn._optimizers import OPTIMIZERS, Stepper
from gbgnn._random import Seeds, generator
from gbgnn._threads import threads_for
from gbgnn.boosting import Ensemble, apply
from gbgnn.boosting.history import Row
from gbgnn.boosting.selection import validation_key
from gbgnn.errors import GBGNNWarning, ParameterError
from gbgnn.finetuning.base import AGGREGATION, ETAS, LEARNERS, MOVES, Positions, TunedNetwork
from gbgnn.finetuning.layered import LayeredNetwork
from gbgnn.finetuning.network import MultiScaleNetwork
from gbgnn.learners import Learner
from gbgnn.model import FittedModel
from gbgnn.problem import Problem


@dataclass(kw_only=True, eq=False, repr=False)
class FineTuner(BaseEstimator):
    """Settings of fine-tuning: gradient steps on the loss of the labelled nodes.

    Parameters
    ----------
    epochs
        Passes over the labelled nodes.
    optimizer, learning_rate, momentum
        ``"sgd"``, ``"adam"`` or ``"rmsprop"`` with its step and its momentum (Adam has none). The numbers of
        the hops take steps of ``learning_rate`` over the number of rounds, because a representation is a
        product of as many hops; the steps of the rounds are moved in proportion to their size.
    weight_decay
        L2 penalty on the learners; steps and hops have none.
    batch_size
        Labelled nodes per step, drawn without replacement; None takes all at once.
    patience
        Stop when this many epochs have brought no better metric on the validation nodes, nor an equal one
        with a lower loss; None takes all ``epochs``. Either way, where there are validation nodes the
        fine-tuned model is that of the best epoch.
    moves
        What is fine-tuned: some of ``"learners"``, ``"etas"`` (the steps of the rounds) and
        ``"aggregation"`` (the coefficients of KTA, the mixing ratios of InputInjection and Lazy; other hops
        have nothing to move).
    memory_limit
        Bytes to be used beside the model, the features and P, or text such as ``"2GB"``. Where they suffice,
        what the labelled nodes see of the graph is computed once; otherwise again and again, a few nodes at
        a time, with the same result. Arrays are counted: the process may hold some tens of megabytes more.
    keep
        ``"best"``: the better of the boosted and the fine-tuned model by the metric on the validation nodes,
        then by their loss; without validation nodes, the fine-tuned one. ``"tuned"``: that in any case.

    Examples
    --------
    >>> FineTuner(epochs=20, moves=("learners", "etas"))
    FineTuner(epochs=20, moves=('learners', 'etas'))
    """

    epochs: int = 100
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.0
    weight_decay: float = 1e-3
    batch_size: int | None = None
    patience: int | None = None
    moves: Sequence[str] = MOVES
    memory_limit: int | str = 2 * 2**30
    keep: str = "best"

    def check(self, *, has_validation: bool) -> None:
        """Raise when a setting is out of range, or needs validation nodes that are not there."""
        owner = "FineTuner"
        check_integer(owner, "epochs", self.epochs, 0)
        check_choice(owner, "optimizer", self.optimizer, OPTIMIZERS)
        check_number(owner, "learning_rate", self.learning_rate, 0, open_low=True)
        check_number(owner, "momentum", self.momentum, 0, 1, open_high=True)
        check_number(owner, "weight_decay", self.weight_decay, 0)
        check_integer(owner, "batch_size", self.batch_size, 1, optional=True)
        check_integer(owner, "patience", self.patience, 1, optional=True)
        check_choice(owner, "keep", self.keep, ("best", "tuned"))
        as_bytes(owner, "memory_limit", self.memory_limit)
        is_list = isinstance(self.moves, (list, tuple)) and all(isinstance(name, str) for name in self.moves)
        if not is_list or not self.moves or len(set(self.moves)) < len(self.moves):
            raise ParameterError(
                f"FineTuner.moves must be one or more of {', '.join(MOVES)}, each once, as a sequence such "
                f'as ("learners", "etas"); got {self.moves!r}.'
            )
        for i, name in enumerate(self.moves):
            check_choice(owner, f"moves[{i}]", name, MOVES)
        if self.patience is not None and not has_validation:
            raise ParameterError(
                "FineTuner.patience stops on validation nodes, but there are none; pass validation= or "
                "validation_fraction, or set patience=None."
            )


def as_fine_tuner(value: Any) -> FineTuner | None:
    """Return the fine-tuner that ``fine_tune`` stands for: None and False are none, True the default one."""
    if value is None or value is False:
        return None
    if value is True:
        return FineTuner()
    if not isinstance(value, FineTuner):
        raise ParameterError(f"fine_tune must be None, True or a FineTuner object; got {value!r}.")
    return value


def check_fine_tuning(
    tuner: FineTuner, learner: Learner, *, keep_learners: bool, has_validation: bool
) -> None:
    """Raise, before any work is done, when fine-tuning could not work afterwards."""
    tuner.check(has_validation=has_validation)
    if not learner.is_differentiable:
        raise ParameterError(
            f"fine_tune moves learners along gradients, which {learner!r} has none of; use MLP(), or "
            "fine_tune=None."
        )
    if not keep_learners:
        raise ParameterError("fine_tune needs the fitted learners; set keep_learners=True.")


@dataclass(frozen=True, eq=False)
class EpochReport:
    """What is known after an epoch of fine-tuning; epoch 0 is the boosted model, before the first step."""

    epoch: int  # how many are done
    n_epochs: int  # the most there will be
    # epoch, train_loss, val_loss and the metric, such as val_accuracy (both None without validation nodes),
    # seconds.
    row: Row
    metric: str = "accuracy"  # its name


@dataclass(frozen=True, eq=False)
class FineTuningReport:
    """What came of fine-tuning; as text, a sentence."""

    before: dict[str, float]  # loss and metric of the boosted model
    after: dict[str, float]  # those of the fine-tuned one
    kept: str  # which of them predicts: "boosted" or "tuned"
    epochs: int  # how many were taken
    metric: str = "accuracy"  # its name

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


Listener = Callable[[EpochReport], object]


def fine_tune_model(
    model: FittedModel, problem: Problem, tuner: FineTuner, on_epoch: Listener | None = None
) -> FittedModel:
    """Lower the loss of the labelled nodes in all parameters of the rounds that predict, at once.

    Returned is the better model, or the fine-tuned one, as asked. ``on_epoch`` is called after every epoch,
    and with what the boosted model measures, as epoch 0, before the first. The model's ``fine_tuning`` says
    what was done:

    - ``before``, ``after``: loss and metric of the boosted model (its steps scaled as fine-tuning begins,
      where the voting asks for that) and of the fine-tuned one, on the labelled nodes (``train_loss``,
      ``train_accuracy``) and on the validation nodes (``val_loss``, ``val_accuracy``) where there are any;
    - ``kept``: ``"tuned"`` or ``"boosted"``;
    - ``history``: a row per epoch with ``epoch``, ``train_loss`` (as seen on the way), ``val_loss`` and
      ``val_accuracy`` (after it; None without validation nodes), ``seconds``.
    """
    tuner.check(has_validation=problem.validation is not None)
    ensemble, metric = model.ensemble[: model.best_round], model.metric.name
    if not len(ensemble):
        raise ParameterError("the ensemble has no rounds, so there is nothing to fine-tune; boost one first.")
    started = time.perf_counter()
    total = model.voting.fine_tuning_total()
    network = build_network(model, ensemble if total is None else ensemble.rescaled(total), problem, tuner)
    before = network.measure(model.voting)
    if on_epoch is not None:
        on_epoch(EpochReport(0, tuner.epochs, _row(0, before, metric, started), metric))
    with threads_for(network.work):
        history = descend(network, tuner, Seeds(model.seed).fine_tuning(), on_epoch)
    after = network.measure(network.voting)
    is_wanted = (
        tuner.keep == "tuned"
        or network.validation is None
        or validation_key(after, metric) >= validation_key(before, metric)
    )
    kept = "tuned" if is_wanted and math.isfinite(after["train_loss"]) else "boosted"
    model = replace(model, fine_tuning={"before": before, "after": after, "kept": kept, "history": history})
    if kept == "boosted":
        return model
    tuned, voting = network.rebuild(), network.voting
    del network  # before the scores of all nodes take its room
    return replace(model, ensemble=tuned, voting=voting, kept_scores=apply(tuned, problem.inputs, voting))


def build_network(model: FittedModel, ensemble: Ensemble, problem: Problem, tuner: FineTuner) -> TunedNetwork:
    """Return the rounds that predict as one function of what is moved."""
    parts = (ensemble, problem, model.voting, model.loss, model.metric)
    options: dict[str, Any] = {
        "moves": tuner.moves,
        "memory_limit": as_bytes("FineTuner", "memory_limit", tuner.memory_limit),
    }
    if not all(hop.keeps_width for hop in ensemble.hops):
        return LayeredNetwork(*parts, **options)
    is_batched = tuner.batch_size is not None and tuner.batch_size < problem.train.size
    return MultiScaleNetwork(*parts, **options, is_batched=is_batched)


def descend(network: TunedNetwork, tuner: FineTuner, seed: int, on_epoch: Listener | None) -> list[Row]:
    """Take the steps, epoch by epoch; return a row for each.

    The network is left as it was after the epoch with the best :func:`validation_key`.
    """
    sizes = {  # of a step, beside one of the learners
        LEARNERS: 1.0,
        # They are as large as the rule made them, a hundredth or twenty: in proportion.
        ETAS: float(network.etas.detach().abs().mean()),
        AGGREGATION: 1 / len(network.ensemble),  # a representation is a product of as many hops
    }
    steppers = {}
    for kind, parameters in network.parameters().items():
        rate, options = tuner.learning_rate * sizes[kind], {"momentum": tuner.momentum}
        options |= {"weight_decay": tuner.weight_decay} if kind == LEARNERS else {}
        steppers[kind] = Stepper(tuner.optimizer, parameters, rate, **options)
    random, n_rows, metric = generator(seed), network.train.stop, network.metric.name
    moved: list[torch.Tensor] = []  # what the best epoch is kept of
    if network.validation is not None:
        moved = [value for kind in network.parameters().values() for value in kind]
    best, best_key, n_since = [value.detach().clone() for value in moved], (-math.inf, -math.inf), 0
    history = []
    for epoch in range(1, tuner.epochs + 1):
        started, train_loss = time.perf_counter(), 0.0
        batches: Sequence[Positions] = [network.train]
        if tuner.batch_size is not None and tuner.batch_size < n_rows:
            batches = torch.randperm(n_rows, generator=random).split(tuner.batch_size)
        for positions in batches:
            # Of a batch, the expectation is the loss of all; over an epoch, the shares sum to one.
            share = 1.0 if isinstance(positions, slice) else len(positions) / n_rows
            train_loss += share * network.accumulate(positions, 1 / share)
            gradients = network.take_gradients()
            with torch.no_grad():
                for kind, stepper in steppers.items():
                    stepper.step(gradients[kind])
            network.project()
        network.after_epoch()
        measured = network.measure(network.voting, ["val"])
        row = _row(epoch, {"train_loss": train_loss, **measured}, metric, started)
        if on_epoch is not None:
            on_epoch(EpochReport(epoch, tuner.epochs, row, metric))
        history.append(row)
        if not math.isfinite(train_loss):
            warnings.warn(
                f"fine-tuning diverged in epoch {epoch} (training loss {train_loss}); try a smaller "
                f"learning_rate than {tuner.learning_rate:g}.",
                GBGNNWarning,
                stacklevel=2,
            )
            break
        if network.validation is None:
            continue
        n_since += 1
        key = validation_key(measured, metric)
        if math.isfinite(measured["val_loss"]) and key > best_key:
            best_key, n_since = key, 0
            for kept, value in zip(best, moved, strict=True):
                kept.copy_(value.detach())
        if tuner.patience is not None and n_since >= tuner.patience:
            break
    with torch.no_grad():
        for kept, value in zip(best, moved, strict=True):
            value.copy_(kept)
    return history


def _row(epoch: int, measured: dict[str, Any], metric: str, started: float) -> Row:
    columns = {name: measured.get(name) for name in ("train_loss", "val_loss", f"val_{metric}")}
    return {"epoch": epoch, **columns, "seconds": time.perf_counter() - started}
