"""The certificate: by how much every round was guaranteed to lower the training loss, and did."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn.theory.weak_learning import WeakLearning


@dataclass(frozen=True)
class CertifiedRound:
    """One round of a :class:`Certificate`."""

    round: int
    eta: float  # its step
    cosine: float  # between its direction and the negative gradient
    # The weak learning condition whose own step eta is; None where there is none: the learner points the
    # wrong way, or the step is twice too long. A round that adds nothing has gamma 0.
    alpha: float | None
    beta: float | None
    gamma: float | None
    gamma_total: float  # the theory's Gamma: the sum of gamma over the rounds from the second to this one
    guaranteed: float  # the drop in training loss that smoothness alone guarantees; if negative, says nothing
    actual: float  # the drop itself
    rounding: float  # how far the precision of the scores may move the drop
    loss: float  # of training, after the round
    gradient_norm: float  # that of its gradient

    @property
    def is_met(self) -> bool:
        """Whether the learner meets the condition, and the step is one the condition allows."""
        return self.alpha is not None

    @property
    def holds(self) -> bool:
        """Whether the loss fell by the guaranteed amount, up to rounding."""
        return self.actual >= self.guaranteed - self.rounding


@dataclass(frozen=True)
class Certificate:
    """Progress of a fitted model, round by round; ``model.certificate_``.

    Under :class:`~gbgnn.FunctionalGradient` every round meets the condition, and its guarantee is a theorem.
    Other rules choose their steps by other arguments, so a round may have no guarantee; where it has one, it
    holds for them too.
    """

    rounds: tuple[CertifiedRound, ...]
    smoothness: float  # the theory's A
    n_labelled: int  # the theory's M
    notes: tuple[str, ...] = ()  # what it covers, as sentences
    bounds_error: bool = True  # whether the gradient of the loss bounds an error of classification
    n_scores: int = 1  # of every node: 1 of two classes, else K
    is_before_tuning: bool = False  # whether fine-tuning moved the rounds that predict afterwards

    @classmethod
    def from_history(
        cls,
        history: Sequence[Mapping[str, Any]],
        smoothness: float,
        n_labelled: int,
        notes: tuple[str, ...] = (),
        bounds_error: bool = True,
        n_scores: int = 1,
        is_before_tuning: bool = False,
    ) -> Certificate:
        """Read the certificate off the rows of a history."""
        rounds, total = [], 0.0
        for row in history:
            condition = _condition(row, smoothness)
            gamma = condition["gamma"] or 0.0
            total += gamma if row["round"] > 1 else 0.0  # round 1 sets the stage, as in the paper
            rounds.append(
                CertifiedRound(
                    round=row["round"],
                    eta=row["eta"],
                    cosine=row["cosine"],
                    **condition,
                    gamma_total=total,
                    guaranteed=row["guaranteed_decrease"],
                    actual=row["decrease"],
                    rounding=row["rounding"],
                    loss=row["train_loss"],
                    gradient_norm=row["gradient_norm"],
                )
            )
        return cls(tuple(rounds), smoothness, n_labelled, notes, bounds_error, n_scores, is_before_tuning)

    @property
    def holds(self) -> bool:
        """Whether the guarantee of every round held."""
        return all(r.holds for r in self.rounds)

    @property
    def met(self) -> tuple[int, ...]:
        """The rounds that met the condition."""
        return tuple(r.round for r in self.rounds if r.is_met)

    @property
    def gamma_total(self) -> float:
        """Gamma summed over all rounds but the first."""
        return self.rounds[-1].gamma_total

    @cached_property
    def best_round(self) -> int:
        """The theory's t*: the round after which the gradient was smallest, the first among equals."""
        return min(self.rounds, key=lambda r: r.gradient_norm).round

    def training_bounds(
        self, *, delta: float = 0.0, form: str = "corrected", margin: str = "probability"
    ) -> tuple[float, ...]:
        """Bound the training error of round t*, for a model stopped after each round.

        See :func:`~gbgnn.theory.certificate`. It is infinite after round 1, which has no certified round
        behind it, and from the first round on that took a step no condition allows. With weighted nodes it
        bounds the weighted error. A value of 1 or more says nothing. Losses of numbers, which have no
        error of classification, have infinite ones.
        """
        bounds, is_valid = [], self.bounds_error
        for r in self.rounds:
            is_valid = is_valid and (r.round == 1 or r.gamma is not None)
            bound = training_bound(
                self.rounds[0].loss,
                r.gamma_total,
                smoothness=self.smoothness,
                n_labelled=self.n_labelled,
                n_scores=self.n_scores,
                delta=delta,
                form=form,
                margin=margin,
            )
            bounds.append(bound if is_valid else math.inf)
        return tuple(bounds)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rounds as JSON-ready rows, with the bound in both forms (None is none)."""
        corrected, paper = (self.training_bounds(form=form) for form in ("corrected", "paper"))
        rows = []
        for r, bound, printed in zip(self.rounds, corrected, paper, strict=True):
            bounds = {"training_bound": bound, "training_bound_paper": printed}
            finite = {name: value if math.isfinite(value) else None for name, value in bounds.items()}
            rows.append({**asdict(r), "is_met": r.is_met, "holds": r.holds, **finite})
        return rows

    def __repr__(self) -> str:
        kept = "every promise kept" if self.holds else "A PROMISE WAS BROKEN"
        kept += ", all before fine-tuning" if self.is_before_tuning else ""
        return (
            f"Certificate({len(self.rounds)} rounds, condition met in {len(self.met)}, {kept}, "
            f"gamma_total={self.gamma_total:.4g}, best_round={self.best_round})"
        )


def _condition(row: Mapping[str, Any], smoothness: float) -> dict[str, float | None]:
    """Return the condition that a row's step belongs to; only the angle and alpha are needed to find it."""
    none = {"alpha": None, "beta": None, "gamma": 0.0 if row["eta"] == 0 else None}
    if row["eta"] == 0 or row["alpha"] is None:
        return none
    # Any Z and g with this cosine and alpha have the same family: take |g| = 1, |Z| = alpha cos.
    quality = WeakLearning(row["cosine"], row["alpha"] * row["cosine"], 1.0)
    condition = quality.at_step(row["eta"], smoothness)
    return none if condition is None else asdict(condition)


