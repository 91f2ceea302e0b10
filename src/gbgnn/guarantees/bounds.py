"""What the theory says of a fitted model: bounds of its error on the unlabelled nodes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gbgnn._checks import check_choice, check_number
from gbgnn.errors import ParameterError
from gbgnn.estimators import GBGNNClassifier
from gbgnn.graph import Graph
from gbgnn.guarantees.complexities import Complexities
from gbgnn.model import FittedModel
from gbgnn.theory.depth import DepthBound
from gbgnn.theory.generalisation import GeneralisationBound, sum_of_classes
from gbgnn.theory.rademacher import confidence_term, partition_term
from gbgnn.theory.training_bound import FORMS

STEPS = ("fixed", "any")
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
    owner = "generalisation_bound"
    check_choice(owner, "form", form, FORMS)
    check_choice(owner, "steps", steps, STEPS)
    check_number(owner, "confidence", confidence, 0, 1, open_low=True, open_high=True)
    check_number(owner, "delta", delta, 0, 1, open_low=form == "corrected", open_high=True)
    if form == "paper" and (steps, complexity) != ("fixed", "closed"):
        raise ParameterError('form="paper" goes with steps="fixed" and complexity="closed" only.')
    fitted = _fitted(model)
    scale = Complexities.from_model(fitted, graph, complexity, form, n_draws, seed)
    M, U, n_columns = scale.n_labelled, scale.n_unlabelled, fitted.scores.shape[1]
    failure = (1 - confidence) / n_columns
    if complexity == "monte_carlo":
        scale, failure = replace(scale, failure=_SHARE_OF_DRAWS * failure), (1 - _SHARE_OF_DRAWS) * failure
    etas = np.abs(fitted.etas)
    if steps == "fixed":
        terms = etas * scale.per_round(len(etas))
    else:
        terms, failure = _for_any_steps(etas, scale, fitted.settings["n_rounds"], failure)
    if form == "corrected":
        terms = terms / (2 * delta)
    whole = GeneralisationBound(
        training=math.nan,
        complexities=tuple(terms.tolist()),
        partition=partition_term(M, U),
        deviation=confidence_term(M, U, 1 - failure),
        delta=delta,
        confidence=confidence,
        form=form,
        steps=steps,
        notes=_notes(form, steps, n_columns),
    )
    errors = margin_errors(fitted, delta)
    if n_columns == 1:
        return replace(whole, training=errors[0])
    parts = tuple(
        replace(whole, training=error, confidence=1 - (1 - confidence) / n_columns, label=label, notes=())
        for label, error in zip(fitted.classes.tolist(), errors, strict=True)
    )
    return sum_of_classes(parts, confidence, whole.notes)


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
    fitted = _fitted(model)
    if fitted.scores.shape[1] != 1:
        raise ParameterError(
            f"the bound by depth is for two classes and one score; this model has {fitted.scores.shape[1]} "
            "score columns. Use generalisation_bound, or the certificate's training_bounds."
        )
    bound = generalisation_bound(
        model,
        delta=delta,
        confidence=confidence,
        form=form,
        complexity=complexity,
        graph=graph,
        n_draws=n_draws,
        seed=seed,
    )
    certificate = fitted.certificate
    return DepthBound(
        gamma_totals=tuple(r.gamma_total for r in certificate.rounds),
        training=certificate.training_bounds(delta=delta, form=form),
        increments=bound.complexities,
        partition=bound.partition,
        deviation=bound.deviation,
        delta=delta,
        confidence=confidence,
        form=form,
    )


def _fitted(model: GBGNNClassifier) -> FittedModel:
    check_is_fitted(model, "model_")
    fitted: FittedModel = model.model_
    return fitted


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


def _notes(form: str, steps: str, n_columns: int) -> tuple[str, ...]:
    notes = ["it holds for labelled nodes drawn uniformly at random from all nodes"]
    if form == "paper":
        notes.append("as printed in the paper, which does not hold (docs/errata.md)")
    elif steps == "fixed":
        notes.append('it takes the steps as chosen before the labels were seen; steps="any" does not')
    if n_columns > 1:
        notes.append(
            f"{n_columns} classes, each against the rest, with a share of the confidence; errors add up"
        )
    return tuple(notes)
