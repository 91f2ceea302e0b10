"""How much predictions owe to each column: what learners say of the columns they see, over all rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn.boosting import Ensemble, Round, Voting
from gbgnn.errors import AbsentError
from gbgnn.origins import Origin
from gbgnn.problem import NodeInputs
from gbgnn.propagation import Representation

Floats = NDArray[np.float64]


def importances_of_rounds(
    ensemble: Ensemble,
    voting: Voting,
    build_inputs: Callable[[], NodeInputs],
    describe: Callable[[int], Sequence[Origin]],
) -> tuple[Floats, list[Origin]]:
    r"""Return shares of the columns that learners see, which sum to one, and what these columns are.

    Round t counts by its step: :math:`\sum_t |\eta_t| v_t`, with :math:`v_t` what its head says. Where votes
    have a size of their own, whatever the size of outputs, or learners are of several kinds, the sum of every
    :math:`v_t` is made one first. Rounds whose learner sees the graph rather than these columns do not count.
    Where rounds see different columns, a column counts in those that see it. Shares are zero where no learner
    used any column.

    Parameters
    ----------
    ensemble
        The rounds that predict.
    voting
        How they do.
    build_inputs
        Returns P and features of the graph; called where a head's importances are those of a change by one,
        to be multiplied by the standard deviation of its columns.
    describe
        Returns what the columns of the raw features are, of which there are so many.
    """
    asked = [trained for trained in ensemble if trained.head is None or trained.head.sees_rows]
    asked = asked or list(ensemble)  # none of whom knows
    _check_columns_are_known(ensemble)
    found = [_ask(trained) for trained in asked]
    if any(trained.kept_head().importances_per_unit for trained in asked):
        spreads = dict(_find_spreads(ensemble, build_inputs()))
        found = [values * spreads[trained.t] for values, trained in zip(found, asked, strict=True)]
    if not voting.adds_outputs or len({type(trained.head) for trained in asked}) > 1:  # in other units
        found = [_as_shares(values) for values in found]
    seen = _name_columns(ensemble, describe(_count_features(asked[0], len(found[0]), ensemble)))
    totals: dict[Origin, float] = {}
    for trained, values in zip(asked, found, strict=True):
        for origin, value in zip(seen[trained.t], values.tolist(), strict=True):
            totals[origin] = totals.get(origin, 0.0) + abs(trained.eta) * value
    return _as_shares(np.array(list(totals.values()))), list(totals)


def sum_by_name(importances: Floats, origins: Sequence[Origin]) -> dict[str, float]:
    """Return importances by names in words, the largest first.

    Examples
    --------
    >>> sum_by_name(np.array([0.25, 0.75]), [Origin("age", "age"), Origin("position 1", None)])
    {'position 1': 0.75, 'age': 0.25}
    """
    found: dict[str, float] = {}
    for value, origin in zip(importances.tolist(), origins, strict=True):
        found[origin.name] = found.get(origin.name, 0.0) + value
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def sum_by_column(importances: Floats, origins: Sequence[Origin], columns: Sequence[str]) -> Floats:
    """Return the share of each of the user's columns, with all that is made of it; they sum to one.

    What has no column, labels and positions, is left out; zeros where nothing is left.

    Examples
    --------
    >>> seen = [Origin("city=Oslo", "city"), Origin("age", "age"), Origin("labels 1 step away", None)]
    >>> sum_by_column(np.array([0.1, 0.3, 0.6]), seen, ["age", "city", "year"])
    array([0.75, 0.25, 0.  ])
    """
    places = {name: i for i, name in enumerate(columns)}
    total = np.zeros(len(columns))
    for value, origin in zip(importances.tolist(), origins, strict=True):
        if origin.column is not None:
            total[places[origin.column]] += value
    return _as_shares(total)


def _find_spreads(ensemble: Ensemble, inputs: NodeInputs) -> Iterator[tuple[int, Floats | float]]:
    """Yield every round's number, and by what its importances are to be multiplied."""
    X = inputs.features
    for trained in ensemble:
        X = trained.hop(X, inputs)
        yield trained.t, find_spread(X) if trained.kept_head().importances_per_unit else 1.0


def find_spread(X: Representation) -> Floats:
    """Return the standard deviation of each column over all nodes, read block by block.

    Examples
    --------
    >>> from gbgnn.propagation import DenseRows
    >>> find_spread(DenseRows(torch.tensor([[1.0, 7.0], [3.0, 7.0]])))
    array([1., 0.])
    """
    n_nodes = max(1, X.shape[0])
    mean = torch.stack([block.double().sum(dim=0) for block in X.blocks()]).sum(dim=0) / n_nodes
    squares = torch.stack([(block.double() - mean).square().sum(dim=0) for block in X.blocks()]).sum(dim=0)
    spread: Floats = (squares / n_nodes).sqrt().cpu().numpy()
    return spread


def _check_columns_are_known(ensemble: Ensemble) -> None:
    mixed = next((each for each in ensemble if each.hop.name_columns((), each.t - 1) is None), None)
    if mixed is not None:
        raise AbsentError(
            f"there are no importances of columns: from round {mixed.t} on, {type(mixed.hop).__name__} makes "
            "every column of several others."
        )


def _name_columns(ensemble: Ensemble, raw: Sequence[Origin]) -> dict[int, list[Origin]]:
    """Return what the columns are that the learner of each round sees."""
    seen, now = {}, list(raw)
    for trained in ensemble:
        now = trained.hop.name_columns(now, trained.t - 1) or []
        seen[trained.t] = now
    return seen


def _count_features(first: Round, n_seen: int, ensemble: Ensemble) -> int:
    """Return how many raw columns there are, by how many the first learner sees that looks at columns."""
    of_one = _name_columns(ensemble[: first.t], [Origin("", None)])[first.t]
    return n_seen // len(of_one)


def _ask(trained: Round) -> Floats:
    """Return what a round's head says, or say why it says nothing."""
    if trained.head is None:
        raise AbsentError(
            "there are no importances of columns: the fitted learners were not kept; fit with "
            "keep_learners=True."
        )
    found = trained.head.importances()
    if found is None:
        raise AbsentError(
            f"there are no importances of columns: {type(trained.head).__name__} of round {trained.t} does "
            "not know how much it owes to each; MLP() and BoostedTrees() do."
        )
    return found


def _as_shares(values: Floats) -> Floats:
    total = float(values.sum())
    return values / total if total > 0 else values
