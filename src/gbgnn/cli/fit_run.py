"""What ``gbgnn fit`` does: prepare a new run or take up an old one, train, write, report."""

from __future__ import annotations

import itertools
import re
import secrets
import shlex
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from gbgnn import callbacks
from gbgnn._files import to_json
from gbgnn.boosting import StopReason
from gbgnn.cli import screen
from gbgnn.cli.command import describe_error, exit_after
from gbgnn.cli.data_source import Source, describe, fingerprint, list_class_names, name_class, to_toml
from gbgnn.cli.evaluate import score_splits, show_scores
from gbgnn.datasets import Dataset
from gbgnn.errors import DataError, GBGNNError, ModelFileError, ParameterError
from gbgnn.estimators import GBGNNClassifier
from gbgnn.finetuning import as_fine_tuner
from gbgnn.learners import SklearnLearner
from gbgnn.model import FittedModel
from gbgnn.persistence import load, read_header
from gbgnn.registry import as_part
from gbgnn.runs import CHECKPOINT, CONFIG, EPOCHS, HISTORY, METRICS, MODEL, RunFolder, describe_versions
from gbgnn.settings import Settings, build_model, flatten_document, nest_settings, read_settings

SECONDS = 5.0
"""Time between two checkpoints where nobody said how many rounds."""


@dataclass(frozen=True, eq=False)
class Job:
    """A run that is ready to train. ``n_known`` counts the rounds that are trained already."""

    model: GBGNNClassifier
    data: Dataset
    run: RunFolder
    checkpoint_every: int | None
    n_known: int = 0


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
    model = _build_for(data, settings)
    if model.random_state is None:
        model.random_state = secrets.randbelow(2**31)  # drawn here so that the record has it
    run = start_run(model, source, data, out=out, force=force, checkpoint_every=checkpoint_every)
    return Job(model, data, run, checkpoint_every)


def start_run(
    model: GBGNNClassifier,
    source: Source,
    data: Dataset,
    *,
    out: Path | None,
    force: bool,
    checkpoint_every: int | None = None,
) -> RunFolder:
    """Make the folder of a run, with the record of all settings, and return it."""
    facts = {  # beside the settings; --config passes over them
        "command": shlex.join(["gbgnn", *sys.argv[1:]]),
        "started": datetime.now().astimezone().isoformat(timespec="seconds"),
        "checkpoint_every": checkpoint_every,
        "force": force,  # a resumed run may replace what the run could
        "split": f"{data.split_name}: train {len(data.train)}, val {len(data.val)}, test {len(data.test)}",
        "data": fingerprint(data),
        "class_names": list_class_names(data),
        "versions": describe_versions(),
    }
    config = {
        **nest_settings(read_settings(model)),
        "data": replace(source, dataset=source.dataset or data.name).to_document(),
        "run": facts,
    }
    run = RunFolder(out or _default_path(data), force)
    run.start({CONFIG: to_toml(config)})
    return run


def resumed_job(path: Path, *, data_dir: Path | None, checkpoint_every: int | None) -> Job:
    """Take up a run where its checkpoint left it; one that was killed before it had any begins again."""
    run = RunFolder(path.with_name(path.name.removesuffix(".partial")))
    config = run.resume()
    try:
        return _take_up(run, config, data_dir, checkpoint_every)
    except BaseException:
        run.close()
        raise


def _take_up(
    run: RunFolder, config: dict[str, Any], data_dir: Path | None, checkpoint_every: int | None
) -> Job:
    where = str(run.partial / CONFIG)
    try:
        source, facts = Source.from_document(config.pop("data"), where), config.pop("run")
        known, every = facts["data"], checkpoint_every or facts.get("checkpoint_every")
        run.force = facts.get("force", False)
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{where} is not a run's own record (no {error}); start the run again.") from None
    data = source.override(data_dir=data_dir).load()
    if fingerprint(data) != known:
        raise DataError(
            f"{data.name} changed since {run.path} was started, so going on would not give the same model; "
            "fit anew."
        )
    for name in (CHECKPOINT, MODEL):
        if (run.partial / name).is_file():
            model = load(run.partial / name)
            has_learners = all(each.head is not None for each in model.ensemble_)
            if has_learners and model.fine_tuning_ is None:  # of tuned rounds there is no way on
                return Job(model.set_params(warm_start=True), data, run, every, len(model.ensemble_))
    return Job(_build_for(data, flatten_document(config, where)), data, run, every)


def _build_for(data: Dataset, settings: Settings) -> GBGNNClassifier:
    """Return the model of settings whose class weights go by the labels of the data."""
    model = build_model(settings)
    if isinstance(model.class_weight, dict):
        model.class_weight = _weights_by_label(model.class_weight, data)
    return model