FORMS = ("corrected", "paper")
MARGINS = ("probability", "logit")


def margin_constant(delta: float, margin: str = "probability") -> float:
    r"""Return :math:`\kappa(\delta)`: a node within the margin has a residual of at least :math:`1/\kappa`.

    Under ``"probability"``, :math:`\delta` in [0, 1), a node counts as an error when :math:`2 p_y - 1 <
    \delta`; then :math:`1 - p_y > (1 - \delta) / 2`, so :math:`\kappa = 2 / (1 - \delta)`. Under ``"logit"``,
    when :math:`\log (p_y / (1 - p_y)) < \delta`; then :math:`\kappa = 1 + e^\delta`.

    Examples
    --------
    >>> margin_constant(0.5), margin_constant(0.0, "logit")
    (4.0, 2.0)
    """
    check_choice("margin_constant", "margin", margin, MARGINS)
    if margin == "probability":
        check_number("margin_constant", "delta", delta, 0, 1, open_high=True)
        return 2 / (1 - delta)
    check_number("margin_constant", "delta", delta, 0)
    return 1 + math.exp(delta)


def training_bound(
    first_loss: float,
    gamma_total: float,
    *,
    smoothness: float,
    n_labelled: int,
    n_scores: int = 1,
    delta: float = 0.0,
    form: str = "corrected",
    margin: str = "probability",
) -> float:
    r"""Bound the training error of the round with the smallest gradient.

    Every round that meets the condition with :math:`(\alpha_t, \beta_t)` and steps :math:`1/(A\alpha_t)`
    lowers the loss by :math:`\frac{M}{2A} \gamma_t \|\nabla L_{t-1}\|^2`, hence (docs/theory.md)

    .. math:: R_{train} \le \kappa(\delta) \sqrt{2 A L_1 / \Gamma},

    for K scores times :math:`\sqrt{(K-1)/K}`, because a residual :math:`(1 - p_y, -p_1, \dots)` is by so much
    longer than :math:`1 - p_y`.

    Parameters
    ----------
    first_loss
        :math:`L_1`, the training loss that the certified rounds start from.
    gamma_total
        :math:`\Gamma`, the sum of their gammas. At 0 there is no bound: infinity.
    smoothness
        A of the loss: 1/4 for sigmoid, 1/2 for softmax cross entropy.
    n_labelled
        M. The corrected form does not depend on it.
    n_scores
        K of a softmax cross entropy, 1 of the sigmoid's.
    delta, margin
        What counts as an error, see :func:`margin_constant`.
    form
        ``"corrected"``, above; ``"paper"``: :math:`(1 + e^\delta) \, 2 A L_1 / (M \Gamma)` as printed,
        which is false (docs/errata.md).

    Examples
    --------
    Scores of 50 against every label, then ten rounds exactly along the gradient: all nodes are still wrong.

    >>> [round(training_bound(50.0, 10.0, smoothness=0.25, n_labelled=100, form=f), 2) for f in FORMS]
    [3.16, 0.05]
    """
    check_choice("training_bound", "form", form, FORMS)
    check_integer("training_bound", "n_labelled", n_labelled, 1)
    check_number("training_bound", "first_loss", first_loss, 0)
    check_number("training_bound", "gamma_total", gamma_total, 0)
    if form == "paper":
        kappa = margin_constant(delta, "logit")
        return kappa * _ratio(2 * smoothness * first_loss, n_labelled * gamma_total)
    check_integer("training_bound", "n_scores", n_scores, 1)
    share = (n_scores - 1) / n_scores if n_scores > 1 else 1.0
    return margin_constant(delta, margin) * math.sqrt(
        share * _ratio(2 * smoothness * first_loss, gamma_total)
    )


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else math.inf
