"""Layout: which columns GraphFeatures returns, in which order, and what they are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gbgnn.features.neighbours import STATISTICS

STRUCTURE = ("degree", "pagerank", "clustering")
ENCODINGS = ("laplacian", "walk")


class Slot(NamedTuple):
    """One statistic of one hop: of which own columns, and from which column of the result on."""

    direction: str
    hop: int
    statistic: str
    columns: NDArray[np.int64]
    start: int

    def places(self, first: int, n: int) -> tuple[NDArray[np.int64], slice]:
        """Return which of the own columns ``first`` to ``first + n`` it has, and where they go."""
        low, high = np.searchsorted(self.columns, [first, first + n])
        return self.columns[low:high] - first, slice(self.start + int(low), self.start + int(high))


@dataclass(frozen=True, eq=False)
class Layout:
    """The columns of a result: the nodes' own, statistics of their neighbours, structure, encodings."""

    own: Sequence[str]  # names of the nodes' own columns
    has_gaps: NDArray[np.bool_]  # which of these have missing values
    directions: Sequence[str]  # in front of names; one empty string where edges have no direction
    hops: int
    statistics: Sequence[str]
    structure: Sequence[str]  # with the encodings
    n_encodings: int

    @cached_property
    def slots(self) -> list[Slot]:
        """The statistics, in order: by direction, hop and statistic."""
        slots, start = [], len(self.own)
        every, with_gaps = np.arange(len(self.own)), np.flatnonzero(self.has_gaps)
        for direction in self.directions:
            for hop in range(1, self.hops + 1):
                for name in (each for each in STATISTICS if each in self.statistics):
                    columns = with_gaps if name == "missing" else every
                    slots.append(Slot(direction, hop, name, columns, start))
                    start += len(columns)
        return slots

    @cached_property
    def structure_names(self) -> list[str]:
        """Names of the columns of structure and encodings, in order."""
        numbers = range(1, self.n_encodings + 1)
        names = {
            "degree": [f"{direction}degree" for direction in self.directions],
            "pagerank": ["pagerank"],
            "clustering": ["clustering"],
            "laplacian": [f"laplacian_{i}" for i in numbers],
            "walk": [f"walk_{i + 1}" for i in numbers],  # a walk of one step is never back
        }
        return [name for part, columns in names.items() if part in self.structure for name in columns]

    @cached_property
    def names(self) -> list[str]:
        """Names of all columns, an underscore more where two would be the same."""
        names = list(self.own)
        for direction, hop, statistic, columns, _ in self.slots:
            names += [f"{direction}{self.own[column]}_{statistic}_{hop}" for column in columns]
        seen: dict[str, None] = {}  # a set in order
        for name in [*names, *self.structure_names]:
            unused = name
            while unused in seen:
                unused += "_"
            seen[unused] = None
        return list(seen)
