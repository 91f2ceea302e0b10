"""Settings of a model: flat names, nested documents, an estimator, and the ways between them.

*Flat* settings are one dictionary in scikit-learn's spelling: ``n_rounds``, ``aggregation`` (a name),
``aggregation__mixing``, ``fine_tune`` (True or False), ``fine_tune__epochs``. Only what was given is in it,
so the library's defaults stay the library's. A *document* is the same as nested tables, as TOML and JSON
files have them: a table for each part, its name under ``name``.

Examples
--------
>>> settings = flatten_document({"n_rounds": 3, "aggregation": {"name": "lazy", "mixing": 0.25}})
>>> settings
{'n_rounds': 3, 'aggregation': 'lazy', 'aggregation__mixing': 0.25}
>>> model = build_model(settings)
>>> model
GBGNNClassifier(aggregation=Lazy(mixing=0.25), n_rounds=3)
>>> nest_settings(settings)
{'n_rounds': 3, 'aggregation': {'name': 'lazy', 'mixing': 0.25}}
>>> read_settings(model)["learner__units"]
64
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from gbgnn._files import as_plain
from gbgnn.errors import ParameterError, suggest
from gbgnn.finetuning import FineTuner, as_fine_tuner
from gbgnn.learners import SklearnLearner
from gbgnn.registry import INNER_PARTS, PARAMETERS, as_part, part_class, part_name, part_names
from gbgnn.tasks import Regression

if TYPE_CHECKING:  # estimators read and write model files, which hold settings
    from gbgnn.base_estimator import GBGNNEstimator

Settings = dict[str, Any]
Spell = Callable[[str], str]

FINE_TUNE = "fine_tune"
WITH_TABLES = (*PARAMETERS, FINE_TUNE)
"""The settings that are tables in a document."""

ESTIMATOR_PACKAGES = ("sklearn", "lightgbm", "xgboost")
"""Where estimators may come from. Settings may be somebody else's, so they may not name any module."""

_INNER_NAMES = tuple(name for name, kind in INNER_PARTS.items() if kind == "learner")
_INNER_LEARNERS = tuple(f"learner__{name}" for name in _INNER_NAMES)

# Facts of one fit, not of a model.
_NOT_SETTINGS = ("callbacks", "warm_start", "verbose", "work_folder")


class SettingError(ParameterError):
    """A setting that the chosen part does not have."""


@cache
def default_params() -> Mapping[str, Any]:
    """Return the parameters of estimators that are given none; a classifier's, and what a regressor adds."""
    from gbgnn.estimators import GBGNNClassifier, GBGNNRegressor

    of_both: Mapping[str, Any] = {
        **GBGNNRegressor().get_params(deep=False),
        **GBGNNClassifier().get_params(deep=False),
    }
    return of_both


@cache
def plain_names() -> tuple[str, ...]:
    """Return the names of the settings that are no tables."""
    return tuple(name for name in default_params() if name not in (*_NOT_SETTINGS, *WITH_TABLES))


def flatten_document(document: Mapping[str, Any], where: str = "settings") -> Settings:
    """Return the flat settings of a document, or raise :class:`ParameterError` for what no model has.

    Keys are those of :class:`~gbgnn.GBGNNClassifier`, with a table for each part; messages call the document
    ``where``, such as the name of a file.
    """
    settings: Settings = {}
    for key, value in document.items():
        if key in PARAMETERS:
            part = {"name": value} if isinstance(value, str) else value
            if not isinstance(part, Mapping):
                raise ParameterError(f"{where}: {key} must be a name or a table, [{key}]; got {value!r}.")
            settings |= {key if k == "name" else f"{key}__{k}": v for k, v in part.items()}
        elif key == FINE_TUNE:
            settings[key] = isinstance(value, Mapping) or bool(value)
            settings |= {f"{key}__{k}": v for k, v in (value if isinstance(value, Mapping) else {}).items()}
        elif key in plain_names():
            settings[key] = value
        else:
            known = [*plain_names(), *WITH_TABLES, "data"]
            raise ParameterError(
                f"{where}: unknown key {key!r}.{suggest(key, known)} Known: {', '.join(known)}."
            )
    _check_names(settings, settings, lambda name: f"{where}: {name.replace('__', '.')}")
    return settings


