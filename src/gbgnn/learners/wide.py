"""WideReLU: the over-parameterised network that meets the weak learning condition by construction."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from gbgnn._checks import check_integer, check_number
from gbgnn._random import generator
from gbgnn._threads import threads_for
from gbgnn.errors import GBGNNWarning, ParameterError
from gbgnn.learners.base import Head, Learner
from gbgnn.learners.inputs import largest_eigenvalue, norm
from gbgnn.learners.network import MLPHead
from gbgnn.rounds import RoundContext
from gbgnn.theory.kernels import RowSeparation, separate_rows

Product = Callable[[torch.Tensor], torch.Tensor]

_MARGIN = 0.99
"""Training aims this much below beta, so that rounding in the fitted network does not undo it."""


@dataclass(kw_only=True, eq=False, repr=False)
class WideReLU(Learner):
    r"""One wide hidden layer, trained until it follows the gradient as closely as was asked.

    .. math:: f_k(x) = R^{-1/2} \sum_{r=1}^R a_{rk}\, \mathrm{relu}(\theta_r \cdot x)

    The signs a are drawn once and stay; :math:`\theta_r` starts from a normal distribution and goes down
    the gradient of the squared error to :math:`\alpha r`, all rows at once, until

    .. math:: \|f(X) - \alpha r\| \le \beta \|r\|,

    which *is* the :math:`(\alpha, \beta)` weak learning condition for the residuals r of
    ``FunctionalGradient`` (norms weighted like the training loss). The cosine is then at least
    :math:`\sqrt{1 - (\beta / \alpha)^2}`. With units enough the condition is reached for any residuals, as
    long as no labelled row is zero and no two are parallel (the paper's proposition on over-parameterised
    models); rows that break this are named in a warning and in the report. Several outputs share
    :math:`\theta`, each with signs of its own, so that they all but do not disturb each other.

    The proposition speaks of rows and targets of size one. Both are brought to it by one number each, the
    root of their mean square, which the fitted weights undo. So neither the unit of the features nor the size
    of the residuals changes how long training takes, and the random function it starts from fades with the
    residuals.

    A head has ``units`` times as many weights as there are features; ``keep_learners=False`` keeps none.

    Parameters
    ----------
    units
        The width R. The more, the less the kernel moves during training, which is what the proof needs.
    alpha
        The multiple of the residuals to go for, greater than ``beta``. The step of the boosting rule undoes
        it: only ``beta / alpha`` matters.
    beta
        How near to come to it, greater than 0. Less takes more epochs.
    max_epochs
        When to give up; the network is then returned as it is, with a warning.
    learning_rate
        The step along the gradient of half the squared error in the units above; None takes one over the
        largest eigenvalue of the network's kernel, beyond twice of which descent diverges.

    Examples
    --------
    >>> from gbgnn.testing import learner_round
    >>> X, targets = torch.tensor([[-1.0, 0.0], [1.0, 0.1]]), torch.tensor([[-0.5], [0.5]])
    >>> head = WideReLU(units=512, beta=0.1).fit(learner_round(X, targets))
    >>> bool((head(X) - targets).norm() <= 0.1 * targets.norm()), head.report()["is_met"]
    (True, True)
    """

    units: int = 4096
    alpha: float = 1.0
    beta: float = 0.5
    max_epochs: int = 2000
    learning_rate: float | None = None

    def check(self) -> None:
        """Raise when a setting is out of range."""
        check_integer("WideReLU", "units", self.units, 1)
        check_number("WideReLU", "alpha", self.alpha, 0, open_low=True)
        check_number("WideReLU", "beta", self.beta, 0, self.alpha, open_low=True, open_high=True)
        check_integer("WideReLU", "max_epochs", self.max_epochs, 0)
        if self.learning_rate is not None:
            check_number("WideReLU", "learning_rate", self.learning_rate, 0, open_low=True)

    def fit(self, context: RoundContext) -> Head:
        """Train one network on the labelled rows, and say how it went in its report."""
        task = context.weak_task
        if not task.is_regression:
            raise ParameterError(
                "WideReLU follows the gradient, but this boosting rule asks for classes; use "
                'FunctionalGradient(target="gradient").'
            )
        counted = task.weights > 0  # the condition does not see the others
        nodes, targets = task.rows[counted], task.targets[counted].double()
        rows, roots = context.X.rows(nodes), task.weights[counted].double().sqrt()[:, None]
        separation = separate_rows(rows, nodes)
        if not separation.is_separated:
            warnings.warn(_assumption_message(separation), GBGNNWarning, stacklevel=2)
        # The network is positively homogeneous: a row of weight w counts like the row times the root of w.
        row_size, target_size = norm(roots * rows) or 1.0, norm(roots * targets)
        unit = self.alpha * target_size / math.sqrt(task.n_outputs)  # in it, an output is of the rows' size
        with threads_for(rows.numel() * self.units):
            theta, signs, epochs = self._descend(
                (roots * rows / row_size).to(rows.dtype),
                (roots * self.alpha * targets / (unit or 1.0)).to(rows.dtype),
                generator(context.seed, rows.device),
            )
        theta *= unit / row_size
        head = MLPHead.from_layers([(w.T, w.new_zeros(w.shape[1])) for w in (theta, signs)])
        ratio = norm(roots * (head(rows) - self.alpha * targets)) / (target_size or 1.0)
        if not ratio <= self.beta:
            warnings.warn(self._failure_message(ratio, epochs, separation), GBGNNWarning, stacklevel=2)
        report = {"epochs": epochs, "is_met": ratio <= self.beta, "residual_ratio": ratio}
        return MLPHead.from_state(head.state(), report | asdict(separation))

    def _descend(
        self, rows: torch.Tensor, targets: torch.Tensor, random: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor, int]:
        """Return the first layer, the second, and the epochs it took to come near the targets."""
        theta = rows.new_empty(rows.shape[1], self.units).normal_(generator=random)
        signs = rows.new_empty(self.units, targets.shape[1]).uniform_(generator=random)
        signs = signs.ge_(0.5).mul_(2).sub_(1) / math.sqrt(self.units)
        goal = _MARGIN * self.beta / self.alpha * math.sqrt(targets.shape[1])
        # A step in theta is a combination of rows. So all that training has to follow is what the units
        # make of the rows, ``inputs``, and the sum of the combinations, ``moves``.
        inputs, spread = rows @ theta, _gram_product(rows)
        step = self._step(inputs > 0, signs, spread, torch.empty_like(targets).normal_(generator=random))
        moves, epochs = torch.zeros_like(inputs), 0
        max_epochs = self.max_epochs if step > 0 else 0
        while True:
            hidden = inputs.relu()
            error = hidden @ signs - targets
            distance = float(error.norm())
            if distance <= goal or not math.isfinite(distance) or epochs == max_epochs:
                return theta - step * (rows.t() @ moves), signs, epochs
            combination = (error @ signs.t()).mul_(hidden.sign_())
            moves += combination
            inputs.sub_(spread(combination), alpha=step)
            epochs += 1

    def _step(self, is_on: torch.Tensor, signs: torch.Tensor, spread: Product, start: torch.Tensor) -> float:
        """Return the learning rate, or one over the kernel's largest eigenvalue; 0 where that is zero."""
        if self.learning_rate is not None:
            return self.learning_rate
        largest = largest_eigenvalue(
            lambda v: spread((v @ signs.t()).mul_(is_on)).mul_(is_on) @ signs, start, n_steps=10
        )
        return 1 / largest if largest > 0 else 0.0

    def _failure_message(self, ratio: float, epochs: int, separation: RowSeparation) -> str:
        if self.learning_rate is not None and not ratio <= 10 * self.alpha:  # it starts near alpha
            return (
                f"WideReLU diverged after {epochs} epochs with learning_rate = {self.learning_rate}; "
                "learning_rate=None finds a step that does not."
            )
        smallest = separation.smallest_eigenvalue
        known = separation.note if smallest is None else f"smallest eigenvalue of the kernel: {smallest:.3g}"
        return (
            f"WideReLU came within {ratio:.4g} |r| of alpha r in {epochs} epochs, not within beta = "
            f"{self.beta:g} ({known}). A larger beta or more max_epochs help; so do more units and, where "
            "depth has made rows alike, an aggregation that keeps the input, such as InputInjection()."
        )


def _gram_product(rows: torch.Tensor) -> Product:
    """Return multiplication by rows rows^T: in one product, or in two thin ones where that is less work."""
    n_rows, n_features = rows.shape
    columns = rows.t().contiguous()
    if n_rows < 2 * n_features:
        gram = rows @ columns
        return gram.matmul
    return lambda right: rows @ (columns @ right)


def _assumption_message(separation: RowSeparation) -> str:
    found = []
    if separation.n_zero_rows:
        found.append(f"{separation.n_zero_rows} zero rows (nodes {_listed(separation.zero_rows)})")
    if separation.n_parallel_pairs:
        pairs = [f"{i} and {j}" for i, j in separation.parallel_rows or []]
        found.append(f"{separation.n_parallel_pairs} pairs of parallel rows (nodes {_listed(pairs)})")
    return (
        f"WideReLU's guarantee needs labelled rows that are not zero and not parallel; there are "
        f"{' and '.join(found)}. Outputs are zero on zero rows and proportional on rows that point the same "
        "way, whatever is trained."
    )


def _listed(names: list[Any]) -> str:
    shown = ", ".join(str(name) for name in names[:5])
    return f"{shown}, ..." if len(names) > 5 else shown
