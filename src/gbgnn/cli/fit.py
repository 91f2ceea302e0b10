"""``gbgnn fit``: train a model and write a run folder."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer

import gbgnn
from gbgnn.cli import files, screen
from gbgnn.cli.cluster import spread
from gbgnn.cli.command import UsageError
from gbgnn.cli.held_out import bound_others, describe_bound, show_bound
from gbgnn.cli.importances import record_importances, show_importances
from gbgnn.cli.leaderboard import show_leaderboard
from gbgnn.cli.model_options import override_by_options, read_flags
from gbgnn.cli.scores import score_splits, show_scores
from gbgnn.cli.source import DataOptions, Source
from gbgnn.errors import DataError, GBGNNError, ParameterError
from gbgnn.runs import CHECKPOINT, CONFIG, MODEL, RunFolder

SECONDS = 5.0
"""Time between two checkpoints where nobody said how many rounds."""

_WITH_RESUME = ("resume", "data_dir", "checkpoint_every", "dask", "as_json", "quiet")


@dataclass(frozen=True, eq=False)
class Job:
    """A run that is ready to train. ``n_known`` counts the rounds that are trained already."""

    model: gbgnn.GBGNNClassifier
    data: gbgnn.datasets.Dataset
    run: RunFolder
    checkpoint_every: int | None
    n_known: int = 0


def fit(
    context: typer.Context,
    data_options: DataOptions,
    config: Path | None = None,
    out: Path | None = None,
    force: bool = False,
    checkpoint_every: int | None = None,
    resume: Path | None = None,
    dask: str | None = None,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Train a model on a graph, and write it with its record to a run folder.

    What you leave out keeps the library's default. The folder holds config.toml (all settings: give it to
    --config to repeat the run), history.jsonl (a line per round), fine_tuning.jsonl (a line per epoch, with
    --fine-tune), metrics.json and model.gbgnn. Until it is whole it is RUN.partial, which --resume goes on
    with.
    """
    from gbgnn.callbacks import ShowProgress
    from gbgnn.presets import Facts, explain
    from gbgnn.registry import as_dtype
    from gbgnn.settings import flatten_document
    from gbgnn.storage import find_storage

    if resume is not None:
        _check_only_resume(context)
        job = resumed_job(resume, data_dir=data_options.data_dir, checkpoint_every=checkpoint_every)
    else:
        document = {} if config is None else files.read_toml(config)
        document.pop("run", None)
        recorded = Source.from_document(document.pop("data", {}), str(config))
        source = data_options.apply(recorded)
        settings = override_by_options(context, flatten_document(document, str(config)))
        job = new_job(settings, source, out=out, force=force, checkpoint_every=checkpoint_every)
    model, data, run = job.model, job.data, job.run
    if not quiet:
        for line in (files.describe(data), *files.describe_choices(data)):
            screen.note(line)
        y = data.y[data.train]
        facts = Facts.of(data.graph, model.task_for(y), data.train, y, has_validation=len(data.val) > 0)
        is_held = find_storage(model).holds(data.graph, as_dtype(model.dtype), facts.n_scores)
        reason = explain(model, facts) if is_held and dask is None else None
        if not is_held:
            screen.note(
                f"memory: more than {model.memory_limit}, so representations are written to {run.rows}"
            )
        if reason is not None:
            screen.note(f"model: {reason} (--preset fast: the paper's method)")
        if job.n_known:
            screen.note(f"going on from round {job.n_known} of {model.n_rounds}")
    started = time.perf_counter()
    try:
        if model.memory_limit is not None:
            model.set_params(work_folder=run.rows)
        with (
            _rounds_kept(job, BaseException),
            spread(model, dask, quiet=quiet) as trained,
            _show_progress(job, quiet) as progress,
        ):
            trained.set_params(callbacks=[ShowProgress(progress), *_checkpoints(job)])
            seen = data.snapshot("train")  # all of it, but for inductive data
            own = len(seen.val) > 0 and model.validation_fraction is None
            validation = (seen.val, seen.y[seen.val]) if own else None
            trained.fit(seen.train, seen.y[seen.train], graph=seen.graph, validation=validation)
        seconds = time.perf_counter() - started
        with _rounds_kept(job, KeyboardInterrupt), files.rescued(model, run):
            notes = files.save_model(model, run)
            metrics = _report(job, seconds, notes)  # reads test labels, which training has not
            files.finish_run(run, model, metrics)
    finally:
        run.discard()
    result = metrics | {"run": str(run.path)}
    if as_json:
        screen.emit_json(result)
    else:
        _show(result)


