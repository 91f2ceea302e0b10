"""Explanations of predictions: what every round, distance, column and neighbour added to a score."""

from gbgnn.explanations.attributions import Attributions, NeighbourContributions
from gbgnn.explanations.averages import AverageExplanation, Voice
from gbgnn.explanations.contributions import Contributions, as_shares, name_outputs
from gbgnn.explanations.explanation import Explanation, RoundsExplanation
from gbgnn.explanations.responses import ResponseCurves, find_responses
from gbgnn.explanations.rounds import Rounds

__all__ = [
    "Attributions",
    "AverageExplanation",
    "Contributions",
    "Explanation",
    "NeighbourContributions",
    "ResponseCurves",
    "Rounds",
    "RoundsExplanation",
    "Voice",
    "as_shares",
    "find_responses",
    "name_outputs",
]
