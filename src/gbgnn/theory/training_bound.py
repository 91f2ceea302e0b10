"""What a sum of gammas says about the training error: the optimisation guarantee in both forms."""

from __future__ import annotations

import math

from gbgnn._checks import check_choice, check_integer, check_number

FORMS = ("corrected", "paper")
MARGINS = ("probability", "logit")


def margin_constant(delta: float, margin: str = "probability") -> float:
    r"""Return :math:`\kappa(\delta)`: a node within the margin has a residual of at least :math:`1/\kappa`.

    Parameters
    ----------
    delta
        The margin, at least 0; below 1 where it is one of probabilities.
    margin
        ``"probability"``: a node counts as an error when :math:`2 p_y - 1 < \delta`; then
        :math:`1 - p_y > (1 - \delta) / 2`, so :math:`\kappa = 2 / (1 - \delta)`. ``"logit"``: when
        :math:`\log (p_y / (1 - p_y)) < \delta`; then :math:`\kappa = 1 + e^\delta`.

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
    delta: float = 0.0,
    form: str = "corrected",
    margin: str = "probability",
) -> float:
    r"""Bound the training error of the round with the smallest gradient.

    Every round that meets the condition with :math:`(\alpha_t, \beta_t)` and steps :math:`1/(A\alpha_t)`
    lowers the loss by :math:`\frac{M}{2A} \gamma_t \|\nabla L_{t-1}\|^2`. Added up, :math:`\Gamma \min_t
    \|\nabla L_t\|^2 \le 2 A L_1 / M`. The mean norm of the M residuals is at most :math:`\sqrt M \|\nabla
    L\|`, hence

    .. math:: R_{train} \le \kappa(\delta) \sqrt{2 A L_1 / \Gamma}.

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
    return margin_constant(delta, margin) * math.sqrt(_ratio(2 * smoothness * first_loss, gamma_total))


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else math.inf
