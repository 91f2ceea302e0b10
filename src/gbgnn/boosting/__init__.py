"""The loop, its rules, its record."""

from gbgnn.boosting.ensemble import Ensemble, Round, apply, apply_to, stage
from gbgnn.boosting.functional_gradient import FunctionalGradient
from gbgnn.boosting.history import History
from gbgnn.boosting.loop import Announce, Boosted, Member, boost, boost_many
from gbgnn.boosting.rules import BoostingRule, Vote
from gbgnn.boosting.samme import Samme, SammeR
from gbgnn.boosting.selection import BestRound, StopReason
from gbgnn.boosting.voting import Voting

__all__ = [
    "Announce",
    "BestRound",
    "Boosted",
    "BoostingRule",
    "Ensemble",
    "FunctionalGradient",
    "History",
    "Member",
    "Round",
    "Samme",
    "SammeR",
    "StopReason",
    "Vote",
    "Voting",
    "apply",
    "apply_to",
    "boost",
    "boost_many",
    "stage",
]
