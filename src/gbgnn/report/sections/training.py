"""How training went: loss, metric and cosine of every round."""

from __future__ import annotations

from collections.abc import Sequence

from gbgnn.report import figures
from gbgnn.report.content import Figure, Section, Table
from gbgnn.report.evidence.training import Course, Training, follow_training
from gbgnn.report.subject import Subject
from gbgnn.report.words import begin, counted, number, percent

_N_ROWS = 60


def describe_training(subject: Subject) -> Section:
    """Return curves over the rounds, of one model or of every member, and over the epochs of fine-tuning."""
    training = follow_training(subject)
    if training.leaderboard or len(training.courses) > 1:
        return _of_members(training)
    course = training.courses[0]
    if not course.n_rounds:
        return Section("training", "How training went", missing=["No round was recorded."])
    drawn = _curves(course, "round")
    paragraphs, tables = [_summary(course)], [_rounds_table(course)]
    if training.epochs is not None and training.tuned is not None:
        paragraphs.append(
            f"Then {counted(training.epochs.n_rounds, 'epoch')} of fine-tuning; kept was what is "
            f"{training.tuned['kept']}."
        )
        drawn += _curves(training.epochs, "epoch", "Fine-tuning: ")
    missing = [] if course.has("val_loss") else ["No validation nodes watched the training."]
    return Section("training", "How training went", paragraphs, drawn, tables, missing=missing)


def _summary(course: Course) -> str:
    loss = course.curves["train_loss"]
    told = f"{counted(course.n_rounds, 'round')}; training loss {number(loss[0])} after the first"
    if course.n_rounds > 1:
        told += f", {number(loss[-1])} after the last; round {course.best} predicts"
    return f"{told}."


def _curves(course: Course, step: str, prefix: str = "") -> list[Figure]:
    """Return the figures of what was measured; of a single round there is nothing to draw."""
    if course.n_rounds < 2:
        return []
    metric = course.metric
    panels = [
        ("Loss", ("train_loss", "val_loss"), "loss"),
        (begin(metric), (f"train_{metric}", f"val_{metric}"), metric),
        ("Cosine between what was added and the negative gradient", ("cosine",), "cosine"),
    ]
    names = {"train": "training", "val": "validation", "cosine": "cosine"}
    found = []
    mark = None if course.best is None else (float(course.best), f"{step} {course.best} predicts")
    for title, keys, y_title in panels:
        curves = {names[key.partition("_")[0]]: course.curves[key] for key in keys if course.has(key)}
        if not curves:
            continue
        spec = figures.lines(
            [float(t) for t in course.rounds], curves, x_title=step, y_title=y_title, mark=mark
        )
        told = [
            f"{name} from {number(_first(values))} to {number(_last(values))}"
            for name, values in curves.items()
        ]
        alt = f"{title} over {counted(course.n_rounds, step)}: {'; '.join(told)}."
        found.append(Figure(f"{prefix}{title} per {step}", alt, spec))
    return found


def _rounds_table(course: Course) -> Table:
    metric = course.metric
    columns = {
        "step": "eta",
        "training loss": "train_loss",
        f"training {metric}": f"train_{metric}",
        "validation loss": "val_loss",
        f"validation {metric}": f"val_{metric}",
        "cosine": "cosine",
        "Γ so far": "gamma_total",
        "seconds": "seconds",
    }
    kept = {head: key for head, key in columns.items() if course.has(key)}
    shown = _spread(course.n_rounds, _N_ROWS)
    rows = [[str(course.rounds[i]), *(number(course.curves[key][i]) for key in kept.values())] for i in shown]
    caption = "Every round" if len(shown) == course.n_rounds else f"{len(shown)} of {course.n_rounds} rounds"
    return Table(["round", *kept], rows, caption, frozenset(range(len(kept) + 1)), folded=len(rows) > 5)


def _of_members(training: Training) -> Section:
    """Return what was tried for an average, and the validation loss of every member."""
    paragraphs = [
        "Models of several families were trained and averaged, by how good they are on validation nodes. "
        "Every member has rounds of its own."
    ]
    drawn = []
    long = [
        course for course in training.courses if course.n_rounds > 1 and course.has("val_loss", "train_loss")
    ]
    if long:
        which = "val_loss" if all(course.has("val_loss") for course in long) else "train_loss"
        x = [float(t) for t in range(1, max(course.n_rounds for course in long) + 1)]
        name = "Validation loss" if which == "val_loss" else "Training loss"
        curves = {course.name: course.curves[which] for course in long}
        told = [f"{key} to {number(_last(values))}" for key, values in curves.items()]
        spec = figures.lines(x, curves, x_title="round", y_title="loss")
        drawn.append(Figure(f"{name} of members with several rounds", f"{name}: {'; '.join(told)}.", spec))
    tables = [_members_table(training.courses)]
    if training.leaderboard:
        tables.append(_leaderboard(training))
    return Section("training", "How training went", paragraphs, drawn, tables)


def _members_table(courses: Sequence[Course]) -> Table:
    rows = [[course.name, str(course.n_rounds), str(course.best)] for course in courses]
    return Table(["member", "rounds", "round that predicts"], rows, "Members", frozenset({1, 2}))


def _leaderboard(training: Training) -> Table:
    rows = [
        [
            str(each.get("family", "")),
            str(each.get("variant", "")),
            number(each.get("score")),
            number(each.get("loss")),
            percent(each.get("weight"), 0),
            number(each.get("seconds"), ".1f"),
            str(each.get("status", "")),
        ]
        for each in training.leaderboard
    ]
    metric = str(training.leaderboard[0].get("metric", "score"))
    heads = ["family", "variant", metric, "loss", "weight", "seconds", "status"]
    return Table(heads, rows, "What was tried, the best first (on validation nodes)", frozenset({2, 3, 4, 5}))


def _first(values: Sequence[float | None]) -> float | None:
    return next((value for value in values if value is not None), None)


def _last(values: Sequence[float | None]) -> float | None:
    return _first(list(reversed(values)))


def _spread(n: int, n_most: int) -> list[int]:
    """Return at most about ``n_most`` of ``n`` places, the ends among them."""
    if n <= n_most:
        return list(range(n))
    return sorted({round(i * (n - 1) / (n_most - 1)) for i in range(n_most)})
