"""The spaces of the paper's variants: its own, and narrower ones."""

from __future__ import annotations

from typing import Any

from gbgnn._checks import check_choice, check_integer
from gbgnn._optimizers import OPTIMIZERS
from gbgnn.learners.mlp import FEW
from gbgnn.search.spaces import Choice, Integer, Range, Real, SearchSpace

VARIANTS: dict[str, dict[str, Any]] = {
    "adj": {"aggregation": "adjacency", "rule": "samme"},
    "kta": {"aggregation": "kta", "aggregation__degree": 3, "rule": "samme"},
    "ii": {"aggregation": "injection", "rule": "samme"},
    "samme_r": {"aggregation": "adjacency", "rule": "samme_r"},
}
"""The parts of GB-GNN-Adj, -KTA, -II and -SAMME.R."""

# LogUnif[a, b] in the paper's table: the logarithm to base 10 is uniform from a to b.
_RATE, _TINY = Real(1e-5, 1e-1, log=True), Real(1e-10, 1e-1, log=True)
_OPTIMIZERS = Choice(list(OPTIMIZERS))
# Weights of several layers multiply: what regularises one hidden layer makes two or more constant.
_DECAY, _DECAY_DEEP = (8e-3, 2.5e-2), (2e-4, 3e-3)


def paper_space(
    variant: str, *, n_train: int, hidden_layers: int = 1, fine_tune: bool = False
) -> SearchSpace:
    """Return the ranges of the paper's table of hyper-parameters, for the paper's learner.

    Inputs are not standardised, and a fine-tuned model is taken whether it is better or not, as there.

    Parameters
    ----------
    variant
        ``"adj"``, ``"kta"``, ``"ii"`` or ``"samme_r"``.
    n_train
        Number of training nodes, the largest batch.
    hidden_layers
        The paper's L, 0 to 4.
    fine_tune
        Whether the model is fine-tuned.
    """
    check_integer("paper_space", "n_train", n_train, 1)
    base = _base("paper_space", variant, hidden_layers, fine_tune) | {"learner__standardize": False}
    ranges: dict[str, Range] = {
        "n_rounds": Integer(1, 40 if variant == "kta" and fine_tune else 100),
        "learner__batch_size": Integer(1, n_train),
        # The paper's clipping value.
        "rule__proba_floor" if variant == "samme_r" else "rule__error_floor": Real(1e-10, 1e-5, log=True),
        "learner__epochs": Integer(10, 100, step=10),
        "learner__optimizer": _OPTIMIZERS,
        "learner__learning_rate": _RATE,
        "learner__momentum": _TINY,
        "learner__weight_decay": _TINY,
        "learner__units": Integer(10, 200),
        "learner__dropout": Choice([0.0, 0.5]),
    }
    if variant == "ii":
        ranges["aggregation__mixing"] = Real(0.0, 1.0)
    if variant == "kta":
        ranges["aggregation__epochs"] = Integer(5, 30)
        ranges["aggregation__optimizer"] = _OPTIMIZERS
        ranges["aggregation__learning_rate"] = _RATE
    if fine_tune:
        base["fine_tune__keep"] = "tuned"
        ranges["fine_tune__epochs"] = Integer(1, 100)
        ranges["fine_tune__optimizer"] = _OPTIMIZERS
        ranges["fine_tune__learning_rate"] = _RATE
        ranges["fine_tune__momentum"] = _TINY
        ranges["fine_tune__weight_decay"] = _TINY
    return SearchSpace(base, ranges)


def default_space(
    variant: str, *, n_train: int = FEW, hidden_layers: int = 1, fine_tune: bool = False
) -> SearchSpace:
    """Return narrower ranges, for our standardised learner; most trials in them are good ones.

    Steps are small, so that the training nodes keep nearly even weights and every round has its say, and
    bounded, so that a learner without errors on the training nodes does not outvote all others. That is for
    few training nodes; many take larger steps as well, and the less weight decay the more they are.

    Neither rounds nor epochs of fine-tuning are searched: a model stopped at a round is the model that was
    asked for so many, so that choosing the round by validation, and the epoch, searches them already. All
    training nodes make one batch.

    Parameters
    ----------
    variant, hidden_layers
        As in :func:`paper_space`.
    n_train
        Number of training nodes; up to 200 are few.
    fine_tune
        Whether the model is fine-tuned; the better of the boosted and the fine-tuned model is taken.
    """
    check_integer("default_space", "n_train", n_train, 1)
    base = _base("default_space", variant, hidden_layers, fine_tune)
    times = max(1.0, n_train / FEW)
    least, most = (decay / times for decay in (_DECAY if hidden_layers < 2 else _DECAY_DEEP))
    base |= {"n_rounds": 40, "learner__basis": "rows", "feature_norm": "l2"}
    ranges: dict[str, Range] = {
        "learner__epochs": Integer(40, 100, step=10),
        "learner__learning_rate": Real(3e-3, 5e-2, log=True),
        "learner__weight_decay": Real(least, most, log=True),
        "learner__units": Integer(32, 128, log=True),
        "learner__dropout": Choice([0.0, 0.5]),
        "rule__learning_rate": Real(5e-3, 5e-2 if n_train <= FEW else 1.0, log=True),
    }
    if variant != "samme_r":
        ranges["rule__error_floor"] = Real(1e-3, 3e-2, log=True)
    if variant == "ii":
        ranges["aggregation__mixing"] = Real(0.8, 1.0)
    if variant == "kta":
        ranges["aggregation__epochs"] = Integer(5, 30)
        ranges["aggregation__learning_rate"] = Real(1e-3, 1e-2, log=True)
    if fine_tune:
        base["fine_tune__epochs"] = 100
        ranges["fine_tune__learning_rate"] = Real(1e-4, 1e-2, log=True)
        ranges["fine_tune__weight_decay"] = Real(1e-6, 1e-2, log=True)
    return SearchSpace(base, ranges)


def _base(owner: str, variant: str, hidden_layers: int, fine_tune: bool) -> dict[str, Any]:
    check_choice(owner, "variant", variant, VARIANTS)
    check_integer(owner, "hidden_layers", hidden_layers, 0, 4)
    parts = {**VARIANTS[variant], "learner": "mlp", "learner__hidden_layers": hidden_layers}
    return parts | {"fine_tune": True} if fine_tune else parts
