"""``gbgnn fit``: train a model and write a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gbgnn.cli import screen, toml
from gbgnn.cli.command import UsageError
from gbgnn.cli.options import (
    AsJson,
    DataDir,
    DataOption,
    DatasetOrDigits,
    Normalize,
    Split,
    SplitSeed,
    as_split,
    key_values,
)

EXAMPLES = (
    ("gbgnn fit", "the embedded digits with the library's defaults"),
    (
        "gbgnn fit cora --aggregation kta --kta-degree 2 --rounds 40 --seed 0",
        "a known data set, parts by name",
    ),
    (
        "gbgnn fit my_graph/ --split stratified --config best.toml --units 32",
        "a file of settings, one overridden",
    ),
    (
        "gbgnn fit pubmed --rounds 500 --checkpoint-every 25 --out runs/deep",
        "a long run that may be killed ...",
    ),
    ("gbgnn fit --resume runs/deep", "... and goes on to the same result"),
)

_AGGREGATION = "Aggregation: how nodes are mixed along the graph"
_LEARNER = "Learner: what is fitted each round"
_RULE = "Rule: how rounds are added up"
_BOOSTING = "Boosting"
_TUNING = "Fine-tuning: all rounds together, after boosting"
_RUN = "The run"


def _option(panel: str, help: str, *flags: str, metavar: str | None = None) -> Any:
    return typer.Option(*flags, help=help, metavar=metavar, rich_help_panel=panel, show_default=False)


# The names of the model's options are scikit-learn's paths of what they set (learner__epochs), so that
# the options given are a dictionary of settings as they stand.
def fit(
    context: typer.Context,
    dataset: DatasetOrDigits = None,
    aggregation: Annotated[
        str | None,
        _option(
            _AGGREGATION, "adjacency, injection, lazy, kta, linear, nonlinear or identity.", metavar="NAME"
        ),
    ] = None,
    aggregation__mixing: Annotated[
        float | None,
        _option(_AGGREGATION, "injection, lazy: share of the mixed features, 0 to 1.", "--mixing"),
    ] = None,
    aggregation__degree: Annotated[
        int | None, _option(_AGGREGATION, "kta: powers of P up to 2^degree.", "--kta-degree")
    ] = None,
    aggregation__solver: Annotated[
        str | None, _option(_AGGREGATION, "kta: gradient or exact.", "--kta-solver", metavar="NAME")
    ] = None,
    aggregation__optimizer: Annotated[
        str | None,
        _option(
            _AGGREGATION,
            "kta, linear, nonlinear: sgd, adam or rmsprop.",
            "--kta-optimizer",
            metavar="NAME",
        ),
    ] = None,
    aggregation__learning_rate: Annotated[
        float | None,
        _option(_AGGREGATION, "kta, linear, nonlinear: step of the optimizer.", "--kta-learning-rate"),
    ] = None,
    aggregation__epochs: Annotated[
        int | None,
        _option(_AGGREGATION, "kta, linear, nonlinear: steps of the optimizer.", "--kta-epochs"),
    ] = None,
    aggregation__rescale: Annotated[
        bool | None,
        _option(_AGGREGATION, "kta: keep the norm of the rows.", "--kta-rescale/--no-kta-rescale"),
    ] = None,
    aggregation__max_norm: Annotated[
        float | None,
        _option(_AGGREGATION, "linear, nonlinear: largest absolute sum of a column of W.", "--mixing-norm"),
    ] = None,
    propagation: Annotated[
        str | None,
        _option(
            _AGGREGATION,
            "The matrix P: augmented, normalized, random_walk, laplacian or given.",
            metavar="NAME",
        ),
    ] = None,
    propagation__self_loops: Annotated[
        bool | None,
        _option(_AGGREGATION, "random_walk: nodes hear themselves.", "--self-loops/--no-self-loops"),
    ] = None,
    feature_norm: Annotated[
        str | None,
        _option(_AGGREGATION, "l1 or l2 brings every feature row to length one first.", metavar="NAME"),
    ] = None,
    learner: Annotated[
        str | None,
        _option(_LEARNER, "mlp, constrained, wide, or sklearn with --estimator.", metavar="NAME"),
    ] = None,
    learner__hidden_layers: Annotated[
        int | None, _option(_LEARNER, "mlp, constrained: hidden layers, 0 to 4.", "--hidden-layers")
    ] = None,
    learner__units: Annotated[
        int | None, _option(_LEARNER, "mlp, constrained, wide: width of a hidden layer.", "--units")
    ] = None,
    learner__max_norm: Annotated[
        float | None,
        _option(_LEARNER, "constrained: most that a column's absolute weights sum to.", "--max-norm"),
    ] = None,
    learner__bias: Annotated[
        bool | None, _option(_LEARNER, "constrained: add a constant input.", "--bias/--no-bias")
    ] = None,
    learner__alpha: Annotated[
        float | None, _option(_LEARNER, "wide: multiple of the gradient to follow.", "--alpha")
    ] = None,
    learner__beta: Annotated[
        float | None,
        _option(_LEARNER, "wide: how near to come to it, in gradient norms, below alpha.", "--beta"),
    ] = None,
    learner__max_epochs: Annotated[
        int | None, _option(_LEARNER, "wide: when to give up.", "--max-epochs")
    ] = None,
    learner__dropout: Annotated[
        float | None, _option(_LEARNER, "mlp: share of hidden units silenced.", "--dropout")
    ] = None,
    learner__optimizer: Annotated[
        str | None,
        _option(_LEARNER, "mlp, constrained: sgd, adam or rmsprop.", "--optimizer", metavar="NAME"),
    ] = None,
    learner__learning_rate: Annotated[
        float | None, _option(_LEARNER, "mlp, constrained, wide: step of the optimizer.", "--lr")
    ] = None,
    learner__momentum: Annotated[
        float | None, _option(_LEARNER, "mlp, constrained: momentum.", "--momentum")
    ] = None,
    learner__weight_decay: Annotated[
        float | None, _option(_LEARNER, "mlp: L2 penalty.", "--weight-decay")
    ] = None,
    learner__epochs: Annotated[
        int | None, _option(_LEARNER, "mlp, constrained: passes over the labelled nodes.", "--epochs")
    ] = None,
    learner__batch_size: Annotated[
        int | None, _option(_LEARNER, "mlp, constrained: labelled nodes per step.", "--batch-size")
    ] = None,
    learner__patience: Annotated[
        int | None,
        _option(_LEARNER, "mlp: epochs without a better validation loss before it stops.", "--patience"),
    ] = None,
    learner__standardize: Annotated[
        bool | None,
        _option(
            _LEARNER, "mlp: centre inputs and bring them to unit size.", "--standardize/--no-standardize"
        ),
    ] = None,
    learner__basis: Annotated[
        str | None,
        _option(
            _LEARNER,
            "mlp: train on features, or on coordinates of the labelled rows, which are fewer.",
            "--basis",
            metavar="NAME",
        ),
    ] = None,
    learner__estimator: Annotated[
        str | None,
        _option(_LEARNER, "sklearn: full name of a class of sklearn, lightgbm or xgboost.", "--estimator"),
    ] = None,
    learner__estimator_params: Annotated[
        list[str] | None,
        _option(
            _LEARNER,
            "sklearn: a parameter of it. May be repeated.",
            "--estimator-param",
            metavar="NAME=VALUE",
        ),
    ] = None,
    rule: Annotated[str | None, _option(_RULE, "gradient, samme or samme_r.", metavar="NAME")] = None,
    learning_rate: Annotated[float | None, _option(_RULE, "Shrinkage of every round's step.")] = None,
    rule__loss: Annotated[
        str | None, _option(_RULE, "gradient: softmax, sigmoid or auto.", "--loss", metavar="NAME")
    ] = None,
    rule__target: Annotated[
        str | None, _option(_RULE, "gradient: fit the gradient or the labels.", "--target", metavar="NAME")
    ] = None,
    rule__min_cosine: Annotated[
        float | None, _option(_RULE, "gradient: least cosine a learner must reach.", "--min-cosine")
    ] = None,
    rule__retries: Annotated[
        int | None, _option(_RULE, "gradient: new tries for a learner that fails.", "--retries")
    ] = None,
    rule__on_failure: Annotated[
        str | None, _option(_RULE, "gradient: then stop, or warn and go on.", "--on-failure", metavar="NAME")
    ] = None,
    rule__error_floor: Annotated[
        float | None, _option(_RULE, "samme: least error a learner is given.", "--error-floor")
    ] = None,
    rule__proba_floor: Annotated[
        float | None, _option(_RULE, "samme_r: least probability before the logarithm.", "--proba-floor")
    ] = None,
    n_rounds: Annotated[int | None, _option(_BOOSTING, "The most rounds to train.", "--rounds", "-T")] = None,
    metric: Annotated[
        str | None,
        _option(
            _BOOSTING,
            "What validation nodes are judged by: accuracy, f1_macro, roc_auc, neg_log_loss, ... "
            "(scikit-learn's scorers).",
            metavar="NAME",
        ),
    ] = None,
    select: Annotated[
        str | None,
        _option(_BOOSTING, "Which round predicts: last, validation, gradient or auto.", metavar="NAME"),
    ] = None,
    class_weight: Annotated[
        str | None, _option(_BOOSTING, "balanced gives every class the same say.", metavar="balanced")
    ] = None,
    validation_fraction: Annotated[
        float | None,
        _option(_BOOSTING, "Validate on this share of the training nodes, not on the data's own."),
    ] = None,
    n_iter_no_change: Annotated[
        int | None, _option(_BOOSTING, "Stop after so many rounds without a better validation result.")
    ] = None,
    fine_tune: Annotated[
        bool | None,
        _option(_TUNING, "Tune the boosted model end to end.", "--fine-tune/--no-fine-tune"),
    ] = None,
    fine_tune__epochs: Annotated[
        int | None, _option(_TUNING, "Passes over the labelled nodes.", "--tune-epochs")
    ] = None,
    fine_tune__optimizer: Annotated[
        str | None, _option(_TUNING, "sgd, adam or rmsprop.", "--tune-optimizer", metavar="NAME")
    ] = None,
    fine_tune__learning_rate: Annotated[
        float | None, _option(_TUNING, "Step of the optimizer.", "--tune-lr")
    ] = None,
    fine_tune__momentum: Annotated[float | None, _option(_TUNING, "Momentum.", "--tune-momentum")] = None,
    fine_tune__weight_decay: Annotated[
        float | None, _option(_TUNING, "L2 penalty on the learners.", "--tune-weight-decay")
    ] = None,
    fine_tune__batch_size: Annotated[
        int | None, _option(_TUNING, "Labelled nodes per step.", "--tune-batch-size")
    ] = None,
    fine_tune__patience: Annotated[
        int | None,
        _option(_TUNING, "Epochs without a better validation loss before it stops.", "--tune-patience"),
    ] = None,
    fine_tune__moves: Annotated[
        list[str] | None,
        _option(
            _TUNING,
            "What moves: learners, etas, aggregation. May be repeated. Default: all.",
            "--tune-moves",
            metavar="NAME",
        ),
    ] = None,
    fine_tune__memory_limit: Annotated[
        str | None, _option(_TUNING, "Memory to use at most, such as 2GB.", "--memory-limit", metavar="SIZE")
    ] = None,
    fine_tune__keep: Annotated[
        str | None,
        _option(_TUNING, "best (of boosted and tuned, by validation) or tuned.", "--keep", metavar="NAME"),
    ] = None,
    device: Annotated[str | None, _option(_BOOSTING, "auto, cpu or cuda.", metavar="NAME")] = None,
    dtype: Annotated[str | None, _option(_BOOSTING, "float32 or float64.", metavar="NAME")] = None,
    random_state: Annotated[
        int | None,
        _option(_BOOSTING, "Seed of all randomness in training. Default: drawn, and recorded.", "--seed"),
    ] = None,
    data_dir: DataDir = None,
    split: Split = None,
    split_seed: SplitSeed = None,
    normalize: Normalize = None,
    data_option: DataOption = None,
    config: Annotated[
        Path | None,
        _option(
            _RUN, "TOML file of settings, such as a run's config.toml. Options override it.", metavar="FILE"
        ),
    ] = None,
    keep_learners: Annotated[
        bool | None,
        _option(_RUN, "Keep the learners, to predict other graphs.", "--keep-learners/--no-keep-learners"),
    ] = None,
    out: Annotated[
        Path | None, _option(_RUN, "Folder to write. Default: runs/DATASET-TIME.", metavar="RUN")
    ] = None,
    force: Annotated[bool, _option(_RUN, "Replace a run that is there already.", "--force")] = False,
    checkpoint_every: Annotated[
        int | None, _option(_RUN, "Save every so many rounds, so that a killed run can go on.")
    ] = None,
    resume: Annotated[
        Path | None, _option(_RUN, "Go on with a run that was killed, to the same result.", metavar="RUN")
    ] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Train a model on a graph, and write it with its record to a run folder.

    What you leave out keeps the library's default. The folder holds config.toml (all settings: give it to
    --config to repeat the run), history.jsonl (a line per round), fine_tuning.jsonl (a line per epoch, with
    --fine-tune), metrics.json and model.gbgnn.
    """
    from gbgnn.cli.source import Source
    from gbgnn.cli.training import new_job, resumed_job, show, train
    from gbgnn.settings import SettingError, flatten_document, is_setting, override_settings

    flags = {p.name: p.opts[0] for p in context.command.params if p.name} | {"dataset": "the data set"}
    given = {k: v for k, v in context.params.items() if _was_given(context, k)}
    options = {k: v for k, v in given.items() if is_setting(k)}
    if learner__estimator_params:
        options["learner__estimator_params"] = key_values(learner__estimator_params, "--estimator-param")
    if resume is not None:
        _check_only_resume(given, flags)
        job = resumed_job(resume, data_dir=_text(data_dir), checkpoint_every=checkpoint_every)
    else:
        document = {} if config is None else toml.read(config)
        document.pop("run", None)
        source = Source.from_document(document.pop("data", {}), str(config)).override(
            dataset=dataset,
            data_dir=_text(data_dir),
            split=as_split(split),
            split_seed=split_seed,
            normalize=normalize,
            options=key_values(data_option, "--data-option"),
        )
        settings = flatten_document(document, str(config))
        try:
            settings = override_settings(settings, options, flags.__getitem__)
        except SettingError as error:
            raise UsageError(str(error)) from None
        job = new_job(settings, source, out=out, force=force, checkpoint_every=checkpoint_every)
    result = train(job, quiet=quiet)
    if as_json:
        screen.emit_json(result)
    else:
        show(result)


def _was_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


_WITH_RESUME = ("resume", "data_dir", "checkpoint_every", "as_json", "quiet")


def _check_only_resume(given: dict[str, Any], flags: dict[str, str]) -> None:
    extra = [flag for name, flag in flags.items() if name in given and name not in _WITH_RESUME]
    if extra:
        raise UsageError(f"--resume takes all settings from the run; leave out {', '.join(extra)}.")


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
