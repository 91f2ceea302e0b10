"""How many nodes are wrong, by those of them that were held out: the hypergeometric distribution inverted."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from gbgnn._checks import check_integer, check_number

_ROUNDING = 1e-9
"""Logarithms of probabilities that differ by less count as equal, to the bound's disadvantage."""


def log_chance_of_at_most(n_wrong: int, n_drawn: int, n_errors: int, n_nodes: int) -> float:
    """Return the logarithm of the probability that a uniform draw of nodes holds so few of the errors.

    ``n_drawn`` of ``n_nodes`` are drawn without replacement, ``n_errors`` of all are wrong: the
    hypergeometric distribution, up to ``n_wrong``.

    Examples
    --------
    >>> round(math.exp(log_chance_of_at_most(0, 2, 1, 4)), 12)  # half of the nodes are drawn, one is wrong
    0.5
    """
    first, last = max(0, n_drawn - (n_nodes - n_errors)), min(n_drawn, n_errors)
    if n_wrong >= last:
        return 0.0
    if n_wrong < first:
        return -math.inf
    j = np.arange(first, last, dtype=np.float64)
    # From one number of errors to the next the probability changes by a ratio of products; their logarithms
    # need no gamma function of large numbers, whose differences would be lost.
    steps = np.log(n_errors - j) + np.log(n_drawn - j)
    steps -= np.log(j + 1) + np.log(n_nodes - n_errors - n_drawn + j + 1)
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    return float(logsumexp(logs[: n_wrong - first + 1]) - logsumexp(logs))


def most_errors(n_wrong: int, n_drawn: int, n_nodes: int, confidence: float = 0.95) -> int:
    r"""Return how many of the nodes may be wrong, at most, when ``n_wrong`` of a uniform draw are.

    .. math:: E^* = \max\{E : P(\mathrm{Hyp}(N, E, n) \le k) \ge 1 - c\}

    With probability ``confidence`` over the draw no more are: were there E errors in truth and
    :math:`E > E^*`, then a k was drawn whose probability, with all smaller ones, is less than 1 - c.

    Parameters
    ----------
    n_wrong
        k, errors among the nodes that were drawn.
    n_drawn
        n, how many were drawn, uniformly and without replacement.
    n_nodes
        N, how many there are, the drawn ones among them.
    confidence
        c, in (0, 1).

    Examples
    --------
    >>> most_errors(86, 500, 2568)
    511
    """
    check_integer("most_errors", "n_nodes", n_nodes, 0)
    check_integer("most_errors", "n_drawn", n_drawn, 0, n_nodes)
    check_integer("most_errors", "n_wrong", n_wrong, 0, n_drawn)
    check_number("most_errors", "confidence", confidence, 0, 1, open_low=True, open_high=True)
    return most_errors_at(int(n_wrong), int(n_drawn), int(n_nodes), math.log1p(-confidence))


def most_errors_at(n_wrong: int, n_drawn: int, n_nodes: int, log_failure: float) -> int:
    """Return :func:`most_errors` by the logarithm of the failure probability, which may be tiny."""
    low, high = (
        n_wrong,
        n_nodes - (n_drawn - n_wrong),
    )  # the former is possible always, more than the latter never
    while low < high:
        middle = (low + high + 1) // 2
        if log_chance_of_at_most(n_wrong, n_drawn, middle, n_nodes) >= log_failure - _ROUNDING:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(frozen=True)
