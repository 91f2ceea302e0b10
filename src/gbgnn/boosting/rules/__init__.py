"""The boosting rules."""

from gbgnn.boosting.rules.base import BoostingRule, Vote
from gbgnn.boosting.rules.functional_gradient import FunctionalGradient
from gbgnn.boosting.rules.samme import Samme
from gbgnn.boosting.rules.samme_r import SammeR

__all__ = ["BoostingRule", "FunctionalGradient", "Samme", "SammeR", "Vote"]
