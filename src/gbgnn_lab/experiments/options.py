"""What may be asked of an experiment, written once.

``gbgnn reproduce`` and ``gbgnn compare`` make their options of the fields here, and so does ``python -m
gbgnn_lab.experiments``, which must do without the packages of the command. Nothing here may import torch, or
``gbgnn --help`` would take seconds.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, get_args, get_origin, get_type_hints

from gbgnn._checks import check_choice, check_integer
from gbgnn.errors import ParameterError
from gbgnn_lab.experiments.paper import VARIANTS

SPACES = ("paper", "default", "quick")
N_KEPT = 5
"""So many of the best trials of a search are recorded, for fine-tuning and for curious readers."""
WHAT, SEARCH, RUN, DATA = "What is run", "The search (table1, table4)", "The run", "Data"
_DATA_DIR = "Folder to look in first for the files of a known data set."
_DATA_OPTION = "Another setting of the data set, such as n_nodes=500 for csbm. May be repeated."


@dataclass(frozen=True, kw_only=True)
class Flag:
    """How a field is asked for on a command line, and what it, or each of several values, may be."""

    default: Any
    help: str
    panel: str  # the heading under which it is listed
    names: tuple[str, ...] = ()  # if not the field's name
    metavar: str | None = None
    low: int | None = None
    high: int | None = None
    choices: Iterable[str] = ()
    is_place: bool = False  # says where files are, which a command that repeats a run leaves open
    is_argument: bool = False  # written without a flag
    type: type[bool | int | str] = str
    is_many: bool = False


def _option(default: Any, panel: str, help: str, *names: str, **rest: Any) -> Any:
    """Return a dataclass field that is an option of a command."""
    flag = Flag(default=default, help=help, panel=panel, names=names, **rest)
    made: dict[str, Any] = {"default_factory": dict} if default == {} else {"default": default}
    return field(**made, metadata={"flag": flag})


def read_flags(kind: type[Any]) -> dict[str, Flag]:
    """Return the flags of the fields of a class of options, with their names and types."""
    flags = {}
    for name, hint in get_type_hints(kind).items():
        flag = kind.__dataclass_fields__[name].metadata["flag"]
        flags[name] = replace(
            flag,
            names=flag.names or (f"--{name.replace('_', '-')}",),
            type=next((part for part in (hint, *get_args(hint)) if part in (bool, int)), str),
            is_many=get_origin(hint) in (tuple, Mapping),
        )
    return flags


def _check(options: Any, flags: Mapping[str, Flag]) -> None:
    """Raise when a field is not what its flag says."""
    owner = type(options).__name__
    for each in fields(options):
        flag, value = flags[each.name], getattr(options, each.name)
        for one in value if isinstance(value, tuple) else (value,):
            if flag.choices and one is not None:
                check_choice(owner, each.name, one, flag.choices)
            elif flag.low is not None:
                check_integer(owner, each.name, one, flag.low, flag.high, optional=each.default is None)


def write_command(words: Iterable[str], options: Any) -> str:
    """Return the command that asks for the same, wherever data and results are."""
    parts = ["gbgnn", *words]
    for name, flag in read_flags(type(options)).items():
        value = getattr(options, name)
        if flag.is_place or value == flag.default:
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

    The help of a field says what it means. Those of the search are for :class:`Protocol`.

    Examples
    --------
    >>> Options(datasets=("cora",), trials=200).command("table1")
    'gbgnn reproduce table1 --dataset cora --trials 200'
    """

    datasets: tuple[str, ...] = _option(
        (), WHAT, "A data set; may be repeated. Default: cora, citeseer and pubmed.", "--dataset"
    )
    variants: tuple[str, ...] = _option(
        (), WHAT, "table1, table4, figures: adj, kta, ii or samme_r.", "--variant", choices=VARIANTS
    )
    layers: tuple[int, ...] = _option(
        (), WHAT, "table1, table4, figures: hidden layers, 0 to 4.", metavar="L", low=0, high=4
    )
    systems: tuple[str, ...] = _option(
        (), WHAT, "comparison, depth: gbgnn, gcn, ...; may be repeated.", "--system"
    )
    depths: tuple[int, ...] = _option((), WHAT, "depth: hops. Default: 1, 2, 4, up to 64.", "--depth", low=1)
    runs: int | None = _option(
        None, WHAT, "Runs of each, seeds 0, 1, ... Default: 10; figures 3, depth 5.", low=1
    )
    trials: int | None = _option(None, SEARCH, "Trials of a search. Default: 1,000.", low=1)
    tune_trials: int | None = _option(
        None, SEARCH, "Trials of fine-tuning. Default: 100.", "--fine-tune-trials", "--tune-trials", low=1
    )
    finalists: int | None = _option(
        None, SEARCH, "Fine-tune the models of so many best trials. Default: 3.", low=1, high=N_KEPT
    )
    population: int | None = _option(None, SEARCH, "Train so many trials at once.", low=1)
    seeds_per_trial: int | None = _option(
        None, SEARCH, "Train every trial with so many seeds, in a population. Default: 1.", low=1
    )
    confirm: int | None = _option(
        None, SEARCH, "Train so many of the best trials again with other seeds. Default: 0.", low=0
    )
    space: str | None = _option(
        None, SEARCH, "What is searched: paper, default or quick. Default: paper.", choices=SPACES
    )
    quick: bool = _option(False, WHAT, "Few and small runs, into OUT/quick.")
    device: str = _option("auto", RUN, "auto, cpu or cuda.")
    jobs: int = _option(1, RUN, "Runs at once, each in a process of its own.", "--jobs", "-j", low=1)
    out: str | os.PathLike[str] = _option(  # noqa: RUF009 - a dataclass field, made here
        "results", RUN, "Folder of all results.", metavar="FOLDER", is_place=True
    )
    data_dir: str | None = _option(None, DATA, _DATA_DIR, metavar="FOLDER", is_place=True)
    data_options: Mapping[str, Any] = _option({}, DATA, _DATA_OPTION, "--data-option", metavar="NAME=VALUE")

    def __post_init__(self) -> None:
        _check(self, read_flags(Options))

    def fill(self, defaults: Options) -> Options:
        """Return the options with what is left open taken from ``defaults``."""
        left_open = [each.name for each in fields(self) if getattr(self, each.name) in (None, ())]
        return replace(self, **{name: getattr(defaults, name) for name in left_open})

    @property
    def protocol(self) -> Protocol:
        """How cells are searched."""
        names = [each.name for each in fields(Protocol)]
        return Protocol(**{name: value for name in names if (value := getattr(self, name)) is not None})

    def command(self, experiment: str) -> str:
        """Return the command that asks for the same."""
        return write_command(("reproduce", experiment), self)


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
        _check(self, read_flags(Options))
        if self.seeds_per_trial > 1 and self.population is None:
            raise ParameterError("seeds_per_trial > 1 needs a population, in which they are trained at once.")

    def to_document(self, *, fine_tune: bool) -> dict[str, Any]:
        """Return what matters to a cell, for its records."""
        own = () if fine_tune else ("finalists", "tune_trials")
        return {name: value for name, value in asdict(self).items() if name not in own}


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What is compared, and on what.

    The help of a field says what it means; ``data_dir``, ``normalize`` and ``data_options`` are for
    :func:`gbgnn.datasets.load`.

    Examples
    --------
    >>> CompareOptions(names=("cora",), systems=("gbgnn", "gcn"), splits=5, split="random").command()
    'gbgnn compare cora --system gbgnn --system gcn --splits 5 --split random'
    """

    names: tuple[str, ...] = _option(
        (),
        WHAT,
        "Known names (see gbgnn datasets), folders or files.",
        metavar="DATASET_OR_FOLDER...",
        is_argument=True,
    )
    systems: tuple[str, ...] = _option(
        (), WHAT, "gbgnn, gbgnn-kta, gcn, ...; may be repeated. Default: all.", "--system", "--model"
    )
    splits: int = _option(
        10, WHAT, "The most splits: the data's own, or drawn ones where it has none.", low=1
    )
    runs: int | None = _option(None, WHAT, "Seeds per split. Default: as many as make ten runs.", low=1)
    split: str | None = _option(None, WHAT, "random or stratified draws splits in any case.")
    device: str = _option("auto", RUN, "auto, cpu or cuda.")
    jobs: int = _option(1, RUN, "Runs at once; times are best with one.", "--jobs", "-j", low=1)
    out: str | os.PathLike[str] = _option(  # noqa: RUF009 - a dataclass field, made here
        "results/compare", RUN, "Folder for records and tables.", metavar="FOLDER", is_place=True
    )
    data_dir: str | None = _option(None, DATA, _DATA_DIR, metavar="FOLDER", is_place=True)
    normalize: bool | None = _option(
        None,
        DATA,
        "Scale every feature row to a sum of one. Default: as is usual for the data set.",
        "--normalize/--no-normalize",
    )
    data_options: Mapping[str, Any] = _option({}, DATA, _DATA_OPTION, "--data-option", metavar="NAME=VALUE")

    def __post_init__(self) -> None:
        _check(self, read_flags(CompareOptions))
        if not self.names:
            raise ParameterError("there is no data to compare on; name at least one data set.")

    def command(self) -> str:
        """Return the command that asks for the same."""
        return write_command(("compare",), self)
