"""What ``gbgnn fit`` does: prepare a new run or take up an old one, train, write, report."""

from __future__ import annotations

import platform
import re
import secrets
import shlex
import sys
import time
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import typer

from gbgnn._version import __version__
from gbgnn.boosting import StopReason
from gbgnn.callbacks import Callback, Checkpoint, EpochReport, RoundReport, StartReport, TuningReport
from gbgnn.cli import screen, toml
from gbgnn.cli.command import INTERRUPTED
from gbgnn.cli.progress import watching
from gbgnn.cli.runs import CONFIG, MODEL, RunFolder, unfinished
from gbgnn.cli.scoring import Scores, score_splits, show_scores
from gbgnn.cli.source import Source, class_names_of, describe, fingerprint, name_of
from gbgnn.datasets import Dataset
from gbgnn.errors import DataError, GBGNNError, ModelFileError, ParameterError
from gbgnn.estimators import GBGNNClassifier
from gbgnn.finetuning import as_tuner
from gbgnn.learners import SklearnLearner
from gbgnn.model import FittedModel
from gbgnn.persistence import load
from gbgnn.registry import as_part
from gbgnn.settings import Settings, build_model, nest_settings, read_settings


@dataclass(frozen=True, eq=False)
class Job:
    """A run that is ready to train. ``known`` counts the rounds that are trained already."""

    model: GBGNNClassifier
    data: Dataset
    run: RunFolder
    checkpoint_every: int | None
    known: int = 0


def new_job(
    settings: Settings, source: Source, *, out: Path | None, force: bool, checkpoint_every: int | None
) -> Job:
    """Prepare a new run: check the settings, load the data, make the folder."""
    if out is not None:
        RunFolder(out, force).check_free()  # before anything slow
    model = build_model(settings)
    if checkpoint_every is not None:
        _check_resumable(model, checkpoint_every)
    data = source.load()
    if model.random_state is None:
        model.random_state = secrets.randbelow(2**31)  # drawn here so that the record has it
    if isinstance(model.class_weight, dict):
        model.class_weight = _weights_by_label(model.class_weight, data)
    config = {
        **nest_settings(read_settings(model)),
        "data": replace(source, dataset=source.dataset or data.name).to_document(),
        "run": _facts(data, checkpoint_every),
    }
    run = RunFolder(out or Path("runs", _default_name(data)), force)
    run.start(config)
    return Job(model, data, run, checkpoint_every)


def resumed_job(path: Path, *, data_dir: str | None, checkpoint_every: int | None) -> Job:
    """Take up a run where its checkpoint left it."""
    run = unfinished(path)
    where = str(run.partial / CONFIG)
    config = toml.read(Path(where))
    data = Source.from_document(config["data"], where).override(data_dir=data_dir).load()
    if fingerprint(data) != config["run"]["data"]:
        raise DataError(
            f"{data.name} changed since {run.path} was started, so going on would not give the same model; "
            "fit anew."
        )
    model = load(run.checkpoint).set_params(warm_start=True)
    every = checkpoint_every or config["run"].get("checkpoint_every")
    return Job(model, data, run, every, known=len(model.ensemble_))


def train(job: Job, *, quiet: bool) -> dict[str, Any]:
    """Train, write the run folder and return what there is to report; test labels are read after training."""
    model, data = job.model, job.data
    if not quiet:
        _announce(job)
    started = time.perf_counter()
    try:
        with watching(quiet=quiet) as callbacks:
            model.set_params(callbacks=[_NewRounds(c, job.known) for c in [*callbacks, *_checkpoints(job)]])
            own = len(data.val) > 0 and model.validation_fraction is None
            validation = (data.val, data.y[data.val]) if own else None
            model.fit(data.train, data.y[data.train], graph=data.graph, validation=validation)
        seconds = time.perf_counter() - started
        notes = _save(job)
        metrics = _report(job, score_splits(model, data), seconds, notes)
        tuning = model.fine_tuning_
        job.run.finish(model.history_.rows, metrics, None if tuning is None else tuning["history"])
    except KeyboardInterrupt:
        _keep_interrupted(job)
        raise typer.Exit(INTERRUPTED) from None
    except BaseException:
        job.run.discard()
        raise
    return metrics | {"run": str(job.run.path)}


def show(result: dict[str, Any]) -> None:
    """Print the closing table and what a person wants to know beside it."""
    show_scores(result["splits"])
    screen.out(
        f"best round {result['best_round']} of {result['rounds']} ({result['stop_message']}), "
        f"{result['seconds']:.1f} s, seed {result['seed']}"
    )
    if result["fine_tuning"] is not None:
        screen.out(str(TuningReport(**result["fine_tuning"])))
    for sentence in result["notes"]:
        screen.out(f"note: {sentence}")
    screen.out(f"written to {result['run']}")


def tuning_report(tuning: dict[str, Any], metric: str = "accuracy") -> TuningReport:
    """Return a model's ``fine_tuning_`` without its epochs."""
    return TuningReport(tuning["before"], tuning["after"], tuning["kept"], len(tuning["history"]), metric)