def new_job(
    settings: dict[str, Any], source: Source, *, out: Path | None, force: bool, checkpoint_every: int | None
) -> Job:
    """Prepare a new run: check the settings, load the data, make the folder."""
    from gbgnn.settings import build_model

    if out is not None:
        RunFolder(out, force).check_free()  # before anything slow
    model = build_model(settings)
    if checkpoint_every is not None:
        if checkpoint_every < 1:
            raise ParameterError(f"--checkpoint-every must be an integer >= 1; got {checkpoint_every}.")
        reason = _why_not_resumable(model)
        if reason is not None:
            raise ParameterError(f"--checkpoint-every needs {reason}")
    data = source.load()
    model = estimator_for(data, model)
    _weigh_by_label(model, data)
    if model.random_state is None:
        model.random_state = secrets.randbelow(2**31)  # drawn here so that the record has it
    run = files.start_run(model, source, data, out=out, force=force, checkpoint_every=checkpoint_every)
    return Job(model, data, run, checkpoint_every)


def estimator_for(data: gbgnn.datasets.Dataset, model: gbgnn.GBGNNClassifier) -> Any:
    """Return the model, or for numbers to be predicted a regressor with the same settings."""
    if not data.is_regression:
        return model
    kind = gbgnn.GBGNNRegressor
    if isinstance(model, kind):
        return model
    usual, known = type(model)().get_params(deep=False), kind().get_params(deep=False)
    given = {k: v for k, v in model.get_params(deep=False).items() if v is not usual[k] and v != usual[k]}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise ParameterError(f"{unknown[0]} is no setting of a regressor; {data.task_reason}.")
    return kind(**given)


def resumed_job(path: Path, *, data_dir: Path | None, checkpoint_every: int | None) -> Job:
    """Take up a run where its checkpoint left it; one that was killed before it had any begins again."""
    import torch

    from gbgnn.settings import build_model, flatten_document

    run = RunFolder(path.with_name(path.name.removesuffix(".partial")))
    config, where = run.resume(), str(run.partial / CONFIG)
    try:
        try:
            source, facts = Source.from_document(config.pop("data"), where), config.pop("run")
            known, every = facts["data"], checkpoint_every or facts.get("checkpoint_every")
            run.force = facts.get("force", False)
            torch.set_num_threads(int(facts.get("threads", torch.get_num_threads())))
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise DataError(f"{where} is not a run's own record (no {error}); start the run again.") from None
        data = source.override(data_dir=data_dir).load()
        if files.fingerprint(data) != known:
            raise DataError(
                f"{data.name} changed since {run.path} was started, so going on would not give the same "
                "model; fit anew."
            )
        for name in (CHECKPOINT, MODEL):
            if (run.partial / name).is_file():
                model = gbgnn.load(run.partial / name)
                if model.preset == "best":  # there is no way on from an average: it is trained again
                    continue
                has_learners = all(each.head is not None for each in model.ensemble_)
                if has_learners and model.fine_tuning_ is None:  # of tuned rounds there is no way on
                    return Job(model.set_params(warm_start=True), data, run, every, len(model.ensemble_))
        model = estimator_for(data, build_model(flatten_document(config, where)))
        _weigh_by_label(model, data)
        return Job(model, data, run, every)
    except BaseException:
        run.close()
        raise


def _check_only_resume(context: typer.Context) -> None:
    """Raise when something of the run is given that the run already has."""
    flags = read_flags(context) | {"dataset": "the data set"}
    sources = {name: context.get_parameter_source(name) for name in flags if name not in _WITH_RESUME}
    extra = [flags[name] for name, source in sources.items() if source and source.name == "COMMANDLINE"]
    if extra:
        raise UsageError(f"--resume takes all settings from the run; leave out {', '.join(extra)}.")


@contextmanager
def _rounds_kept(job: Job, after: type[BaseException]) -> Iterator[None]:
    """Keep the rounds of a fit that ends like this, where they can be kept, and note how to go on."""
    try:
        yield
    except after as error:
        where = _keep_rounds(job)
        if isinstance(error, KeyboardInterrupt):
            error.add_note(f"interrupted {where}" if where else "interrupted; nothing was kept.")
        elif where:
            error.add_note(f"It ended {where}")
        raise


