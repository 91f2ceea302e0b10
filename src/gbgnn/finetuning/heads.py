"""Heads in fine-tuning: their parameters, in coordinates in which steps of one size make sense."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.func import functional_call, vmap

from gbgnn.errors import ParameterError
from gbgnn.learners import Head

Parameters = dict[str, torch.Tensor]


class HeadStack:
    r"""Heads of one kind and shape whose parameters can be moved, a stack for each name.

    Heads are evaluated together: a round is so small that on a GPU starting its kernels would take most of
    the time. Their :attr:`~gbgnn.learners.Head.first_layer` is moved as a function of standardised inputs,
    :math:`(x - m) / s`, as that of an MLP was trained: deep representations differ little beside what they
    have in common, and a step in the raw weights, which are large there, would change the common part only.
    Heads that name no such layer are moved in their own parameters.

    Parameters
    ----------
    heads
        The heads; they stay as they are.
    centres, sizes
        m and s of every head, of the rows that it is fine-tuned on.
    """

    def __init__(self, heads: Sequence[Head], centres: torch.Tensor, sizes: torch.Tensor) -> None:
        self.heads, self.centres, self.sizes = list(heads), centres[:, :, None], sizes[:, None, None]
        named = [dict(head.named_parameters()) for head in heads]
        self.parameters = {name: torch.stack([own[name].detach() for own in named]) for name in named[0]}
        if heads[0].first_layer is not None:
            weight, bias = (self.parameters[name] for name in heads[0].first_layer)
            bias += (weight @ self.centres).squeeze(2)
            weight *= self.sizes
        for value in self.parameters.values():
            value.requires_grad_()

    def raw(self) -> Parameters:
        """Return the parameters for raw inputs; differentiable."""
        first_layer = self.heads[0].first_layer
        if first_layer is None:
            return self.parameters
        of_weight, of_bias = first_layer
        weight = self.parameters[of_weight] / self.sizes
        bias = self.parameters[of_bias] - (weight @ self.centres).squeeze(2)
        return self.parameters | {of_weight: weight, of_bias: bias}

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """Return the outputs of every head for its own rows, shape (n_heads, n_rows, n_outputs)."""
        output: torch.Tensor = vmap(self._evaluate)(self.raw(), X)
        return output

    def rebuild(self) -> list[Head]:
        """Return ordinary heads with the parameters of now."""
        with torch.no_grad():
            raw = {name: value.detach().clone() for name, value in self.raw().items()}
        return [
            type(head)
            .from_state(head.state() | {name: value[i].clone() for name, value in raw.items()})
            .requires_grad_(False)
            for i, head in enumerate(self.heads)
        ]

    def _evaluate(self, parameters: Parameters, X: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = functional_call(self.heads[0], parameters, (X,))
        return output


class FineTunedHeads:
    """The heads of all rounds, stacked where they are alike.

    Parameters
    ----------
    heads, centres, sizes
        As in :class:`HeadStack`, of every round.
    """

    def __init__(self, heads: Sequence[Head], centres: torch.Tensor, sizes: torch.Tensor) -> None:
        alike: dict[object, list[int]] = {}
        for place, head in enumerate(heads):
            kind = type(head), tuple((name, value.shape) for name, value in head.named_parameters())
            alike.setdefault(kind, []).append(place)
        self.places = list(alike.values())
        self.stacks = [HeadStack([heads[i] for i in own], centres[own], sizes[own]) for own in self.places]
        self._order = torch.tensor([i for own in self.places for i in own], device=centres.device).argsort()

    def parameters(self) -> list[torch.Tensor]:
        """Return the parameters of all heads."""
        return [value for stack in self.stacks for value in stack.parameters.values()]

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """Return the outputs of every round's head for its own rows, shape (T, n_rows, n_outputs)."""
        if len(self.stacks) == 1:
            return self.stacks[0](X)
        parts = [stack(X[own]) for stack, own in zip(self.stacks, self.places, strict=True)]
        return torch.cat(parts)[self._order]

    def rebuild(self) -> list[Head]:
        """Return ordinary heads with the parameters of now, round by round."""
        rebuilt = [head for stack in self.stacks for head in stack.rebuild()]
        return [rebuilt[i] for i in self._order.tolist()]


def check_differentiable(head: Head, t: int) -> None:
    """Raise unless a head has parameters to move."""
    if not any(True for _ in head.parameters()):
        raise ParameterError(
            f"the learner of round {t} ({type(head).__name__}) has no parameters that a gradient could move; "
            "fine-tuning works with networks such as MLP()."
        )
