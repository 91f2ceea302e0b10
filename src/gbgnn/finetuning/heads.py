"""A head in tuning: its parameters, in coordinates in which steps of one size make sense."""

from __future__ import annotations

import torch
from torch.func import functional_call

from gbgnn.errors import ParameterError
from gbgnn.learners import Head
from gbgnn.learners.network import MLPHead

_FIRST = "layers.0."


class TunedHead:
    r"""A head whose parameters can be moved.

    The first layer of a network is moved as a function of standardised inputs, :math:`(x - m) / s`, as it
    was trained: deep representations differ little beside what they have in common, and a step in the raw
    weights, which are large there, would change the common part only. Heads of other kinds are moved in
    their own parameters.

    Parameters
    ----------
    head
        The head; it stays as it is.
    centre, size
        m and s, of the rows that the head is tuned on.

    Examples
    --------
    >>> head = MLPHead.from_layers([(torch.ones(2, 1), torch.zeros(1))])
    >>> tuned = TunedHead(head, torch.tensor([5.0, 5.0]), 0.5)
    >>> {name: value.tolist() for name, value in tuned.parameters.items()}
    {'layers.0.weight': [[0.5, 0.5]], 'layers.0.bias': [10.0]}
    >>> tuned(torch.tensor([[5.0, 6.0]])).tolist()
    [[11.0]]
    """

    def __init__(self, head: Head, centre: torch.Tensor, size: float) -> None:
        self.head = head
        self.parameters = {name: value.detach().clone() for name, value in head.named_parameters()}
        self._inputs = (centre, size) if isinstance(head, MLPHead) else None
        if self._inputs is not None:
            weight = self.parameters[_FIRST + "weight"]
            self.parameters[_FIRST + "bias"] += weight @ centre
            weight *= size
        for value in self.parameters.values():
            value.requires_grad_()

    def raw(self) -> dict[str, torch.Tensor]:
        """Return the parameters for raw inputs; differentiable."""
        if self._inputs is None:
            return self.parameters
        centre, size = self._inputs
        weight = self.parameters[_FIRST + "weight"] / size
        bias = self.parameters[_FIRST + "bias"] - weight @ centre
        return self.parameters | {_FIRST + "weight": weight, _FIRST + "bias": bias}

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """Return the outputs of the rows ``X``."""
        output: torch.Tensor = functional_call(self.head, self.raw(), (X,))
        return output

    def rebuild(self) -> Head:
        """Return an ordinary head with the parameters of now."""
        with torch.no_grad():
            moved = {name: value.detach().clone() for name, value in self.raw().items()}
        return type(self.head).from_state(self.head.state() | moved).requires_grad_(False)


def check_differentiable(head: Head, t: int) -> None:
    """Raise unless a head has parameters to move."""
    if not any(True for _ in head.parameters()):
        raise ParameterError(
            f"the learner of round {t} ({type(head).__name__}) has no parameters that a gradient could move; "
            "fine-tuning works with networks such as MLP()."
        )