def train(job: Job, *, quiet: bool) -> dict[str, Any]:
    """Train, write the run folder and return what there is to report; test labels are read after training."""
    model, data = job.model, job.data
    if not quiet:
        screen.note(describe(data))
        for repair in data.graph.repairs:
            screen.note(f"repaired: {repair}")
        if job.n_known:
            screen.note(f"going on from round {job.n_known} of {model.n_rounds}")
    started, is_trained = time.perf_counter(), False
    try:
        with screen.show_progress(quiet=quiet) as progress:
            model.set_params(callbacks=[FitProgress(progress), *_checkpoints(job)])
            own = len(data.val) > 0 and model.validation_fraction is None
            validation = (data.val, data.y[data.val]) if own else None
            model.fit(data.train, data.y[data.train], graph=data.graph, validation=validation)
        is_trained, seconds = True, time.perf_counter() - started
        notes = save_model(model, job.run)
        metrics = _report(model, data, seconds, notes)
        finish_run(job.run, model, metrics)
    except KeyboardInterrupt as error:
        where = _keep_rounds(job)
        job.run.discard()
        screen.note(f"interrupted {where}" if where else "interrupted; nothing was kept.")
        raise exit_after(error) from None
    except Exception as error:
        where = "" if is_trained else _keep_rounds(job)
        kept = rescue_model(model, job.run) if is_trained else f"It ended {where}" if where else ""
        job.run.discard()
        if kept and isinstance(error, (GBGNNError, OSError)):
            raise DataError(f"{describe_error(error)} {kept}") from error
        if kept:
            screen.note(kept)
        raise
    return metrics | {"run": str(job.run.path)}


class FitProgress(callbacks.Callback):
    """Shows how the rounds of a fit go, and then the epochs of fine-tuning."""

    def __init__(self, progress: screen.Progress) -> None:
        self._progress = progress

    def on_start(self, start: callbacks.StartReport) -> None:
        """Count the rounds; those that are only replayed are no news."""
        self._n_known = start.n_known
        self._progress.begin("round", start.n_rounds, start.n_known)

    def on_round(self, report: callbacks.RoundReport) -> None:
        """Show the numbers of a new round."""
        if report.t > self._n_known:
            self._progress.update(report.t, callbacks.describe_round(report.row, report.history.metric))

    def on_end(self, model: FittedModel) -> None:
        """Show that all rounds are there: boosting may have stopped early, or had no new one."""
        self._progress.update(len(model.ensemble), total=len(model.ensemble))

    def on_epoch(self, report: callbacks.EpochReport) -> None:
        """Show the numbers of an epoch."""
        if report.epoch == 0:
            self._progress.begin("epoch", report.n_epochs)
        self._progress.update(report.epoch, callbacks.describe_epoch(report.row, report.metric))

    def on_fine_tuned(self, report: callbacks.FineTuningReport) -> None:
        """Show that all epochs are there."""
        self._progress.update(report.epochs, total=report.epochs)


def save_model(model: GBGNNClassifier, run: RunFolder) -> list[str]:
    """Write the model into a run's folder, without its learners where they cannot be; return what to note."""
    run.check_there()
    try:
        model.save(run.partial / MODEL)
    except ModelFileError as error:
        model.save(run.partial / MODEL, learners=False)
        return [f"the model was written without its learners, so it predicts this graph only: {error}"]
    return []


def finish_run(run: RunFolder, model: GBGNNClassifier, metrics: dict[str, Any]) -> None:
    """Write the record of what has run, and put the folder in place; the model is there already."""
    tuning = model.fine_tuning_
    rows = {HISTORY: model.history_.rows} | ({} if tuning is None else {EPOCHS: tuning["history"]})
    told = {name: "".join(to_json(row) + "\n" for row in each) for name, each in rows.items()}
    run.finish(told | {METRICS: to_json(metrics, indent=2) + "\n"})


def rescue_model(model: GBGNNClassifier, run: RunFolder) -> str:
    """Return where a trained model is whose run could not be written, if anywhere, and what to do."""
    go_on = f"go on with: gbgnn fit --resume {run.path}"
    path = run.partial / MODEL
    if path.is_file():
        return f"The trained model is {path}; when the cause is removed, {go_on}"
    home = run.partial if run.partial.is_dir() else run.partial.parent
    free = f"{shutil.disk_usage(home).free / 2**20:,.1f} MB are free in {home}"
    again = f"make room there, then {go_on}" if run.checkpoint.exists() else "make room there, and fit again."
    rescued = Path(tempfile.gettempdir(), f"{run.path.name}-{secrets.token_hex(4)}.gbgnn")
    try:
        model.save(rescued)
    except (GBGNNError, OSError) as error:
        return f"The trained model could not be put elsewhere: {describe_error(error)} {free}; {again}"
    size = rescued.stat().st_size / 2**20
    return f"The trained model ({size:,.1f} MB) is in {rescued}. {free}; {again}"


