"""Contributions: what every round, and every distance, added to the scores of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn.errors import AbsentError
from gbgnn.explanations.lead import find_lead
from gbgnn.explanations.scales import OF_NO_NODE, name_scale
from gbgnn.origins import Scale
from gbgnn.tasks import Task

Floats = NDArray[np.float64]


def as_shares(sizes: Mapping[str, float]) -> dict[str, float]:
    """Return sizes over their sum; zeros where there is nothing.

    Examples
    --------
    >>> as_shares({"own columns": 1.0, "1 hop": 3.0})
    {'own columns': 0.25, '1 hop': 0.75}
    """
    total = sum(sizes.values())
    return {name: size / total if total else 0.0 for name, size in sizes.items()}


def name_outputs(task: Task, n_outputs: int) -> list[str]:
    """Return names of the columns of scores.

    Examples
    --------
    >>> from gbgnn.tasks import Classification, Regression
    >>> name_outputs(Classification().fit(["no", "yes"]), 1), name_outputs(Regression(), 1)
    (['yes'], ['y'])
    """
    names = task.class_names
    if names is not None:
        return [str(name) for name in names[-n_outputs:]]
    return ["y"] if n_outputs == 1 else [f"y {i}" for i in range(n_outputs)]


@dataclass(frozen=True, eq=False)
class Contributions:
    """What was added to the scores of nodes, part by part; all parts sum to the scores.

    Parameters
    ----------
    nodes
        Their ids.
    outputs
        Names of the columns of scores: the classes, the second of two classes that have one score, or y.
    parts
        Names of what was added: the rounds, or the members of an average.
    by_round
        What each part added, shape (nodes, parts, outputs).
    base
        What they were added to, (outputs,).
    scale_keys
        The distances that features came from, in hops, and others in words; None where parts do not say.
    values
        What each part added by what came from each distance, (nodes, parts, scales, outputs).
    why_no_scales
        Why there are none, where there are none.
    quantity
        What is added up: ``"score"`` or, of an average of classifiers, ``"probability"``.
    is_choice
        Whether the output with the largest score is what is predicted.
    remainder
        The most that parts by scale missed before it was shared out: rounding, or an integral's error.
    """

    nodes: NDArray[np.int64]
    outputs: Sequence[str]
    parts: Sequence[str]
    by_round: Floats
    base: Floats
    scale_keys: Sequence[Scale] | None
    values: Floats | None
    why_no_scales: str | None
    quantity: str
    is_choice: bool
    remainder: float

    @property
    def scores(self) -> Floats:
        """The scores of the nodes, shape (nodes, outputs)."""
        return np.asarray(self.base + self.by_round.sum(axis=1))

    @property
    def scales(self) -> list[str] | None:
        """The distances in words; None where there are none."""
        return None if self.scale_keys is None else [name_scale(each) for each in self.scale_keys]

    @property
    def steps(self) -> list[int | None] | None:
        """The distances in hops, None for what is no distance; None where there are none."""
        keys = self.scale_keys
        return None if keys is None else [each if isinstance(each, int) else None for each in keys]

    @cached_property
    def by_scale(self) -> Floats:
        """What came from each distance, shape (nodes, scales, outputs)."""
        return np.asarray(self._known().sum(axis=1))

    @cached_property
    def decided_by(self) -> list[str]:
        """The scale that decided each node.

        Of classes, the one with the largest part in the lead of the predicted class over the next; of numbers
        and labels, the one with the largest part in all. What is said of average features decides only where
        nothing speaks for the prediction.
        """
        names, found = self.scales or [], self.by_scale
        sizes = self.lead(found) if self.is_choice else np.abs(found).sum(axis=-1)
        is_own = np.array([name not in OF_NO_NODE for name in names])
        for_it = np.where(is_own, sizes, -np.inf)
        best = for_it.argmax(axis=1)
        last = np.where(for_it.max(axis=1) > 0, best, len(names) - 1 if not is_own.all() else best)
        return [names[i] for i in last.tolist()]

    @cached_property
    def sizes(self) -> dict[str, float]:
        """How much in all was added to these nodes from each distance, whatever the sign.

        What is the same for all classes changes nothing and is left out, and so is what is said of average
        features.
        """
        found = self.by_scale
        if self.is_choice and found.shape[-1] > 1:
            found = found - found.mean(axis=-1, keepdims=True)
        sizes = dict(zip(self.scales or (), np.abs(found).sum(axis=(0, 2)).tolist(), strict=True))
        return {name: size for name, size in sizes.items() if name not in OF_NO_NODE}

    @property
    def shares(self) -> dict[str, float]:
        """The same as shares, which sum to one."""
        return as_shares(self.sizes)

    def lead(self, parts: Floats) -> Floats:
        """Return the parts, (nodes, parts), of the lead of the predicted class over the next."""
        return find_lead(self.scores, parts)

    def describe(self, i: int) -> dict[str, Any]:
        """Return what is known of the i-th node, JSON-ready."""
        told: dict[str, Any] = {
            "node": int(self.nodes[i]),
            "quantity": self.quantity,
            "outputs": list(self.outputs),
            "scores": self.scores[i].tolist(),
            "base": self.base.tolist(),
            "by_round": dict(zip(self.parts, self.by_round[i].tolist(), strict=True)),
            "by_scale": None,
            "decided_by": None,
            "why_no_scales": self.why_no_scales,
        }
        if self.scales is not None:
            told |= {
                "by_scale": dict(zip(self.scales, self.by_scale[i].tolist(), strict=True)),
                "decided_by": self.decided_by[i],
            }
        return told

    def _known(self) -> Floats:
        if self.values is None:
            raise AbsentError(f"there are no contributions by scale: {self.why_no_scales}")
        return self.values