def _keep_rounds(job: Job) -> str:
    """Save the rounds boosted so far, where they can be saved, and return where it ended and how to go on."""
    from gbgnn.finetuning import as_fine_tuner
    from gbgnn.persistence import read_header

    run, model = job.run, job.model
    n_boosted, tuning = len(getattr(model, "ensemble_", ())), getattr(model, "fine_tuning_", None)
    # Of tuned rounds there is no way on; a checkpoint of the boosted ones may be there, and stays.
    is_tuned = tuning is not None and tuning["kept"] == "tuned"
    try:
        if n_boosted > job.n_known and _why_not_resumable(model) is None and not is_tuned:
            run.check_there()
            model.save(run.checkpoint)
    except (GBGNNError, OSError):  # what cannot be stored: an older checkpoint may still be there
        pass
    if not run.checkpoint.exists():
        return ""
    if as_fine_tuner(model.fine_tune) is not None and model.stop_reason_ is not gbgnn.StopReason.INTERRUPTED:
        rounds = screen.counted(len(model.history_), "boosted round")
        where = f"in fine-tuning; begin it again from the {rounds} with"
    else:
        where = f"after round {len(read_header(run.checkpoint)['rounds'])}; go on with"
    return f"{where}: gbgnn fit --resume {run.path}"


def _show_progress(job: Job, quiet: bool) -> AbstractContextManager[screen.Progress]:
    """Return what shows progress, of many candidates in one line each."""
    n_lines = {"n_lines": 1} if job.model.preset == "best" else {}
    return screen.show_progress(quiet=quiet, **n_lines)


def _checkpoints(job: Job) -> list[gbgnn.Callback]:
    every = job.checkpoint_every
    if every is None and _why_not_resumable(job.model) is not None:
        return []
    return [gbgnn.Checkpoint(job.run.checkpoint, every=every, seconds=SECONDS if every is None else None)]


def _why_not_resumable(model: gbgnn.GBGNNClassifier) -> str | None:
    """Return what it would take to go on with a killed fit of this model; None where nothing is missing."""
    from gbgnn.registry import as_part

    if model.preset == "best":
        return "one model to go on with; --preset best trains several, and begins again."
    if not model.keep_learners:
        return "the fitted learners; leave out --no-keep-learners."
    if isinstance(as_part("learner", model.learner), gbgnn.SklearnLearner):
        return "a learner whose settings a model file holds, such as mlp or trees; not those of sklearn."
    return None


def _weigh_by_label(model: gbgnn.GBGNNClassifier, data: gbgnn.datasets.Dataset) -> None:
    """Let class weights of a file, where every key is text, go by the labels themselves or their names."""
    if not isinstance(getattr(model, "class_weight", None), dict):
        return
    names = files.list_class_names(data)
    labels = {str(label): label for label in data.classes.tolist()}
    labels |= {files.name_class(label, names): label for label in labels.values()}
    unknown = [key for key in model.class_weight if key not in labels]
    if unknown:
        raise ParameterError(
            f"class_weight has class {unknown[0]!r}, which {data.name} does not have "
            f"(known: {', '.join(labels)})."
        )
    model.class_weight = {labels[key]: weight for key, weight in model.class_weight.items()}


def _report(job: Job, seconds: float, notes: list[str]) -> dict[str, Any]:
    from gbgnn.callbacks import FineTuningReport

    model, data = job.model, job.data
    is_tuned = getattr(model, "fine_tuning_", None) is not None  # an average of models never is
    tuned = asdict(FineTuningReport.from_model(model.model_)) if is_tuned else None
    return {
        "dataset": data.name,
        "task": data.task,
        "split": data.split_name,
        "n_splits": data.n_splits,
        **model.facts_,
        "seconds": seconds,
        "seed": model.seed_,
        "fine_tuning": tuned,
        **describe_bound(*bound_others(model, data)),
        "splits": score_splits(model, data),
        "column_importances": record_importances(model, data.graph),
        "notes": notes,
    }


def _show(result: dict[str, Any]) -> None:
    """Print the closing table and what a person wants to know beside it."""
    from gbgnn.callbacks import FineTuningReport

    show_bound(result)
    show_scores(result["splits"])
    show_importances(result["column_importances"])
    ended = f"{result['seconds']:.1f} s, seed {result['seed']}"
    if "leaderboard" in result:
        show_leaderboard(result["leaderboard"])
        screen.out(f"average of {screen.counted(result['models'], 'model')}, {ended}")
    else:
        best = f"best round {result['best_round']} of {result['rounds']}"
        screen.out(f"{best} ({result['stop_message']}), {ended}")
    if result["fine_tuning"] is not None:
        screen.out(str(FineTuningReport(**result["fine_tuning"])))
    for sentence in result["notes"]:
        screen.out(f"note: {sentence}")
    screen.out(f"written to {result['run']}")
