"""``gbgnn tune``: search for good settings by validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from gbgnn.cli import files, screen
from gbgnn.cli.command import UsageError
from gbgnn.cli.importances import record_importances
from gbgnn.cli.model_options import override_by_options, read_given
from gbgnn.cli.scores import score_splits
from gbgnn.cli.source import DataOptions, Source
from gbgnn.errors import DataError, ParameterError, suggest
from gbgnn.runs import SPACE, TRIALS, RunFolder

if TYPE_CHECKING:
    from gbgnn.datasets import Dataset
    from gbgnn.search import SearchResult, SearchSpace, TrialReport

CUSTOM = "custom"
"""The variant of a file that says everything itself."""


def tune(
    context: typer.Context,
    data_options: DataOptions,
    variant: str | None = None,
    hidden_layers: int | None = None,
    fine_tune: bool = False,
    space: Path | None = None,
    paper_space: bool = False,
    trials: int = 100,
    timeout: float | None = None,
    population: int | None = None,
    seeds_per_trial: int = 1,
    confirm: int = 0,
    seed: int = 0,
    device: str = "auto",
    storage: str | None = None,
    study: str | None = None,
    out: Path | None = None,
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Search for good settings by validation accuracy, or R2, and write the best model to a run folder.

    The search is not given the labels of the test nodes: gbgnn evaluate RUN reads them afterwards. The folder
    is that of gbgnn fit, with the searched space.toml and a line per trial in trials.jsonl.

    The options of the model are those of gbgnn fit. One that you give fixes its setting, which is then not
    searched, whatever --variant and --space say of it. Another part than the variant's has its defaults, but
    for what you fix and what --space searches.
    """
    from gbgnn.search import tune as search  # says that optuna is missing before anything slow

    fixed = read_given(context)
    if fixed.get("preset") == "best":
        raise UsageError("--preset best searches by itself; it is for gbgnn fit.")
    if "validation_fraction" in fixed:
        raise UsageError("--validation-fraction is for gbgnn fit; draw validation nodes with --split.")
    if out is not None:
        RunFolder(out, force).check_free()
    source = data_options.apply(Source())
    data = load_hidden(source)
    if data.is_regression:
        fixed = {"rule": "gradient", "task": data.task, **fixed}  # no other rule is for numbers
    chosen = build_space(
        space,
        variant=variant,
        is_paper=paper_space,
        hidden_layers=hidden_layers,
        fine_tune=fine_tune,
        n_train=len(data.train),
        fixed=fixed,
    )
    override_by_options(context, chosen.base)  # raises for an option of a part that is not there
    if not quiet:
        for line in (files.describe(data), *files.describe_choices(data)):
            screen.note(line)
        screen.note(f"searching {', '.join(chosen.ranges)}")
    n_done = 0

    def on_trial(report: TrialReport) -> None:
        nonlocal n_done
        if n_done == 0:  # earlier trials of a study are there already
            progress.begin("trial", trials, report.n_done - 1)
        n_done = report.n_done
        progress.update(n_done, describe_trial(report))

    try:
        with screen.show_progress(quiet=quiet) as progress:
            found = search(
                data.train,
                data.y[data.train],
                graph=data.graph,
                validation=(data.val, data.y[data.val]),
                space=chosen,
                n_trials=trials,
                seed=seed,
                storage=storage,
                study_name=study or name_study(data, chosen, seed),
                timeout=timeout,
                population=population,
                seeds_per_trial=seeds_per_trial,
                confirm=confirm,
                device=device,
                on_trial=on_trial,
            )
    except KeyboardInterrupt as error:
        lost = "which are lost; with --storage study.log they would be kept."
        kept = lost if storage is None else f"kept in {storage}; the same command goes on."
        error.add_note(f"interrupted after {n_done} of {screen.counted(trials, 'trial')}, {kept}")
        raise
    searched = {SPACE: files.to_toml(to_document(chosen)), TRIALS: files.to_lines(_describe_trials(found))}
    run = files.start_run(found.model, source, data, out=out, force=force, beside=searched)
    try:
        with files.rescued(found.model, run):
            files.save_model(found.model, run)
            metrics = _report(found, data, storage)
            files.finish_run(run, found.model, metrics)
    finally:
        run.discard()
    report = metrics | {"run": str(run.path)}
    if as_json:
        screen.emit_json(report)
    else:
        _show(report, chosen)


def load_hidden(source: Source) -> Dataset:
    """Return the data with no label but those of training and validation nodes; some must validate."""
    data = source.load().without_test_labels()
    if data.is_inductive:
        raise DataError(
            f"{data.name} is inductive, so no validation node is there in training; use gbgnn fit."
        )
    if not len(data.val):
        raise DataError(
            f"{data.name} has no validation nodes, by which tune chooses; draw some with --split stratified."
        )
    return data


def build_space(
    file: Path | None,
    *,
    variant: str | None,
    is_paper: bool,
    hidden_layers: int | None,
    fine_tune: bool,
    n_train: int,
    fixed: Mapping[str, Any],
) -> SearchSpace:
    """Return the space of a variant, the paper's or ours, changed by a file, which options go before.

    A file has a table ``[space]`` with keys as in a file of settings. A value fixes a setting, a table with
    ``low`` and ``high`` gives it a range, a list gives it options. What is ``fixed`` is not searched.
    """
    from gbgnn.registry import PARAMETERS
    from gbgnn.search import VARIANTS, SearchSpace, default_space, paper_space

    document, known = {} if file is None else _read(file), [*VARIANTS, CUSTOM]
    chosen = document.pop("variant", None)
    chosen = variant or chosen or "adj"
    if chosen not in known:
        hint = suggest(chosen, known) if isinstance(chosen, str) else ""
        raise ParameterError(f"variant must be one of {', '.join(known)}; got {chosen!r}.{hint}")
    space = SearchSpace()
    if chosen != CUSTOM:
        is_tuned = fine_tune or document.get("fine_tune") or any(k.startswith("fine_tune__") for k in fixed)
        make_space = paper_space if is_paper else default_space
        n_layers = 1 if hidden_layers is None else hidden_layers
        space = make_space(chosen, hidden_layers=n_layers, fine_tune=bool(is_tuned), n_train=n_train)
    # Parts first: a file may say how the settings of a part are searched that an option names.
    space = space.replaced({name: part for name, part in fixed.items() if name in PARAMETERS})
    space = space.replaced(_changes(document, f"{file}, [space]", space))
    depth = {} if hidden_layers is None else {"learner__hidden_layers": hidden_layers}
    return space.replaced({**fixed, **depth})