def nest_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return flat settings as a document, which :func:`flatten_document` reads; values are left alone."""
    document: dict[str, Any] = {}
    for name, value in settings.items():
        head, _, inner = name.partition("__")
        if inner or name in PARAMETERS:
            document.setdefault(head, {})[inner or "name"] = value
        elif name != FINE_TUNE:
            document[name] = value
    if FINE_TUNE in settings and not (settings[FINE_TUNE] and FINE_TUNE in document):
        document[FINE_TUNE] = bool(settings[FINE_TUNE])
    return document


def override_settings(
    settings: Mapping[str, Any], changes: Mapping[str, Any], spell: Spell = str
) -> Settings:
    """Return flat settings with changes, which must fit the parts that are then chosen.

    A part that is replaced by another takes its settings with it. Messages call a change what ``spell`` makes
    of its name, such as the option of a command.
    """
    replaced = [
        name for name in PARAMETERS if _chosen(name, {**settings, **changes}) != _chosen(name, settings)
    ]
    kept = {k: v for k, v in settings.items() if "__" not in k or k.partition("__")[0] not in replaced}
    merged = {**kept, **changes}
    _check_names(changes, merged, spell)
    return merged


def _check_names(names: Iterable[str], settings: Mapping[str, Any], spell: Spell = str) -> None:
    """Raise :class:`SettingError` for a name that the part chosen by ``settings``, or by default, has not."""
    for path in names:
        family, _, name = path.partition("__")
        if not name:
            continue
        if family == FINE_TUNE:
            chosen, known = "fine-tuning", _field_names(FineTuner)
        else:
            part = _chosen(family, settings)
            kind = part_class(family, part) if isinstance(part, str) else type(part)
            chosen, known = f"{family} {part}", _field_names(kind)
        if name in known:
            continue
        # Only now: all installed packages are asked for plug-ins, which takes milliseconds.
        others = [] if family == FINE_TUNE else part_names(family)
        owners = [other for other in others if name in _field_names(part_class(family, other))]
        if owners:
            reason = f"belongs to {family} {' or '.join(owners)}; the {family} of this run is {part}."
        else:
            listed = ", ".join(known if family == FINE_TUNE else ["name", *known])
            reason = f"is unknown: {chosen} has no such setting.{suggest(name, known)} Known: {listed}."
        raise SettingError(f"{spell(path)} {reason}")


def build_model(settings: Mapping[str, Any]) -> Any:
    """Return the estimator that flat settings describe; parts may be names or objects.

    A task, or a loss, of numbers makes a :class:`~gbgnn.GBGNNRegressor`, all else a
    :class:`~gbgnn.GBGNNClassifier`.
    """
    from gbgnn.estimators import GBGNNClassifier, GBGNNRegressor

    _check_names(settings, settings)
    params = dict(settings)
    for family in PARAMETERS:
        if isinstance(_chosen(family, params), str):
            part_class(family, _chosen(family, params))  # an unknown name is not to wait for the fit
    if params.get(FINE_TUNE) is False:
        params = {k: v for k, v in params.items() if not k.startswith(FINE_TUNE)}
    params = _without_defaults(params)
    if params.get("learner") == "sklearn":
        name, own = (params.pop(f"learner__{k}", None) for k in ("estimator", "estimator_params"))
        is_object = name is not None and not isinstance(name, str)
        params["learner__estimator"] = name if is_object else build_estimator(name, own or {})
    for path in [path for path in params if path in _INNER_LEARNERS]:
        params[path] = _build_inner(path, params[path])
    try:
        return (GBGNNRegressor() if _is_of_numbers(params) else GBGNNClassifier()).set_params(**params)
    except ValueError as error:  # scikit-learn's, of a name that the estimator does not have
        raise ParameterError(f"these settings are not those of a model: {error}") from error


def _without_defaults(settings: Settings) -> Settings:
    """Return settings without those of a part that has its own defaults and no other value.

    A record has them all, and a part that was chosen by its name is to be no more than its name again: a
    preset finds a usual part untouched, and the model that is fitted is the same file.
    """
    usual = default_params()
    for family in PARAMETERS:
        nested = [name for name in settings if name.startswith(f"{family}__")]
        chosen = settings.get(family, usual[family])
        if not nested or not isinstance(chosen, str):
            continue
        own = part_class(family, chosen)().get_params(deep=False)
        plain = {f"{family}__{k}": _plain_setting(f"{family}__{k}", v) for k, v in own.items()}
        if all(name in plain and _stated(settings[name]) == _stated(plain[name]) for name in nested):
            settings = {name: value for name, value in settings.items() if name not in nested}
    return settings


def _stated(value: Any) -> Any:
    """Return a value as a file can have it: tables of what is not None."""
    if not isinstance(value, Mapping):
        return value
    return {name: _stated(each) for name, each in value.items() if each is not None}


def _build_inner(path: str, value: Any) -> Any:
    """Return a learner inside another, of its name or of a table with its name and settings."""
    if not isinstance(value, (str, Mapping)):
        return value
    table = {"name": value} if isinstance(value, str) else dict(value)
    name = table.pop("name", None)
    if not isinstance(name, str):
        raise ParameterError(f"{path.replace('__', '.')} must be a name or a table with one; got {value!r}.")
    kind = part_class("learner", name)
    if unknown := [key for key in table if key not in _field_names(kind)]:
        known = _field_names(kind)
        raise SettingError(
            f"{path.replace('__', '.')}.{unknown[0]} is unknown: learner {name} has no such setting."
            f"{suggest(unknown[0], known)} Known: {', '.join(['name', *known])}."
        )
    inside = {key: _build_inner(f"{path}__{key}", table[key]) for key in table if key in _INNER_NAMES}
    return kind(**table | inside)


def _is_of_numbers(settings: Mapping[str, Any]) -> bool:
    """Return whether settings are those of a regressor: its task says so, or settings that only it has."""
    task = settings.get("task", "auto")
    if isinstance(task, str) and task == "auto":
        return not settings.keys().isdisjoint(("loss", "quantile"))
    return isinstance(as_part("task", task), Regression)


def read_settings(model: GBGNNEstimator) -> Settings:
    """Return all flat settings of an estimator in plain values, defaults included.

    :func:`build_model` makes an equal estimator of them. What has no plain form, such as a matrix or a
    function, is a :class:`ParameterError`.
    """
    params = model.get_params(deep=False)
    own = [name for name in plain_names() if name in params]
    settings: Settings = {name: _plain_setting(name, params[name]) for name in own}
    tuner = as_fine_tuner(params[FINE_TUNE])
    settings[FINE_TUNE] = tuner is not None
    parts = {} if tuner is None else {FINE_TUNE: tuner}
    for head, part in (parts | {family: as_part(family, params[family]) for family in PARAMETERS}).items():
        if head != FINE_TUNE:
            settings[head] = part_name(head, part)
        is_sklearn = isinstance(part, SklearnLearner)
        inner = describe_estimator(part.estimator) if is_sklearn else part.get_params(deep=False)
        settings |= {f"{head}__{k}": _plain_setting(f"{head}__{k}", v) for k, v in inner.items()}
    return settings


def build_estimator(name: Any, params: Mapping[str, Any]) -> Any:
    """Return the estimator of scikit-learn's kind that a full name stands for."""
    module, _, class_name = str(name).rpartition(".")
    if module.partition(".")[0] not in ESTIMATOR_PACKAGES:
        raise ParameterError(
            "learner sklearn needs an estimator: the full name of a class in "
            f"{', '.join(ESTIMATOR_PACKAGES)}, such as sklearn.tree.DecisionTreeClassifier; got {name!r}."
        )
    try:
        found = getattr(importlib.import_module(module), class_name)
    except (ImportError, AttributeError) as error:
        raise ParameterError(f"there is no estimator {name!r} here: {error}.") from error
    if not isinstance(found, type) or not hasattr(found, "fit"):
        raise ParameterError(f"{name!r} is not the class of an estimator.")
    try:
        return found(**params)
    except TypeError as error:
        raise ParameterError(f"{name} does not take these parameters: {error}.") from error


