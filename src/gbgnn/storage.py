"""Storage: where the rows of all nodes are while a model is fitted, and when it predicts."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
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
from gbgnn.registry import as_dtype

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
        keeps_few = is_half or (needs.all_rows is None and not self._holds_all(inputs, needs.n_outputs))
        return replace(inputs, features=GraphRows.of(inputs.features, inputs.P)) if keeps_few else inputs

    def _holds_all(self, inputs: NodeInputs, n_outputs: int) -> bool:
        """Return whether the scores of all nodes may be held."""
        n_rows, n_columns = inputs.features.shape
        numbers = n_rows * (_REPRESENTATIONS * n_columns + _SCORES * n_outputs)
        free = torch.cuda.mem_get_info(inputs.device)[0] if inputs.device.type == "cuda" else free_bytes()
        return free is None or numbers * inputs.dtype.itemsize <= _SHARE * free


@final
@dataclass(frozen=True)
class Disk(Storage):
    """Rows on disk, and no more of them in memory than a limit leaves room for.

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
    _temporary: list[tempfile.TemporaryDirectory[str]] = field(
        default_factory=list, repr=False, compare=False
    )

    def build(
        self, recipe: InputRecipe, graph: Graph, known: LabelledRows | None, needs: Needs
    ) -> NodeInputs:
        """Return P, and the features as rows on disk."""
        if needs.all_rows is not None:
            raise ParameterError(
                f"memory_limit keeps representations on disk, from which parts are handed the rows of "
                f"labelled nodes alone, but {needs.all_rows} needs more; use "
                'learner="mlp" with aggregation="adjacency", or a larger memory_limit.'
            )
        if recipe.device.type != "cpu":
            raise ParameterError(
                f'memory_limit is for device="cpu"; this model is for {recipe.device.type!r}.'
            )
        P, features = (
            recipe.build_propagator(graph),
            GivenColumns(graph.features, recipe.dtype, recipe.feature_norm),
        )
        space = Workspace(self._find_folder(), self.memory_limit, P)
        names = graph.feature_names if graph.is_named else None
        return NodeInputs(DiskRows.of(space, features, graph.checksum), P, names=names)

    def _find_folder(self) -> Path:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            return self.folder
        if not self._temporary:
            self._temporary.append(tempfile.TemporaryDirectory(prefix="gbgnn-"))
        return Path(self._temporary[0].name)


IN_MEMORY = Memory()


def find_storage(model: Any, graph: Graph, n_outputs: int) -> Storage:
    """Return where a model's settings want a graph's rows: on disk where they exceed ``memory_limit``."""
    owner = type(model).__name__
    if model.memory_limit is None:
        if model.work_folder is not None:
            raise ParameterError(
                f"{owner}.work_folder={str(model.work_folder)!r} is where rows are written that a "
                'memory_limit leaves no room for; give that too, such as memory_limit="4GB".'
            )
        return IN_MEMORY
    limit = as_bytes(owner, "memory_limit", model.memory_limit)
    if expected_bytes(graph, as_dtype(model.dtype), n_outputs) <= limit:
        return IN_MEMORY
    if model.preset == "best":
        raise ParameterError(
            f'preset="best" holds all rows of the graph in memory, for which memory_limit={limit:,} bytes '
            'leave no room; use preset="default".'
        )
    folder = model.work_folder
    return Disk(limit, None if folder is None else Path(folder))


def expected_bytes(graph: Graph, dtype: torch.dtype, n_outputs: int) -> int:
    """Return about how much memory the process has when it holds all rows of a graph and their scores."""
    n_columns = graph.n_features if graph.table is None else len(graph.feature_names)
    numbers = graph.n_nodes * (_REPRESENTATIONS * n_columns + _SCORES * n_outputs)
    edges = graph.adjacency.nnz * (4 + dtype.itemsize)
    total: int = (resident_bytes() or 0) + edges + numbers * dtype.itemsize
    return total
