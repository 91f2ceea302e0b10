"""Storage: where the rows of all nodes are while a model is fitted, and when it predicts."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, final

import torch

from gbgnn._checks import as_bytes
from gbgnn._memory import free_bytes, resident_bytes
from gbgnn.boosting import Ensemble, Voting, apply_to
from gbgnn.errors import ParameterError
from gbgnn.features import LabelledRows
from gbgnn.graph import Graph
from gbgnn.problem import InputRecipe, NodeInputs
from gbgnn.propagation import DiskRows, GivenColumns, GraphRows, Workspace

_SHARE = 0.5
"""Of the free memory, what a fit may be expected to take that holds the scores of all nodes."""

_REPRESENTATIONS, _SCORES = 3, 6
"""How many of each are there at once in a fit that holds all rows: a round's before and after, and the first;
scores, those of the best round, what is added, and what is made on the way."""


class Storage(ABC):
    """Where the rows of all nodes are.

    Where they are not simply in memory, learners see the rows of labelled and validation nodes alone, and
    scores of other nodes are computed when somebody asks for them.
    """

    graphs: ClassVar[tuple[type, ...]] = (Graph,)
    """The kinds of graphs whose rows it can hold."""

    @abstractmethod
    def holds(self, graph: Graph, dtype: torch.dtype, n_outputs: int) -> bool:
        """Return whether all rows of a graph are in memory, so that any part may look at them."""

    @abstractmethod
    def room_for_scores(self) -> int:
        """Return how many bytes scores may take that are kept once somebody has asked for them."""

    @abstractmethod
    def build(
        self, recipe: InputRecipe, graph: Graph, known: LabelledRows | None, needs: Needs
    ) -> NodeInputs:
        """Return what a model needs of a graph."""

    def find_scores(
        self, ensemble: Ensemble, inputs: NodeInputs, voting: Voting, nodes: torch.Tensor
    ) -> torch.Tensor:
        """Return the scores of some nodes after the last round."""
        return apply_to(ensemble, inputs, voting, nodes)


@dataclass(frozen=True)
class Needs:
    """What the parts of a model need: whether few rows are enough for them, and if not, which part says so.

    ``n_outputs`` is the number of score columns.
    """

    n_outputs: int
    all_rows: str | None = None


@final
@dataclass(frozen=True)
class Memory(Storage):
    """All rows in memory; where scores of all nodes would take too much beside them, these are left out."""

    def holds(self, graph: Graph, dtype: torch.dtype, n_outputs: int) -> bool:
        """Return that they are."""
        return True

    def room_for_scores(self) -> int:
        """Return a share of the memory that is free."""
        free = free_bytes()
        return sys.maxsize if free is None else int(_SHARE * free)

    def build(
        self, recipe: InputRecipe, graph: Graph, known: LabelledRows | None, needs: Needs
    ) -> NodeInputs:
        """Return P and the features on the recipe's device."""
        is_half = recipe.dtype.itemsize < 4
        if needs.all_rows is not None and is_half:
            raise ParameterError(
                f"dtype={str(recipe.dtype).removeprefix('torch.')!r} stores representations in 16 bits, from "
                f"which parts are handed the rows of labelled nodes alone, but {needs.all_rows} needs more; "
                'use dtype="float32", or learner="mlp" with aggregation="adjacency".'
            )
        inputs = recipe.build(graph, known)
        keeps_few = is_half or (needs.all_rows is None and not self._has_room(inputs, needs.n_outputs))
        return replace(inputs, features=GraphRows.of(inputs.features, inputs.P)) if keeps_few else inputs

    def _has_room(self, inputs: NodeInputs, n_outputs: int) -> bool:
        """Return whether the scores of all nodes may be held."""
        n_rows, n_columns = inputs.features.shape
        numbers = n_rows * (_REPRESENTATIONS * n_columns + _SCORES * n_outputs)
        free = torch.cuda.mem_get_info(inputs.device)[0] if inputs.device.type == "cuda" else free_bytes()
        return free is None or numbers * inputs.dtype.itemsize <= _SHARE * free


IN_MEMORY = Memory()


