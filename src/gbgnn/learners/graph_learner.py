"""GraphLearner: what the learners have in common that train a network along the graph."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gbgnn._checks import check_integer, check_number
from gbgnn._threads import threads_for
from gbgnn.learners.base import GRAPH, Learner
from gbgnn.learners.columns import ColumnMap
from gbgnn.learners.convolution_block import Recipe
from gbgnn.learners.graph_blocks import Neighbours
from gbgnn.learners.graph_head import GraphNetworkHead, work_of
from gbgnn.learners.graph_training import GraphTraining
from gbgnn.rounds import RoundContext


@dataclass(kw_only=True, eq=False, repr=False)
class GraphLearner(Learner):
    """Trains a residual network on all nodes at once, which hears the labels of other nodes.

    A learner of this kind says which blocks a network begins with, between the layer that columns enter and
    the one that outputs leave. Settings are those of :class:`~gbgnn.GraphNetwork`.
    """

    depth: int = 8
    grow: bool = False
    units: int = 32
    dropout: float = 0.2
    label_share: float = 0.5
    learning_rate: float = 0.01
    epochs: int = 300
    patience: int | None = 50

    uses = GRAPH
    takes_gaps = True  # which are in rows that it does not look at
    takes_offsets = True
    hears_labels = True

    @abstractmethod
    def check_blocks(self) -> None:
        """Raise when a setting of the blocks is out of range."""

    @abstractmethod
    def start_blocks(self, depth: int, neighbours: Neighbours, seed: int) -> Sequence[nn.Module]:
        """Return so many blocks with random weights."""

    def recipe(self) -> Recipe | None:
        """Return how blocks are built again that a file names; None for this library's own."""
        return None

    def drawing(self, seed: int, device: torch.device) -> AbstractContextManager[Any]:
        """Return what surrounds training; for blocks that draw from a stream of their own."""
        return nullcontext()

    def check(self) -> None:
        """Raise when a setting is out of range."""
        owner = type(self).__name__
        check_integer(owner, "depth", self.depth, 1)
        check_integer(owner, "units", self.units, 1)
        check_number(owner, "dropout", self.dropout, 0, 1, open_high=True)
        check_number(owner, "label_share", self.label_share, 0, 1, open_high=True)
        check_number(owner, "learning_rate", self.learning_rate, 0, open_low=True)
        check_integer(owner, "epochs", self.epochs, 1)
        check_integer(owner, "patience", self.patience, 1, optional=True)
        self.check_blocks()

    @property
    def watches_validation(self) -> bool:
        """Whether training stops early."""
        return self.patience is not None

    @property
    def is_differentiable(self) -> bool:
        """No: fine-tuning moves heads of rows."""
        return False

    def fit(self, context: RoundContext) -> GraphNetworkHead:
        """Train a network on the graph."""
        task, inputs, seed = context.weak_task, context.inputs, context.seed
        known = inputs.known if self.label_share else None
        n_labels = 0 if known is None else known.codes.shape[1] + 1
        columns, neighbours = ColumnMap.fit(inputs), Neighbours(inputs.P)
        depth = min(self.depth, context.t) if self.grow else self.depth
        with self.drawing(seed, inputs.device), threads_for(work_of(inputs, self.units)):
            blocks = self.start_blocks(depth, neighbours, seed)
            ends = (n_labels, task.n_outputs, self.units, seed)
            head = GraphNetworkHead.start(columns, blocks, *ends, recipe=self.recipe())
            head = head.to(device=inputs.device, dtype=inputs.dtype)
            settings = (self.dropout, self.label_share, self.learning_rate, self.epochs, self.patience)
            GraphTraining(*settings).run(head, columns(inputs), neighbours, known, task, seed)
        return head
