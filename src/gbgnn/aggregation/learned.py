"""LearnedHops: what the network of the round before makes of a node, handed on to its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from sklearn.base import BaseEstimator

from gbgnn._checks import check_choice
from gbgnn._threads import threads_for
from gbgnn.aggregation.base import Aggregation, Hop
from gbgnn.errors import ModelFileError, ParameterError
from gbgnn.problem import NodeInputs
from gbgnn.propagation import DenseRows, JoinedRows, Representation
from gbgnn.propagation.neighbours import ALONG, DIRECTIONS
from gbgnn.rounds import RoundContext

Layer = tuple[torch.Tensor, torch.Tensor]
"""A weight, shape (out, in), and a bias."""


def apply_hidden(layers: Sequence[Layer], rows: torch.Tensor) -> torch.Tensor:
    """Return what comes out of linear layers, each followed by a ReLU; a gradient passes."""
    for weight, bias in layers:
        rows = torch.addmm(bias, rows, weight.t()).relu()
    return rows


@dataclass(frozen=True, eq=False)
class LearnedHop(Hop):
    r""":math:`X \mapsto [H, W H, X^{(1)}]`, H the hidden units of a network for the rows of X.

    ``layers`` are those of the network up to H. W is the mean over the neighbours, a block for each of the
    ``directions`` in which they are heard.
    """

    layers: tuple[Layer, ...]
    directions: tuple[str, ...]
    keeps_width = False
    caveat = (
        "not of the test error: no bound covers learned hops, whose weights the labels chose without a limit"
    )

    @classmethod
    def from_head(cls, head: Any, directions: tuple[str, ...]) -> LearnedHop:
        """Build the hop of a fitted network, with which it shares its layers."""
        layers = (
            (head.get_parameter(w).detach(), head.get_parameter(b).detach()) for w, b in head.hidden_layers
        )
        return cls(tuple(layers), directions)

    def __call__(self, X: Representation, inputs: NodeInputs) -> Representation:
        """Return the next representation."""
        with torch.no_grad(), threads_for(X.shape[0] * sum(weight.numel() for weight, _ in self.layers)):
            return self.join(self.hidden(X), X, inputs)

    def hidden(self, X: Representation) -> torch.Tensor:
        """Return H of all nodes, block by block."""
        layers = [(weight.to(X.device, X.dtype), bias.to(X.device, X.dtype)) for weight, bias in self.layers]
        return torch.cat([apply_hidden(layers, block) for block in X.blocks(sparse=True)])

    def join(self, H: torch.Tensor, X: Representation, inputs: NodeInputs) -> JoinedRows:
        """Return H, its means over the neighbours, and the raw features, the last block of any later X."""
        means = [inputs.neighbours[each].walk(H) for each in self.directions]
        raw = X.parts[-1] if isinstance(X, JoinedRows) else X
        return JoinedRows((*map(DenseRows, (H, *means)), raw))

    def record(self) -> dict[str, Any]:
        """Return the number of hidden units and layers, and the directions."""
        return {
            "units": len(self.layers[-1][1]),
            "n_layers": len(self.layers),
            "directions": list(self.directions),
        }

    def state(self) -> dict[str, torch.Tensor]:
        """Return copies of the weights and biases: a file has no room that two parts share."""
        named = zip(("weight", "bias"), zip(*self.layers, strict=True), strict=True)
        return {f"{name}.{i}": each.clone() for name, own in named for i, each in enumerate(own)}

    @classmethod
    def from_record(cls, record: dict[str, Any], state: dict[str, torch.Tensor]) -> LearnedHop:
        """Build the hop again; the shapes of its layers fit each other."""
        layers = tuple((state[f"weight.{i}"], state[f"bias.{i}"]) for i in range(record["n_layers"]))
        fits = all(weight.ndim == 2 and bias.shape == weight.shape[:1] for weight, bias in layers)
        fits = fits and all(b.shape[1] == len(a) for (a, _), (b, _) in pairwise(layers)) and len(layers) > 0
        if not fits or not set(record["directions"]) <= set(DIRECTIONS):
            raise ModelFileError("its learned hop cannot be read: the shapes of its weights do not fit.")
        return cls(layers, tuple(record["directions"]))


@dataclass(kw_only=True, eq=False, repr=False)
class LearnedHops(Aggregation):
    r"""Hand on what the network of the round before has learned: :math:`X^{(t)} = [H, W H, X]`.

    H are the units of its last hidden layer, for all nodes; :math:`W = D^{-1} A`, A without self loops, is
    the mean over the neighbours, so that a node stays apart from them; X are the raw features. Round t then
    is a network of t layers along the graph, of which boosting trains one after the other;
    :class:`~gbgnn.FineTuner` trains all of them together afterwards.

    It takes a learner with hidden layers, :class:`~gbgnn.MLP` or :class:`~gbgnn.ConstrainedMLP`.

    Parameters
    ----------
    directions
        ``"along"``: a node hears from where its edges come. ``"both"``: also from where they lead, as a block
        of its own. ``"auto"``: both where the adjacency matrix is not symmetric.

    Notes
    -----
    What a round promises of the training loss holds for any representation, and so for this one. Bounds of
    the test error do not cover it: the hops have weights that the labels chose, and nothing limits them.

    Examples
    --------
    >>> from gbgnn import MLP, GBGNNClassifier
    >>> from gbgnn.testing import two_blocks
    >>> graph, y = two_blocks(40)
    >>> model = GBGNNClassifier(preset="fast", aggregation=LearnedHops(), learner=MLP(units=8), n_rounds=3)
    >>> model = model.fit(range(20), y[:20], graph=graph)
    >>> model.ensemble_[2].hop.record()
    {'units': 8, 'n_layers': 1, 'directions': ['along']}
    """

    directions: str = "auto"

    def check(self) -> None:
        """Raise when a setting is out of range."""
        check_choice("LearnedHops", "directions", self.directions, ("auto", "both", ALONG))

    def check_learner(self, learner: BaseEstimator) -> None:
        """Raise unless the learner's settings say that it has hidden layers."""
        if not learner.get_params(deep=False).get("hidden_layers"):
            raise ParameterError(
                f"LearnedHops hands on the hidden layer of a round's network, which {learner!r} has none of; "
                "use MLP() with hidden_layers of at least 1, or another aggregation."
            )

    def fit(self, context: RoundContext) -> LearnedHop:
        """Return the hop of the network of the round before."""
        head = None if context.previous is None else context.previous()
        if head is None or not head.hidden_layers:
            raise ParameterError(
                f"LearnedHops needs the hidden layer of the round before, and {type(head).__name__} tells of "
                "none; use MLP()."
            )
        named = {"auto": None, "both": DIRECTIONS, ALONG: (ALONG,)}[self.directions]
        return LearnedHop.from_head(head, context.inputs.neighbours.directions() if named is None else named)
