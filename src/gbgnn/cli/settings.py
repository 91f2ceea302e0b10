"""Settings of a model: from options and files to a GBGNNClassifier, and back to a file.

Inside, settings are one flat dictionary in scikit-learn's spelling: ``n_rounds``, ``aggregation`` (a name),
``aggregation__mixing``. Only what was given is in it, so the library's defaults stay the library's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sklearn.base import BaseEstimator

from gbgnn.cli.command import UsageError
from gbgnn.cli.estimators import build_estimator
from gbgnn.errors import ParameterError, suggest
from gbgnn.estimators import GBGNNClassifier
from gbgnn.finetuning import FineTuner, as_tuner
from gbgnn.learners import SklearnLearner
from gbgnn.registry import FAMILIES, PARAMETERS, as_part, part_class, part_name

Settings = dict[str, Any]

_DEFAULTS = GBGNNClassifier().get_params(deep=False)
# Facts of one fit, not of a model.
_NOT_SETTINGS = ("callbacks", "warm_start", "verbose")
# Words in a file, an object in the learner.
_ESTIMATOR = ("estimator", "estimator_params")
TUNER = "fine_tune"
_WITH_TABLES = (*PARAMETERS, TUNER)
TOP_LEVEL = [name for name in _DEFAULTS if name not in _NOT_SETTINGS and name not in _WITH_TABLES]


def is_setting(name: str) -> bool:
    """Say whether an option of the command sets something of the model."""
    head = name.partition("__")[0]
    return head in _WITH_TABLES or head in TOP_LEVEL


def from_document(document: Mapping[str, Any], where: str) -> Settings:
    """Return the settings in a parsed file: keys as in GBGNNClassifier, a table for each part."""
    settings: Settings = {}
    for key, value in document.items():
        if key in TOP_LEVEL:
            settings[key] = value
        elif key in PARAMETERS:
            part = {"name": value} if isinstance(value, str) else value
            if not isinstance(part, Mapping):
                raise ParameterError(f"{where}: {key} must be a name or a table, [{key}]; got {value!r}.")
            settings |= {key if k == "name" else f"{key}__{k}": v for k, v in part.items()}
        elif key == TUNER:
            table = value if isinstance(value, Mapping) else {}
            settings |= {key: bool(value) or isinstance(value, Mapping)}
            settings |= {f"{key}__{k}": v for k, v in table.items()}
        else:
            known = [*TOP_LEVEL, *_WITH_TABLES, "data"]
            raise ParameterError(
                f"{where}: unknown key {key!r}.{suggest(key, known)} Known: {', '.join(known)}."
            )
    _check_parts(settings, settings, lambda family, name: f"{where}: {family}.{name}", ParameterError)
    return settings


def override(settings: Settings, options: Settings, flags: Mapping[str, str]) -> Settings:
    """Return the settings of a file with the options given on top, which must fit the chosen parts.

    A part chosen by an option takes nothing from the file's table of another part.
    """
    kept = {k: v for k, v in settings.items() if not _is_replaced(k, settings, options)}
    merged = kept | options
    _check_parts(options, merged, lambda family, name: flags[f"{family}__{name}"], UsageError)
    return merged


def build_model(settings: Settings) -> GBGNNClassifier:
    """Return the classifier."""
    top = {k: v for k, v in settings.items() if k in TOP_LEVEL}
    parts = {family: _build_part(family, settings) for family in PARAMETERS if _mentions(family, settings)}
    return GBGNNClassifier(**top, **parts, fine_tune=_build_tuner(settings))


def to_document(model: GBGNNClassifier, settings: Settings) -> dict[str, Any]:
    """Return all settings of a model, defaults included, as :func:`from_document` reads them."""
    params = model.get_params(deep=False)
    document = {name: params[name] for name in TOP_LEVEL}
    tuner = as_tuner(params[TUNER])
    document[TUNER] = False if tuner is None else tuner.get_params() | {"moves": list(tuner.moves)}
    for family in PARAMETERS:
        part = as_part(family, params[family])
        own = part.get_params(deep=False)
        given = {k: settings[f"{family}__{k}"] for k in _ESTIMATOR if f"{family}__{k}" in settings}
        document[family] = {"name": part_name(family, part)} | own | given
    return document


def _mentions(family: str, settings: Settings) -> bool:
    return any(name.partition("__")[0] == family for name in settings)


def _chosen(family: str, settings: Settings) -> str:
    name = settings.get(family, _DEFAULTS[family])
    if not isinstance(name, str):
        raise ParameterError(f"{family}.name must be a string; got {name!r}.")
    return name


def _build_part(family: str, settings: Settings) -> Any:
    prefix = f"{family}__"
    own = {k.removeprefix(prefix): v for k, v in settings.items() if k.startswith(prefix)}
    kind = part_class(family, _chosen(family, settings))
    if kind is SklearnLearner:
        own = {"estimator": build_estimator(own.get("estimator"), own.get("estimator_params", {}))}
    return kind(**own)


def _build_tuner(settings: Settings) -> FineTuner | None:
    """Return the tuner where one is asked for, by name or by one of its settings."""
    prefix = f"{TUNER}__"
    own = {k.removeprefix(prefix): v for k, v in settings.items() if k.startswith(prefix)}
    return FineTuner(**own) if settings.get(TUNER, bool(own)) else None


def _is_replaced(name: str, settings: Settings, options: Settings) -> bool:
    family, _, inner = name.partition("__")
    return bool(inner) and family in options and options[family] != _chosen(family, settings)


def _check_parts(
    given: Settings, merged: Settings, spell: Callable[[str, str], str], error: type[Exception]
) -> None:
    """Raise for a setting that the chosen part does not have, and say which part does."""
    for path in given:
        family, _, name = path.partition("__")
        if not name:
            continue
        if family == TUNER:
            known = list(FineTuner().get_params())
            if name not in known:
                listed = f"{suggest(name, known)} Known: {', '.join(known)}."
                raise error(f"{spell(family, name)} is unknown: fine-tuning has no such setting.{listed}")
            continue
        chosen = _chosen(family, merged)
        known = _settings_of(part_class(family, chosen))
        if name in known:
            continue
        owners = [other for other, kind in FAMILIES[family].items() if name in _settings_of(kind)]
        if owners:
            reason = f"belongs to {family} {' or '.join(owners)}; the {family} of this run is {chosen}."
        else:
            listed = f" Known: {', '.join(['name', *known])}."
            reason = f"is unknown: {family} {chosen} has no such setting.{suggest(name, known)}{listed}"
        raise error(f"{spell(family, name)} {reason}")


def _settings_of(kind: type[BaseEstimator]) -> list[str]:
    names = list(kind().get_params(deep=False))
    return [*names, "estimator_params"] if "estimator" in names else names
