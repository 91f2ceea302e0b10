"""TrainingData: all that a baseline is given; no labels but those of training and validation nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn.datasets import Dataset
from gbgnn.fitting import given_validation
from gbgnn.graph import Graph
from gbgnn.problem import InputRecipe, LabelledNodes, NodeInputs
from gbgnn.propagation import Operator, Propagation
from gbgnn.tasks import Classification
from gbgnn_lab.baselines.layers import DenseMatrix, Matrix, SparseMatrix


@dataclass(frozen=True, eq=False)
class TrainingData:
    """A graph, and the labels that training may see.

    Parameters
    ----------
    graph
        Edges and features of all nodes.
    train
        The training nodes with the indices of their classes.
    validation
        The nodes that choose the epoch, or None.
    n_classes
        Number of classes among the training nodes.
    device
        Where to compute.
    """

    graph: Graph
    train: LabelledNodes
    validation: LabelledNodes | None
    n_classes: int
    device: torch.device

    @classmethod
    def from_dataset(
        cls, dataset: Dataset, device: torch.device | str = "cpu"
    ) -> tuple[TrainingData, NDArray[Any]]:
        """Take what training may see out of a data set; return it with the class labels."""
        nodes, y = dataset.split, dataset.y
        classes = Classification().fit(y[nodes.train])
        validation = None
        if len(nodes.val):
            held_out = given_validation((nodes.val, y[nodes.val]), nodes.train, classes, dataset.graph)
            validation = LabelledNodes.build(*held_out, device=device)
        train = LabelledNodes.build(nodes.train, classes.encode(y[nodes.train]), device=device)
        data = cls(dataset.graph, train, validation, classes.n_columns, torch.device(device))
        return data, classes.decode(np.arange(classes.n_columns))

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.graph.n_nodes

    @cached_property
    def features(self) -> Matrix:
        """The features of all nodes, sparse where the graph has them sparse."""
        X = self.graph.features
        if isinstance(X, np.ndarray):
            return DenseMatrix(torch.tensor(X, dtype=torch.float32, device=self.device))
        return SparseMatrix.from_scipy(X, self.device)

    def mixing(self, recipe: Propagation) -> SparseMatrix:
        """Return a propagation matrix through which gradients flow."""
        return SparseMatrix.from_scipy(
            Operator.from_matrix(recipe.build(self.graph.adjacency)).to_scipy(), self.device
        )

    def inputs(self, recipe: Propagation) -> NodeInputs:
        """Return dense features and P, for models that mix before they train."""
        return InputRecipe(recipe, device=self.device).build(self.graph)

    @cached_property
    def edges(self) -> torch.Tensor:
        """The edges as PyTorch Geometric has them, sources above targets: ``A[i, j]`` leads from j to i."""
        adjacency = self.graph.adjacency.tocoo()
        ends = np.stack([adjacency.col, adjacency.row]).astype(np.int64)
        return torch.tensor(ends, device=self.device)

    def one_hot(self) -> torch.Tensor:
        """Return the training labels as rows of zeros and a one, zero rows for all other nodes."""
        Y = torch.zeros(self.n_nodes, self.n_classes, device=self.device)
        Y[self.train.rows, self.train.targets] = 1
        return Y
