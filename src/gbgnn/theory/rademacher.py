"""Transductive Rademacher complexities in closed form, and the factors of the bounds they enter.

For a set V of score vectors over N = M + U nodes, M of them labelled, the complexity is
R(V) = Q E sup <sigma, v> over v in V, where each sigma_n is +1 or -1 with probability p0 each and else 0. Its
symmetrised form has the absolute value of the inner product. ``form="paper"`` computes what the paper prints,
for comparison; ``form="corrected"`` what can be proved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn.errors import ParameterError
from gbgnn.theory.certificate import FORMS

C0 = math.sqrt(32 * (1 + math.log(4)) / 3)
"""The constant of :func:`partition_term`, about 5.05 (El-Yaniv and Pechyony, 2009)."""


def q_factor(n_labelled: int, n_unlabelled: int) -> float:
    """Return Q = 1/M + 1/U, the scale of a complexity.

    Examples
    --------
    >>> q_factor(2, 4)
    0.75
    """
    M, U = _sizes("q_factor", n_labelled, n_unlabelled)
    return 1 / M + 1 / U


def s_factor(n_labelled: int, n_unlabelled: int, *, form: str = "corrected") -> float:
    """Return S = 4(M+U)m / ((2(M+U)-1)(2m-1)) with m = max(M, U); close to 1 when the graph is large.

    So it is in the source (El-Yaniv and Pechyony 2009). The paper prints the minimum, ``form="paper"``, which
    is never smaller, hence valid too.

    Examples
    --------
    >>> s_factor(1, 1), round(s_factor(1, 99), 4), round(s_factor(1, 99, form="paper"), 4)
    (2.6666666666666665, 1.0101, 2.0101)
    """
    M, U = _sizes("s_factor", n_labelled, n_unlabelled)
    _check_form("s_factor", form)
    N, m = M + U, (min if form == "paper" else max)(M, U)
    return 4 * N * m / ((2 * N - 1) * (2 * m - 1))


def sign_probability(n_labelled: int, n_unlabelled: int) -> float:
    """Return p0 = MU / (M+U)^2, the probability of each sign of a transductive Rademacher variable.

    Examples
    --------
    >>> sign_probability(1, 3), sign_probability(2, 2)
    (0.1875, 0.25)
    """
    M, U = _sizes("sign_probability", n_labelled, n_unlabelled)
    return M * U / (M + U) ** 2


def partition_term(n_labelled: int, n_unlabelled: int) -> float:
    """Return c0 Q sqrt(min(M, U)), what the bound pays for complexities being taken over all partitions.

    Examples
    --------
    >>> round(partition_term(100, 10_000), 3)
    0.51
    """
    M, U = _sizes("partition_term", n_labelled, n_unlabelled)
    return C0 * q_factor(M, U) * math.sqrt(min(M, U))


def confidence_term(
    n_labelled: int, n_unlabelled: int, confidence: float, *, form: str = "corrected"
) -> float:
    r"""Return :math:`\sqrt{\frac{SQ}{2} \log\frac{1}{1 - c}}`: the bound then holds with probability c.

    The probability is over which M of the N nodes are labelled; ``confidence`` is strictly between 0 and 1,
    ``form`` that of :func:`s_factor`.

    Examples
    --------
    >>> round(confidence_term(100, 10_000, 0.95), 3)
    0.123
    """
    M, U = _sizes("confidence_term", n_labelled, n_unlabelled)
    check_number("confidence_term", "confidence", confidence, 0, 1, open_low=True, open_high=True)
    return math.sqrt(s_factor(M, U, form=form) * q_factor(M, U) / 2 * -math.log1p(-confidence))


def head_factor(n_layers: int, max_norm: float, *, form: str = "corrected") -> float:
    """Return by how much an MLP multiplies the symmetrised complexity of the columns of its input.

    Each of the L >= 1 weight matrices (``n_layers``) has columns of 1-norm at most B (``max_norm``), and a
    1-Lipschitz activation with value 0 at 0 stands between two of them. A column-bounded product multiplies
    by B, an activation by 2, and there are L of the former and L - 1 of the latter: B (2B)^(L-1). The printed
    2 (2B)^(L-1), ``form="paper"``, takes the last product for an activation: at L = 1 it does not depend on
    B, though the complexity is proportional to it.

    Examples
    --------
    >>> head_factor(1, 10.0), head_factor(2, 3.0), head_factor(2, 3.0, form="paper")
    (10.0, 18.0, 12.0)
    """
    check_integer("head_factor", "n_layers", n_layers, 1)
    check_number("head_factor", "max_norm", max_norm, 0)
    _check_form("head_factor", form)
    last = 2.0 if form == "paper" else float(max_norm)
    return last * _power(2 * max_norm, n_layers - 1)


def mlp_complexity(
    frobenius_norm: float,
    n_labelled: int,
    n_unlabelled: int,
    *,
    n_layers: int,
    max_norm: float,
    mixing_norms: Sequence[float] = (),
    bias: bool = False,
    form: str = "corrected",
) -> float:
    r"""Bound the complexity of an MLP on linearly aggregated features.

    The input of the MLP is :math:`X_t = P^{(t)} X W_2 \cdots W_t` with :math:`P^{(t)} = P_t \cdots P_2`. The
    bound is :math:`D \|P^{(t)} X\|_F / \sqrt{MU}` with :math:`D = \sqrt2 H \prod_s C_s` and H the
    :func:`head_factor`, because the columns of the input have symmetrised complexity at most
    :math:`Q \sqrt{2 p_0} \prod_s C_s \|P^{(t)} X\|_F`, and :math:`Q \sqrt{p_0} = 1 / \sqrt{MU}`.

    ``frobenius_norm`` is :math:`\|P^{(t)} X\|_F` over all N rows. ``mixing_norms`` are for each aggregation
    s = 2, ..., t the bound :math:`C_s` on the column 1-norms of its :math:`W_s`, without those that have no
    weights. With ``bias``, which the printed form does not have, the input of the MLP has a constant column 1
    beside the aggregated features, where no P shrinks it and no :math:`C_s` scales it:
    :math:`\prod_s C_s \|P^{(t)} X\|_F` becomes :math:`\sqrt{(\prod_s C_s)^2 \|P^{(t)} X\|_F^2 + N}`. With
    B >= 1 and ReLU this covers biases in every layer too, counted in the norms of their columns, because
    hidden units can pass the 1 on.

    Examples
    --------
    >>> mlp_complexity(8.0, 16, 32, n_layers=1, max_norm=2.0)
    1.0
    """
    M, U = _sizes("mlp_complexity", n_labelled, n_unlabelled)
    check_number("mlp_complexity", "frobenius_norm", frobenius_norm, 0)
    _check_form("mlp_complexity", form, bias)
    columns = _product("mlp_complexity", "mixing_norms", mixing_norms) * float(frobenius_norm)
    if bias:
        columns = math.hypot(columns, math.sqrt(M + U))
    return head_factor(n_layers, max_norm, form=form) * math.sqrt(2 / (M * U)) * columns


def nonlinear_mlp_complexity(
    first_hop_norm: float,
    n_labelled: int,
    n_unlabelled: int,
    *,
    n_layers: int,
    max_norm: float,
    mixing_norms: Sequence[float],
    operator_norms: Sequence[float] = (),
    bias: bool = False,
    form: str = "corrected",
) -> float:
    r"""Bound the complexity of an MLP on ``X_s = relu(P_s X_{s-1} W_s)``, s = 2, ..., t, from ``X_1 = X``.

    The printed claim fails when few of very many nodes are labelled (docs/errata.md). Two bounds do hold, and
    the corrected form returns the smaller; docs/theory.md has the proofs. With h = t - 1 hops, H the
    :func:`head_factor` and :math:`c = \prod_{s \ge 2} C_s \prod_{s \ge 3} \|P_s\|_{op} \|P_2 X\|_F`, they are

    .. math:: R \le Q H 2^h c \cdot \begin{cases} \sqrt{2 p_0} & h = 1 \\ \sqrt{\pi / 2} & h \ge 2
              \end{cases} \qquad \text{and} \qquad R \le \sqrt{2Q} B^L c.

    The second has no powers of 2: with a hundred labels and L = 2 it is the smaller one from three hops on.
    ``form="paper"`` is the linear bound as printed times 2^t. What is not named here is as in
    :func:`mlp_complexity`.

    Parameters
    ----------
    first_hop_norm
        :math:`\|P_2 X\|_F`, >= 0. The printed form has :math:`\|P_2\|_{op} \|X\|_F` in its place.
    mixing_norms, operator_norms
        :math:`C_s` of every hop s = 2, ..., t, at least one; spectral norms :math:`\|P_s\|_{op}` of the later
        hops s = 3, ..., t, one less.
    bias
        Adds :math:`H Q \sqrt{2 p_0 N}` to the first bound, and in the second the longest column has at least
        norm :math:`\sqrt N`.

    Examples
    --------
    >>> nonlinear_mlp_complexity(8.0, 16, 32, n_layers=1, max_norm=2.0, mixing_norms=[1.0])
    2.0
    """
    owner = "nonlinear_mlp_complexity"
    M, U = _sizes(owner, n_labelled, n_unlabelled)
    check_number(owner, "first_hop_norm", first_hop_norm, 0)
    _check_form(owner, form, bias)
    n_hops = len(mixing_norms)
    if n_hops == 0 or len(operator_norms) != n_hops - 1:
        raise ParameterError(
            f"{owner} needs one mixing norm per hop and one operator norm per hop after the first; got "
            f"{n_hops} and {len(operator_norms)}. Without a hop, use mlp_complexity."
        )
    columns = float(first_hop_norm) * _product(owner, "mixing_norms", mixing_norms)
    columns *= _product(owner, "operator_norms", operator_norms)
    head = head_factor(n_layers, max_norm, form=form)
    if form == "paper":
        return _power(2, n_hops + 1) * head * math.sqrt(2 / (M * U)) * columns
    Q, signs_norm = q_factor(M, U), math.sqrt(2 * q_factor(M, U))
    noise = math.sqrt(2 * sign_probability(M, U) if n_hops == 1 else math.pi / 2)
    by_comparison = head * (Q * _power(2, n_hops) * noise * columns + (signs_norm if bias else 0.0))
    longest = max(columns, math.sqrt(M + U)) if bias else columns
    by_norms = _power(max_norm, n_layers) * signs_norm * longest
    return min(by_norms, by_comparison)


def inductive_bound(inductive: float, n_labelled: int, n_unlabelled: int) -> float:
    r"""Return :math:`\frac{(1 + r)^2}{r} R_{ind}` with r = U/M, which bounds the transductive complexity.

    Holds for every set of vectors, because a complexity does not fall when the probability of a sign rises to
    1/2, and because :math:`QN = (1 + r)^2 / r`. The inequality is not strict, as the paper has it.
    :math:`R_{ind}` is the empirical Rademacher complexity over all N rows, divided by N, which
    :func:`~gbgnn.theory.monte_carlo.inductive_rademacher` estimates.

    Examples
    --------
    >>> inductive_bound(0.1, 50, 50)
    0.4
    """
    M, U = _sizes("inductive_bound", n_labelled, n_unlabelled)
    check_number("inductive_bound", "inductive", inductive, 0)
    return (M + U) ** 2 / (M * U) * float(inductive)


def trade_off(alpha: float, beta: float, *, sharp: bool = False) -> float:
    r"""Return the least complexity of a set that can follow every sign pattern.

    If every :math:`g \in \{-1, 0, 1\}^N` has some Z in V with :math:`\|Z - \alpha g\| \le \beta \|g\|`, then
    the complexity is at least :math:`2 (\alpha - \beta)` (docs/theory.md has the proof). The printed
    :math:`(\alpha^2 - \beta^2) / \alpha` is never larger; ``sharp`` returns the larger one instead of it.

    Examples
    --------
    >>> trade_off(1.0, 0.5), trade_off(1.0, 0.5, sharp=True)
    (0.75, 1.0)
    """
    check_number("trade_off", "alpha", alpha, 0)
    check_number("trade_off", "beta", beta, 0)
    if not alpha > beta:
        raise ParameterError(f"trade_off needs alpha > beta; got alpha = {alpha!r} and beta = {beta!r}.")
    gap = float(alpha) - float(beta)
    return 2 * gap if sharp else gap * (1 + beta / alpha)


def _sizes(owner: str, n_labelled: int, n_unlabelled: int) -> tuple[int, int]:
    check_integer(owner, "n_labelled", n_labelled, 1)
    check_integer(owner, "n_unlabelled", n_unlabelled, 1)
    return int(n_labelled), int(n_unlabelled)  # NumPy's integers would overflow in a product


def _check_form(owner: str, form: str, bias: bool = False) -> None:
    check_choice(owner, "form", form, FORMS)
    if form == "paper" and bias:
        raise ParameterError(
            f'{owner}: form="paper" has no biases; use form="corrected", or append a column of ones to the '
            "features before they are aggregated."
        )


def _product(owner: str, name: str, norms: Sequence[float]) -> float:
    for index, norm in enumerate(norms):
        check_number(owner, f"{name}[{index}]", norm, 0)
    return math.prod(float(norm) for norm in norms)


def _power(base: float, exponent: int) -> float:
    return math.prod([float(base)] * exponent)  # ``base**exponent`` raises where this becomes infinite
