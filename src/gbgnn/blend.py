"""BlendedModel: a weighted average of fitted models, which predicts as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gbgnn._html import list_some
from gbgnn.errors import AbsentError
from gbgnn.explanations import AverageExplanation, Explanation, Voice, name_outputs
from gbgnn.explanations.scales import order_names
from gbgnn.graph import Graph
from gbgnn.losses import Loss
from gbgnn.metrics import Metric
from gbgnn.model import FittedModel
from gbgnn.predictor import Predictor, as_rows
from gbgnn.tasks import Link, Task

SMALLEST = 1e-12
"""Probabilities below are taken for this: votes may say 0, which no other member could make good again."""

R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class BlendMember:
    """One of the models: ``name`` is that of its family, ``weight`` its share in the average.

    Its scores are divided by ``temperature`` before probabilities are made of them, which changes how sure it
    is and nothing else.
    """

    name: str
    model: FittedModel
    weight: float
    temperature: float = 1.0


class _OfMembers:
    """Something that a single model has: asked for, it says whose it is here."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, blend: BlendedModel | None, owner: type | None = None) -> Any:
        if blend is None:
            return self
        raise AbsentError(
            f"there is no {self.name} of an average of {len(blend.members)} models: every member has its "
            f"own, as in model_.members[0].model.{self.name}."
        )


