"""The loop, its rules, its record."""

from gbgnn.boosting.ensemble import Ensemble, Round
from gbgnn.boosting.history import History
from gbgnn.boosting.loop import Boosted, Member, boost, boost_many
from gbgnn.boosting.prediction import apply, stage
from gbgnn.boosting.rules import BoostingRule, FunctionalGradient, Samme, SammeR, Vote
from gbgnn.boosting.selection import BestRound, RoundSelection
from gbgnn.boosting.stopping import StopReason
from gbgnn.boosting.voting import Voting

__all__ = [
    "BestRound",
    "Boosted",
    "BoostingRule",
    "Ensemble",
    "FunctionalGradient",
    "History",
    "Member",
    "Round",
    "RoundSelection",
    "Samme",
    "SammeR",
    "StopReason",
    "Vote",
    "Voting",
    "apply",
    "boost",
    "boost_many",
    "stage",
]
