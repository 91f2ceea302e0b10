"""Bounds of the error on nodes without a label, by the labelled nodes alone: for models with hard norms."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from gbgnn._checks import check_choice, check_number
from gbgnn.errors import ParameterError
from gbgnn.estimators import GBGNNClassifier
from gbgnn.graph import Graph
from gbgnn.guarantees.complexities import OWNER, Complexities, covered_spaces
from gbgnn.labels import NodeSplit
from gbgnn.model import FittedModel
from gbgnn.theory.draws import Draw
from gbgnn.theory.generalisation import DepthBound, GeneralisationBound, sum_of_classes
from gbgnn.theory.rademacher import confidence_term, partition_term

FORMS = ("sharp", "corrected", "paper")
STEPS = ("any", "fixed")
# The sizes of classes that steps="any" tries are powers of this; the class of size 0 has a share of its own.
_GRID, _SHARE_OF_ZERO = 1.25, 0.2
# The share of the failure probability that pays for drawing complexities.
_SHARE_OF_DRAWS = 0.01


def generalisation_bound(
    model: GBGNNClassifier,
    *,
    delta: float = 0.5,
    confidence: float = 0.95,
    form: str = "sharp",
    steps: str | None = None,
    complexity: str = "closed",
    population: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    split: NodeSplit | None = None,
    graph: Graph | None = None,
    n_draws: int = 1000,
    seed: int = 0,
) -> GeneralisationBound:
    r"""Bound the error of a fitted model on the nodes it saw no label of, by its labelled nodes alone.

    With probability ``confidence`` over which M of the N nodes were labelled (docs/theory.md, Theorem 5),

    .. math:: R_{test} \le \rho_{train} + \frac{1}{2\delta c} \sum_{k, t} \eta_t \mathfrak{R}(\mathcal{F}_t)
              + \sqrt{\tfrac{SQ}{2} \log \tfrac{1}{\delta'}},

    with :math:`\rho_{train}` the mean over labelled nodes of the ramp from 1, where a score has the wrong
    sign, to 0, where it is right by the margin; of K scores, of their sum up to 1.

    The model must come from parts with hard norms: ``FunctionalGradient`` fitting the gradient,
    ``ConstrainedMLP``, and any aggregation but ``KernelTargetAlignment``. All rounds count, also those after
    the best, because the best was chosen by looking. Where labels for validation can be had,
    :func:`~gbgnn.holdout_bound` says more, of any model.

    Parameters
    ----------
    model
        A fitted classifier.
    delta
        The margin, on :math:`2p - 1`, in (0, 1): a larger one costs training error and saves complexity. It
        must be chosen before the labels are seen, as must the norms of the parts.
    confidence
        In (0, 1).
    form
        ``"sharp"`` as above. ``"corrected"``, for comparison: the paper's theorem with constants that hold,
        which counts the nodes within the margin, pays :math:`c_0 Q \sqrt{\min(M, U)}` where the sharp form
        has the factor 1/c, and of several classes adds up a bound for each. ``"paper"`` as printed; it does
        not hold (docs/errata.md).
    steps
        ``"any"`` holds for steps chosen by looking at the labels, as they are. ``"fixed"`` takes them as if
        chosen before, as the paper does, and is no theorem. None is ``"fixed"`` for ``form="paper"``, else
        ``"any"``.
    complexity
        ``"closed"``: closed-form bounds of the complexities. ``"monte_carlo"``: for heads without hidden
        layers, an upper confidence limit of the exact value, far smaller; a hundredth of the failure
        probability pays for it.
    population
        Nodes that the labelled ones were drawn from, themselves among them; None takes all of the graph. The
        bound is of the error on the rest of them.
    strata
        Something that is known of every node, such as its region or its class, where each kind had a number
        of labelled nodes of its own: the bound is then for a draw that is uniform in each. Shares that are
        not the same for all kinds cost ``imbalance``.
    split
        The split that the model was fitted on, which knows how it was drawn; the bound then says whether what
        it assumes is so.
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
    >>> generalisation_bound(model).is_vacuous  # two labels promise nothing
    True
    """
    check_choice(OWNER, "form", form, FORMS)
    steps = ("fixed" if form == "paper" else "any") if steps is None else steps
    check_choice(OWNER, "steps", steps, STEPS)
    check_number(OWNER, "confidence", confidence, 0, 1, open_low=True, open_high=True)
    check_number(OWNER, "delta", delta, 0, 1, open_low=form != "paper", open_high=True)
    if form == "paper" and (steps, complexity) != ("fixed", "closed"):
        raise ParameterError('form="paper" goes with steps="fixed" and complexity="closed" only.')
    if form != "sharp" and strata is not None:
        raise ParameterError(f'form="{form}" is for uniform draws; only form="sharp" has strata.')
    check_is_fitted(model, "model_")
    fitted: FittedModel = model.model_
    covered_spaces(fitted)  # which says what no bound is about, averages among it
    n_columns = fitted.voting.n_outputs
    n_parts = 1 if form == "sharp" else n_columns  # each an application of the theorem, with its own failure
    failure = (1 - confidence) / n_parts
    scale = Complexities(
        fitted,
        graph=graph,
        how=complexity,
        form=form,
        n_draws=n_draws,
        seed=seed,
        failure=_SHARE_OF_DRAWS * failure,
        population=population,
        strata=strata,
    )
    if complexity == "monte_carlo":
        failure = (1 - _SHARE_OF_DRAWS) * failure
    etas = np.abs(fitted.etas)
    if steps == "fixed":
        terms = etas * scale.per_round(len(etas))
    else:
        terms, failure = _for_any_steps(etas, scale, fitted.settings["n_rounds"], failure)
    if form != "paper":
        terms = terms / (2 * delta)
    holds = _is_drawn_so(split, fitted, by_strata=strata is not None)
    whole = GeneralisationBound(
        training=math.nan,
        complexities=(),
        deviation=math.nan,
        delta=delta,
        confidence=confidence,
        form=form,
        steps=steps,
        assumption_holds=holds,
        notes=tuple(_notes(form, steps, scale.draw, holds)),
    )
    if form == "sharp":
        return replace(
            whole,
            training=float(ramps(fitted, delta).sum(axis=1).clip(max=1).mean()),
            complexities=tuple((n_columns * scale.draw.independence * terms).tolist()),
            deviation=scale.draw.deviation(1 - failure),
            imbalance=scale.draw.imbalance,
        )
    whole = replace(
        whole,
        complexities=tuple(terms.tolist()),
        partition=partition_term(*scale.sizes),
        deviation=confidence_term(*scale.sizes, 1 - failure, form=form),
    )
    errors = margin_errors(fitted, delta)
    if n_columns == 1:
        return replace(whole, training=errors[0])
    told = f"{n_columns} classes, each against the rest, with a share of the confidence; errors add up"
    parts = tuple(
        replace(whole, training=error, confidence=1 - (1 - confidence) / n_columns, label=label, notes=())
        for label, error in zip(fitted.classes.tolist(), errors, strict=True)
    )
    return sum_of_classes(parts, confidence, (*whole.notes, told))


def depth_bound(
    model: GBGNNClassifier,
    *,
    delta: float = 0.5,
    confidence: float = 0.95,
    form: str = "sharp",
    complexity: str = "closed",
    population: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    split: NodeSplit | None = None,
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
    weights = fitted.train.weights
    if not torch.allclose(weights, weights.mean()):
        raise ParameterError(
            "the bound by depth takes the training error from the certificate, which is of weighted nodes "
            "here; use generalisation_bound, which counts nodes."
        )
    asked: dict[str, Any] = {"delta": delta, "confidence": confidence, "form": form}
    drawn: dict[str, Any] = {"population": population, "strata": strata, "split": split, "graph": graph}
    bound = generalisation_bound(
        model, **asked, **drawn, steps="fixed", complexity=complexity, n_draws=n_draws, seed=seed
    )
    certificate = fitted.certificate
    return DepthBound(
        gamma_totals=tuple(r.gamma_total for r in certificate.rounds),
        training=certificate.training_bounds(delta=delta, form="paper" if form == "paper" else "corrected"),
        increments=bound.complexities,
        partition=bound.partition,
        deviation=bound.deviation,
        imbalance=bound.imbalance,
        notes=bound.notes,
        **asked,
    )


def ramps(model: FittedModel, delta: float) -> NDArray[np.float64]:
    r"""Return, per labelled node and score column, the ramp of :math:`(2p - 1) y^\sharp`.

    It is 1 up to 0 and falls to 0 at ``delta``; see :func:`margin_errors` for p and the sign.
    """
    return np.asarray((1 - _margins(model) / delta).clip(0, 1))


def margin_errors(model: FittedModel, delta: float) -> list[float]:
    r"""Return, per score column, the share of labelled nodes with :math:`(2p - 1) y^\sharp < \delta`.

    p is the sigmoid of the score, :math:`y^\sharp` is 1 for the column's class and -1 for all others.
    """
    errors: list[float] = (_margins(model) < delta).mean(axis=0).tolist()
    return errors


def _margins(model: FittedModel) -> NDArray[np.float64]:
    scores = model.scores[model.train_nodes].astype(np.float64)
    classes = np.arange(model.task.n_columns)[-scores.shape[1] :]  # one column: that of the second class
    signs = np.where(model.train_targets[:, None] == classes, 1.0, -1.0)
    return signs * np.tanh(scores / 2)


def _for_any_steps(
    etas: NDArray[np.float64], scale: Complexities, n_rounds: int, failure: float
) -> tuple[NDArray[np.float64], float]:
    r"""Return the complexity of each round, and the failure probability that is left.

    All sums with :math:`\sum_t \eta_t R_t \le \Lambda` are one class. Its complexity is :math:`\Lambda` times
    that of the union of all rounds, each divided by its :math:`R_t`. Lambda is the next power of 1.25, or 0;
    the k-th power has the share :func:`share_of` of the failure probability.
    """
    closed = scale.closed(n_rounds)
    spent = etas * closed[: len(etas)]
    if not spent.sum() > 0:
        return np.zeros(len(etas)), failure * share_of(None)
    power = math.ceil(math.log(spent.sum(), _GRID))
    inflation = _GRID**power / spent.sum() * scale.joint(n_rounds)
    return spent * inflation, failure * share_of(power)


def share_of(power: int | None) -> float:
    """Return the share of the failure probability that a size of classes has; None is size 0.

    The shares of all sizes sum to less than 1.
    """
    return _SHARE_OF_ZERO if power is None else 1 / (3 * (abs(power) + 1) ** 2)


def _is_drawn_so(split: NodeSplit | None, model: FittedModel, *, by_strata: bool) -> bool | None:
    """Return whether a split drew the labelled nodes as is assumed; None where it is not known."""
    if split is None:
        return None
    if not np.array_equal(np.sort(split.train), np.sort(model.train_nodes)):
        raise ParameterError(
            f"the model was fitted on {len(model.train_nodes):,} nodes that are not the training nodes of "
            f"{split!r}; leave split= out, or give the split of the fit."
        )
    if split.draw == "":
        return None
    # Given how many of each kind there are, a uniform draw is uniform in each.
    return by_strata or split.draw == "uniform"


def _notes(form: str, steps: str, draw: Draw, holds: bool | None) -> list[str]:
    told = {
        True: "this split drew them so",
        False: "this split did not draw them so, hence the number is no theorem",
        None: "how they were drawn is not known",
    }
    within = "" if draw.is_uniform else f", in each of {len(draw.labelled)} strata"
    notes = [
        f"it assumes that the {draw.n_labelled:,} labelled nodes are a uniform draw from all "
        f"{draw.n_labelled + draw.n_unlabelled:,}{within}; {told[holds]}"
    ]
    if form == "paper":
        notes.append("as printed in the paper, which does not hold (docs/errata.md)")
    elif steps == "fixed":
        notes.append('it takes the steps as chosen before the labels were seen; steps="any" does not')
    return notes
