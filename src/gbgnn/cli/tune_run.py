"""What ``gbgnn tune`` does: search without test labels, keep the best model as a run, report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gbgnn._files import to_json
from gbgnn.cli import screen
from gbgnn.cli.command import describe_error, exit_after
from gbgnn.cli.data_source import Source, describe, read_toml, to_toml
from gbgnn.cli.evaluate import score_splits
from gbgnn.cli.fit_run import finish_run, rescue_model, save_model, start_run
from gbgnn.cli.screen import show_progress
from gbgnn.datasets import Dataset
from gbgnn.errors import DataError, GBGNNError, ParameterError, suggest
from gbgnn.registry import PARAMETERS
from gbgnn.runs import SPACE, TRIALS
from gbgnn.search import VARIANTS, SearchResult, SearchSpace, TrialReport, default_space, paper_space, tune
from gbgnn.search.spaces import as_range, describe_range, range_document
from gbgnn.search.study import ERROR, finished_trials, state_name
from gbgnn.settings import FINE_TUNE, flatten_document, nest_settings

CUSTOM = "custom"
"""The variant of a file that says everything itself."""


def load_hidden(source: Source) -> Dataset:
    """Return the data with no label but those of training and validation nodes; some must validate."""
    data = source.load().without_test_labels()
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
) -> SearchSpace:
    """Return the space of a variant, the paper's or ours, changed by a file, which options go before.

    A file has a table ``[space]`` with keys as in a file of settings. A value fixes a setting, a table with
    ``low`` and ``high`` gives it a range, a list gives it options.
    """
    document = {} if file is None else _read(file)
    chosen = document.pop("variant", None)
    chosen = variant or chosen or "adj"
    fine_tune = fine_tune or bool(document.get(FINE_TUNE))
    space = _start(chosen, is_paper, hidden_layers, fine_tune, n_train)
    changes = _changes(document, f"{file}, [space]", space)
    if hidden_layers is not None:
        changes["learner__hidden_layers"] = hidden_layers
    return space.replaced(changes)


def to_document(space: SearchSpace) -> dict[str, Any]:
    """Return the whole space as the contents of a file."""
    # A list would be one of options.
    fixed = {k: [list(v)] if isinstance(v, (list, tuple)) else v for k, v in space.base.items()}
    ranges = {name: range_document(given) for name, given in space.ranges.items()}
    return {"space": {"variant": CUSTOM, **nest_settings({**fixed, **ranges})}}


def name_study(data: Dataset, space: SearchSpace, seed: int) -> str:
    """Return a name by which the same command finds the same study."""
    base = space.base
    words = [base[name] for name in ("aggregation", "rule") if isinstance(base.get(name), str)]
    depth = [f"L{base['learner__hidden_layers']}"] if "learner__hidden_layers" in base else []
    tuned = ["fine-tuned"] if base.get("fine_tune") else []
    return "-".join([data.name, *words, *depth, *tuned, f"seed{seed}"])


def search(data: Dataset, space: SearchSpace, *, quiet: bool, **options: Any) -> SearchResult:
    """Search, and show how it goes; after Ctrl-C, say what was kept."""
    if not quiet:
        screen.note(describe(data))
        screen.note(f"searching {', '.join(space.ranges)}")
    n_trials, n_done = options["n_trials"], 0
    try:
        with show_progress(quiet=quiet) as progress:

            def on_trial(report: TrialReport) -> None:
                nonlocal n_done
                if n_done == 0:  # earlier trials of a study are there already
                    progress.begin("trial", n_trials, report.n_done - 1)
                n_done = report.n_done
                progress.update(n_done, describe_trial(report))

            return tune(
                data.train,
                data.y[data.train],
                graph=data.graph,
                validation=(data.val, data.y[data.val]),
                space=space,
                on_trial=on_trial,
                **options,
            )
    except KeyboardInterrupt as error:
        done = f"interrupted after {n_done} of {screen.counted(n_trials, 'trial')}"
        storage = options["storage"]
        if storage is None:
            screen.note(f"{done}, which are lost; with --storage study.log they would be kept.")
        else:
            screen.note(f"{done}, kept in {storage}; the same command goes on.")
        raise exit_after(error) from None


def keep(
    found: SearchResult,
    space: SearchSpace,
    source: Source,
    data: Dataset,
    *,
    storage: str | None,
    out: Path | None,
    force: bool,
) -> dict[str, Any]:
    """Write the best model as a run folder, and return what there is to report."""
    model = found.model
    run = start_run(model, source, data, out=out, force=force)
    try:
        save_model(model, run)
        run.write(SPACE, to_toml(to_document(space)))
        run.write(TRIALS, "".join(to_json(row) + "\n" for row in _describe_trials(found)))
        report = {
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
        }
        finish_run(run, model, report)
    except (GBGNNError, OSError) as error:
        raise DataError(f"{describe_error(error)} {rescue_model(model, run)}") from error
    finally:
        run.discard()
    return report | {"run": str(run.path)}


def show(report: dict[str, Any], space: SearchSpace) -> None:
    """Print what was found, and what to do with it."""
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
    document = read_toml(file)
    for key in document:
        if key != "space":
            raise ParameterError(f"{file}: unknown key {key!r}.{suggest(key, ['space'])} Known: space.")
    table = document.get("space", {})
    if not isinstance(table, Mapping):
        raise ParameterError(f"{file}: space must be a table, [space]; got {table!r}.")
    return dict(table)


def _start(
    variant: str, is_paper: bool, hidden_layers: int | None, fine_tune: bool, n_train: int
) -> SearchSpace:
    if variant == CUSTOM:
        return SearchSpace()
    if variant not in VARIANTS:
        known = [*VARIANTS, CUSTOM]
        hint = suggest(variant, known) if isinstance(variant, str) else ""
        raise ParameterError(f"variant must be one of {', '.join(known)}; got {variant!r}.{hint}")
    depth = 1 if hidden_layers is None else hidden_layers
    make_space = paper_space if is_paper else default_space
    return make_space(variant, hidden_layers=depth, fine_tune=fine_tune, n_train=n_train)


def _changes(document: Mapping[str, Any], where: str, space: SearchSpace) -> dict[str, Any]:
    """Return what a table changes, its parts those of ``space`` where it does not name them."""
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