@dataclass(eq=False)
class _NewRounds(Callback):
    """Passes over replayed rounds: they are no news."""

    inner: Callback
    known: int

    def on_start(self, start: StartReport) -> None:
        self.inner.on_start(start)

    def on_round(self, report: RoundReport) -> StopReason | None:
        return self.inner.on_round(report) if report.t > self.known else None

    def on_end(self, model: FittedModel) -> None:
        self.inner.on_end(model)

    def on_epoch(self, report: EpochReport) -> None:
        self.inner.on_epoch(report)

    def on_tuned(self, report: TuningReport) -> None:
        self.inner.on_tuned(report)


def _checkpoints(job: Job) -> list[Callback]:
    if job.checkpoint_every is None:
        return []
    return [Checkpoint(job.run.checkpoint, every=job.checkpoint_every)]


def _check_resumable(model: GBGNNClassifier, every: int) -> None:
    if every < 1:
        raise ParameterError(f"--checkpoint-every must be an integer >= 1; got {every}.")
    if not model.keep_learners:
        raise ParameterError("--checkpoint-every needs the fitted learners; leave out --no-keep-learners.")
    if isinstance(as_part("learner", model.learner), SklearnLearner):
        raise ParameterError(
            "--checkpoint-every needs learners that can be stored without pickle, such as mlp; "
            "scikit-learn's estimators cannot."
        )


def _weights_by_label(weights: dict[str, float], data: Dataset) -> dict[Any, float]:
    """Return the weights of a file, where every key is text, by the labels themselves or their names."""
    names = class_names_of(data)
    labels = {str(label): label for label in data.classes.tolist()}
    labels |= {name_of(label, names): label for label in data.classes.tolist()}
    unknown = [key for key in weights if key not in labels]
    if unknown:
        raise ParameterError(
            f"class_weight has class {unknown[0]!r}, which {data.name} does not have "
            f"(known: {', '.join(labels)})."
        )
    return {labels[key]: weight for key, weight in weights.items()}


def _facts(data: Dataset, checkpoint_every: int | None) -> dict[str, Any]:
    """Return what a record says beside the settings; ``--config`` passes over it."""
    packages = ("torch", "numpy", "scipy", "scikit-learn")
    return {
        "command": shlex.join(["gbgnn", *sys.argv[1:]]),
        "started": datetime.now().astimezone().isoformat(timespec="seconds"),
        "checkpoint_every": checkpoint_every,
        "split": f"{data.split_name}: train {len(data.train)}, val {len(data.val)}, test {len(data.test)}",
        "data": fingerprint(data),
        "class_names": class_names_of(data),
        "versions": {
            "gbgnn": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in packages},
        },
    }


def _default_name(data: Dataset) -> str:
    stem = re.sub(r"[^\w.-]+", "-", Path(data.name).name).strip("-.") or "graph"
    return f"{stem}-{datetime.now():%Y%m%d-%H%M%S}"


def _announce(job: Job) -> None:
    screen.note(describe(job.data))
    for repair in job.data.graph.repairs:
        screen.note(f"repaired: {repair}")
    if job.known:
        screen.note(f"going on from round {job.known} of {job.model.n_rounds}")


def _save(job: Job) -> list[str]:
    path = job.run.partial / MODEL
    try:
        job.model.save(path)
    except ModelFileError as error:
        job.model.save(path, learners=False)
        return [f"the model was written without its learners, so it predicts this graph only: {error}"]
    return []


def _report(job: Job, splits: Scores, seconds: float, notes: list[str]) -> dict[str, Any]:
    model = job.model
    return {
        "dataset": job.data.name,
        "rounds": len(model.history_),  # a tuned model has those up to the best only
        "best_round": model.best_round_,
        "stop_reason": str(model.stop_reason_),
        "stop_message": model.stop_reason_.message,
        "seconds": seconds,
        "seed": model.seed_,
        "fine_tuning": None
        if model.fine_tuning_ is None
        else asdict(tuning_report(model.fine_tuning_, model.metric_.name)),
        "splits": splits,
        "notes": notes,
    }


def _keep_interrupted(job: Job) -> None:
    """Save the rounds boosted so far as a checkpoint, where they can be saved, and say what was kept."""
    run, model = job.run, job.model
    boosted, tuning = len(getattr(model, "ensemble_", ())), getattr(model, "fine_tuning_", None)
    # Of tuned rounds there is no way on; a checkpoint of the boosted ones may be there, and stays.
    is_tuned = tuning is not None and tuning["kept"] == "tuned"
    try:
        if boosted > job.known and model.keep_learners and not is_tuned:
            model.save(run.checkpoint)
    except GBGNNError:  # learners that cannot be stored: an older checkpoint may still be there
        pass
    run.discard()
    if not run.checkpoint.exists():
        screen.note("interrupted; nothing was kept.")
        return
    if as_tuner(model.fine_tune) is not None and model.stop_reason_ is not StopReason.INTERRUPTED:
        rounds = screen.counted(len(model.history_), "boosted round")
        where = f"interrupted in fine-tuning; begin it again from the {rounds} with"
    else:
        where = f"interrupted after round {max(boosted, job.known)}; go on with"
    screen.note(f"{where}: gbgnn fit --resume {run.path}")