def show(result: dict[str, Any]) -> None:
    """Print the closing table and what a person wants to know beside it."""
    show_scores(result["splits"])
    screen.out(
        f"best round {result['best_round']} of {result['rounds']} ({result['stop_message']}), "
        f"{result['seconds']:.1f} s, seed {result['seed']}"
    )
    if result["fine_tuning"] is not None:
        screen.out(str(callbacks.FineTuningReport(**result["fine_tuning"])))
    for sentence in result["notes"]:
        screen.out(f"note: {sentence}")
    screen.out(f"written to {result['run']}")


def summarize_fine_tuning(tuning: dict[str, Any], metric: str = "accuracy") -> callbacks.FineTuningReport:
    """Return a model's ``fine_tuning_`` without its epochs."""
    return callbacks.FineTuningReport(
        tuning["before"], tuning["after"], tuning["kept"], len(tuning["history"]), metric
    )


def _checkpoints(job: Job) -> list[callbacks.Callback]:
    if job.checkpoint_every is not None:
        return [callbacks.Checkpoint(job.run.checkpoint, every=job.checkpoint_every)]
    if _why_not_resumable(job.model) is not None:
        return []
    return [callbacks.Checkpoint(job.run.checkpoint, every=None, seconds=SECONDS)]


def _check_resumable(model: GBGNNClassifier, every: int) -> None:
    if every < 1:
        raise ParameterError(f"--checkpoint-every must be an integer >= 1; got {every}.")
    reason = _why_not_resumable(model)
    if reason is not None:
        raise ParameterError(f"--checkpoint-every needs {reason}")


def _why_not_resumable(model: GBGNNClassifier) -> str | None:
    """Return what it would take to go on with a killed fit of this model; None where nothing is missing."""
    if not model.keep_learners:
        return "the fitted learners; leave out --no-keep-learners."
    if isinstance(as_part("learner", model.learner), SklearnLearner):
        return "learners that can be stored without pickle, such as mlp; scikit-learn's estimators cannot."
    return None


def _weights_by_label(weights: dict[str, float], data: Dataset) -> dict[Any, float]:
    """Return the weights of a file, where every key is text, by the labels themselves or their names."""
    names = list_class_names(data)
    labels = {str(label): label for label in data.classes.tolist()}
    labels |= {name_class(label, names): label for label in data.classes.tolist()}
    unknown = [key for key in weights if key not in labels]
    if unknown:
        raise ParameterError(
            f"class_weight has class {unknown[0]!r}, which {data.name} does not have "
            f"(known: {', '.join(labels)})."
        )
    return {labels[key]: weight for key, weight in weights.items()}


def _default_path(data: Dataset) -> Path:
    """Return a folder named after data and time, with a number where another run has the name."""
    stem = re.sub(r"[^\w.-]+", "-", Path(data.name).name).strip("-.") or "graph"
    first = Path("runs", f"{stem}-{datetime.now():%Y%m%d-%H%M%S}")
    others = (first.with_name(f"{first.name}_{number}") for number in itertools.count(2))
    paths = itertools.chain([first], others)
    return next(path for path in paths if not (path.exists() or RunFolder(path).partial.exists()))


def _report(model: GBGNNClassifier, data: Dataset, seconds: float, notes: list[str]) -> dict[str, Any]:
    return {
        "dataset": data.name,
        "rounds": len(model.history_),  # a tuned model has those up to the best only
        "best_round": model.best_round_,
        "stop_reason": str(model.stop_reason_),
        "stop_message": model.stop_reason_.message,
        "seconds": seconds,
        "seed": model.seed_,
        "fine_tuning": None
        if model.fine_tuning_ is None
        else asdict(summarize_fine_tuning(model.fine_tuning_, model.metric_.name)),
        "splits": score_splits(model, data),
        "notes": notes,
    }


def _keep_rounds(job: Job) -> str:
    """Save the rounds boosted so far, where they can be saved, and return where it ended and how to go on."""
    run, model = job.run, job.model
    n_boosted, tuning = len(getattr(model, "ensemble_", ())), getattr(model, "fine_tuning_", None)
    # Of tuned rounds there is no way on; a checkpoint of the boosted ones may be there, and stays.
    is_tuned = tuning is not None and tuning["kept"] == "tuned"
    try:
        if n_boosted > job.n_known and model.keep_learners and not is_tuned:
            run.check_there()
            model.save(run.checkpoint)
    except (GBGNNError, OSError):  # what cannot be stored: an older checkpoint may still be there
        pass
    if not run.checkpoint.exists():
        return ""
    if as_fine_tuner(model.fine_tune) is not None and model.stop_reason_ is not StopReason.INTERRUPTED:
        rounds = screen.counted(len(model.history_), "boosted round")
        where = f"in fine-tuning; begin it again from the {rounds} with"
    else:
        where = f"after round {len(read_header(run.checkpoint)['rounds'])}; go on with"
    return f"{where}: gbgnn fit --resume {run.path}"
