"""Attributions: what every column of the user's, and every node, added to the scores of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn.explanations.lead import find_lead
from gbgnn.origins import Origin

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Attributions:
    """What columns added to the scores of nodes; with the base they sum to the scores.

    Parameters
    ----------
    nodes
        Their ids.
    outputs
        Names of the columns of scores.
    columns
        The user's columns, and what is none of them where it counts: labels nearby, positions.
    values
        What each added, with all that is made of it, shape (nodes, columns, outputs).
    seen
        The columns that learners see, in words.
    seen_values
        What each of these added, (nodes, columns that learners see, outputs).
    base
        What columns were added to, (nodes, outputs): of networks, what they say of the place of a node if all
        nodes had average features; of trees, their mean output.
    quantity
        What is added up: ``"score"`` or, of an average of classifiers, ``"probability"``.
    is_choice
        Whether the output with the largest score is what is predicted.
    remainder
        The most that columns missed before it was shared out: rounding, or an integral's error.
    """

    nodes: NDArray[np.int64]
    outputs: Sequence[str]
    columns: Sequence[str]
    values: Floats
    seen: Sequence[str]
    seen_values: Floats
    base: Floats
    quantity: str
    is_choice: bool
    remainder: float

    @property
    def scores(self) -> Floats:
        """The scores of the nodes, shape (nodes, outputs)."""
        return np.asarray(self.base + self.values.sum(axis=1))

    def top(
        self, i: int, n: int = 6, *, output: str | None = None, seen: bool = False
    ) -> list[tuple[str, float]]:
        """Return the columns that added most to the i-th node, whatever the sign, with what they added.

        That is to the score of an output; without one to the lead of the predicted class over the next, or to
        the first output of numbers and labels. With ``seen`` columns are those that learners see.
        """
        names, values = (self.seen, self.seen_values) if seen else (self.columns, self.values)
        own = values[i : i + 1]
        if output is not None:
            found = own[0, :, list(self.outputs).index(output)]
        elif self.is_choice:
            found = find_lead(self.scores[i : i + 1], own)[0]
        else:
            found = own[0, :, 0]
        order = np.argsort(-np.abs(found), kind="stable")[:n]
        return [(names[place], float(found[place])) for place in order.tolist() if found[place]]


def by_user_column(
    origins: Sequence[Origin], values: Floats, columns: Sequence[str]
) -> tuple[list[str], Floats]:
    """Return the names of the user's columns and of what is none, and the sums of all that is made of each.

    Examples
    --------
    >>> seen = [Origin("city=Oslo", "city"), Origin("labels 1 step away", None, scale="labels nearby")]
    >>> names, found = by_user_column(seen, np.array([[[0.25], [0.5]]]), ["age", "city"])
    >>> names, found.ravel().tolist()
    (['age', 'city', 'labels nearby'], [0.0, 0.25, 0.5])
    """
    owners = [str(each.scale) if each.column is None else each.column for each in origins]
    names = list(dict.fromkeys([*columns, *owners]))
    return names, sum_over(owners, values, names)


def by_name(origins: Sequence[Origin], values: Floats) -> tuple[list[str], Floats]:
    """Return the names of columns that learners see, each once, and what each added."""
    owners = [each.name for each in origins]
    names = list(dict.fromkeys(owners))
    return names, sum_over(owners, values, names)


def sum_over(owners: Sequence[str], values: Floats, names: Sequence[str]) -> Floats:
    """Return the sums of values over the second axis, by who owns them."""
    places = {name: i for i, name in enumerate(names)}
    total = np.zeros((len(values), len(names), values.shape[-1]))
    np.add.at(total.transpose(1, 0, 2), [places[owner] for owner in owners], values.transpose(1, 0, 2))
    return total


def order_by_size(scores: Floats, values: Floats, is_choice: bool) -> NDArray[np.int64]:
    """Return the order of parts of one node, (parts, outputs), that begins with what added most.

    Of classes that is to the lead of the predicted class over the next, of all else to all outputs.
    """
    own = find_lead(scores[None], values[None])[0, :, None] if is_choice else values
    return np.argsort(-np.abs(own).sum(axis=1), kind="stable")


@dataclass(frozen=True, eq=False)
class NeighbourContributions:
    """What every node, itself among them, added to the scores of one; all parts sum to the scores.

    Parameters
    ----------
    node
        The node.
    outputs
        Names of the columns of scores.
    neighbours
        Nodes that it hears of, those that added most first.
    steps
        How many edges each is away, by the shortest way.
    values
        What each added, shape (neighbours, outputs).
    base
        What is said of the node's place if all nodes had average features, (outputs,).
    rest
        What rounds added that do not say of whom they heard it, (outputs,).
    rest_parts
        The names of these.
    quantity
        What is added up: ``"score"`` or, of an average of classifiers, ``"probability"``.
    is_choice
        Whether the output with the largest score is what is predicted.
    """

    node: int
    outputs: Sequence[str]
    neighbours: NDArray[np.int64]
    steps: NDArray[np.int64]
    values: Floats
    base: Floats
    rest: Floats
    rest_parts: Sequence[str]
    quantity: str
    is_choice: bool

    @property
    def scores(self) -> Floats:
        """The scores of the node, (outputs,)."""
        return np.asarray(self.base + self.rest + self.values.sum(axis=0))

    def lead(self) -> Floats:
        """Return what each neighbour added to the lead of the predicted class over the next, or to y."""
        if self.is_choice:
            return np.asarray(find_lead(self.scores[None], self.values[None])[0])
        return np.asarray(self.values[:, 0])

    def describe(self, n: int = 10) -> list[dict[str, Any]]:
        """Return the first ``n`` neighbours, JSON-ready."""
        found = zip(self.neighbours, self.steps, self.lead(), self.values, strict=True)
        return [
            {"node": int(node), "steps": int(steps), "added": float(lead), "values": values.tolist()}
            for node, steps, lead, values in list(found)[:n]
        ]
