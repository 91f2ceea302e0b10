"""Fine-tuning: moving all parts of a boosted model together, in bounded memory."""

from gbgnn.finetuning.loop import (
    EpochReport,
    FineTuner,
    FineTuningReport,
    as_fine_tuner,
    check_fine_tuning,
    fine_tune_model,
)

__all__ = [
    "EpochReport",
    "FineTuner",
    "FineTuningReport",
    "as_fine_tuner",
    "check_fine_tuning",
    "fine_tune_model",
]
