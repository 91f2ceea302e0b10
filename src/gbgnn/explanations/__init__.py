"""Explanations of predictions: what every round, distance, column and neighbour added to a score."""

from gbgnn.explanations.contributions import Contributions, as_shares, name_outputs
from gbgnn.explanations.responses import ResponseCurves, find_responses
from gbgnn.explanations.rounds import Rounds

__all__ = ["Contributions", "ResponseCurves", "Rounds", "as_shares", "find_responses", "name_outputs"]
