"""Subject: one run as a page sees it, a fitted model with the nodes that it is judged on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gbgnn.errors import GraphError, ParameterError
from gbgnn.graph import Graph
from gbgnn.guarantees import holdout_bound
from gbgnn.labels import PARTS, NodeSplit, count_labels
from gbgnn.predictor import Predictor, as_predictor
from gbgnn.report.words import number
from gbgnn.theory import HoldoutBound


@dataclass(frozen=True, eq=False)
class Part:
    """The nodes of one part of a split, with what is known of them.

    Parameters
    ----------
    name
        ``train``, ``val`` or ``test``.
    nodes
        Their rows in the graph.
    truth
        What they are.
    ids
        The user's name of each.
    graph
        The graph that the model is applied to; None looks the predictions of the fit up.
    figures
        How good the predictions are, as ``gbgnn evaluate`` has it.
    """

    name: str
    nodes: NDArray[np.int64]
    truth: NDArray[Any]
    ids: NDArray[Any]
    graph: Graph | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model says of the nodes of a part; probabilities are None where it has none."""

    predicted: NDArray[Any]
    proba: NDArray[Any] | None


@dataclass(frozen=True, eq=False)
class Subject:
    """One run: a model, the nodes it is judged on, and the record of how it came.

    Parameters
    ----------
    name
        What to call the run.
    model
        The fitted model.
    parts
        The parts of the split; none where the data is not there.
    graph
        The graph of the parts, for explanations and for over-smoothing; None where it is not there.
    class_names
        What to call a class, by its label as text.
    told
        What was run, as pairs of a word and what it was.
    command, config, versions
        How to make it again: the command, the settings as TOML, the versions of packages.
    recorded
        Figures of each part out of the run's record, for a run whose data is not there.
    why_no_data
        Why there are no parts.
    others
        The guarantee for all nodes that are in no part of the split.
    why_no_others
        Why there is none.

    Examples
    --------
    >>> from gbgnn import GBGNNClassifier, datasets
    >>> data = datasets.karate()
    >>> model = GBGNNClassifier(preset="fast", n_rounds=2, random_state=0)
    >>> model = model.fit(data.train, data.y[data.train], graph=data.graph)
    >>> subject = Subject.of(model, data.graph, data.y, data.split, name="club")
    >>> [(part.name, len(part.nodes)) for part in subject.parts]
    [('train', 2), ('test', 32)]
    """

    name: str
    model: Predictor
    parts: Sequence[Part] = ()
    graph: Graph | None = None
    class_names: Mapping[str, str] = field(default_factory=dict)
    told: Sequence[tuple[str, str]] = ()
    command: str = ""
    config: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    recorded: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    why_no_data: str = ""
    others: HoldoutBound | None = None
    why_no_others: str = ""

    @classmethod
    def of(
        cls, model: Any, graph: Graph, y: Any, split: NodeSplit, *, name: str = "model", **more: Any
    ) -> Self:
        """Return a model, fitted here or loaded, as the subject of a page.

        Parameters
        ----------
        model
            A fitted estimator, or its ``model_``.
        graph
            The graph.
        y
            What every node is; an entry that no part of the split has is not looked at.
        split
            The training, validation and test nodes.
        name
            What to call it.
        more
            Any other field, such as ``class_names``.
        """
        fitted = as_predictor(model)
        if count_labels(y) != graph.n_nodes:
            raise GraphError(f"y has {count_labels(y)} entries, but the graph has {graph.n_nodes} nodes.")
        split.check(graph.n_nodes)
        is_own = graph.checksum == fitted.graph_checksum
        parts = []
        for part in PARTS:
            nodes = getattr(split, part)
            if len(nodes):
                truth = _pick(fitted, y, nodes)
                parts.append(Part(part, nodes, truth, graph.node_ids[nodes], None if is_own else graph))
        if not {"others", "why_no_others"} & more.keys():
            more["others"], more["why_no_others"] = _bound_others(fitted, parts, split, is_own, graph)
        return cls(name, fitted, tuple(parts), graph, **more)

    @cached_property
    def answers(self) -> dict[str, Answers]:
        """What the model says of every part, by its name."""
        return {part.name: self._ask(part) for part in self.parts}

    @property
    def kind(self) -> str:
        """``classes``, ``labels`` (any of several) or ``numbers``."""
        task = self.model.task
        return "classes" if task.has_classes else "labels" if task.has_proba else "numbers"

    @cached_property
    def titles(self) -> list[str]:
        """The classes or labels as a person calls them, in the order of the columns of probabilities."""
        names = self.model.task.class_names
        return [] if names is None else [self.title(label) for label in names.tolist()]

    def title(self, label: Any) -> str:
        """Return the name of a class where there is one, else the label itself."""
        return self.class_names.get(str(label), str(label))

    def words(self, labels: Any) -> list[str]:
        """Return what is predicted of nodes in words: classes by name, labels with commas, numbers."""
        if self.kind == "numbers":
            rows = np.asarray(labels, np.float64).reshape(len(labels), -1).tolist()
            return [", ".join(map(number, row)) for row in rows]
        if self.kind == "classes":
            return [self.title(label) for label in labels.tolist()]
        names = np.array(self.titles, dtype=object)
        return [", ".join(names[np.asarray(row, bool)]) or "none" for row in labels]

    def part(self, name: str) -> Part | None:
        """Return a part of the split; None where it has no nodes."""
        return next((part for part in self.parts if part.name == name), None)

    @property
    def judged(self) -> Part | None:
        """The part that a page shows errors of: test nodes, or else those that trained nothing."""
        return self.part("test") or self.part("val")

    def _ask(self, part: Part) -> Answers:
        found = self.model.predict_all(part.nodes, graph=part.graph)
        return Answers(found["predict"], found.get("predict_proba"))


def _bound_others(
    model: Predictor, parts: Sequence[Part], split: NodeSplit, is_own: bool, graph: Graph
) -> tuple[HoldoutBound | None, str]:
    """Return the guarantee for the nodes that are in no part, or why there is none."""
    test = next((part for part in parts if part.name == "test"), None)
    if not model.task.has_proba:
        return None, "errors are counted of classes; numbers have none."
    if test is None:
        return None, "the split has no test nodes, which would be held out."
    try:
        given = None if is_own else graph
        return holdout_bound(model, test.nodes, test.truth, split=split, graph=given), ""
    except ParameterError as error:
        return None, str(error)


def _pick(model: Predictor, y: Any, nodes: NDArray[np.int64]) -> NDArray[Any]:
    """Return what some nodes are, of several labels as a matrix of 0 and 1."""
    task = model.task
    is_list = isinstance(y, (list, tuple))
    own = [y[node] for node in nodes.tolist()] if is_list else y[nodes]
    return np.asarray(own) if task.has_classes else task.decode(task.encode(own))
