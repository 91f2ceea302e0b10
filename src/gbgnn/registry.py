"""Names of parts: the explicit dictionaries behind every string that stands for an object."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from gbgnn.aggregation import (
    Adjacency,
    Aggregation,
    Identity,
    InputInjection,
    KernelTargetAlignment,
    Lazy,
    Linear,
    MixingHop,
    NonLinear,
    PolynomialHop,
)
from gbgnn.boosting import BoostingRule, FunctionalGradient, Samme, SammeR
from gbgnn.boosting.voting import ClassVoting, LabelVoting, LogProbaVoting, OutputVoting
from gbgnn.errors import ParameterError, suggest
from gbgnn.learners import (
    MLP,
    ConstrainedMLP,
    Learner,
    MLPHead,
    SklearnHead,
    SklearnLearner,
    WideReLU,
)
from gbgnn.losses import LOSSES, Loss
from gbgnn.metrics import METRICS, as_metric
from gbgnn.propagation import (
    AugmentedAdjacency,
    GivenMatrix,
    NormalizedAdjacency,
    NormalizedLaplacian,
    Propagation,
    RandomWalk,
)
from gbgnn.tasks import Classification, MultiLabel, Regression, Task

FAMILIES: dict[str, dict[str, type[Any]]] = {
    "aggregation": {
        "adjacency": Adjacency,
        "injection": InputInjection,
        "lazy": Lazy,
        "kta": KernelTargetAlignment,
        "linear": Linear,
        "nonlinear": NonLinear,
        "identity": Identity,
    },
    "learner": {"mlp": MLP, "constrained": ConstrainedMLP, "wide": WideReLU, "sklearn": SklearnLearner},
    "rule": {"gradient": FunctionalGradient, "samme": Samme, "samme_r": SammeR},
    "propagation": {
        "augmented": AugmentedAdjacency,
        "normalized": NormalizedAdjacency,
        "random_walk": RandomWalk,
        "laplacian": NormalizedLaplacian,
        "given": GivenMatrix,
    },
    "task": {"classification": Classification, "regression": Regression, "multilabel": MultiLabel},
    "loss": LOSSES,
    "metric": METRICS,
}
"""Family, then name, then class. Other packages add theirs as entry points ``gbgnn.<family>``. The names of
scikit-learn's scorers are metrics too."""

PARAMETERS = ("aggregation", "learner", "rule", "propagation")
"""The families whose parts are parameters of an estimator."""

FITTED: dict[str, dict[str, type[Any]]] = {
    "hop": {"polynomial": PolynomialHop, "mixing": MixingHop},
    "head": {"mlp": MLPHead, "sklearn": SklearnHead},
    "voting": {
        "outputs": OutputVoting,
        "classes": ClassVoting,
        "labels": LabelVoting,
        "log_proba": LogProbaVoting,
    },
}
"""What fitting makes of them, by the names that model files use."""

_BASES: dict[str, type[Any]] = {
    "aggregation": Aggregation,
    "learner": Learner,
    "rule": BoostingRule,
    "propagation": Propagation,
    "task": Task,
    "loss": Loss,
}


def part_class(family: str, name: str) -> type[Any]:
    """Return the class that ``name`` stands for.

    Examples
    --------
    >>> part_class("aggregation", "kta").__name__
    'KernelTargetAlignment'
    """
    known = (FAMILIES | FITTED)[family]
    if name in known:
        return known[name]
    plugins = _plugins(family)
    if name in plugins:
        loaded: type[Any] = plugins[name].load()
        return loaded
    names = part_names(family)
    raise ParameterError(f"unknown {family} {name!r}.{suggest(name, names)} Known: {', '.join(names)}.")


def part_names(family: str) -> list[str]:
    """Return the names of a family, those of other packages last."""
    return list(dict.fromkeys([*(FAMILIES | FITTED)[family], *_plugins(family)]))


def part_name(family: str, part: Any) -> str:
    """Return the name of a part's class, or say that it has none."""
    for name, known in (FAMILIES | FITTED)[family].items():
        if type(part) is known:
            return name
    for point in entry_points(group=f"gbgnn.{family}"):
        if type(part) is point.load():
            return point.name
    raise ParameterError(
        f"{type(part).__name__} has no name; register it as an entry point of gbgnn.{family}."
    )


def as_part(family: str, value: Any) -> Any:
    """Turn a name or an object into a part; a scikit-learn estimator is a learner, a matrix a propagation.

    Examples
    --------
    >>> as_part("rule", "samme")
    Samme()
    """
    if family == "metric":
        # Looking for plug-ins reads a file of every installed package.
        is_plugin = isinstance(value, str) and value not in METRICS and value in _plugins(family)
        return part_class(family, value)() if is_plugin else as_metric(value)
    if isinstance(value, str):
        return part_class(family, value)()
    if isinstance(value, _BASES[family]):
        return value
    if family == "learner" and hasattr(value, "fit") and not isinstance(value, type):
        return SklearnLearner(estimator=value)
    if family == "propagation" and getattr(value, "ndim", 0) == 2:
        return GivenMatrix(matrix=value)
    names = ", ".join(FAMILIES[family])
    got = f"the class {value.__name__}" if isinstance(value, type) else repr(value)
    hint = f" Write {value.__name__}()." if isinstance(value, type) else ""
    raise ParameterError(
        f"{family} must be a name ({names}) or an object of {_BASES[family].__name__}; got {got}.{hint}"
    )


def _plugins(family: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"gbgnn.{family}")}