@dataclass(frozen=True, eq=False)
class BlendedModel(Predictor):
    """An average of models of any kinds: of probabilities of classes and labels, or of scores of numbers.

    It shows what a :class:`~gbgnn.model.FittedModel` shows, where that makes sense of several: predictions,
    also of other graphs, importances as weighted means, one file. Rounds, their history and certificates
    belong to the members. Stage k is the average of the k heaviest members.

    Parameters
    ----------
    task
        What is predicted, that of all members.
    loss
        Whose link makes probabilities of scores: the logarithms of the mean probabilities.
    metric
        By which members were judged.
    members
        The models, the heaviest first.
    leaderboard
        What was tried: a dictionary for every candidate, with ``family``, ``variant``, ``settings``,
        ``models``, ``metric``, ``score`` and ``loss`` on the validation nodes, ``temperature``, ``seconds``,
        ``weight`` and ``status``; the best first.
    seed
        Of all randomness.
    settings
        The estimator's parameters as they were at the fit.
    validation_score, validation_loss
        Of the average, on the nodes that its weights were chosen by.
    """

    task: Task
    loss: Loss
    metric: Metric
    members: tuple[BlendMember, ...]
    leaderboard: list[dict[str, Any]]
    seed: int
    settings: Mapping[str, Any]
    validation_score: float
    validation_loss: float

    ensemble, best_round, etas, history, stop_reason = (_OfMembers() for _ in range(5))
    certificate, voting, inputs, train, train_targets = (_OfMembers() for _ in range(5))
    depends_on, fine_tuning, is_fine_tuned, is_soft, stored_checksum = (_OfMembers() for _ in range(5))
    response_curves = _OfMembers()

    @property
    def facts(self) -> dict[str, Any]:
        """How many models are averaged, how good that is on the validation nodes, and all that was tried."""
        return {
            "models": len(self.members),
            "validation": {self.metric.name: self.validation_score, "loss": self.validation_loss},
            "leaderboard": self.leaderboard,
        }

    def describe(self) -> dict[str, Any]:
        """Return the members with their weights, and how good their average is on the validation nodes."""
        return {
            "average of": list_some([f"{own.name} ({own.weight:.0%})" for own in self.members]),
            f"validation {self.metric.name}": self.validation_score,
            "validation loss": self.validation_loss,
        }

    @property
    def history_rows(self) -> list[dict[str, Any]]:
        """The rows of all members, each with the number of the member and its name."""
        numbered = enumerate(self.members, start=1)
        return [{"member": i, "name": own.name, **row} for i, own in numbered for row in own.model.history]

    @cached_property
    def score_tensor(self) -> torch.Tensor:  # type: ignore[override]
        """Scores of all nodes of the fit's graph."""
        return self._mix([own.model.score_tensor for own in self.members])

    @property
    def n_nodes(self) -> int:  # type: ignore[override]
        """Number of nodes of the fit's graph."""
        return self.members[0].model.n_nodes

    @property
    def graph(self) -> Graph | None:
        """The graph of the fit; None in a model that was loaded from a file."""
        return self.members[0].model.graph

    @property
    def graph_checksum(self) -> str | None:
        """Checksum of the graph of the fit."""
        return self.members[0].model.graph_checksum

    @property
    def n_features_in(self) -> int:
        """Number of feature columns, of a table as the user has them."""
        return self.members[0].model.n_features_in

    @property
    def feature_names_in(self) -> NDArray[Any]:
        """The names of the columns of the fit's graph."""
        return self.members[0].model.feature_names_in

    @cached_property
    def train_nodes(self) -> NDArray[np.int64]:  # type: ignore[override]
        """Ids of the labelled nodes that trained a member; with folds, others for each."""
        return np.unique(np.concatenate([own.model.train_nodes for own in self.members]))

    @cached_property
    def validation_nodes(self) -> NDArray[np.int64] | None:  # type: ignore[override]
        """Ids of the nodes that chose rounds of members and weights; None where a file does not tell."""
        found = [own.model.validation_nodes for own in self.members]
        known = [nodes for nodes in found if nodes is not None]
        return np.unique(np.concatenate(known)) if len(known) == len(found) else None

    @cached_property
    def feature_importances(self) -> NDArray[np.float64]:
        """Shares of the columns of ``feature_names_in``: the weighted mean over members that have them."""
        found = self._ask(lambda model: model.feature_importances)
        return np.asarray(sum(share * values for share, values in found))

    def column_importances(self, *, graph: Graph | None = None) -> dict[str, float]:
        """Return shares of the columns that learners see, largest first: the same mean, name by name."""
        total: dict[str, float] = {}
        for share, values in self._ask(lambda model: model.column_importances(graph=graph)):
            for name, value in values.items():
                total[name] = total.get(name, 0.0) + share * value
        return dict(sorted(total.items(), key=lambda item: -item[1]))

    def explain(self, nodes: ArrayLike, *, graph: Graph | None = None) -> Explanation:
        """Return how ``nodes`` came to their mean probabilities, or to scores of numbers.

        What members say of their scores becomes what that is in the average; a member that does not say
        stays whole.
        """
        known = self.known_graph(graph)
        other = None if known is self.graph else known
        total = sum(own.weight for own in self.members)
        voices = [
            Voice(
                name=f"member {i}: {own.name}",
                share=own.weight / total,
                explanation=own.model.explain(nodes, graph=known),
                scores=own.model.find_scores(nodes, other),
                say=partial(as_averaged, own.model, loss=self.loss, temperature=own.temperature),
            )
            for i, own in enumerate(self.members, start=1)
        ]
        return AverageExplanation(
            outputs=name_outputs(self.task, voices[0].said.shape[-1]),
            is_choice=self.task.has_classes,
            voices=voices,
            nodes=as_rows(nodes, known.n_nodes).numpy(),
            quantity="probability" if self.task.has_proba else "score",
        )

    def scale_shares(self, nodes: ArrayLike | None = None, *, graph: Graph | None = None) -> dict[str, float]:
        """Return the weighted mean of the members' shares, over those that have some."""
        total: dict[str, float] = {}
        for share, values in self._ask(lambda model: model.scale_shares(nodes, graph=graph)):
            for name, value in values.items():
                total[name] = total.get(name, 0.0) + share * value
        return {name: total[name] for name in order_names(total)}

    def find_scores(self, nodes: ArrayLike, graph: Graph | None = None) -> torch.Tensor:
        """Return the scores of ``nodes``: of the graph of the fit, or of another."""
        return self._mix([own.model.find_scores(nodes, graph) for own in self.members])

    def rescore(self, graph: Graph) -> torch.Tensor:
        """Return the scores of all nodes of the fit's graph with other features or edges."""
        return self._mix([own.model.rescore(graph) for own in self.members])

    def stage(self, nodes: ArrayLike, graph: Graph | None = None) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield (k, scores of ``nodes``) of the average of the k heaviest members."""
        found = [own.model.find_scores(nodes, graph) for own in self.members]
        for k in range(1, len(found) + 1):
            yield k, self._mix(found[:k])

    def link(self, t: int | None = None) -> Link:
        """Return that of the loss, whatever the stage."""
        return self.loss.link

    def known_graph(self, graph: Graph | None) -> Graph:
        """Return the graph that was given, checked, or that of the fit."""
        return self.members[0].model.known_graph(graph)

    def with_graph(self, graph: Graph) -> Self:
        """Return the model of a file with the graph of its fit at hand; raise for another graph."""
        at_hand = (replace(own, model=own.model.with_graph(graph)) for own in self.members)
        return replace(self, members=tuple(at_hand))

    def with_device(self, device: torch.device) -> BlendedModel:
        """Return the model for use on another device."""
        moved = (replace(own, model=own.model.with_device(device)) for own in self.members)
        return replace(self, members=tuple(moved))

    def _mix(self, found: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the scores of the average of the first members, whose own scores are given."""
        members = self.members[: len(found)]
        total = sum(own.weight for own in members)
        mean = torch.zeros((), dtype=torch.float64, device=found[0].device)
        for own, scores in zip(members, found, strict=True):
            said = as_averaged(own.model, scores, self.loss, own.temperature)
            mean = mean + own.weight / total * said.to(mean.device)
        return as_scores(self.task, mean).to(found[0].dtype)

    def _ask(self, question: Callable[[FittedModel], R]) -> list[tuple[float, R]]:
        """Return what members answer, with their shares among those who do; raise where nobody does."""
        answers, refused = [], None
        for own in self.members:
            try:
                answers.append((own.weight, question(own.model)))
            except AbsentError as error:
                refused = error
        if not answers:
            assert refused is not None
            raise refused
        total = sum(weight for weight, _ in answers)
        return [(weight / total, answer) for weight, answer in answers]


