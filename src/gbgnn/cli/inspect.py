"""``gbgnn inspect``: what a model is made of and how its rounds went."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gbgnn.cli import screen
from gbgnn.cli.options import AsJson, SavedPath

EXAMPLES = (
    ("gbgnn inspect runs/cora", "settings and a table of rounds"),
    ("gbgnn inspect runs/cora --rounds 1000", "every round"),
    ("gbgnn inspect runs/cora --json > cora.json", "everything, for a program to read"),
)
N_SHOWN = 20
_LEAST_WANTED = ("seconds", "grad_norm", "eta", "gamma_total", "train_loss", "train_acc")

Row = dict[str, Any]


def inspect(
    saved_path: SavedPath,
    rounds: Annotated[int, typer.Option(min=0, help="Show at most so many rounds, evenly spread.")] = N_SHOWN,
    as_json: AsJson = False,
) -> None:
    """Show the settings of a model, its rounds, its best round and why training stopped."""
    from gbgnn.boosting import StopReason
    from gbgnn.cli.fit_run import summarize_fine_tuning
    from gbgnn.cli.saved import open_saved
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
        f"{screen.counted(_n_features(header), 'feature')}, learners {kept}"
    )
    classes = _classes(header)
    if classes:
        screen.out(f"classes: {', '.join(_class_words(classes, saved.class_names))}")
    screen.out()
    for name, value in header["params"].items():
        if name not in ("callbacks", "warm_start", "verbose") and value is not None:
            screen.out(f"  {name:<20} {_words(name, value)}")
    metric = header.get("metric", "accuracy")
    _show_curves(history, metric)
    if header["fine_tuning"] is not None:
        screen.out()
        screen.out(str(summarize_fine_tuning(header["fine_tuning"], metric)))
        _show_curves(header["fine_tuning"]["history"], metric)
    if rounds:
        _show_rounds(history, header, rounds)


def _n_features(header: dict[str, Any]) -> int:
    """Return the number of features, as files of format 3 and 2 have it."""
    n_features: int = header["inputs"]["n_features"] if "inputs" in header else header["n_features"]
    return n_features


def _classes(header: dict[str, Any]) -> list[Any]:
    """Return the classes, as files of format 3 and 2 have them; none of numbers."""
    known = header["task"]["record"].get("classes", []) if "task" in header else header["classes"]["values"]
    return list(known)


def _class_words(labels: list[Any], names: dict[str, str]) -> list[str]:
    return [
        f"{label} ({names[str(label)]})" if names.get(str(label), str(label)) != str(label) else str(label)
        for label in labels
    ]


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
    return " ".join(f"{k}={_plain_word(v)}" for k, v in settings.items() if v is not None)


def _plain_word(value: Any) -> str:
    """Return a value in one word: a list with commas, a loss by its name."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value["name"]) if isinstance(value, dict) and "name" in value else str(value)


def _show_curves(history: list[Row], metric: str) -> None:
    """Draw losses and metrics over rounds or epochs, where the terminal has the signs for it."""
    console = screen.console()
    if console.options.ascii_only or len(history) < 2:
        return
    screen.out()
    for column in ("train_loss", "val_loss", f"train_{metric}", f"val_{metric}"):
        values = [row.get(column) for row in history]
        if values[0] is not None:
            line = screen.sparkline(values, width=max(10, min(60, console.width - 45)))
            screen.out(f"  {column:<20} {line} {values[0]:.4f} to {values[-1]:.4f}")


def _show_rounds(history: list[Row], header: dict[str, Any], n_shown: int) -> None:
    shown = spread(len(history), n_shown, header["best_round"] - 1)
    metric = header.get("metric", "accuracy")
    forms = {
        "round": "d",
        "eta": ".4g",
        "train_loss": ".4f",
        "val_loss": ".4f",
        f"train_{metric}": ".3f",
        f"val_{metric}": ".3f",
        "cosine": ".3f",
        "gamma_total": ".4g",
        "gradient_norm": ".3g",
        "seconds": ".2f",
    }
    forms = {k: form for k, form in forms.items() if any(row[k] is not None for row in history)}
    rows = [[screen.number(history[i][k], form) for k, form in forms.items()] for i in shown]
    for row, i in zip(rows, shown, strict=True):
        row[0] = f"*{row[0]}" if i == header["best_round"] - 1 else row[0]
    heads = [k.replace("_accuracy", "_acc").replace("gradient_norm", "grad_norm") for k in forms]
    screen.show_table(heads, rows, drop=_LEAST_WANTED)
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


def spread(n: int, n_shown: int, always: int) -> list[int]:
    """Return about ``n_shown`` of ``n`` positions, evenly spread, ends and ``always`` among them.

    Examples
    --------
    >>> spread(100, 3, 41)
    [0, 41, 50, 99]
    """
    if n <= n_shown:
        return list(range(n))
    gaps = max(1, n_shown - 1)
    return sorted({round(i * (n - 1) / gaps) for i in range(n_shown)} | {always})
