"""Fine-tuning: moving all parts of a boosted model together, in bounded memory."""

from gbgnn.finetuning.loop import FineTuned, fine_tune
from gbgnn.finetuning.tuner import FineTuner
from gbgnn.finetuning.voting import SoftVote

__all__ = ["FineTuned", "FineTuner", "SoftVote", "fine_tune"]
