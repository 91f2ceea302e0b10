"""The view of a network along the graph: integrated gradients of one node's outputs in the columns of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gbgnn.boosting import Voting
from gbgnn.errors import AbsentError
from gbgnn.explanations.integrals import cut_where_it_bends
from gbgnn.explanations.views import NO_PARTS_OF_A_CHOICE, Parts, View
from gbgnn.learners import Head
from gbgnn.learners.base import Entered
from gbgnn.origins import LABELS_NEARBY, Origin
from gbgnn.problem import NodeInputs

DEGREE = "number of neighbours"

_N_PARTS = 48
"""Of the way; for each there are two passes over the graph, and one back for every output."""


@dataclass(frozen=True, eq=False)
class GraphView(View):
    """A network that begins with a linear layer of the columns of all nodes, for some nodes."""

    head: Head
    voting: Voting
    inputs: NodeInputs
    nodes: torch.Tensor
    own: Sequence[Origin]

    def by_scale(self) -> Parts:
        """Raise: layers hear what others have heard, so that no part is of one distance."""
        raise AbsentError(f"a {type(self.head).__name__} hears all distances at once.")

    def by_column(self) -> Parts:
        """Return what the columns of all nodes add together."""
        names, values, starts = self._describe(), [], []
        for node in self.nodes.tolist():
            entered, integrals = self._integrate(node)
            values.append(torch.stack([entered.split(each) for each in integrals], dim=1))
            starts.append(self._outputs(entered, entered.start, node))
        if not values:
            nothing = torch.zeros(0, self.voting.n_outputs, dtype=torch.float64, device=self.nodes.device)
            return Parts(names, nothing[:, None].expand(-1, len(names), -1), nothing)
        return Parts(names[: len(values[0])], torch.stack(values).double(), torch.stack(starts).double())

    def by_sender(self) -> Parts:
        """Return what all columns of each node add, for the first node; names are all nodes."""
        node = int(self.nodes[0])
        entered, integrals = self._integrate(node)
        values = torch.einsum("onu,nu->no", integrals, entered.end - entered.start)
        start = self._outputs(entered, entered.start, node)
        return Parts(range(len(values)), values[None].double(), start[None].double())

    def _outputs(self, entered: Entered, Z: torch.Tensor, node: int) -> torch.Tensor:
        with torch.no_grad():
            return self.voting.direction(entered.rest(Z))[node]

    def _integrate(self, node: int) -> tuple[Entered, torch.Tensor]:
        """Return how the network begins, and the integrals of each output, (outputs, N, units)."""
        if self.voting.is_choice:
            raise AbsentError(NO_PARTS_OF_A_CHOICE)
        entered = self.head.enter_graph(self.inputs, node)
        moved = entered.end - entered.start
        total = moved.new_zeros(self.voting.n_outputs, *moved.shape)
        parts = cut_where_it_bends(
            lambda place: self._outputs(entered, entered.start + place * moved, node), _N_PARTS
        )
        for place, length in parts:
            Z = (entered.start + place * moved).requires_grad_()
            outputs = self.voting.direction(entered.rest(Z))[node]
            for i, own in enumerate(total):
                keep = i < len(total) - 1
                own.add_(torch.autograd.grad(outputs[i], Z, retain_graph=keep)[0], alpha=length)
        return entered, total

    def _describe(self) -> list[Origin]:
        """Return what the columns are that the network sees: a node's own, its degree, and labels, if any."""
        by = self.head.looks_at
        own = [Origin(f"{each.name} ({by})", each.column, scale=by) for each in self.own]
        more = [Origin(f"{name} ({by})", None, scale=name) for name in (DEGREE, LABELS_NEARBY)]
        return [*own, *more]
