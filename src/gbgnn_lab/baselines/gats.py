r"""GATS: temperatures of nodes by attention over neighbours [Hsu, Shen, Tomani and Cremers 2022].

.. math:: T_i = T_0 + \frac{1}{H} \sum_h \mathrm{softplus}\Bigl(\omega\, \delta c_i
          + \sum_{j \in N(i) \cup i} \alpha_{ij} \gamma_j \tau_j^h\Bigr)

:math:`\tau_j` is a linear map of the sorted scores of node j, brought to [0, 1]; :math:`\gamma_j` is learned
for training nodes and for their neighbours, and 1 for all others; the attention :math:`\alpha_{ij}` is by the
inner products of scores, and :math:`\delta c_i` says how much surer node i is than its neighbours.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from gbgnn.graph import Graph

_SLOPE = 0.2  # of the leaky ReLU of attention
_SMALL = 1e-12


class GATS(nn.Module):
    """Learns the temperatures of all nodes of a graph.

    Parameters
    ----------
    graph
        Whose edges there are; a self loop is added to every node.
    train
        Ids of the nodes that trained the classifier.
    n_classes
        Number of classes.
    heads
        How many temperatures are averaged.
    """

    def __init__(self, graph: Graph, train: NDArray[np.int64], n_classes: int, *, heads: int = 8) -> None:
        super().__init__()
        edges = graph.adjacency.tocoo()
        is_other = edges.row != edges.col
        everyone = np.arange(graph.n_nodes)
        self.receivers = torch.as_tensor(np.concatenate([edges.row[is_other], everyone]), dtype=torch.int64)
        self.senders = torch.as_tensor(np.concatenate([edges.col[is_other], everyone]), dtype=torch.int64)
        distance = torch.full((graph.n_nodes,), 2)
        is_train = torch.zeros(graph.n_nodes, dtype=torch.bool)
        is_train[torch.as_tensor(train)] = True
        distance[self.receivers[is_train[self.senders]]] = 1
        distance[is_train] = 0
        self.distance = distance
        self.degrees = torch.bincount(self.receivers, minlength=graph.n_nodes).float()
        self.to_temperature = nn.Linear(n_classes, heads, bias=False)
        nn.init.xavier_uniform_(self.to_temperature.weight)
        self.of_confidence = nn.Parameter(torch.zeros(()))
        self.bias = nn.Parameter(torch.ones(()))
        self.of_train, self.of_neighbours = nn.Parameter(torch.ones(())), nn.Parameter(torch.ones(()))

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the temperature of every node; ``scores`` are those of all nodes, a column per class."""
        low = scores.amin(dim=1, keepdim=True)
        spread = (scores.amax(dim=1, keepdim=True) - low).clamp_min(_SMALL)
        gamma = torch.stack([self.of_train, self.of_neighbours, torch.ones(())])[self.distance]
        tau = self.to_temperature(((scores - low) / spread).sort(dim=1).values) * gamma[:, None]
        alpha = self._attend(scores / gamma[:, None])
        mixed = torch.zeros_like(tau).index_add(0, self.receivers, alpha[:, None] * tau[self.senders])
        confidence = functional.softmax(scores, dim=1).amax(dim=1)
        gaps = confidence[self.receivers] - confidence[self.senders]
        surer = torch.zeros_like(confidence).index_add(0, self.receivers, gaps) / self.degrees
        return functional.softplus(mixed + self.of_confidence * surer[:, None]).mean(dim=1) + self.bias

    def _attend(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the weight of every edge; those into a node sum to one."""
        alike = (scores[self.senders] * scores[self.receivers]).sum(dim=1)
        logits = functional.leaky_relu(alike, _SLOPE)
        largest = torch.full_like(self.degrees, -torch.inf)
        largest = largest.scatter_reduce(0, self.receivers, logits.detach(), "amax")
        weights = (logits - largest[self.receivers]).exp()
        return weights / torch.zeros_like(largest).index_add(0, self.receivers, weights)[self.receivers]


def fit_gats(
    model: GATS,
    scores: torch.Tensor,
    calibration: tuple[NDArray[np.int64], NDArray[np.int64]],
    watched: tuple[NDArray[np.int64], NDArray[np.int64]],
    *,
    learning_rate: float = 0.01,
    weight_decay: float = 0.005,
    epochs: int = 2000,
    patience: int = 100,
) -> NDArray[np.float64]:
    """Minimise the log loss of calibration nodes, and return the temperatures of all nodes.

    Each of the two is (nodes, indices of their classes). As the authors do, the epoch is taken that has the
    lowest log loss on the ``watched`` nodes, which are those that trained the classifier.
    """
    (rows, targets), (others, other_targets) = (
        tuple(torch.as_tensor(each) for each in pair) for pair in (calibration, watched)
    )
    steps = torch.optim.Adam(model.parameters(), lr=learning_rate, weight_decay=weight_decay)
    best, kept, waited = torch.inf, copy.deepcopy(model.state_dict()), 0
    for _ in range(epochs):
        steps.zero_grad()
        scaled = scores / model(scores)[:, None]
        loss = functional.cross_entropy(scaled[rows], targets)
        loss.backward()
        now = functional.cross_entropy(scaled[others], other_targets).item()
        if now <= best:
            best, kept, waited = now, copy.deepcopy(model.state_dict()), 0
        else:
            waited += 1
            if waited >= patience:
                break
        steps.step()
    model.load_state_dict(kept)
    with torch.no_grad():
        return np.asarray(model(scores), np.float64)
