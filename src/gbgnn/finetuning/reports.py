"""Reports of fine-tuning: after every epoch, and at its end."""

from __future__ import annotations

from dataclasses import dataclass

from gbgnn.boosting.history import Row
from gbgnn.model import FittedModel


@dataclass(frozen=True, eq=False)
class EpochReport:
    """What is known after an epoch of fine-tuning; epoch 0 is the boosted model, before the first step.

    Parameters
    ----------
    epoch, n_epochs
        How many epochs are done, and the most there will be.
    row
        ``epoch``, ``train_loss``, ``val_loss`` and the metric, such as ``val_accuracy`` (both None without
        validation nodes), ``seconds``.
    metric
        Name of the metric.
    """

    epoch: int
    n_epochs: int
    row: Row
    metric: str = "accuracy"


@dataclass(frozen=True, eq=False)
class FineTuningReport:
    """What came of fine-tuning; as text, a sentence.

    Parameters
    ----------
    before, after
        Loss and metric of the boosted and of the fine-tuned model.
    kept
        Which of them predicts: ``"boosted"`` or ``"tuned"``.
    epochs
        How many were taken.
    metric
        Name of the metric.

    Examples
    --------
    >>> before, after = {"val_accuracy": 0.8, "val_loss": 0.6}, {"val_accuracy": 0.82, "val_loss": 0.5}
    >>> print(FineTuningReport(before, after, kept="tuned", epochs=9))
    fine-tuned 9 epochs: val accuracy 0.8000 to 0.8200, val loss 0.6000 to 0.5000; the tuned model was kept
    """

    before: dict[str, float]
    after: dict[str, float]
    kept: str
    epochs: int
    metric: str = "accuracy"

    @classmethod
    def from_model(cls, model: FittedModel) -> FineTuningReport:
        """Return the report of a fine-tuned model."""
        done = model.fine_tuning
        assert done is not None
        return cls(done["before"], done["after"], done["kept"], len(done["history"]), model.metric.name)

    def __str__(self) -> str:
        part = "val" if "val_loss" in self.after else "train"
        changes = [
            f"{part} {what} {self.before[f'{part}_{what}']:.4f} to {self.after[f'{part}_{what}']:.4f}"
            for what in (self.metric, "loss")
        ]
        noun = "epoch" if self.epochs == 1 else "epochs"
        return f"fine-tuned {self.epochs} {noun}: {', '.join(changes)}; the {self.kept} model was kept"
