"""What may be asked of an experiment; what a command says of it is in help.toml.

``gbgnn reproduce`` and ``gbgnn compare`` make their options of the fields here, and so does ``python -m
gbgnn_lab.experiments``, which must do without the packages of the command. Nothing here may import torch, or
``gbgnn --help`` would take seconds.
"""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from gbgnn._checks import check_choice, check_integer
from gbgnn.errors import ParameterError
from gbgnn_lab.experiments.paper import LAYERS, VARIANTS

HELP = tomllib.loads(Path(__file__).parent.with_name("help.toml").read_text(encoding="utf-8"))
"""Examples and parameters of the laboratory's commands, and the headings that they are listed under."""
SPACES = ("paper", "default", "quick")
N_KEPT = 5
"""So many of the best trials of a search are recorded, for fine-tuning and for curious readers."""
_PLACES = ("out", "data_dir")  # where files are, which a command that repeats a run leaves open


@dataclass(frozen=True, kw_only=True)
class Flag:
    """How a field is asked for on a command line."""

    help: str
    names: Sequence[str]
    metavar: str | None
    is_argument: bool  # written without a flag
    type: type[bool | int | str]
    is_many: bool
    default: Any


def read_flags(kind: type[Any]) -> dict[str, Flag]:
    """Return how the fields of a class of options are asked for."""
    hints, flags = get_type_hints(kind), {}
    for each in fields(kind):
        hint, told = hints[each.name], HELP["parameters"][kind.verb][each.name]
        flags[each.name] = Flag(
            help=told["help"],
            names=told.get("flags", [f"--{each.name.replace('_', '-')}"]),
            metavar=told.get("metavar"),
            is_argument=told.get("argument", False),
            type=next((part for part in (hint, *get_args(hint)) if part in (bool, int)), str),
            is_many=get_origin(hint) in (tuple, Mapping),
            default={} if each.default is MISSING else each.default,
        )
    return flags


def _within(default: Any, low: int | None = None, high: int | None = None, among: Iterable[str] = ()) -> Any:
    """Return a field that is, or that has, integers from ``low`` to ``high``, or words of ``among``."""
    return field(default=default, metadata={"within": (low, high, among)})


def _check(options: Any, kind: type[Any]) -> None:
    """Raise when a field is not within the limits that a class of options has for it."""
    owner = type(options).__name__
    limits = {each.name: each.metadata["within"] for each in fields(kind) if each.metadata}
    for each in fields(options):
        value, (low, high, among) = getattr(options, each.name), limits.get(each.name, (None, None, ()))
        for one in value if isinstance(value, tuple) else (value,):
            if among and one is not None:
                check_choice(owner, each.name, one, among)
            elif low is not None:
                check_integer(owner, each.name, one, low, high, optional=each.default is None)


def write_command(options: Any, *words: str) -> str:
    """Return the command that asks for the same, wherever data and results are.

    Examples
    --------
    >>> write_command(Options(datasets=("cora",), trials=200), "table1")
    'gbgnn reproduce table1 --dataset cora --trials 200'
    """
    parts = ["gbgnn", options.verb, *words]
    for name, flag in read_flags(type(options)).items():
        value = getattr(options, name)
        if name in _PLACES or value == flag.default:
            continue
        yes, _, no = flag.names[0].partition("/")
        if isinstance(value, bool):
            parts.append(yes if value else no)
        elif isinstance(value, Mapping):
            parts += [part for key, one in value.items() for part in (yes, f"{key}={one}")]
        else:
            several = value if isinstance(value, tuple) else (value,)
            leading = () if flag.is_argument else (yes,)
            parts += [part for one in several for part in (*leading, str(one))]
    return shlex.join(parts)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What may be asked of an experiment; None, and nothing at all, leave it its own choice.

    The help of ``gbgnn reproduce`` says what a field means. Those of the search are for :class:`Protocol`.
    """

    verb: ClassVar[str] = "reproduce"
    datasets: tuple[str, ...] = ()
    variants: tuple[str, ...] = _within((), among=VARIANTS)
    layers: tuple[int, ...] = _within((), LAYERS[0], LAYERS[-1])
    systems: tuple[str, ...] = ()
    depths: tuple[int, ...] = _within((), 1)
    runs: int | None = _within(None, 1)
    trials: int | None = _within(None, 1)
    tune_trials: int | None = _within(None, 1)
    finalists: int | None = _within(None, 1, N_KEPT)
    population: int | None = _within(None, 1)
    seeds_per_trial: int | None = _within(None, 1)
    confirm: int | None = _within(None, 0)
    space: str | None = _within(None, among=SPACES)
    quick: bool = False
    device: str = "auto"
    jobs: int = _within(1, 1)
    out: str | os.PathLike[str] = "results"
    data_dir: str | None = None
    data_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check(self, Options)

    def fill(self, defaults: Options) -> Options:
        """Return the options with what is left open taken from ``defaults``."""
        left_open = [each.name for each in fields(self) if getattr(self, each.name) in (None, ())]
        return replace(self, **{name: getattr(defaults, name) for name in left_open})

    @property
    def protocol(self) -> Protocol:
        """How cells are searched."""
        names = [each.name for each in fields(Protocol)]
        return Protocol(**{name: value for name in names if (value := getattr(self, name)) is not None})


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How a cell is searched.

    A trial is judged by the mean over its seeds; more than one seed needs a population. The best trials that
    are trained again, to ``confirm`` them, give the settings and the number of rounds that are best on
    average. The space is the paper's table of hyper-parameters, our narrower ``"default"``, or ``"quick"``:
    small models, to see everything at work.
    """

    trials: int = 1000
    population: int | None = None  # how many are trained at once; None trains one after another
    seeds_per_trial: int = 1
    confirm: int = 0
    space: str = "paper"
    finalists: int = 3  # of a fine-tuned cell: how many of the best settings of boosting are fine-tuned
    tune_trials: int = 100  # and the trials of the settings of fine-tuning, all finalists together

    def __post_init__(self) -> None:
        _check(self, Options)
        if self.seeds_per_trial > 1 and self.population is None:
            raise ParameterError("seeds_per_trial > 1 needs a population, in which they are trained at once.")

    def to_document(self, *, fine_tune: bool) -> dict[str, Any]:
        """Return what matters to a cell, for its records."""
        own = () if fine_tune else ("finalists", "tune_trials")
        return {name: value for name, value in asdict(self).items() if name not in own}


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What is compared, and on what.

    The help of ``gbgnn compare`` says what a field means; ``data_dir``, ``normalize`` and ``data_options``
    are for :func:`gbgnn.datasets.load`.
    """

    verb: ClassVar[str] = "compare"
    names: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    splits: int = _within(10, 1)
    runs: int | None = _within(None, 1)
    split: str | None = None
    device: str = "auto"
    jobs: int = _within(1, 1)
    out: str | os.PathLike[str] = "results/compare"
    data_dir: str | None = None
    normalize: bool | None = None
    data_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check(self, CompareOptions)
        if not self.names:
            raise ParameterError("there is no data to compare on; name at least one data set.")
