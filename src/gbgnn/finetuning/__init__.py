"""Fine-tuning: moving all parts of a boosted model together, in bounded memory."""

from gbgnn.finetuning.loop import FineTuned, fine_tune, fine_tune_model
from gbgnn.finetuning.reports import EpochReport, TuningReport
from gbgnn.finetuning.tuner import FineTuner, as_tuner, check_tuning

__all__ = [
    "EpochReport",
    "FineTuned",
    "FineTuner",
    "TuningReport",
    "as_tuner",
    "check_tuning",
    "fine_tune",
    "fine_tune_model",
]
