"""GraphNetwork: a small residual network along the graph, which hears the labels of other nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from gbgnn._checks import check_choice
from gbgnn.learners.graph_blocks import MIXINGS, Neighbours, start_blocks
from gbgnn.learners.graph_learner import GraphLearner


@dataclass(kw_only=True, eq=False, repr=False)
class GraphNetwork(GraphLearner):
    r"""A residual graph network, trained on all nodes at once, that hears the labels of other nodes.

    After a linear layer, ``depth`` blocks :math:`H \leftarrow H + \mathrm{relu}(Z U + P Z V + b)`, with Z the
    rows of H standardised and P the model's propagation; ``"random_walk"``, the mean of the neighbours, suits
    it best. It sees what nodes have of their own, each column by its quantiles (sparse columns as they are,
    scaled), their degrees, and the labels that are known: at each step a random share of these, and it is
    trained on the others, so that it learns what labels nearby tell. No node hears its own label, neither in
    training nor when it is predicted. On another graph there are none.

    The hops of the model's aggregation do not matter to it: it takes its own.

    Parameters
    ----------
    depth
        Blocks, each a hop.
    grow
        Whether the network of round t has t blocks, until there are ``depth``.
    units
        Width.
    dropout
        Dropout of hidden units at each step, in [0, 1).
    label_share
        Share of the labelled nodes whose labels are heard at a step of training, in [0, 1); 0 hears none,
        ever.
    learning_rate
        Adam's largest step: it grows for a fifth of the epochs, and then falls to zero along a cosine.
    epochs
        Steps of training, all labelled nodes in each.
    patience
        Stop when the loss of the validation nodes has not fallen for this many epochs, and go back to the
        best. After a round that has said something, it says nothing where that is not better by a standard
        error. None, or no validation nodes, trains all ``epochs``.
    mixing
        ``"mean"``: one product with P a block, as above. ``"both"``: whatever the model's propagation, P is
        the mean of the neighbours, and S Z W is added, S the symmetrically normalised adjacency with self
        loops: what a mean hides, how many neighbours there are, is told as well. ``"symmetric"``: S alone,
        :math:`H \leftarrow H + \mathrm{relu}(S Z W + b)`, which suits graphs of like neighbours.

    Examples
    --------
    >>> from gbgnn import GBGNNClassifier, datasets
    >>> data = datasets.csbm(n_nodes=200, per_class=20)
    >>> model = GBGNNClassifier(learner=GraphNetwork(epochs=50), n_rounds=1, random_state=0)
    >>> model = model.fit(data.train, data.y[data.train], graph=data.graph)
    >>> bool(model.score(data.test, data.y[data.test]) > 0.8)
    True
    """

    mixing: str = "mean"

    def check_blocks(self) -> None:
        """Raise for a mixing that is not known."""
        check_choice("GraphNetwork", "mixing", self.mixing, MIXINGS)

    def start_blocks(self, depth: int, neighbours: Neighbours, seed: int) -> Sequence[nn.Module]:
        """Return blocks of products with P."""
        return start_blocks(depth, self.units, seed, self.mixing)
