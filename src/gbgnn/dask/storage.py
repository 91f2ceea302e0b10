"""Cluster: the rows of all nodes on the workers of a cluster, where a model is fitted and predicts."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast, final
from uuid import uuid4
from weakref import WeakKeyDictionary

import numpy as np
import torch
from distributed import Client, Future

from gbgnn.boosting import Ensemble, Voting
from gbgnn.dask.graph import DaskGraph
from gbgnn.dask.layout import take
from gbgnn.dask.rows import DaskRows, digest
from gbgnn.dask.scores import advance
from gbgnn.errors import AbsentError, ParameterError
from gbgnn.features import LabelledRows
from gbgnn.graph import Graph
from gbgnn.problem import InputRecipe, NodeInputs
from gbgnn.propagation import (
    AugmentedAdjacency,
    GivenMatrix,
    NormalizedAdjacency,
    NormalizedLaplacian,
    Propagation,
    Propagator,
    RandomWalk,
)
from gbgnn.storage import Needs, Storage

_BY_DEGREES = (AugmentedAdjacency, GivenMatrix, NormalizedAdjacency, NormalizedLaplacian, RandomWalk)
"""Recipes that look at edges one by one, and at degrees: a worker can follow them for its own rows."""


@final
@dataclass(frozen=True, eq=False)
class Cluster(Storage):
    """Rows in chunks on the workers of a Dask cluster; learners are trained here, on labelled rows.

    A graph in memory is sent once, and stays on the workers as long as it is here.
    """

    client: Client
    _sent: MutableMapping[Graph, tuple[Any, DaskGraph]] = field(default_factory=WeakKeyDictionary, repr=False)
    graphs: ClassVar[tuple[type, ...]] = (Graph, DaskGraph)

    def holds(self, graph: Graph, dtype: torch.dtype, n_outputs: int) -> bool:
        """Return that they are not in the memory of this machine."""
        return False

    def room_for_scores(self) -> int:
        """Return none: workers compute the scores of those nodes that somebody asks for."""
        return 0

    def build(
        self, recipe: InputRecipe, graph: Graph, known: LabelledRows | None, needs: Needs
    ) -> NodeInputs:
        """Return the features as rows on workers."""
        if needs.all_rows is not None:
            raise ParameterError(
                "workers keep the rows of the nodes, from which parts are handed those of labelled nodes "
                f"alone, but {needs.all_rows} needs more; use "
                'learner="mlp" with aggregation="adjacency", or one machine: GBGNNClassifier.'
            )
        check_recipe(recipe.propagation)
        own = self._send(graph, recipe.encoder)
        dtype, about = recipe.dtype, digest(repr(recipe.propagation), str(recipe.dtype))
        name = digest(own.name, about, recipe.feature_norm)
        first = own.build_chunks(dtype, recipe.feature_norm, name)
        blocks = own.build_blocks(recipe.propagation, about, dtype)
        rows = DaskRows(own, name, first, first, blocks, dtype, own.n_features, recipe.device)
        return NodeInputs(
            rows, cast(Propagator, _OnWorkers()), names=own.feature_names if own.is_named else None
        )

    def find_scores(
        self, ensemble: Ensemble, inputs: NodeInputs, voting: Voting, nodes: torch.Tensor
    ) -> torch.Tensor:
        """Return the scores of some nodes, of which each worker computes its own."""
        X = inputs.features
        assert isinstance(X, DaskRows)
        layout, ids = X.graph.layout, nodes.cpu().numpy()
        found = list(layout.locate(ids))
        parts = self.begin_scores(ensemble, inputs, voting, {chunk: rows for chunk, _, rows in found})
        scores = torch.empty((len(ids), voting.n_outputs), dtype=inputs.dtype)
        for (_, places, _), part in zip(found, layout.client.gather(parts), strict=True):
            scores[torch.from_numpy(places)] = torch.from_numpy(np.array(part))
        return scores.to(inputs.device)

    def begin_scores(
        self, ensemble: Ensemble, inputs: NodeInputs, voting: Voting, wanted: dict[int, Any]
    ) -> list[Future[Any]]:
        """Let workers compute scores of their own nodes: of each chunk those with such rows, None for all."""
        X, device = inputs.features, torch.device("cpu")
        assert isinstance(X, DaskRows)
        layout = X.graph.layout
        rounds = ensemble if inputs.device == device else ensemble.to(device)
        scores: list[Any] = [None] * len(wanted)
        name = uuid4().hex
        for trained in rounds:
            after = trained.hop(X, inputs)
            assert isinstance(after, DaskRows)
            X = after
            head = layout.submit(f"round-{name}-{trained.t}", take, trained)
            scores = [
                layout.submit(
                    f"scores-{name}-{trained.t}-{i}",
                    advance,
                    before,
                    X.chunks[i],
                    ids,
                    X.stored,
                    head,
                    voting,
                )
                for (i, ids), before in zip(wanted.items(), scores, strict=True)
            ]
        return scores

    def _send(self, graph: Graph | DaskGraph, encoder: Any) -> DaskGraph:
        """Return a graph as it is on the workers."""
        if isinstance(graph, DaskGraph):
            return graph
        encoder = graph.encoder if encoder is None else encoder
        by, sent = self._sent.get(graph, (None, None))
        if sent is None or by is not encoder:
            sent = DaskGraph.from_graph(graph, client=self.client, features=graph.encode(encoder))
            self._sent[graph] = encoder, sent
        return sent


def check_recipe(recipe: Propagation) -> None:
    """Raise for a matrix P that workers cannot make of their own rows and the degrees of nodes."""
    if type(recipe) not in _BY_DEGREES:
        raise ParameterError(
            f"propagation={recipe!r} may look at more of the graph than degrees, which is all that a worker "
            'knows of other nodes; use "augmented", "normalized", "random_walk", "laplacian" or "given".'
        )
    if isinstance(recipe, GivenMatrix) and recipe.matrix is not None:
        raise ParameterError(
            "a matrix given as propagation= is not cut into chunks; make it the adjacency of the graph, and "
            'use propagation="given".'
        )


class _OnWorkers:
    """Stands where P would be, and says where it is."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AbsentError(
            "P is in blocks on the workers of a cluster, where only products with it can be had; ask the "
            "model of to_local(), with graph= in memory."
        )
