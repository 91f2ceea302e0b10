"""Response curves: by what the polynomials of a model multiply each eigenvector of P."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import polynomial
from numpy.typing import NDArray

from gbgnn._checks import check_integer
from gbgnn.boosting import Ensemble
from gbgnn.errors import AbsentError
from gbgnn.problem import NodeInputs
from gbgnn.propagation import spectral_interval

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ResponseCurves:
    r"""What rounds make of eigenvectors of P.

    Round t sees :math:`q_t(P) X`, of which q multiplies an eigenvector by its value at the eigenvalue. Those
    of the largest eigenvalues change little along edges.

    Parameters
    ----------
    rounds
        Numbers of the rounds.
    eigenvalues
        Points between the smallest and the largest eigenvalue of P.
    values
        :math:`q_t` at these, shape (rounds, points).
    hops
        The polynomial of each round's own hop there, (rounds, points).
    coefficients
        Those of :math:`q_t`, from the constant on.
    """

    rounds: Sequence[int]
    eigenvalues: Floats
    values: Floats
    hops: Floats
    coefficients: Sequence[Floats]


def find_responses(ensemble: Ensemble, inputs: NodeInputs, n_points: int) -> ResponseCurves:
    """Return the curves of rounds whose hops are polynomials in P; raise AbsentError where one is not."""
    check_integer("response_curves", "n_points", n_points, 2)
    own, coefficients, walks = [], [], np.ones(1)
    for trained in ensemble:
        hop = trained.hop
        alone, extended = hop.extend_walks(np.ones(1)), hop.extend_walks(walks)
        if alone is None or extended is None or not hop.keeps_columns:
            raise AbsentError(
                f"there are no response curves: {type(hop).__name__} of round {trained.t} is no polynomial "
                'in P; those of aggregation="adjacency", "injection", "lazy" and "kta" are.'
            )
        walks = extended
        head = trained.head
        unfolded = None if head is None or head.sees_rows else head.unfold(inputs)
        own.append(alone if unfolded is None else unfolded.walks)
        coefficients.append(walks if unfolded is None else unfolded.walks)
    interval = spectral_interval(inputs.P)
    if interval is None:
        raise AbsentError(
            "there are no response curves: P is not symmetric up to a scaling, as of a graph with "
            "directions, so that its eigenvalues need not be real."
        )
    low, high = interval.centre - interval.radius, interval.centre + interval.radius
    points = np.linspace(low, high, n_points)
    curves, hops = (np.array([polynomial.polyval(points, c) for c in each]) for each in (coefficients, own))
    return ResponseCurves([trained.t for trained in ensemble], points, curves, hops, coefficients)
