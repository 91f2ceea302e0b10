"""``gbgnn predict``, ``evaluate`` and ``inspect``: what a model says, how right it is, how it came."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gbgnn
from gbgnn.cli import screen
from gbgnn.cli.command import UsageError
from gbgnn.cli.files import Saved, describe_split, name_class, open_saved
from gbgnn.cli.held_out import bound_others, describe_bound, show_bound
from gbgnn.cli.importances import show_importances
from gbgnn.cli.leaderboard import show_leaderboard
from gbgnn.cli.prediction_files import FORMATS, with_columns, write_csv, write_table
from gbgnn.cli.promises import Promised, show_promise
from gbgnn.cli.scores import score_splits, show_scores
from gbgnn.errors import (
    DataError,
    GBGNNError,
    GraphError,
    ModelFileError,
    ParameterError,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_LEAST_WANTED = ("seconds", "grad_norm", "eta", "gamma_total", "train_loss", "train_acc")


def predict(
    saved_path: Path,
    dataset: str | None = None,
    nodes: str | None = None,
    node_table: Path | None = None,
    edges: list[Path] | None = None,
    data_dir: Path | None = None,
    normalize: bool | None = None,
    data_option: list[str] | None = None,
    sets: float | None = None,
    calibrate: str | None = None,
    out: Path | None = None,
) -> None:
    """Write the predicted label of every node, and the probability of each class; or the predicted number.

    Columns are node (your own id), label, and proba_CLASS for each class, or prediction of a regression; with
    --sets also the set of classes, or lower and upper, that hold the truth with a given confidence. A bare
    model file knows neither your ids nor names of classes: it counts nodes from 0.
    """
    from gbgnn.predictions import predict_column_blocks

    if out is not None and out.suffix not in FORMATS:
        raise ParameterError(f"--out must end in {' or '.join(FORMATS)}; got {out}.")
    saved = open_saved(saved_path)
    promised = Promised.of_file(gbgnn.load(saved.model_path))
    model = promised.model
    if sets is not None or calibrate is not None:
        if dataset is not None or node_table is not None:
            raise UsageError(
                "--sets and --calibrate learn from the data of the fit and promise nothing of another graph; "
                "with labelled nodes of that graph, PredictionSets(model).fit(nodes, y, graph=graph) does."
            )
        data = own_data(saved, data_dir)
        graph, ids = None, data.graph.node_ids
        promised = Promised.make(model, data, sets, calibrate)
    elif dataset is None and node_table is None:
        graph, ids = _own_graph(saved, model.model_.n_nodes, data_dir)
    else:
        given = saved.source.override(
            dataset, data_dir, normalize=normalize, options=data_option, nodes=node_table, edges=edges
        )
        graph = given.load_graph()
        ids = graph.node_ids
    rows = _choose(ids, nodes)
    blocks = predict_column_blocks(promised.model, rows, graph=graph, ids=ids, class_names=saved.class_names)
    beside = promised.columns(rows, saved.class_names)
    if out is None:
        write_csv(sys.stdout, with_columns(blocks, beside))
    else:
        write_table(out, with_columns(blocks, beside))
        screen.note(f"{screen.counted(len(rows), 'node')} written to {out}")


def evaluate(
    saved_path: Path,
    dataset: str | None = None,
    data_dir: Path | None = None,
    split: str | None = None,
    split_seed: int | None = None,
    normalize: bool | None = None,
    data_option: list[str] | None = None,
    held_out: str = "test",
    choices: int | None = None,
    confidence: float = 0.95,
    sets: float | None = None,
    calibrate: str | None = None,
    as_json: bool = False,
) -> None:
    """Print how right a model is on the training, validation and test nodes, and on all others.

    First comes how many of the nodes in no part of the split are wrong at most, by the test nodes. Of
    classes: accuracy, AUC and average precision (each class against the rest), log loss, macro-F1, and ECE,
    the mean gap between how sure the model is and how often it is right. Of numbers: R2, mean absolute error
    and root mean squared error. With --sets also how often sets or intervals hold the truth, and their size.
    """
    saved = open_saved(saved_path)
    if dataset is None and "data" not in saved.config:
        raise DataError(f"{saved_path} is a bare model file, which does not know its data; name a data set.")
    data = saved.source.override(dataset, data_dir, split, split_seed, normalize, data_option).load()
    promised = Promised.of_file(gbgnn.load(saved.model_path))
    model = promised.model
    is_own = saved.graph_checksum == data.graph.checksum
    if not is_own and (sets is not None or calibrate is not None):
        raise UsageError("--sets and --calibrate learn from the data of the fit; leave out other data.")
    graph = None if is_own else data.graph
    if sets is not None or calibrate is not None:
        promised = Promised.make(model, data, sets, calibrate)
    model = promised.model
    scores, promise = score_splits(model, data, graph=graph), promised.measure(data)
    others = describe_bound(
        *bound_others(model, data, part=held_out, n_choices=choices, confidence=confidence, graph=graph)
    )
    if as_json:
        facts = {"model": str(saved.model_path), "dataset": data.name, "task": data.task}
        told = {} if promise is None else {"sets": promise}
        screen.emit_json(facts | {"split": data.split_name, **others, "splits": scores, **told})
    else:
        screen.note(describe_split(data))
        show_bound(others)
        show_scores(scores)
        if promise is not None:
            show_promise(promise)


def _own_graph(saved: Saved, n_nodes: int, data_dir: Path | None) -> tuple[gbgnn.Graph | None, NDArray[Any]]:
    """Return the user's ids of the nodes a run was fitted on; row numbers for a bare model.

    There is no graph to apply the model to, as it knows its predictions, but where it has not seen all nodes.
    """
    import numpy as np

    if "data" not in saved.config:
        return None, np.arange(n_nodes)
    data = own_data(saved, data_dir)
    return data.graph if data.is_inductive else None, data.graph.node_ids


def own_data(saved: Saved, data_dir: Path | None) -> gbgnn.datasets.Dataset:
    """Return the data of the fit, or say that it is not there any more."""
    if "data" not in saved.config:
        raise DataError(
            f"{saved.model_path} is a bare model file, which does not know its data; --sets and --calibrate "
            "learn from its validation nodes. Give the run's folder."
        )
    data = saved.source.override(data_dir=data_dir).load()
    if data.graph.checksum != saved.graph_checksum:
        raise DataError(
            f"the graph of {data.name} changed since the fit, so the stored predictions are not about it; "
            "predict the graph as it is now with --dataset."
        )
    return data


def _choose(ids: NDArray[Any], nodes: str | None) -> NDArray[np.int64]:
    """Return the rows of the nodes that were asked for, in that order."""
    import numpy as np

    if nodes is None:
        return np.arange(len(ids))
    words = _read_words(Path(nodes)) if _is_file(nodes) else nodes.split(",")
    return find_rows(ids, [word.strip() for word in words if word.strip()], "--nodes names")


def find_rows(ids: NDArray[Any], wanted: Sequence[str], what: str) -> NDArray[np.int64]:
    """Return the rows of nodes by their ids; ``what`` begins the message about those that are not there."""
    import numpy as np

    row_of = {str(name): row for row, name in enumerate(ids.tolist())}
    unknown = [name for name in wanted if name not in row_of]
    if unknown:
        raise GraphError(
            f"{what} {screen.counted(len(unknown), 'node')} that the graph does not have (first: "
            f"{unknown[0]!r}; its ids look like {ids[0]!s} and {ids[-1]!s})."
        )
    return np.array([row_of[name] for name in wanted], dtype=np.int64)


def _is_file(words: str) -> bool:
    """Return whether words are the path of a file; what is too long for one is a list of ids."""
    try:
        return Path(words).is_file()
    except (OSError, ValueError):
        return False


def _read_words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"--nodes: {path} is not UTF-8 text, an id per line: {error}.") from error


def inspect(saved_path: Path, rounds: int = 20, as_json: bool = False) -> None:
    """Show the settings of a model, its rounds, its best round and why training stopped."""
    from gbgnn.persistence import read_header

    saved = open_saved(saved_path)
    gbgnn.load(saved.model_path)  # which finds out whether the header is one
    header = read_header(saved.model_path)
    try:
        _inspect_header(saved, header, rounds, as_json)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, GBGNNError):
            raise
        raise ModelFileError(
            f"{saved.model_path} is damaged: its record cannot be shown ({error!r})."
        ) from error


def _inspect_header(saved: Saved, header: dict[str, Any], rounds: int, as_json: bool) -> None:
    from gbgnn.boosting import StopReason
    from gbgnn.callbacks import FineTuningReport

    if "members" in header:
        _inspect_blend(saved, header, as_json)
        return
    history = header["history"] = list(saved.history) or header["history"]  # the record has times, too
    if as_json:
        screen.emit_json(
            {
                "model": str(saved.model_path),
                **{k: v for k, v in header.items() if k != "rounds"},
                "etas": [r["eta"] for r in header["rounds"]],
                "hops": [r["hop"]["record"] for r in header["rounds"]],
                "run": saved.config.get("run", {}),
                "metrics": saved.metrics,
            }
        )
        return
    best, stop = header["best_round"], StopReason(header["stop_reason"]).message
    kept = "kept" if any(r["head"] for r in header["rounds"]) else "not kept"
    screen.out(f"{saved.model_path}: {screen.counted(len(history), 'round')}, best round {best}, {stop}")
    screen.out(
        f"written by gbgnn {header['library_version']}, seed {header['seed']}, "
        f"{screen.counted(header.get('inputs', header)['n_features'], 'feature')}, learners {kept}"
    )
    _show_classes(header, saved)
    screen.out()
    for name, value in header["params"].items():
        if name not in ("callbacks", "warm_start", "verbose") and value is not None:
            screen.out(f"  {name:<20} {_words(name, value)}")
    metric = header.get("metric", "accuracy")
    measured = ("train_loss", "val_loss", f"train_{metric}", f"val_{metric}")
    _show_curves(history, measured)
    _show_choices(history)
    show_importances(saved.metrics.get("column_importances"))
    tuning = header["fine_tuning"]
    if tuning is not None:
        epochs = tuning["history"]
        report = FineTuningReport(tuning["before"], tuning["after"], tuning["kept"], len(epochs), metric)
        screen.out(f"\n{report}")
        _show_curves(epochs, measured)
    if rounds:
        _show_rounds(header, measured, rounds)


def _inspect_blend(saved: Saved, header: dict[str, Any], as_json: bool) -> None:
    """Show what an average is made of, and what was tried for it."""
    members = header["members"]
    header["leaderboard"] = saved.metrics.get("leaderboard", header["leaderboard"])  # with how long it took
    facts = ["name", "weight", "temperature"]
    if as_json:
        screen.emit_json(
            {
                "model": str(saved.model_path),
                **header,
                "members": [
                    {**{k: own[k] for k in facts}, **{k: v for k, v in own["model"].items() if k != "rounds"}}
                    for own in members
                ],
                "run": saved.config.get("run", {}),
                "metrics": saved.metrics,
            }
        )
        return
    screen.out(f"{saved.model_path}: average of {screen.counted(len(members), 'model')}")
    screen.out(
        f"written by gbgnn {header['library_version']}, seed {header['seed']}, "
        f"validation {header['metric']} {header['validation_score']:.4f}, "
        f"loss {header['validation_loss']:.4f}"
    )
    _show_classes(header, saved)
    show_leaderboard(header["leaderboard"])
    show_importances(saved.metrics.get("column_importances"))
    rows = [
        {
            **{k: own[k] for k in facts},
            "round": own["model"]["best_round"],
            "rounds": len(own["model"]["history"]),
        }
        for own in members
    ]
    heads = {"name": "member", "round": "best round"}
    screen.show_records(rows, (*facts, "round", "rounds"), heads=heads, left=("member",))


def _show_classes(header: dict[str, Any], saved: Saved) -> None:
    # Files of format 3 on, and of format 2; numbers have no classes.
    classes = header["task"]["record"].get("classes", []) if "task" in header else header["classes"]["values"]
    for each in header.get("around", []):
        screen.out(f"around the model: {each['kind']}")
    if classes:
        named = {str(label): name_class(label, saved.class_names) for label in classes}
        words = [label if name == label else f"{label} ({name})" for label, name in named.items()]
        screen.out(f"classes: {', '.join(words)}")


def _words(name: str, value: Any) -> str:
    """Return a setting in one line: a part as its name and its settings, defaults included."""
    from gbgnn.registry import PARAMETERS, part_class

    if name == "fine_tune":
        return _settings_words(value)
    if name not in PARAMETERS:
        return str(value)
    packed = value if isinstance(value, dict) else {"name": value, "params": {}}
    settings = part_class(name, packed["name"])().get_params(deep=False) | packed["params"]
    return f"{packed['name']} {_settings_words(settings)}".rstrip()


def _settings_words(settings: dict[str, Any]) -> str:
    """Return settings that have a value: a list with commas, a loss by its name."""
    words = []
    for name, value in settings.items():
        plain = ",".join(map(str, value)) if isinstance(value, list) else value
        plain = value["name"] if isinstance(value, dict) and "name" in value else plain
        words += [] if value is None else [f"{name}={plain}"]
    return " ".join(words)


def _show_choices(history: list[dict[str, Any]]) -> None:
    """Say which learner validation nodes chose in a round, where there were several."""
    for row in history:
        chosen = (row.get("learner") or {}).get("chosen")
        if chosen:
            losses = ", ".join("-" if loss is None else f"{loss:.3f}" for loss in chosen["val_losses"])
            screen.out(f"round {row['round']}, the best by validation losses {losses}: {chosen['learner']}")


def _show_curves(history: list[dict[str, Any]], measured: tuple[str, ...]) -> None:
    if len(history) > 1:
        curves = {column: [row.get(column) for row in history] for column in measured}
        drawn = screen.draw_curves(curves, ".4f", indent=20)
        if drawn:
            screen.out(f"\n{drawn}")


def _show_rounds(header: dict[str, Any], measured: tuple[str, ...], n_shown: int) -> None:
    history: list[dict[str, Any]] = header["history"]
    columns = ("round", "eta", *measured, "cosine", "gamma_total", "gradient_norm", "seconds")
    heads = {k: k.replace("_accuracy", "_acc").replace("gradient_norm", "grad_norm") for k in columns}
    how: dict[str, Any] = {"heads": heads, "forms": dict.fromkeys(measured[2:], ".3f"), "drop": _LEAST_WANTED}
    shown = screen.show_records(history, columns, n_shown=n_shown, best=header["best_round"] - 1, **how)
    _show_coefficients(header, shown)
    left_out = len(history) - len(shown)
    screen.out(f"* the round that predicts{f'; {left_out} rounds not shown (--rounds)' if left_out else ''}")
    tuning = header["fine_tuning"]
    if tuning is not None and tuning["kept"] == "tuned":
        screen.out("losses and steps of the rounds are from before fine-tuning")


def _show_coefficients(header: dict[str, Any], shown: list[int]) -> None:
    """Print the weight of each power of P, where each was learned."""
    hops = [r["hop"]["record"] for r in header["rounds"]]  # of a tuned model, up to the round that predicts
    learned = [i for i in shown if i < len(hops) and hops[i].get("free") == "coefficients"]
    if not learned:
        return
    powers = hops[learned[0]]["powers"]
    rows = [
        [str(i + 1), *(f"{c:.3f}" for c in hops[i]["coefficients"]), screen.number(hops[i]["alignment"])]
        for i in learned
    ]
    heads = ["round", *("I" if p == 0 else "P" if p == 1 else f"P^{p}" for p in powers), "alignment"]
    screen.show_table(heads, rows)
