"""Complexities of what each round of a fitted model could have been; and which models are covered."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gbgnn._checks import check_choice, check_integer
from gbgnn.aggregation import HopSpace
from gbgnn.blend import BlendedModel
from gbgnn.errors import ParameterError
from gbgnn.graph import Graph
from gbgnn.labels import as_nodes, check_range
from gbgnn.learners import HeadSpace
from gbgnn.model import FittedModel
from gbgnn.propagation import DenseRows, Operator, Representation
from gbgnn.propagation.spectrum import operator_norm
from gbgnn.registry import as_part
from gbgnn.theory.draws import Draw
from gbgnn.theory.monte_carlo import Estimate, VectorFamily
from gbgnn.theory.rademacher import mlp_complexity, nonlinear_mlp_complexity, q_factor, sign_probability

OWNER = "generalisation_bound"
COMPLEXITIES = ("closed", "monte_carlo")


def covered_spaces(model: FittedModel | BlendedModel) -> tuple[HopSpace, HeadSpace]:
    """Return what the hops and heads were chosen from, or say which part no bound covers."""
    if isinstance(model, BlendedModel):
        raise ParameterError(
            "no bound covers an average of models whose weights were chosen by validation nodes; it would be "
            "of one model alone."
        )
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
            "limits them. Use Adjacency(), InputInjection(), Lazy(), Beside(), Linear() or NonLinear()."
        )
    return hops, heads


class Complexities:
    """The Rademacher complexity of what each round of a model chose from, on a population of nodes.

    ``how`` is ``"closed"`` or ``"monte_carlo"``, which fails with probability ``failure``; all else is as in
    :func:`generalisation_bound`. Nothing but fitted facts is read: the parameters as they were at the fit,
    the graph of the fit, the nodes that trained.
    """

    def __init__(
        self,
        model: FittedModel,
        *,
        graph: Graph | None,
        how: str,
        form: str,
        n_draws: int,
        seed: int,
        failure: float,
        population: ArrayLike | None = None,
        strata: ArrayLike | None = None,
    ) -> None:
        check_choice(OWNER, "complexity", how, COMPLEXITIES)
        check_integer(OWNER, "n_draws", n_draws, 2)
        self.is_exact, self.form = how == "monte_carlo", "paper" if form == "paper" else "corrected"
        self.n_draws, self.seed, self.failure = n_draws, seed, failure
        self.hops, self.heads = covered_spaces(model)
        if self.is_exact and (self.heads.n_layers > 1 or not self.hops.is_linear):
            raise ParameterError(
                'complexity="monte_carlo" is exact for heads without hidden layers on linear aggregations '
                'only; use complexity="closed".'
            )
        graph = known_graph_of_fit(model, graph)
        self.rows, self.draw = _find_draw(model, graph.n_nodes, population, strata)
        self.sizes = self.draw.n_labelled, self.draw.n_unlabelled  # the theory's M and U
        self.p = self.draw.sign_probability
        self.inputs = model.build_inputs(graph)
        self.operator_norm = 1.0
        if not self.hops.is_linear:
            P = Operator.from_matrix(model.inputs.propagation.build(graph.adjacency))
            self.operator_norm = operator_norm(P.to_scipy())

    def per_round(self, n_rounds: int) -> NDArray[np.float64]:
        """Return the complexity of each round: exact up to chance, or bounded in closed form."""
        if not self.is_exact:
            return self.closed(n_rounds)
        return np.array([self._limit(*self._draw(X, t), n_rounds) for t, X in self._envelopes(n_rounds)])

    def closed(self, n_rounds: int) -> NDArray[np.float64]:
        """Return the closed-form bound of each round."""
        # All closed forms grow with the root of the probability of a sign, or not at all.
        more_signs = math.sqrt(self.p / sign_probability(*self.sizes))
        first, bounds = 0.0, []
        for t, X in self._envelopes(n_rounds):
            mixing_norms = [self.hops.max_norm] * (t - 1)
            settings: dict[str, Any] = {
                **{name: getattr(self.heads, name) for name in ("n_layers", "max_norm", "bias")},
                "mixing_norms": mixing_norms,
                "form": self.form,
            }
            if t == 1 or self.hops.is_linear:
                bound = mlp_complexity(_norm(X[self.rows]), *self.sizes, **settings)
                if self.form == "paper":
                    first = self.operator_norm * _norm(X)
            else:  # later hops see all nodes
                first = first or _norm(X)
                later = [self.operator_norm] * (t - 2)
                bound = nonlinear_mlp_complexity(first, *self.sizes, operator_norms=later, **settings)
            bounds.append(more_signs * bound)
        return np.array(bounds)

    def joint(self, n_rounds: int) -> float:
        """Return the complexity of all rounds at once, each divided by its closed form.

        Of T linear rounds it is at most the root of T, because squares of columns add up; that needs heads
        that can be divided, whose activations are positively homogeneous. Of any T rounds it is at most T.
        """
        if not self.is_exact:
            has_root = self.hops.is_linear and self.heads.is_homogeneous
            return math.sqrt(n_rounds) if has_root else float(n_rounds)
        closed, draws, changes = self.closed(n_rounds), np.zeros(self.n_draws), np.zeros(sum(self.sizes))
        for t, X in self._envelopes(n_rounds):
            if not closed[t - 1] > 0:  # nothing but zeros
                continue
            drawn, changed = self._draw(X, t)
            draws = np.maximum(draws, drawn / closed[t - 1])
            changes = np.maximum(changes, changed / closed[t - 1])
        return self._limit(draws, changes, 1)

    def _envelopes(self, n_rounds: int) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the representations that no label has touched, of all nodes."""
        X: Representation = DenseRows(self.inputs.features.dense())
        yield 1, X.dense()
        for t in range(2, n_rounds + 1):
            X = self.hops.envelope(X, self.inputs)
            yield t, X.dense()

    def _draw(self, X: torch.Tensor, t: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return draws of Q sup <sigma, f> over the heads f on X, and what one sign can change in them."""
        X = X[self.rows] * self.hops.max_norm ** (t - 1)
        columns = torch.cat([X, X.new_ones(len(X), 1)], dim=1) if self.heads.bias else X
        Q, family = q_factor(*self.sizes), VectorFamily(OWNER, columns, radius=self.heads.max_norm)
        return Q * family.suprema(self.p, self.n_draws, self.seed), Q * family.differences()

    def _limit(self, draws: NDArray[np.float64], changes: NDArray[np.float64], n_limits: int) -> float:
        estimate = Estimate.from_draws(draws, float(np.linalg.norm(changes)), self.p)
        return estimate.upper_limit(1 - self.failure / n_limits)


def known_graph_of_fit(model: FittedModel, graph: Graph | None) -> Graph:
    """Return the graph of the fit: a bound is about its nodes, whatever other graphs look like it."""
    graph = model.known_graph(graph)
    if graph.n_nodes != model.n_nodes:
        raise ParameterError(
            f"graph has {graph.n_nodes} nodes, but the model was fitted on {model.n_nodes}; a "
            "bound is about the graph of the fit."
        )
    if model.graph_checksum not in (None, graph.checksum):
        raise ParameterError("graph is not that of the fit, which a bound is about; its checksum differs.")
    return graph


def _find_draw(
    model: FittedModel, n_nodes: int, population: ArrayLike | None, strata: ArrayLike | None
) -> tuple[Any, Draw]:
    """Return which rows could have trained, as an index, and how many of them did, by stratum."""
    among = np.arange(n_nodes) if population is None else np.sort(as_nodes(population, "population"))
    check_range(among, n_nodes, "population")
    places = np.searchsorted(among, model.train_nodes).clip(max=max(len(among) - 1, 0))
    if not len(among) or not np.array_equal(among[places], model.train_nodes):
        raise ParameterError("population must hold the nodes that trained: they were drawn from it.")
    if len(places) == len(among):
        raise ParameterError("every node is labelled, so there is no error on others to bound.")
    kinds = None
    if strata is not None:
        every = np.asarray(strata)
        if every.shape != (n_nodes,):
            raise ParameterError(
                f"strata must have an entry for each of the {n_nodes} nodes; got shape {every.shape}."
            )
        kinds = every[among]
    rows = slice(None) if population is None else torch.from_numpy(among)
    return rows, Draw.of_strata(kinds, places, len(among))


def _norm(X: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(X, dtype=torch.float64))