def describe_estimator(estimator: Any) -> Settings:
    """Return the full name and the parameters, where they are not the defaults, of an estimator."""
    if estimator is None:
        return {"estimator": None}
    kind = type(estimator)
    # The shortest module that has the class is its public home; the code is in one below, or beside it.
    parts = kind.__module__.split(".")
    homes = (".".join(parts[: i + 1]) for i in range(len(parts)))
    home = next(m for m in homes if getattr(importlib.import_module(m), kind.__name__, None) is kind)
    defaults = kind().get_params(deep=False)
    given = {k: v for k, v in estimator.get_params(deep=False).items() if repr(v) != repr(defaults[k])}
    return {"estimator": f"{home}.{kind.__name__}", "estimator_params": given}


def _chosen(family: str, settings: Mapping[str, Any]) -> Any:
    """Return the name of a part, or the part itself where it was given as an object."""
    part = settings.get(family, default_params()[family])
    if isinstance(part, (bool, int, float, list, Mapping, type(None))):
        raise ParameterError(f"{family}.name must be a string; got {part!r}.")
    return part


def _field_names(kind: type[Any]) -> list[str]:
    names = list(kind().get_params(deep=False))
    return [*names, "estimator_params"] if kind is SklearnLearner else names


def _plain_setting(name: str, value: Any) -> Any:
    """Return the value of a setting in plain values, or say that it has none."""

    def refuse(unknown: Any) -> Any:
        raise ParameterError(f"{name} cannot be written as text or a number; got {unknown!r}.")

    last = name.rpartition("__")[2]
    if last in _INNER_NAMES and not isinstance(value, str):
        inner = value.get_params(deep=False)
        return {"name": part_name("learner", value)} | {k: _plain_setting(k, v) for k, v in inner.items()}
    if last in ("loss", "task") and not isinstance(value, str):
        return part_name(last, value)
    if last == "metric" and not isinstance(value, str):
        return as_part(last, value).name
    if last in ("device", "dtype"):
        return str(value).removeprefix("torch.")
    if getattr(value, "ndim", 0):  # a matrix, which no one wants to read
        return refuse(value)
    return as_plain(value, unknown=refuse)
