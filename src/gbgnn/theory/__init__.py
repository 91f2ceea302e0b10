"""The paper's theory as functions."""

from gbgnn.theory.certificate import Certificate, CertifiedRound
from gbgnn.theory.optimization import margin_constant, training_bound
from gbgnn.theory.weak_learning import Condition, WeakLearning, weak_learning

__all__ = [
    "Certificate",
    "CertifiedRound",
    "Condition",
    "WeakLearning",
    "margin_constant",
    "training_bound",
    "weak_learning",
]
