"""What ``gbgnn tune`` does: search without test labels, keep the best model as a run, report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from gbgnn._files import write_text
from gbgnn._json import to_json
from gbgnn.cli import screen, toml
from gbgnn.cli.command import INTERRUPTED
from gbgnn.cli.progress import is_tenth
from gbgnn.cli.runs import MODEL
from gbgnn.cli.scoring import score_splits
from gbgnn.cli.source import Source, describe
from gbgnn.cli.spaces import to_document
from gbgnn.cli.training import new_job
from gbgnn.datasets import Dataset
from gbgnn.errors import DataError
from gbgnn.search import SearchSpace, TrialReport, TuningResult, tune
from gbgnn.search.study import ERROR, finished, state_of

SPACE, TRIALS = "space.toml", "trials.jsonl"

Watch = Callable[[TrialReport], None]


def load_hidden(source: Source) -> Dataset:
    """Return the data with no label but those of training and validation nodes; some must validate."""
    data = source.load().without_test_labels()
    if not len(data.val):
        raise DataError(
            f"{data.name} has no validation nodes, by which tune chooses; draw some with --split stratified."
        )
    return data


def study_name(data: Dataset, space: SearchSpace, seed: int) -> str:
    """Return a name by which the same command finds the same study."""
    base = space.base
    words = [base[name] for name in ("aggregation", "rule") if isinstance(base.get(name), str)]
    depth = [f"L{base['learner__hidden_layers']}"] if "learner__hidden_layers" in base else []
    tuned = ["fine-tuned"] if base.get("fine_tune") else []
    return "-".join([data.name, *words, *depth, *tuned, f"seed{seed}"])


def search(data: Dataset, space: SearchSpace, *, quiet: bool, **options: Any) -> TuningResult:
    """Search, and show how it goes; after Ctrl-C, say what was kept."""
    if not quiet:
        screen.note(describe(data))
        screen.note(f"searching {', '.join(space.ranges)}")
    reached = [0]
    try:
        with _watching(options["n_trials"], quiet=quiet) as watch:

            def on_trial(report: TrialReport) -> None:
                reached[0] = report.n_done
                watch(report)

            return tune(
                data.train,
                data.y[data.train],
                graph=data.graph,
                validation=(data.val, data.y[data.val]),
                space=space,
                on_trial=on_trial,
                **options,
            )
    except KeyboardInterrupt:
        done = f"interrupted after {reached[0]} of {screen.counted(options['n_trials'], 'trial')}"
        storage = options["storage"]
        if storage is None:
            screen.note(f"{done}, which are lost; with --storage study.log they would be kept.")
        else:
            screen.note(f"{done}, kept in {storage}; the same command goes on.")
        raise typer.Exit(INTERRUPTED) from None


def keep(
    found: TuningResult,
    space: SearchSpace,
    source: Source,
    *,
    storage: str | None,
    device: str,
    out: Path | None,
    force: bool,
) -> dict[str, Any]:
    """Write the best model as a run folder, and return what there is to report."""
    model = found.model
    settings = {**space.base, **found.best_settings, "random_state": model.random_state, "device": device}
    job = new_job(settings, source, out=out, force=force, checkpoint_every=None)
    try:
        model.save(job.run.partial / MODEL)
        write_text(job.run.partial / SPACE, toml.dumps(to_document(space)))
        write_text(job.run.partial / TRIALS, "".join(to_json(row) + "\n" for row in _rows(found)))
        report = {
            "dataset": job.data.name,
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
            "splits": score_splits(model, job.data.without_test_labels()),
        }
        tuning = model.fine_tuning_
        job.run.finish(model.history_.rows, report, None if tuning is None else tuning["history"])
    except BaseException:
        job.run.discard()
        raise
    return report | {"run": str(job.run.path)}


def show(report: dict[str, Any], space: SearchSpace) -> None:
    """Print what was found, and what to do with it."""
    importances = report["importances"]
    rows = [
        (
            name,
            _word(value),
            str(space.ranges.get(name, "confirmed")),
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


def _rows(found: TuningResult) -> Iterator[dict[str, Any]]:
    for trial in finished(found.study):
        yield {
            "trial": trial.number,
            "state": state_of(trial),
            "value": None if trial.values is None else trial.values[0],
            "settings": trial.params,
            "best_round": trial.user_attrs.get("best_round"),
            f"val_{found.model.metric_.name}": list(trial.intermediate_values.values()),
            "seconds": None if trial.duration is None else trial.duration.total_seconds(),
            "error": trial.user_attrs.get(ERROR),
        }


def _word(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@contextmanager
def _watching(n_trials: int, *, quiet: bool) -> Iterator[Watch]:
    """Give what shows the progress of a search: a bar on a terminal, a few lines elsewhere."""
    console = screen.console(stderr=True)
    if quiet:
        yield lambda report: None
    elif not console.is_terminal:
        yield _Lines()
    else:
        with screen.bar(console) as progress:
            task = progress.add_task("trial", total=n_trials, numbers="")
            yield lambda report: progress.update(task, completed=report.n_done, numbers=_numbers(report))


class _Lines:
    """Writes about ten lines, with the time that is left at the pace so far."""

    def __init__(self) -> None:
        self._started, self._seen = time.perf_counter(), 0

    def __call__(self, report: TrialReport) -> None:
        self._seen += 1
        if self._seen == 1 or is_tenth(report.n_done, report.n_trials):
            pace = (time.perf_counter() - self._started) / self._seen
            left = pace * max(0, report.n_trials - report.n_done)
            screen.note(f"trial {report.n_done}/{report.n_trials}  {_numbers(report)}  {left:.0f} s left")


def _numbers(report: TrialReport) -> str:
    value = "" if report.value is None else f" {report.value:.4f}"
    return f"{report.state}{value}  best {screen.number(report.best_value)}"