def as_averaged(
    model: FittedModel, scores: torch.Tensor, loss: Loss, temperature: float = 1.0
) -> torch.Tensor:
    """Return what is averaged of a model's scores: probabilities of classes or labels, or scores of numbers.

    ``loss`` is the average's own, with the link of which scores become probabilities again.
    """
    task = model.task
    if not task.has_proba:
        return scores.double()
    proba = task.proba(scores.double(), model.link())
    return proba if temperature == 1.0 else temper(task, proba, loss, temperature)


def temper(task: Task, proba: torch.Tensor, loss: Loss, temperature: float) -> torch.Tensor:
    """Return probabilities whose scores are divided by ``temperature``: less sure above 1, surer below."""
    return task.proba(as_scores(task, proba) / temperature, loss.link)


def as_scores(task: Task, averaged: torch.Tensor) -> torch.Tensor:
    """Return the scores that stand for what was averaged: logarithms of probabilities, or as it is.

    Of two classes there is one score, as there is of every label: the logarithm of the odds.

    Examples
    --------
    >>> from gbgnn.tasks import Classification
    >>> as_scores(Classification().fit(["a", "b"]), torch.tensor([[0.5, 0.5]])).tolist()
    [[0.0]]
    """
    if not task.has_proba:
        return averaged
    if not task.has_classes:
        return averaged.clamp(min=SMALLEST).log() - (1 - averaged).clamp(min=SMALLEST).log()
    logs = averaged.clamp(min=SMALLEST).log()
    return logs[:, 1:] - logs[:, :1] if logs.shape[1] == 2 else logs