def to_document(space: SearchSpace) -> dict[str, Any]:
    """Return the whole space as the contents of a file."""
    from gbgnn.search.spaces import range_document
    from gbgnn.settings import nest_settings

    # A list would be one of options, and a table a range.
    fixed = {k: [v] if isinstance(v, (list, tuple, Mapping)) else v for k, v in space.base.items()}
    ranges = {name: range_document(given) for name, given in space.ranges.items()}
    return {"space": {"variant": CUSTOM, **nest_settings({**fixed, **ranges})}}


def name_study(data: Dataset, space: SearchSpace, seed: int) -> str:
    """Return a name by which the same command finds the same study."""
    base = space.base
    words = [base[name] for name in ("aggregation", "rule") if isinstance(base.get(name), str)]
    depth = [f"L{base['learner__hidden_layers']}"] if "learner__hidden_layers" in base else []
    tuned = ["fine-tuned"] if base.get("fine_tune") else []
    return "-".join([data.name, *words, *depth, *tuned, f"seed{seed}"])


def _report(found: SearchResult, data: Dataset, storage: str | None) -> dict[str, Any]:
    model = found.model
    return {
        "dataset": data.name,
        "study": found.study.study_name,
        "storage": storage,
        "trials": found.counts,
        "metric": model.metric_.name,
        "best_value": found.best_value,
        "best_settings": found.best_settings,
        "importances": found.importances(),
        "best_round": model.best_round_,
        "rounds": len(model.history_),
        "seconds": found.seconds,
        "seed": model.seed_,
        "splits": score_splits(model, data),
        "column_importances": record_importances(model, data.graph),
    }


def _show(report: dict[str, Any], space: SearchSpace) -> None:
    """Print what was found, and what to do with it."""
    from gbgnn.search.spaces import describe_range

    importances = report["importances"]
    rows = [
        (
            name,
            f"{value:.4g}" if isinstance(value, float) else str(value),
            describe_range(space.ranges[name]) if name in space.ranges else "confirmed",
            screen.number(importances.get(name), ".2f"),
        )
        for name, value in report["best_settings"].items()
    ]
    columns = ("setting", "best", "searched", "importance")
    screen.show_table(columns, rows, left=("setting", "best", "searched"), drop=("searched",))
    counts = report["trials"]
    told = ", ".join(f"{n} {state}" for state, n in counts.items())
    screen.out(f"{screen.counted(sum(counts.values()), 'trial')}: {told}; {report['seconds']:.1f} s")
    screen.out(
        f"validation {report['metric']} {report['best_value']:.4f}, round {report['best_round']} of "
        f"{report['rounds']}, seed {report['seed']}"
    )
    screen.out(f"written to {report['run']}; test nodes: gbgnn evaluate {report['run']}")
    if report["storage"] is not None:
        screen.out(f"the study {report['study']!r}: optuna-dashboard {report['storage']}")


def describe_trial(report: TrialReport) -> str:
    """Return what came of a trial in a few words."""
    value = "" if report.value is None else f" {report.value:.4f}"
    return f"{report.state}{value}  best {screen.number(report.best_value)}"


def _describe_trials(found: SearchResult) -> Iterator[dict[str, Any]]:
    from gbgnn.search.study import ERROR, finished_trials, state_name

    for trial in finished_trials(found.study):
        yield {
            "trial": trial.number,
            "state": state_name(trial),
            "value": None if trial.values is None else trial.values[0],
            "settings": trial.params,
            "best_round": trial.user_attrs.get("best_round"),
            f"val_{found.model.metric_.name}": list(trial.intermediate_values.values()),
            "seconds": None if trial.duration is None else trial.duration.total_seconds(),
            "error": trial.user_attrs.get(ERROR),
        }


def _read(file: Path) -> dict[str, Any]:
    document = files.read_toml(file)
    for key in document:
        if key != "space":
            raise ParameterError(f"{file}: unknown key {key!r}.{suggest(key, ['space'])} Known: space.")
    table = document.get("space", {})
    if not isinstance(table, Mapping):
        raise ParameterError(f"{file}: space must be a table, [space]; got {table!r}.")
    return dict(table)


def _changes(document: Mapping[str, Any], where: str, space: SearchSpace) -> dict[str, Any]:
    """Return what a table changes, its parts those of ``space`` where it does not name them."""
    from gbgnn.registry import PARAMETERS
    from gbgnn.search.spaces import as_range
    from gbgnn.settings import flatten_document

    named = dict(document)
    for family in PARAMETERS:
        if isinstance(named.get(family), Mapping) and family in space.base:
            named[family] = {"name": space.base[family], **named[family]}
    settings = flatten_document(named, where)
    known = space.kept(settings)
    return {
        name: as_range(f"{where}: {name.replace('__', '.')}", value, known.get(name))
        for name, value in settings.items()
    }
