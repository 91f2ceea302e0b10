"""The paper's theory as functions."""

from gbgnn.theory.weak_learning import WeakLearning, weak_learning

__all__ = ["WeakLearning", "weak_learning"]
