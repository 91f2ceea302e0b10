"""Fine-tuning: moving all parts of a boosted model together, in bounded memory."""

from gbgnn.finetuning.loop import EpochReport, FineTuned, FineTuningReport, fine_tune, fine_tune_model
from gbgnn.finetuning.tuner import FineTuner, as_fine_tuner, check_fine_tuning

__all__ = [
    "EpochReport",
    "FineTuned",
    "FineTuner",
    "FineTuningReport",
    "as_fine_tuner",
    "check_fine_tuning",
    "fine_tune",
    "fine_tune_model",
]