class HoldoutBound:
    """With some confidence, at most so many of the nodes that were not held out are wrong.

    What is bounded is the share of the other nodes whose prediction is not their label. In ``per_class`` the
    nodes are those that a class was predicted of, in ``per_level`` those that the model is so sure of: unlike
    the nodes that *have* a class, they are known, so that they can be counted. All statements of
    ``per_class`` hold together with ``confidence``, and so do all of ``per_level``.
    """

    n_wrong: int  # of the nodes held out
    n_held_out: int
    most_wrong: int  # of the other nodes, at most
    n_others: int
    confidence: float
    n_choices: int = 1  # among how many models this one was chosen by the nodes held out
    label: Any = None  # the class that is predicted; None: any
    level: float | None = None  # the least probability of what is predicted; None: any
    per_class: tuple[HoldoutBound, ...] = ()
    per_level: tuple[HoldoutBound, ...] = ()
    assumption_holds: bool | None = None  # whether the nodes were drawn as is assumed; None: not known
    notes: tuple[str, ...] = ()  # what the number rests on

    @classmethod
    def count(
        cls,
        wrong: NDArray[np.bool_],
        n_others: int,
        confidence: float,
        *,
        n_choices: int = 1,
        n_statements: int = 1,
        **known: Any,
    ) -> HoldoutBound:
        """Bound the errors on others by ``wrong``, which says of each node that was held out whether it is.

        ``n_statements`` are to hold together. The failure probability is divided by their number and that of
        the models.
        """
        log_failure = math.log1p(-confidence) - math.log(n_choices * n_statements)
        k, n = int(np.count_nonzero(wrong)), len(wrong)
        most = most_errors_at(k, n, n + n_others, log_failure) - k
        return cls(k, n, most, n_others, confidence, n_choices, **known)

    @property
    def observed(self) -> float | None:
        """The share of the held-out nodes that are wrong; None where there are none."""
        return self.n_wrong / self.n_held_out if self.n_held_out else None

    @property
    def bound(self) -> float | None:
        """The share of the other nodes that are wrong, at most; None where there are no others."""
        return self.most_wrong / self.n_others if self.n_others else None

    @property
    def is_vacuous(self) -> bool:
        """Whether it says nothing: all of the others may be wrong, and there are some."""
        return self.most_wrong == self.n_others > 0

    @property
    def sentence(self) -> str:
        """The statement in plain words."""
        which = f"the other {self.n_others:,} nodes{self._group()}"
        if self.bound is None:
            return f"there are no other nodes{self._group()}"
        if self.is_vacuous:
            return f"nothing is certain of {which}: {self.n_held_out:,} were held out"
        most = percent(self.bound, up=True)
        return f"with {percent(self.confidence)} confidence at most {most} of {which} are wrong"

    def to_dict(self) -> dict[str, Any]:
        """Return everything, JSON-ready."""
        told: dict[str, Any] = {"sentence": self.sentence, "observed": self.observed, "bound": self.bound}
        groups = {"per_class": self.per_class, "per_level": self.per_level}
        told |= {name: [each.to_dict() for each in group] for name, group in groups.items()}
        return {**asdict(self), **told, "is_vacuous": self.is_vacuous}

    def __str__(self) -> str:
        lines = [self.sentence]
        if self.observed is not None:
            found = f"{self.n_wrong:,} of the {self.n_held_out:,} held out"
            lines.append(f"  {found} are ({percent(self.observed)})")
        for title, groups in (("predicted", self.per_class), ("sure by", self.per_level)):
            if groups:
                lines.append(f"  {title}, all with {percent(self.confidence)} confidence together:")
                lines += [f"    {each.row}" for each in groups]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    @property
    def row(self) -> str:
        """What a line of a list says of a group."""
        name = str(self.label) if self.level is None else f"at least {percent(self.level)}"
        found = f"{self.n_wrong:,} of {self.n_held_out:,} held out"
        if self.bound is None:
            return f"{name}: no other node ({found})"
        return f"{name}: at most {percent(self.bound, up=True)} of {self.n_others:,} ({found})"

    def _group(self) -> str:
        if self.label is not None:
            return f" that are called {self.label}"
        return "" if self.level is None else f" of which the model is at least {percent(self.level)} sure"


def percent(share: float, *, up: bool = False) -> str:
    """Return a share as a percentage with one digit where it has more; ``up`` never makes it smaller.

    Examples
    --------
    >>> percent(0.95), percent(0.17241), percent(0.17201, up=True)
    ('95 %', '17.2 %', '17.3 %')
    """
    tenths = 1000 * share
    whole = math.ceil(tenths - 1e-9) if up else round(tenths)
    return f"{whole / 10:g} %"
