"""Explanations of an average: what members, distances, columns and neighbours added to a mean of models.

What is averaged is often no score but what is made of scores, such as probabilities. On the straight way from
the scores where the parts of a member begin to those where they end, each part adds its own share of what
becomes of them: integrated gradients once more, of the link, so that parts of a score become parts of a
probability and still sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn.errors import AbsentError, ParameterError
from gbgnn.explanations.attributions import Attributions, NeighbourContributions, order_by_size, sum_over
from gbgnn.explanations.contributions import Contributions
from gbgnn.explanations.explanation import Explanation
from gbgnn.explanations.integrals import integrate, spread_remainder
from gbgnn.explanations.scales import START, order_scales
from gbgnn.origins import Scale

Floats = NDArray[np.float64]

_UNSAID = (AbsentError, ParameterError)  # nothing is known in parts, or learners were not kept


class Said(NamedTuple):
    """Parts of what a member says in the average: where they begin, what each added, and what they missed."""

    base: Floats
    parts: list[Floats]
    remainder: float


@dataclass(frozen=True, eq=False)
class Voice:
    """A member of an average: how it came to its scores, and what becomes of these.

    Parameters
    ----------
    name
        The member's.
    share
        Of the average.
    explanation
        How its scores came about.
    scores
        Its scores of the nodes, (nodes, outputs of the member).
    say
        What is averaged, of scores.
    """

    name: str
    share: float
    explanation: Explanation
    scores: torch.Tensor
    say: Callable[[torch.Tensor], torch.Tensor]

    @cached_property
    def said(self) -> Floats:
        """What it adds to the average, (nodes, outputs)."""
        return self._weigh(self.scores.double().cpu())

    @property
    def as_a_whole(self) -> str:
        """What stands in the place of parts that are not known."""
        return f"{self.name}, as a whole"

    def take_apart(self, start: Floats, parts: Sequence[Floats], rows: slice = slice(None)) -> Said:
        """Return parts of what it says; each of ``parts``, (rows, parts, outputs), sums to its scores."""
        begin, end = torch.from_numpy(start), self.scores[rows].double().cpu()
        slopes = self.share * integrate(self.say, begin, end).numpy()
        base = self._weigh(begin)
        change = torch.from_numpy(self.said[rows] - base)
        found, missed = zip(
            *(spread_remainder(torch.from_numpy(each @ slopes), change) for each in parts), strict=True
        )
        return Said(base, [each.numpy() for each in found], max(missed))

    def _weigh(self, scores: torch.Tensor) -> Floats:
        said: Floats = self.share * self.say(scores).double().cpu().numpy()
        return said


@dataclass(frozen=True, eq=False)
class AverageExplanation(Explanation):
    """How nodes came to what an average of models says of them.

    What a member does not say in parts stands by itself, under the member's name.

    Parameters
    ----------
    voices
        The members.
    nodes
        The nodes.
    quantity
        What is averaged: ``"probability"`` or ``"score"``.
    """

    voices: Sequence[Voice]
    nodes: NDArray[np.int64]
    quantity: str

    @cached_property
    def contributions(self) -> Contributions:
        """What members said, and distances of what each said."""
        by_member = np.stack([voice.said for voice in self.voices], axis=1)
        keys, values, why, remainder = self._by_scale()
        return Contributions(
            nodes=self.nodes,
            outputs=self.outputs,
            parts=[voice.name for voice in self.voices],
            by_round=by_member,
            base=np.zeros(by_member.shape[-1]),
            scale_keys=keys,
            values=values,
            why_no_scales=why,
            quantity=self.quantity,
            is_choice=self.is_choice,
            remainder=remainder,
        )

    def _by_scale(self) -> tuple[list[Scale] | None, Floats | None, str | None, float]:
        apart: list[tuple[list[Scale], Floats]] = []
        remainder, why = 0.0, None
        for voice in self.voices:
            try:
                told = voice.explanation.contributions
                found = voice.take_apart(np.zeros_like(told.scores), [told.by_scale])
            except _UNSAID as error:
                why = str(error)
                apart.append(([voice.as_a_whole], voice.said[:, None]))
                continue
            remainder = max(remainder, found.remainder)
            values = np.concatenate([found.parts[0], found.base[:, None]], axis=1)
            apart.append(([*(told.scale_keys or ()), START], values))
        names = [voice.as_a_whole for voice in self.voices]
        if all(own == [name] for (own, _), name in zip(apart, names, strict=True)):
            return None, None, why, 0.0
        keys = order_scales(name for own, _ in apart for name in own)
        n_nodes, n_outputs = self.voices[0].said.shape
        total = np.zeros((n_nodes, len(self.voices), len(keys), n_outputs))
        for i, (own, values) in enumerate(apart):
            total[:, i, [keys.index(name) for name in own]] = values
        return keys, total, None, remainder

    @cached_property
    def attributions(self) -> Attributions:
        """What columns added; AbsentError where no member says."""
        base, remainder, silent, why = np.zeros_like(self.voices[0].said), 0.0, list[Voice](), None
        owned: list[tuple[list[str], Floats]] = []
        seen: list[tuple[list[str], Floats]] = []
        for voice in self.voices:
            try:
                told = voice.explanation.attributions
            except _UNSAID as error:
                silent, why = [*silent, voice], error
                continue
            found = voice.take_apart(told.base, [told.values, told.seen_values])
            owned.append((list(told.columns), found.parts[0]))
            seen.append((list(told.seen), found.parts[1]))
            base, remainder = base + found.base, max(remainder, found.remainder)
        if why is not None and not owned:
            raise why
        whole = [([voice.as_a_whole], voice.said[:, None]) for voice in silent]
        columns, values = _sum_by_name([*owned, *whole])
        names, seen_values = _sum_by_name([*seen, *whole])
        return Attributions(
            nodes=self.nodes,
            outputs=self.outputs,
            columns=columns,
            values=values,
            seen=names,
            seen_values=seen_values,
            base=base,
            quantity=self.quantity,
            is_choice=self.is_choice,
            remainder=remainder,
        )

    @cached_property
    def neighbours(self) -> list[NeighbourContributions]:
        """What the nodes that each node hears of added; AbsentError where no member says."""
        return [self._mix_neighbours(i) for i in range(len(self.nodes))]

    def _mix_neighbours(self, i: int) -> NeighbourContributions:
        row = slice(i, i + 1)
        base, rest, rest_parts, why = 0.0, np.zeros_like(self.voices[0].said[i]), list[str](), None
        added: dict[int, Floats] = {}
        steps: dict[int, int] = {}
        for voice in self.voices:
            try:
                told = voice.explanation.neighbours[i]
            except _UNSAID as error:
                rest, rest_parts, why = rest + voice.said[i], [*rest_parts, voice.name], error
                continue
            parts = np.concatenate([told.values, told.rest[None]])
            found = voice.take_apart(told.base[None], [parts[None]], row)
            *values, own_rest = found.parts[0][0]
            base, rest = base + found.base[0], rest + own_rest
            rest_parts += [f"{each} of {voice.name}" for each in told.rest_parts]
            for node, away, value in zip(told.neighbours.tolist(), told.steps.tolist(), values, strict=True):
                added[node] = added.get(node, 0.0) + value
                steps[node] = min(steps.get(node, away), away, key=lambda n: n if n >= 0 else np.inf)
        if why is not None and len(rest_parts) == len(self.voices) and not added:
            raise why
        heard = np.array(sorted(added), np.int64)
        values = np.array([added[node] for node in heard.tolist()]).reshape(len(heard), len(rest))
        order = order_by_size(base + rest + values.sum(axis=0), values, self.is_choice)
        return NeighbourContributions(
            node=int(self.nodes[i]),
            outputs=self.outputs,
            neighbours=heard[order],
            steps=np.array([steps[node] for node in heard[order].tolist()], np.int64),
            values=values[order],
            base=np.asarray(base + np.zeros_like(rest)),
            rest=rest,
            rest_parts=rest_parts,
            quantity=self.quantity,
            is_choice=self.is_choice,
        )


def _sum_by_name(found: Sequence[tuple[list[str], Floats]]) -> tuple[list[str], Floats]:
    """Return the names of all, each once, and the sums of what each added."""
    owners = [name for names, _ in found for name in names]
    names = list(dict.fromkeys(owners))
    return names, sum_over(owners, np.concatenate([values for _, values in found], axis=1), names)
