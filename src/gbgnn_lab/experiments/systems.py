"""Systems that are measured beside each other: gbgnn with its default settings, and the baselines."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from gbgnn.blend import BlendedModel
from gbgnn.boosting.history import peak_memory
from gbgnn.callbacks import Callback, RoundReport
from gbgnn.datasets import Dataset, csbm
from gbgnn.errors import ParameterError, WeakLearnerError, suggest
from gbgnn.learners import Learner, Stages
from gbgnn.presets import Facts, adapt
from gbgnn.registry import PARAMETERS, as_device, as_part
from gbgnn.settings import build_model
from gbgnn_lab.baselines import BASELINES, choose_model, fit_baseline, judge_parts
from gbgnn_lab.experiments.jobs import Outcome, Tell
from gbgnn_lab.experiments.records import Fields, judge


def make_model(settings: Mapping[str, Any], data: Dataset) -> Any:
    """Return the library's model for this kind of data, a classifier or a regressor, with these settings."""
    return build_model({**settings, "task": data.task} if data.is_regression else settings)


def fit_model(settings: Mapping[str, Any], data: Dataset, **more: Any) -> Any:
    """Return the library's model with these settings, fitted to the training nodes."""
    model = make_model(settings, data).set_params(**more)
    targets, validation = data.y[data.train], (data.val, data.y[data.val])
    return model.fit(data.train, targets, graph=data.graph, validation=validation)


@dataclass(frozen=True, eq=False)
class Fitted:
    """The classes or numbers that a system predicts, one for every node, and its settings."""

    predictions: NDArray[Any]
    settings: Fields
    facts: Fields = field(default_factory=dict)  # what else there is to record
    last: NDArray[Any] | None = None  # what the deepest round would predict, where an earlier one does
    proba: NDArray[Any] | None = None  # of all nodes, a column per class; None where the system has none
    classes: NDArray[Any] | None = None  # in the order of these columns


@dataclass(frozen=True)
class System(ABC):
    """Something that learns from training nodes, chooses by validation nodes, and predicts all nodes."""

    name: str
    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # those that are not default or published
    predicts_numbers: bool = True  # whether it is for regression too

    @abstractmethod
    def fit(self, data: Dataset, *, seed: int, device: Any, depth: int | None = None) -> Fitted:
        """Fit and predict; ``depth`` is a number of hops, None the system's own."""

    @abstractmethod
    def for_warmup(self, data: Dataset) -> System:
        """Return the same, as it would be for this data, with as little training as can be."""


@dataclass(frozen=True)
class BoostedSystem(System):
    """gbgnn."""

    def fit(self, data: Dataset, *, seed: int, device: Any, depth: int | None = None) -> Fitted:
        """Fit; the round that predicts is chosen by validation, as is the default."""
        # The first round sees the raw features, so that each hop is a round more.
        chosen = {**self.settings, **({} if depth is None else {"n_rounds": depth + 1})}
        seen = _LastScores()
        model = fit_model(chosen, data, random_state=seed, device=device, callbacks=[seen])
        is_average = isinstance(model.model_, BlendedModel)
        facts = (
            {"models": len(model.members_)}
            if is_average
            else {"best_round": model.best_round_, "rounds": len(model.history_)}
        )
        nodes = np.arange(data.graph.n_nodes)
        predictions = model.predict(nodes)
        if data.is_regression:
            return Fitted(predictions, chosen, facts)
        last, proba = None, model.predict_proba(nodes)
        if not is_average and not model.fine_tuning_:
            last = model.task_.decode(model.task_.decide(seen.scores, model.loss_.link).cpu().numpy())
        return Fitted(predictions, chosen, facts, last, proba, model.classes_)

    def for_warmup(self, data: Dataset) -> BoostedSystem:
        """Take a round of an epoch, or of a tree, with the parts that the model has for this data."""
        model, y = make_model(self.settings, data), data.y[data.train]
        facts = Facts.of(data.graph, model.task_for(y), data.train, y, has_validation=len(data.val) > 0)
        model = adapt(model, facts)
        parts = {name: as_part(name, getattr(model, name)) for name in PARAMETERS}
        few = _with_little_training(parts.pop("learner"))
        n_rounds = 2 if isinstance(few, Stages) else 1
        return replace(self, settings={**parts, "learner": few, "n_rounds": n_rounds})


def _with_little_training(learner: Learner) -> Learner:
    """Return a learner of an epoch or of a tree."""
    few: Learner = clone(learner)
    for name, value in few.get_params(deep=False).items():
        if isinstance(value, Learner):
            few.set_params(**{name: _with_little_training(value)})
        elif name in ("epochs", "n_trees"):
            few.set_params(**{name: 1})
    return few


class _LastScores(Callback):
    """Keeps the scores after the last round."""

    def on_round(self, report: RoundReport) -> None:
        self.scores = report.scores


