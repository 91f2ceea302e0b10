"""FittedModel: what a fit returns, a value that nothing changes any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gbgnn.aggregation.polynomial import PolynomialHop
from gbgnn.boosting import Ensemble, History, StopReason, Voting, apply, stage
from gbgnn.errors import AbsentError, GraphError, ParameterError
from gbgnn.explanations import (
    Explanation,
    ResponseCurves,
    Rounds,
    RoundsExplanation,
    as_shares,
    find_responses,
    name_outputs,
)
from gbgnn.features import LabelledRows
from gbgnn.graph import Graph
from gbgnn.importances import importances_of_rounds, sum_by_column, sum_by_name
from gbgnn.losses import Loss
from gbgnn.metrics import Metric
from gbgnn.origins import Origin, describe_columns, describe_own
from gbgnn.predictor import Predictor, as_rows
from gbgnn.problem import InputRecipe, LabelledNodes, NodeInputs, encode_labels
from gbgnn.propagation import Mixable
from gbgnn.storage import IN_MEMORY, Needs, Storage
from gbgnn.tasks import Link, Task
from gbgnn.theory import Certificate

_FEWEST_AT_ONCE, _NUMBERS_AT_ONCE = 1000, 2**24
"""Of all nodes, contributions are computed of so many at a time, with about so many numbers."""


@dataclass(frozen=True, eq=False)
class FittedModel(Predictor):
    """All that predicts, stages, certifies, saves and explains reads this, and nothing else.

    An estimator makes one of its parameters and shows the fields and properties below as attributes with an
    underscore: ``estimator.best_round_`` is ``estimator.model_.best_round``. A field more is a line here.

    Parameters
    ----------
    task
        What is predicted, with what was learned of y: the classes, the mean.
    loss
        By which progress was measured.
    voting
        How outputs became scores, and scores become predictions.
    metric
        By which the round was chosen.
    ensemble
        All trained rounds; those up to ``best_round`` predict.
    best_round
        The round that predicts.
    kept_scores
        Scores of all nodes of the fit's graph at ``best_round``, where they were computed; None where the fit
        kept the rows of few nodes: then they are computed when asked for.
    n_nodes
        Number of nodes of the fit's graph.
    history
        What was measured of every round.
    stop_reason
        Why boosting ended.
    inputs
        How a graph becomes P and features.
    n_features_in
        Number of feature columns, of a table as the user has them.
    train
        The labelled nodes that trained.
    seed
        Of all randomness.
    settings
        The estimator's parameters as they were at the fit.
    depends_on
        What every trained round depends on beside the graph, as text, by name: a warm start must find the
        same.
    fine_tuning
        What fine-tuning did; None without.
    graph
        The graph of the fit; None in a model that was loaded from a file.
    stored_checksum
        That of the graph, where the model was loaded from a file.
    validation_nodes
        Ids of the nodes that chose the round, in ascending order, none where there were none; None where a
        file of an earlier version does not tell.
    storage
        Where the rows of all nodes are when the model is applied; not in files.
    """

    task: Task
    loss: Loss
    voting: Voting
    metric: Metric
    ensemble: Ensemble
    best_round: int
    kept_scores: torch.Tensor | None
    n_nodes: int
    history: History
    stop_reason: StopReason
    inputs: InputRecipe
    n_features_in: int
    train: LabelledNodes
    seed: int
    settings: Mapping[str, Any]
    depends_on: Mapping[str, str]
    fine_tuning: dict[str, Any] | None = None
    graph: Graph | None = None
    stored_checksum: str | None = None
    validation_nodes: NDArray[np.int64] | None = None
    storage: Storage = IN_MEMORY

    @cached_property
    def score_tensor(self) -> torch.Tensor:  # type: ignore[override]
        """Scores of all nodes of the fit's graph, where they were computed, or are now."""
        if self.kept_scores is not None:
            return self.kept_scores
        return apply(self.ensemble[: self.best_round], self.build_inputs(), self.voting)

    @property
    def facts(self) -> dict[str, Any]:
        """What boosting came to, for a record: rounds, the one that predicts, why it ended, fine-tuning."""
        return {
            "rounds": len(self.history),  # a tuned model has those up to the best only
            "best_round": self.best_round,
            "stop_reason": str(self.stop_reason),
            "stop_message": self.stop_reason.message,
        }

    def describe(self) -> dict[str, Any]:
        """Return the rounds, how good the one that predicts is, and why training ended."""
        # What rounds were worth is not what a model is that was fine-tuned after them.
        has_row = len(self.history) > 0 and not self.is_fine_tuned
        row, name = self.history.rows[self.best_round - 1] if has_row else {}, self.metric.name
        return {
            "rounds": f"{len(self.history)}, of which round {self.best_round} predicts",
            "training ended": self.stop_reason.message,
            "fine-tuned": True if self.is_fine_tuned else None,
            "training nodes": len(self.train_nodes),
            f"training {name}": row.get(f"train_{name}"),
            f"validation {name}": row.get(f"val_{name}"),
        }

    @property
    def history_rows(self) -> list[dict[str, Any]]:
        """What was measured of every round, a row each."""
        return self.history.rows

    @property
    def graph_checksum(self) -> str | None:
        """Checksum of the graph of the fit; None where a file does not tell."""
        return self.stored_checksum if self.graph is None else self.graph.checksum

    @property
    def feature_names_in(self) -> NDArray[Any]:
        """The names of the columns of the fit's graph, as the user has them; x0, x1, ... without."""
        names = self.inputs.column_names or [f"x{i}" for i in range(self.n_features_in)]
        return np.array(names, dtype=object)

    @cached_property
    def feature_importances(self) -> NDArray[np.float64]:
        """Shares of the columns of ``feature_names_in`` in what predictions owe to them; they sum to one.

        A column's share has all that is made of it: its encodings, its means over neighbours. Labels nearby
        and positions in the graph are left out: :meth:`column_importances` has them.
        """
        values, origins = self._importances(None)
        return sum_by_column(values, origins, self.feature_names_in.tolist())

    def column_importances(self, *, graph: Graph | None = None) -> dict[str, float]:
        """Return shares of the columns that learners see, by names in words, largest first; the sum is one.

        Of trees, by what their splits gained. Of networks, by weights along all paths from a column to an
        output, times its standard deviation over the nodes of ``graph``, or of that of the fit.
        """
        return sum_by_name(*self._importances(graph))

    def explain(self, nodes: ArrayLike, *, graph: Graph | None = None) -> Explanation:
        """Return how ``nodes`` came to their scores; what is asked of it is computed then, and once."""
        graph = self.known_graph(graph)
        inputs, columns = self.build_inputs(graph), self.feature_names_in.tolist()
        rounds = Rounds(
            ensemble=self.ensemble[: self.best_round],
            voting=self.voting,
            inputs=inputs,
            raw=describe_columns(self.inputs, columns, self._class_words, inputs.features.shape[1]),
            own=describe_own(self.inputs, columns),
            nodes=as_rows(nodes, graph.n_nodes).to(inputs.device),
        )
        outputs = name_outputs(self.task, self.voting.n_outputs)
        return RoundsExplanation(outputs, self.task.has_classes, rounds, columns)

    def scale_shares(self, nodes: ArrayLike | None = None, *, graph: Graph | None = None) -> dict[str, float]:
        """Return how much of all that was added to scores came from each distance; the sum is one.

        Of all nodes of the graph, or of some.
        """
        graph = self.known_graph(graph)
        ids = np.arange(graph.n_nodes) if nodes is None else np.asarray(as_rows(nodes, graph.n_nodes))
        n_rounds, sizes = self.best_round, dict[str, float]()
        block = max(_FEWEST_AT_ONCE, _NUMBERS_AT_ONCE // (n_rounds**2 * self.voting.n_outputs))
        for first in range(0, len(ids), block):
            for name, size in self.contributions(ids[first : first + block], graph=graph).sizes.items():
                sizes[name] = sizes.get(name, 0.0) + size
        return as_shares(sizes)

    def response_curves(self, *, graph: Graph | None = None, n_points: int = 201) -> ResponseCurves:
        """Return by what rounds multiply the eigenvectors of P, ``n_points`` from its least eigenvalue on."""
        inputs = self.build_inputs(self.known_graph(graph))
        return find_responses(self.ensemble[: self.best_round], inputs, n_points)

    @property
    def etas(self) -> NDArray[np.float64]:
        """The step of every round."""
        return np.array(self.ensemble.etas)

    @cached_property
    def train_nodes(self) -> NDArray[np.int64]:  # type: ignore[override]
        """Ids of the labelled nodes that trained."""
        return np.asarray(self.train.rows.cpu())

    @cached_property
    def train_targets(self) -> NDArray[Any]:
        """Their targets: indices of classes, or numbers."""
        return np.asarray(self.train.targets.cpu())

    @property
    def is_fine_tuned(self) -> bool:
        """Whether the rounds that predict were moved by fine-tuning."""
        return self.fine_tuning is not None and self.fine_tuning["kept"] == "tuned"

    @property
    def is_soft(self) -> bool:
        """Whether learners that chose one class vote by softmax, since they were fine-tuned."""
        return bool(getattr(self.voting, "is_soft", False))

    @cached_property
    def certificate(self) -> Certificate:
        """What every round promised of the training loss and kept; its notes say what it covers."""
        if self.loss.smoothness is None:
            raise AbsentError(
                f"there is no certificate: nothing bounds the curvature of {type(self.loss).__name__}, so "
                'that rounds promise no drop of the training loss; loss="squared" and "huber" have one.'
            )
        notes = [f"of the training loss, {type(self.loss).__name__}, whatever the learner looked at"]
        if self.is_fine_tuned:
            notes.append("of the rounds as they were boosted, before fine-tuning moved them")
        notes += dict.fromkeys(hop.caveat for hop in self.ensemble.hops if hop.caveat is not None)
        return Certificate.from_history(
            self.history.rows,
            self.loss.smoothness,
            self.train.size,
            tuple(notes),
            bounds_error=self.task.has_classes,
            n_scores=self.voting.n_outputs,
            is_before_tuning=self.is_fine_tuned,
        )

    def stage(self, nodes: ArrayLike, graph: Graph | None = None) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield (t, scores of ``nodes``) of the model stopped at each round, applied anew."""
        graph = self.known_graph(graph)
        inputs = self.build_inputs(graph)
        rows = as_rows(nodes, graph.n_nodes).to(inputs.device)
        if isinstance(inputs.features, Mixable):
            yield from stage(self.ensemble, inputs.keep(rows), self.voting)
            return
        for t, scores in stage(self.ensemble, inputs, self.voting):
            yield t, scores[rows]

    def find_scores(self, nodes: ArrayLike, graph: Graph | None = None) -> torch.Tensor:
        """Return the scores of ``nodes`` at the round that predicts: looked up, or of another graph."""
        if graph is None and self._keeps_scores():
            scores = self.score_tensor
            return scores[as_rows(nodes, len(scores)).to(scores.device)]
        inputs = self.build_inputs(graph)
        rows = as_rows(nodes, inputs.n_nodes).to(inputs.device)
        return self.storage.find_scores(self.ensemble[: self.best_round], inputs, self.voting, rows)

    def _keeps_scores(self) -> bool:
        """Return whether the scores of all nodes are at hand, or are computed together and kept."""
        n_bytes = self.n_nodes * self.voting.n_outputs * self.inputs.dtype.itemsize
        return self.kept_scores is not None or n_bytes <= self.storage.room_for_scores()

    def rescore(self, graph: Graph) -> torch.Tensor:
        """Return the scores of all nodes of the fit's graph with other features or edges."""
        graph = self.known_graph(graph)
        if graph.n_nodes != self.n_nodes:
            raise GraphError(f"the graph of the fit has {self.n_nodes} nodes; this one has {graph.n_nodes}.")
        known = None
        if self.inputs.hears_labels:
            known = encode_labels(self.task, self.train_nodes, self.train_targets)
        return apply(self.ensemble[: self.best_round], self._build_inputs(graph, known), self.voting)

    def build_inputs(self, graph: Graph | None = None) -> NodeInputs:
        """Return P and the features of a graph, or of that of the fit, as the rounds see them."""
        graph = self.known_graph(graph)
        known = None
        if self.inputs.hears_labels and (graph is self.graph or graph.checksum == self.graph_checksum):
            known = encode_labels(self.task, self.train_nodes, self.train_targets)
        return self._build_inputs(graph, known)

    def _build_inputs(self, graph: Graph, known: LabelledRows | None) -> NodeInputs:
        return self.storage.build(self.inputs, graph, known, Needs(self.voting.n_outputs, self._needs_all()))

    def _needs_all(self) -> str | None:
        """Return which of the rounds sees more than rows of the nodes that it is asked for."""
        for trained in self.ensemble:
            head_sees_rows = trained.head is None or trained.head.sees_rows
            if not head_sees_rows or not isinstance(trained.hop, PolynomialHop):
                return f"round {trained.t}"
        return "a model that hears labels" if self.inputs.hears_labels else None

    def known_graph(self, graph: Graph | None) -> Graph:
        """Return the graph that was given, checked, or that of the fit; say so where there is none."""
        graph = self.graph if graph is None else graph
        if graph is None:
            raise ParameterError(
                "this model was loaded from a file, which does not hold its graph; pass graph=."
            )
        check_graph(graph, self.storage.graphs)
        self.inputs.check(graph, self.n_features_in)
        return graph

    def with_graph(self, graph: Graph) -> Self:
        """Return the model of a file with the graph of its fit at hand; raise for another graph."""
        check_graph(graph)
        if graph.checksum != self.graph_checksum:
            raise GraphError(
                "this is not the graph that the model was fitted on: another has other edges or features. "
                "Give it to predict(nodes, graph=graph)."
            )
        return replace(self, graph=graph)

    def with_device(self, device: torch.device) -> FittedModel:
        """Return the model for use on another device."""
        return replace(
            self,
            inputs=replace(self.inputs, device=device),
            ensemble=self.ensemble if device == self.train.rows.device else self.ensemble.to(device),
            kept_scores=None if self.kept_scores is None else self.kept_scores.to(device),
            train=replace(self.train, **{name: value.to(device) for name, value in vars(self.train).items()}),
        )

    @property
    def _class_words(self) -> list[str]:
        names = self.task.class_names
        return [] if names is None else list(map(str, names))

    def _importances(self, graph: Graph | None) -> tuple[NDArray[np.float64], list[Origin]]:
        """Return shares of the columns that learners see, and what these are."""
        if graph is not None:
            self.known_graph(graph)
        columns = self.feature_names_in.tolist()
        describe = partial(describe_columns, self.inputs, columns, self._class_words)
        rounds = self.ensemble[: self.best_round]
        return importances_of_rounds(rounds, self.voting, partial(self._build, graph), describe)

    def _build(self, graph: Graph | None) -> NodeInputs:
        if graph is None and self.graph is None:
            raise AbsentError(
                "there are no importances of columns: a network's depend on how far columns vary, and this "
                "model was loaded from a file without its graph; ask column_importances(graph=graph)."
            )
        return self.build_inputs(graph)

    def link(self, t: int | None = None) -> Link:
        """Return what makes predictions of scores at a round, or at the one that predicts."""
        t = self.best_round if t is None else t
        return partial(self.voting.link, total_eta=sum(self.ensemble.etas[:t]))


def check_graph(graph: Any, kinds: tuple[type, ...] = (Graph,)) -> None:
    """Raise unless ``graph`` is a Graph, or of another kind that somebody can hold the rows of."""
    if not isinstance(graph, kinds):
        raise GraphError(
            f"graph must be a gbgnn.Graph; got {type(graph).__name__}. "
            "Build one with Graph(adjacency, features)."
        )
