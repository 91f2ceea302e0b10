"""Tasks: what y is, how it is encoded and decoded, and by what it is judged."""

from gbgnn.tasks.base import Task
from gbgnn.tasks.classification import Classification
from gbgnn.tasks.multilabel import MultiLabel
from gbgnn.tasks.regression import Regression

__all__ = ["Classification", "MultiLabel", "Regression", "Task"]
