"""The paper's theory as functions."""

from gbgnn.propagation.spectrum import TopEigenspace, operator_norm, second_eigenvalue, top_eigenspace
from gbgnn.theory.certificate import Certificate, CertifiedRound, margin_constant, training_bound
from gbgnn.theory.draws import Draw, independence_factor
from gbgnn.theory.generalisation import DepthBound, GeneralisationBound
from gbgnn.theory.holdout import HoldoutBound, most_errors
from gbgnn.theory.monte_carlo import Estimate, inductive_rademacher, rademacher_complexity
from gbgnn.theory.rademacher import (
    confidence_term,
    head_factor,
    inductive_bound,
    mlp_complexity,
    nonlinear_mlp_complexity,
    partition_term,
    q_factor,
    s_factor,
    sign_probability,
    trade_off,
)
from gbgnn.theory.weak_learning import Condition, WeakLearning, WeakLearnings, weak_learning

__all__ = [
    "Certificate",
    "CertifiedRound",
    "Condition",
    "DepthBound",
    "Draw",
    "Estimate",
    "GeneralisationBound",
    "HoldoutBound",
    "TopEigenspace",
    "WeakLearning",
    "WeakLearnings",
    "confidence_term",
    "head_factor",
    "independence_factor",
    "inductive_bound",
    "inductive_rademacher",
    "margin_constant",
    "mlp_complexity",
    "most_errors",
    "nonlinear_mlp_complexity",
    "operator_norm",
    "partition_term",
    "q_factor",
    "rademacher_complexity",
    "s_factor",
    "second_eigenvalue",
    "sign_probability",
    "top_eigenspace",
    "trade_off",
    "training_bound",
    "weak_learning",
]
