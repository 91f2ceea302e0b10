"""What the theory says of a fitted model: bounds of its error on the unlabelled nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn.aggregation import HopSpace
from gbgnn.blend import BlendedModel
from gbgnn.errors import ParameterError
from gbgnn.estimators import GBGNNClassifier
from gbgnn.graph import Graph
from gbgnn.learners import HeadSpace
from gbgnn.model import FittedModel
from gbgnn.propagation import DenseRows, Operator, Representation
from gbgnn.propagation.spectrum import operator_norm
from gbgnn.registry import as_part
from gbgnn.theory.certificate import FORMS
from gbgnn.theory.generalisation import DepthBound, GeneralisationBound, sum_of_classes
from gbgnn.theory.monte_carlo import Estimate, VectorFamily
from gbgnn.theory.rademacher import (
    confidence_term,
    mlp_complexity,
    nonlinear_mlp_complexity,
    partition_term,
    q_factor,
    sign_probability,
)

_OWNER = "generalisation_bound"
STEPS = ("fixed", "any")
COMPLEXITIES = ("closed", "monte_carlo")
# The sizes of classes that steps="any" tries are powers of this.
_GRID = 1.25
# The share of the failure probability that pays for drawing complexities.
_SHARE_OF_DRAWS = 0.01


def generalisation_bound(
    model: GBGNNClassifier,
    *,
    delta: float = 0.5,
    confidence: float = 0.95,
    form: str = "corrected",
    steps: str = "fixed",
    complexity: str = "closed",
    graph: Graph | None = None,
    n_draws: int = 1000,
    seed: int = 0,
) -> GeneralisationBound:
    r"""Bound the error of a fitted model on the nodes it saw no label of.

    With probability ``confidence`` over which M of the N nodes were labelled,

    .. math:: R_{test} \le R_{train} + \frac{1}{2\delta} \sum_t \eta_t \mathfrak{R}(\mathcal{F}_t)
              + c_0 Q \sqrt{\min(M, U)} + \sqrt{\tfrac{SQ}{2} \log \tfrac{1}{1 - c}}.

    The model must come from parts with hard norms: ``FunctionalGradient`` fitting the gradient,
    ``ConstrainedMLP``, and any aggregation but ``KernelTargetAlignment``. All rounds count, also those after
    the best, because the best was chosen by looking. With two classes and one score the bound is the
    paper's; with a score per class each class is told from the rest, and the errors are added up.

    Parameters
    ----------
    model
        A fitted classifier.
    delta
        The margin, on :math:`2p - 1`, in (0, 1): a larger one costs training error and saves complexity.
    confidence
        In (0, 1).
    form
        ``"corrected"`` as above: :math:`R_{train}` counts nodes within the margin, :math:`R_{test}` those got
        wrong. ``"paper"`` as printed, for comparison; it does not hold (docs/errata.md).
    steps
        ``"fixed"`` takes the steps as if chosen before the labels were seen, as the paper does. ``"any"``
        holds for steps chosen by looking at the labels, as they are, and costs more (docs/theory.md).
    complexity
        ``"closed"``: closed-form bounds of the complexities. ``"monte_carlo"``: for heads without hidden
        layers, an upper confidence limit of the exact value, far smaller; a hundredth of the failure
        probability pays for it.
    graph
        The graph of the fit, where the model was loaded from a file.
    n_draws, seed
        Of the Monte Carlo.

    Examples
    --------
    >>> from gbgnn import ConstrainedMLP, GBGNNClassifier, datasets
    >>> data = datasets.load("karate")
    >>> model = GBGNNClassifier(learner=ConstrainedMLP(), n_rounds=3, random_state=0)
    >>> model = model.fit(data.train, data.y[data.train], graph=data.graph)
    >>> generalisation_bound(model).is_vacuous  # four labels promise nothing
    True
    """
    check_choice(_OWNER, "form", form, FORMS)
    check_choice(_OWNER, "steps", steps, STEPS)
    check_number(_OWNER, "confidence", confidence, 0, 1, open_low=True, open_high=True)
    check_number(_OWNER, "delta", delta, 0, 1, open_low=form == "corrected", open_high=True)
    if form == "paper" and (steps, complexity) != ("fixed", "closed"):
        raise ParameterError('form="paper" goes with steps="fixed" and complexity="closed" only.')
    check_is_fitted(model, "model_")
    fitted: FittedModel = model.model_
    n_columns = fitted.score_tensor.shape[1]
    failure = (1 - confidence) / n_columns
    scale = Complexities(fitted, graph, complexity, form, n_draws, seed, _SHARE_OF_DRAWS * failure)
    if complexity == "monte_carlo":
        failure = (1 - _SHARE_OF_DRAWS) * failure
    etas = np.abs(fitted.etas)
    if steps == "fixed":
        terms = etas * scale.per_round(len(etas))
    else:
        terms, failure = _for_any_steps(etas, scale, fitted.settings["n_rounds"], failure)
    if form == "corrected":
        terms = terms / (2 * delta)
    notes = ["it holds for labelled nodes drawn uniformly at random from all nodes"]
    if form == "paper":
        notes.append("as printed in the paper, which does not hold (docs/errata.md)")
    elif steps == "fixed":
        notes.append('it takes the steps as chosen before the labels were seen; steps="any" does not')
    whole = GeneralisationBound(
        training=math.nan,
        complexities=tuple(terms.tolist()),
        partition=partition_term(*scale.sizes),
        deviation=confidence_term(*scale.sizes, 1 - failure),
        delta=delta,
        confidence=confidence,
        form=form,
        steps=steps,
        notes=tuple(notes),
    )
    errors = margin_errors(fitted, delta)
    if n_columns == 1:
        return replace(whole, training=errors[0])
    notes.append(f"{n_columns} classes, each against the rest, with a share of the confidence; errors add up")
    parts = tuple(
        replace(whole, training=error, confidence=1 - (1 - confidence) / n_columns, label=label, notes=())
        for label, error in zip(fitted.classes.tolist(), errors, strict=True)
    )
    return sum_of_classes(parts, confidence, tuple(notes))


def depth_bound(
    model: GBGNNClassifier,
    *,
    delta: float = 0.5,
    confidence: float = 0.95,
    form: str = "corrected",
    complexity: str = "closed",
    graph: Graph | None = None,
    n_draws: int = 1000,
    seed: int = 0,
) -> DepthBound:
    """Bound the test error of a model stopped after each round, the training error bounded too.

    Nothing but the certificate is taken from the training: no count of errors. Two classes with one score
    only; parameters as in :func:`generalisation_bound`, steps as if fixed.

    Examples
    --------
    >>> from gbgnn import ConstrainedMLP, GBGNNClassifier, datasets
    >>> data = datasets.load("karate")
    >>> model = GBGNNClassifier(learner=ConstrainedMLP(), n_rounds=3, random_state=0)
    >>> model = model.fit(data.train, data.y[data.train], graph=data.graph)
    >>> depth_bound(model).totals[0]  # round 1 has no certified round behind it
    inf
    """
    check_is_fitted(model, "model_")
    fitted: FittedModel = model.model_
    if fitted.scores.shape[1] != 1:
        raise ParameterError(
            f"the bound by depth is for two classes and one score; this model has {fitted.scores.shape[1]} "
            "score columns. Use generalisation_bound, or the certificate's training_bounds."
        )
    asked: dict[str, Any] = {"delta": delta, "confidence": confidence, "form": form}
    bound = generalisation_bound(
        model, **asked, complexity=complexity, graph=graph, n_draws=n_draws, seed=seed
    )
    certificate = fitted.certificate
    return DepthBound(
        gamma_totals=tuple(r.gamma_total for r in certificate.rounds),
        training=certificate.training_bounds(delta=delta, form=form),
        increments=bound.complexities,
        partition=bound.partition,
        deviation=bound.deviation,
        **asked,
    )


def margin_errors(model: FittedModel, delta: float) -> list[float]:
    r"""Return, per score column, the share of labelled nodes with :math:`(2p - 1) y^\sharp < \delta`.

    p is the sigmoid of the score, :math:`y^\sharp` is 1 for the column's class and -1 for all others.
    """
    scores = model.scores[model.train_nodes].astype(np.float64)
    classes = np.arange(model.task.n_columns)[-scores.shape[1] :]  # one column: that of the second class
    signs = np.where(model.train_targets[:, None] == classes, 1.0, -1.0)
    within = signs * np.tanh(scores / 2) < delta
    errors: list[float] = within.mean(axis=0).tolist()
    return errors


def _for_any_steps(
    etas: NDArray[np.float64], scale: Complexities, n_rounds: int, failure: float
) -> tuple[NDArray[np.float64], float]:
    r"""Return the complexity of each round, and the failure probability that is left.

    All sums with :math:`\sum_t \eta_t R_t \le \Lambda` are one class. Its complexity is :math:`\Lambda` times
    that of the union of all rounds, each divided by its :math:`R_t`. Lambda is the next power of 1.25; the
    k-th power has a share :math:`1 / 3(|k| + 1)^2` of the failure probability, which adds up to less than 1.
    """
    closed = scale.closed(n_rounds)
    spent = etas * closed[: len(etas)]
    power = math.ceil(math.log(spent.sum(), _GRID))
    inflation = _GRID**power / spent.sum() * scale.joint(n_rounds)
    return spent * inflation, failure / (3 * (abs(power) + 1) ** 2)


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
    """The Rademacher complexity of what each round of a model chose from.

    ``how`` is ``"closed"`` or ``"monte_carlo"``, which fails with probability ``failure``; all else is as in
    :func:`generalisation_bound`.
    """

    def __init__(
        self,
        model: FittedModel,
        graph: Graph | None,
        how: str,
        form: str,
        n_draws: int,
        seed: int,
        failure: float,
    ) -> None:
        check_choice(_OWNER, "complexity", how, COMPLEXITIES)
        check_integer(_OWNER, "n_draws", n_draws, 2)
        self.is_exact, self.form = how == "monte_carlo", form
        self.n_draws, self.seed, self.failure = n_draws, seed, failure
        self.hops, self.heads = covered_spaces(model)
        if self.is_exact and (self.heads.n_layers > 1 or not self.hops.is_linear):
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
        if model.train.size == graph.n_nodes:
            raise ParameterError("every node is labelled, so there is no error on others to bound.")
        self.sizes = model.train.size, graph.n_nodes - model.train.size  # the theory's M and U
        self._p = sign_probability(*self.sizes)
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
        norms = [
            float(torch.linalg.vector_norm(X, dtype=torch.float64)) for _, X in self._envelopes(n_rounds)
        ]
        bounds = []
        for t, norm in enumerate(norms, start=1):
            mixing_norms = [self.hops.max_norm] * (t - 1)
            settings: dict[str, Any] = {**asdict(self.heads), "mixing_norms": mixing_norms, "form": self.form}
            if t == 1 or self.hops.is_linear:
                bounds.append(mlp_complexity(norm, *self.sizes, **settings))
            else:
                later = [self.operator_norm] * (t - 2)
                first = self.operator_norm * norms[0] if self.form == "paper" else norms[1]
                bounds.append(nonlinear_mlp_complexity(first, *self.sizes, operator_norms=later, **settings))
        return np.array(bounds)

    def joint(self, n_rounds: int) -> float:
        """Return the complexity of all rounds at once, each divided by its closed form.

        Of T linear rounds it is at most the root of T, because squares of columns add up; of any T rounds at
        most T.
        """
        if not self.is_exact:
            return math.sqrt(n_rounds) if self.hops.is_linear else float(n_rounds)
        closed, draws, changes = self.closed(n_rounds), np.zeros(self.n_draws), np.zeros(sum(self.sizes))
        for t, X in self._envelopes(n_rounds):
            drawn, changed = self._draw(X, t)
            draws = np.maximum(draws, drawn / closed[t - 1])
            changes = np.maximum(changes, changed / closed[t - 1])
        return self._limit(draws, changes, 1)

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
        Q, family = q_factor(*self.sizes), VectorFamily(_OWNER, columns, radius=self.heads.max_norm)
        return Q * family.suprema(self._p, self.n_draws, self.seed), Q * family.differences()

    def _limit(self, draws: NDArray[np.float64], changes: NDArray[np.float64], n_limits: int) -> float:
        estimate = Estimate.from_draws(draws, float(np.linalg.norm(changes)), self._p)
        return estimate.upper_limit(1 - self.failure / n_limits)
