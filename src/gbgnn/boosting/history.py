"""History: one flat, JSON-ready row per round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gbgnn.errors import ParameterError, suggest

Row = dict[str, Any]


class History:
    """What was measured of each round; ``history["val_accuracy"]`` is a column, ``history[3]`` a row.

    The columns
    -----------
    round, eta, attempts, seconds, peak_memory
        The round's number, step, learners tried, wall-clock seconds (a share of them where models are boosted
        together), and the peak memory in bytes so far, of the process or of the GPU.
    train_loss, train_accuracy, val_loss, val_accuracy
        Loss and accuracy *after* the round; None without validation nodes. The name of another metric stands
        in place of ``accuracy``.
    gradient_norm
        Norm of the loss's gradient after the round.
    cosine, alpha, beta, gamma, gamma_total
        Angle between the direction and the negative gradient *before* the round's update, the tightest weak
        learning condition it meets (None where it meets none), and the running sum of gamma.
    edge
        AdaBoost's edge of a learner that says yes or no, see :class:`~gbgnn.theory.WeakLearning`.
    exp_cosine, exp_alpha, exp_beta, exp_gamma
        The same angle and condition with respect to the exponential loss that ``Samme`` and ``SammeR``
        descend on (its logarithm, which cannot overflow); None for other rules.
    guaranteed_decrease, decrease, rounding
        What smoothness alone promises of the drop in training loss (negative promises nothing; None where
        the loss has no bound of its curvature), the drop itself, and how far rounding may move it.
    weighted_error
        Share of the labelled nodes that the round's learner gets wrong, by their sample weight in the round;
        None for numbers.
    coefficients, alignment
        Weights of the hop, and their kernel target alignment where they were learned.
    learner
        What the learner has to say of its training; None where it says nothing.

    Parameters
    ----------
    rows
        The rows so far.
    metric
        Name of the metric that chooses the round.

    Examples
    --------
    >>> history = History([{"round": 1, "eta": 0.5}, {"round": 2, "eta": 0.25}])
    >>> history["eta"], history[-1]["round"], len(history)
    ([0.5, 0.25], 2, 2)
    """

    def __init__(self, rows: list[Row] | None = None, metric: str = "accuracy") -> None:
        self.rows: list[Row] = list(rows or [])
        self.metric = metric

    def copy(self) -> History:
        """Return the history as it is now: rounds to come will not be in it."""
        return History(self.rows, self.metric)

    def append(self, row: Row) -> None:
        """Add the row of a round, with the running sum of gamma."""
        reached = self.rows[-1]["gamma_total"] if self.rows else 0.0
        row["gamma_total"] = reached + (row["gamma"] or 0.0)
        self.rows.append(row)

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, int):
            return self.rows[key]
        if self.rows and key not in self.rows[0]:
            known = list(self.rows[0])
            raise ParameterError(
                f"the history has no column {key!r}.{suggest(key, known)} Known: {', '.join(known)}."
            )
        return [row[key] for row in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __repr__(self) -> str:
        return f"History({len(self)} rounds)"