@dataclass(frozen=True)
class BaselineSystem(System):
    """A baseline."""

    def fit(self, data: Dataset, *, seed: int, device: Any, depth: int | None = None) -> Fitted:
        """Fit; the epoch that predicts is chosen by validation."""
        fitted = fit_baseline(self.name, data, seed=seed, depth=depth, device=device, **self.settings)
        facts = {"best_epoch": fitted.best_epoch, "n_parameters": fitted.n_parameters}
        return Fitted(fitted.predictions, fitted.settings, facts, proba=fitted.proba, classes=fitted.classes)

    def for_warmup(self, data: Dataset) -> BaselineSystem:
        """Take an epoch, where there are any."""
        known = asdict(choose_model(self.name, "", **self.settings))
        fewer: Fields = {name: 1 for name in ("epochs", "head_epochs") if name in known}
        return replace(self, settings={**self.settings, **fewer})


OURS: tuple[BoostedSystem, ...] = (
    BoostedSystem("gbgnn", "gbgnn"),
    BoostedSystem("gbgnn-fast", "gbgnn, fast", {"preset": "fast"}),
    BoostedSystem("gbgnn-best", "gbgnn, best", {"preset": "best"}),
    BoostedSystem("gbgnn-kta", "gbgnn, KTA", {"aggregation": "kta"}),
    BoostedSystem("gbgnn-ii", "gbgnn, II", {"aggregation": "injection"}),
    BoostedSystem("gbgnn-samme", "gbgnn, SAMME", {"rule": "samme"}, predicts_numbers=False),
    BoostedSystem("gbgnn-samme_r", "gbgnn, SAMME.R", {"rule": "samme_r"}, predicts_numbers=False),
)
"""gbgnn with its defaults, which look at the data, and the paper's method with one part changed."""

SYSTEMS: Mapping[str, System] = {
    **{system.name: system for system in OURS},
    **{
        name: BaselineSystem(name, baseline.title, predicts_numbers=baseline.model.predicts_numbers)
        for name, baseline in BASELINES.items()
    },
}
"""Every system by its name."""


def find_systems(names: Iterable[str]) -> list[System]:
    """Return the systems of these names; none at all stands for every one."""
    wanted = list(names) or list(SYSTEMS)
    for name in wanted:
        if name not in SYSTEMS:
            raise ParameterError(
                f"unknown system {name!r}.{suggest(name, SYSTEMS)} Known: {', '.join(SYSTEMS)}."
            )
    return [SYSTEMS[name] for name in wanted]


def measure(
    system: System, data: Dataset, device: Any, run: int, depth: int | None = None, tell: Tell | None = None
) -> Outcome:
    """Fit a system, and return how good it is, its seconds and peak memory. It is not given the test labels.

    Time and memory are those of the fit and the predictions, without reading the data, and without what
    happens once in a process: before the clock starts, the same is done on a tiny graph with little training.
    """
    seen, place = data.without_test_labels(), as_device(device)
    with suppress(WeakLearnerError):  # so little training may well come to nothing
        system.for_warmup(data).fit(draw_tiny(data.task), seed=0, device=place)
    meter, started = MemoryMeter(place), time.perf_counter()
    fitted = system.fit(seen, seed=run, device=place, depth=depth)
    seconds, memory = time.perf_counter() - started, meter.peak()
    results: Fields = {**judge_parts(data, fitted.predictions, fitted.proba, fitted.classes)}
    if fitted.last is not None:
        results["last_test_accuracy"] = judge(fitted.last, data)["test_accuracy"]
    results |= {"fit_seconds": round(seconds, 3), "memory": memory, **fitted.facts}
    return Outcome(fitted.settings, results)


def draw_tiny(task: str | None) -> Dataset:
    """Return a tiny graph with classes, or with numbers, to predict."""
    data = csbm(n_nodes=40, per_class=5)
    if task != "regression":
        return data
    return replace(data, y=data.graph.features[:, 0], task=task, task_reason="")


_STATUS = Path("/proc/self/statm")
_CLEAR = Path("/proc/self/clear_refs")


class MemoryMeter:
    """Counts from when it is made: on a GPU, what torch allocates there; else, what this process holds.

    Of a process, the peak so far can be forgotten on Linux alone; elsewhere the meter shows too little for a
    process that has held more before, which a fresh one has not.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            self._before: int | None = int(torch.cuda.memory_allocated(device))
            return
        with suppress(OSError):  # not Linux, or not allowed
            _CLEAR.write_text("5")  # forget the peak so far
        self._before = peak_memory(device)
        if _STATUS.exists():
            self._before = int(_STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def peak(self) -> int | None:
        """Return the most bytes that were held at once, without those held at the start; None if unknown."""
        now = peak_memory(self._device)
        return None if now is None or self._before is None else max(0, now - self._before)
