"""What a model's hops and learners were chosen from, and the Rademacher complexity of it, round by round."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn._checks import check_choice, check_integer
from gbgnn.aggregation import HopSpace
from gbgnn.errors import ParameterError
from gbgnn.graph import Graph
from gbgnn.learners import HeadSpace
from gbgnn.model import FittedModel
from gbgnn.problem import NodeInputs
from gbgnn.propagation import DenseRows, Operator, Representation
from gbgnn.propagation.spectrum import operator_norm
from gbgnn.registry import as_part
from gbgnn.theory.monte_carlo import Estimate, differences, suprema
from gbgnn.theory.rademacher import mlp_complexity, nonlinear_mlp_complexity, q_factor, sign_probability

COMPLEXITIES = ("closed", "monte_carlo")


def covered_spaces(model: FittedModel) -> tuple[HopSpace, HeadSpace]:
    """Return what the hops and heads were chosen from, or say which part no bound covers."""
    rule, aggregation, learner = (as_part(k, model.settings[k]) for k in ("rule", "aggregation", "learner"))
    hops, heads = aggregation.hypothesis_space(), learner.hypothesis_space()
    if not model.task.has_classes:
        raise ParameterError(f"the bounds are of errors of classification; got {type(model.task).__name__}.")
    if model.is_fine_tuned:
        raise ParameterError("no bound covers a fine-tuned model: nothing kept its norms while it was tuned.")
    if not model.voting.adds_outputs:
        raise ParameterError(
            f"no bound covers {rule!r}: a round must add its learner's own output. Use "
            'FunctionalGradient(target="gradient").'
        )
    if heads is None:
        raise ParameterError(
            f"no bound covers {type(learner).__name__}: nothing limits its weights. Use ConstrainedMLP()."
        )
    if hops is None:
        raise ParameterError(
            f"no bound covers {type(aggregation).__name__}: it chooses weights by the labels, and nothing "
            "limits them. Use Adjacency(), InputInjection(), Lazy(), Linear() or NonLinear()."
        )
    return hops, heads


@dataclass(frozen=True, eq=False)
class Complexities:
    """The Rademacher complexity of what each round of a model chose from."""

    hops: HopSpace
    heads: HeadSpace
    inputs: NodeInputs
    n_labelled: int
    operator_norm: float
    form: str
    is_exact: bool
    n_draws: int
    seed: int
    failure: float = 0.0

    @classmethod
    def from_model(
        cls, model: FittedModel, graph: Graph | None, how: str, form: str, n_draws: int, seed: int
    ) -> Complexities:
        """Read them off a model and the graph it was fitted on."""
        check_choice("generalisation_bound", "complexity", how, COMPLEXITIES)
        check_integer("generalisation_bound", "n_draws", n_draws, 2)
        hops, heads = covered_spaces(model)
        if how == "monte_carlo" and (heads.n_layers > 1 or not hops.is_linear):
            raise ParameterError(
                'complexity="monte_carlo" is exact for heads without hidden layers on linear aggregations '
                'only; use complexity="closed".'
            )
        graph = model.known_graph(graph)
        if graph.n_nodes != len(model.score_tensor):
            raise ParameterError(
                f"graph has {graph.n_nodes} nodes, but the model was fitted on {len(model.score_tensor)}; a "
                "bound is about the graph of the fit."
            )
        n_labelled = model.train.size
        if n_labelled == graph.n_nodes:
            raise ParameterError("every node is labelled, so there is no error on others to bound.")
        inputs = model.build_inputs(graph)
        P = Operator.from_matrix(model.inputs.propagation.build(graph.adjacency))
        norm = 1.0 if hops.is_linear else operator_norm(P.to_scipy())
        is_exact = how == "monte_carlo"
        return cls(hops, heads, inputs, n_labelled, norm, form, is_exact, n_draws, seed)

    @property
    def n_unlabelled(self) -> int:
        """The theory's U."""
        return self.inputs.n_nodes - self.n_labelled

    def per_round(self, n_rounds: int) -> NDArray[np.float64]:
        """Return the complexity of each round: exact up to chance, or bounded in closed form."""
        if not self.is_exact:
            return self.closed(n_rounds)
        return np.array([self._limit(*self._draw(X, t), n_rounds) for t, X in self._envelopes(n_rounds)])

    def closed(self, n_rounds: int) -> NDArray[np.float64]:
        """Return the closed-form bound of each round."""
        norms = [_norm(X) for _, X in self._envelopes(n_rounds)]
        return np.array([self._closed_form(t, norms) for t in range(1, n_rounds + 1)])

    def joint(self, n_rounds: int) -> float:
        """Return the complexity of all rounds at once, each divided by its closed form.

        Of T linear rounds it is at most the root of T, because squares of columns add up; of any T rounds at
        most T.
        """
        if not self.is_exact:
            return math.sqrt(n_rounds) if self.hops.is_linear else float(n_rounds)
        closed, largest = self.closed(n_rounds), (np.zeros(self.n_draws), np.zeros(self.inputs.n_nodes))
        for t, X in self._envelopes(n_rounds):
            drawn = (part / closed[t - 1] for part in self._draw(X, t))
            largest = tuple(map(np.maximum, largest, drawn))  # type: ignore[assignment]
        return self._limit(*largest, 1)

    def _closed_form(self, t: int, norms: list[float]) -> float:
        sizes = self.n_labelled, self.n_unlabelled
        mixing = [self.hops.max_norm] * (t - 1)
        settings: dict[str, Any] = {
            "n_layers": self.heads.n_layers,
            "max_norm": self.heads.max_norm,
            "bias": self.heads.bias,
            "mixing_norms": mixing,
            "form": self.form,
        }
        if t == 1 or self.hops.is_linear:
            return mlp_complexity(norms[t - 1], *sizes, **settings)
        later = [self.operator_norm] * (t - 2)
        first = self.operator_norm * norms[0] if self.form == "paper" else norms[1]
        return nonlinear_mlp_complexity(first, *sizes, operator_norms=later, **settings)

    def _envelopes(self, n_rounds: int) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the representations that no label has touched."""
        X: Representation = DenseRows(self.inputs.features.dense())
        yield 1, X.dense()
        for t in range(2, n_rounds + 1):
            X = self.hops.envelope(X, self.inputs)
            yield t, X.dense()

    def _draw(self, X: torch.Tensor, t: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return draws of Q sup <sigma, f> over the heads f on X, and what one sign can change in them."""
        X = X * self.hops.max_norm ** (t - 1)
        columns = torch.cat([X, X.new_ones(len(X), 1)], dim=1) if self.heads.bias else X
        Q, radius = q_factor(self.n_labelled, self.n_unlabelled), self.heads.max_norm
        draws = suprema(columns, self._p, radius=radius, n_draws=self.n_draws, seed=self.seed)
        return Q * draws, Q * differences(columns, radius=radius)

    def _limit(self, draws: NDArray[np.float64], changes: NDArray[np.float64], n_limits: int) -> float:
        estimate = Estimate.from_draws(draws, float(np.linalg.norm(changes)), self._p)
        return estimate.upper_limit(1 - self.failure / n_limits)

    @property
    def _p(self) -> float:
        return sign_probability(self.n_labelled, self.n_unlabelled)


def _norm(X: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(X, dtype=torch.float64))
