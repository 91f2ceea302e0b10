"""``gbgnn inspect``: what a model is made of and how its rounds went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gbgnn.cli import screen
from gbgnn.cli.files import name_class, open_saved

_LEAST_WANTED = ("seconds", "grad_norm", "eta", "gamma_total", "train_loss", "train_acc")

Row = dict[str, Any]


def inspect(saved_path: Path, rounds: int = 20, as_json: bool = False) -> None:
    """Show the settings of a model, its rounds, its best round and why training stopped."""
    from gbgnn.boosting import StopReason
    from gbgnn.callbacks import FineTuningReport
    from gbgnn.persistence import read_header

    saved = open_saved(saved_path)
    header = read_header(saved.model_path)
    history: list[Row] = header["history"]
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
    # Files of format 3, and of format 2; numbers have no classes.
    classes = header["task"]["record"].get("classes", []) if "task" in header else header["classes"]["values"]
    if classes:
        named = {str(label): name_class(label, saved.class_names) for label in classes}
        words = [label if name == label else f"{label} ({name})" for label, name in named.items()]
        screen.out(f"classes: {', '.join(words)}")
    screen.out()
    for name, value in header["params"].items():
        if name not in ("callbacks", "warm_start", "verbose") and value is not None:
            screen.out(f"  {name:<20} {_words(name, value)}")
    metric = header.get("metric", "accuracy")
    measured = ("train_loss", "val_loss", f"train_{metric}", f"val_{metric}")
    _show_curves(history, measured)
    tuning = header["fine_tuning"]
    if tuning is not None:
        epochs = tuning["history"]
        report = FineTuningReport(tuning["before"], tuning["after"], tuning["kept"], len(epochs), metric)
        screen.out(f"\n{report}")
        _show_curves(epochs, measured)
    if rounds:
        _show_rounds(header, measured, rounds)


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


def _show_curves(history: list[Row], measured: tuple[str, ...]) -> None:
    if len(history) > 1:
        curves = {column: [row.get(column) for row in history] for column in measured}
        drawn = screen.draw_curves(curves, ".4f", indent=20)
        if drawn:
            screen.out(f"\n{drawn}")


def _show_rounds(header: dict[str, Any], measured: tuple[str, ...], n_shown: int) -> None:
    history: list[Row] = header["history"]
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