@final
@dataclass(frozen=True)
class Disk(Storage):
    """Rows on disk wherever all of them would take more memory than a limit, and in memory elsewhere.

    Parameters
    ----------
    memory_limit
        Bytes that the process may take.
    folder
        Where representations are written; None is a folder of the system's for temporary files, which goes
        with the model. A fit that is begun again in the same folder goes on where it was.
    """

    memory_limit: int
    folder: Path | None = None

    @cached_property
    def _temporary(self) -> TemporaryFolder:
        return TemporaryFolder()

    def holds(self, graph: Graph, dtype: torch.dtype, n_outputs: int) -> bool:
        """Return whether they are in memory: the limit leaves room for them."""
        return expected_bytes(graph, dtype, n_outputs) <= self.memory_limit

    def room_for_scores(self) -> int:
        """Return a share of the limit."""
        return self.memory_limit // 8

    def build(
        self, recipe: InputRecipe, graph: Graph, known: LabelledRows | None, needs: Needs
    ) -> NodeInputs:
        """Return P, and the features as rows on disk."""
        if recipe.device.type != "cpu":
            raise ParameterError(
                f'memory_limit is for device="cpu"; this model is for {recipe.device.type!r}.'
            )
        if self.holds(graph, recipe.dtype, needs.n_outputs):
            return IN_MEMORY.build(recipe, graph, known, needs)
        if needs.all_rows is not None:
            expected = expected_bytes(graph, recipe.dtype, needs.n_outputs)
            raise ParameterError(
                "memory_limit keeps representations on disk, from which parts are handed the rows of "
                f"labelled nodes alone, but {needs.all_rows} needs more; leave that out, or give a "
                f"memory_limit of {expected:,} bytes at least."
            )
        if graph.features_from != "matrix":
            raise ParameterError(
                f"memory_limit={self.memory_limit:,} bytes leave no room for the columns that are made of "
                f"a graph's {graph.features_from}; give features as a matrix of numbers, or a larger limit."
            )
        P, features = (
            recipe.build_propagator(graph),
            GivenColumns(graph.features, recipe.dtype, recipe.feature_norm),
        )
        space = Workspace(self._find_folder(), self.memory_limit, P)
        space.check_room()
        names = graph.feature_names if graph.is_named else None
        return NodeInputs(DiskRows.of(space, features, graph.checksum), P, names=names)

    def _find_folder(self) -> Path:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            return self.folder
        return self._temporary.path


@final
class TemporaryFolder:
    """A folder that is there as long as this object is; a copy of the object has another one."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="gbgnn-"))
        weakref.finalize(self, _remove_own, self.path, os.getpid())

    def __reduce__(self) -> tuple[type[TemporaryFolder], tuple[()]]:
        return TemporaryFolder, ()


def _remove_own(path: Path, process: int) -> None:
    """Remove a folder, unless this is a fork of the process that made it."""
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)


def find_storage(model: Any) -> Storage:
    """Return where a model's settings want rows to be."""
    owner = type(model).__name__
    if model.memory_limit is None:
        if model.work_folder is not None:
            raise ParameterError(
                f"{owner}.work_folder={str(model.work_folder)!r} is where rows are written that a "
                'memory_limit leaves no room for; give that too, such as memory_limit="4GB".'
            )
        return IN_MEMORY
    limit, folder = as_bytes(owner, "memory_limit", model.memory_limit), model.work_folder
    return Disk(limit, None if folder is None else Path(folder))


def expected_bytes(graph: Graph, dtype: torch.dtype, n_outputs: int) -> int:
    """Return about how much memory the process has when it holds all rows of a graph and their scores."""
    n_columns = graph.n_features if graph.table is None else len(graph.feature_names)
    numbers = graph.n_nodes * (_REPRESENTATIONS * n_columns + _SCORES * n_outputs)
    edges = graph.adjacency.nnz * (4 + dtype.itemsize)
    total: int = _bytes_before() + edges + numbers * dtype.itemsize
    return total


@cache
def _bytes_before() -> int:
    """Return what the process takes by itself; asked once, so that what fits now fits a moment later."""
    return resident_bytes() or 0
