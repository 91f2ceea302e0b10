"""The page and the figure of ``theory_at_work.py``, made from its stored numbers; nothing is fitted again.

Run as it is, it prints the tables of ``results/theory_at_work.json``. ``--write`` writes the page and the
figure beside that file; the figure needs matplotlib.
"""

import argparse
import json
import sys
from itertools import pairwise
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
COMMAND = "python examples/theory_at_work.py --full"
INK, QUIET, LINES = "#1f2937", "#6b7280", "#e5e7eb"
BLUE, AMBER, GREEN, RED = "#2563eb", "#d97706", "#059669", "#dc2626"

STORY = """\
# The theory at work

`{command}`, {date}, {seconds} s; {cpu}, {torch_threads} torch thread(s); {versions}.

![Loss, bound, errors and smoothing against depth](theory_at_work.svg)

A random graph of two classes: {n_nodes:,} nodes, mean degree 10, 95 % of the edges within a class, four
features that tell little (class means lie half a standard deviation from the origin). Half of the nodes are
labelled, drawn uniformly from all nodes. Linear learners in the L1 ball of radius 1, functional gradient,
shrinkage 0.1, margin 0.5, 95 % confidence, complexities by Monte Carlo. Five more draws, and the networks,
are on a graph of the same kind with {n_small:,} nodes.

- **The certificate.** {n_met} of {n_rounds} rounds met the weak learning condition and {verdict}. Of a drop
  in training loss of {kept:.4f}, {promised:.4f} was promised beforehand. Gamma grew like T to the
  {gamma_exponent:.2f}, to {gamma_total:.2f}.
- **The bound from the certificate alone**, which looks at no error, is vacuous up to T = {vacuous_until}
  and ends at {total:.2f} ({certified_any:.2f} for steps chosen by looking at the labels, as they were).
  Nearly all of it is the training term, {training_bound:.2f}, which falls like one over the root of Gamma.
- **With the margin error counted instead**, the bound is vacuous up to T = {vacuous_counted}, smallest at
  T = {lowest_at} with {lowest:.3f}, and ends at {total_counted:.3f}; for steps chosen by looking, at
  **{any_total:.3f}**. The test error, {test_error:.5f} in the end, is within twice that from T = {settled}
  on; the bound goes on falling after that because margins go on growing.
- **The complexity does not fall.** It ends at {complexity:.3f}. Its summands shrink up to T = {turn}, then
  grow: a remnant of the features in the top eigenspace does not fade with the rest, so that what is of use
  needs ever longer steps.
- **The printed bound** has {printed_training:.0e} for a training term and {printed_total:.2f} in total. It
  does not hold ([errata](../../docs/errata.md)).
- **Five draws.** The bound for any steps held in {n_held} of {n_splits}: the smallest is {least_bound:.2f},
  the largest test error {most_error:.5f}.
- **A plain network** (width 16, He's initial weights, Adam with step 0.005, of 200 epochs the one with the
  smallest loss on 500 validation nodes) does as well at moderate depth. At depth {failed} it fails in every
  draw{unsteady}, on the nodes it was trained on too; in the end its last representation is nearly all in
  the top eigenspace. Our representations end up there as well (what is outside shrinks by lambda_2 =
  {lambda_2:.3f} or less a round), but the scores keep what earlier rounds saw.

The case was chosen in the theory's favour: many labels, few features, a graph that agrees with the classes.
With 140 labels among 2,708 nodes the partition term alone would be 0.45. Small components were left out and
features centred because what lies in the top eigenspace never fades, as the last rounds show.
"""


def write(found):
    """Store what was found with the machine that found it, and make the page and the figure."""
    sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
    from common import machine

    record = {"command": COMMAND, "machine": machine(), **found}
    # Six digits are more than a reader needs and more than machines agree on.
    text = json.dumps(record)
    record = json.loads(text, parse_float=lambda number: float(f"{float(number):.6g}"))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "theory_at_work.json").write_text(json.dumps(record, indent=1) + "\n")
    write_page(record)


def write_page(found):
    from gbgnn.plots import write_figure

    (RESULTS / "theory_at_work.md").write_text(page(found))
    write_figure(figure(found), RESULTS / "theory_at_work.svg")


def page(found):
    """Return the page: the story, in which every number is one of the run, and the tables."""
    large, small, about = found["large"], found["small"], found["machine"]
    rounds, last, counted = large["rounds"], large["rounds"][-1], large["any_steps"]["total"]
    summands = [b["complexity"] - a["complexity"] for a, b in pairwise(rounds)]
    pairs = [(s["any_steps"]["total"], s["rounds"][-1]["test_error"]) for s in small["splits"]]
    worst = {depth: [run["test_error"] > 0.4 for run in runs] for depth, runs in by_depth(found)}
    failed = [str(depth) for depth, fails in worst.items() if all(fails)]
    unsteady = [str(depth) for depth, fails in worst.items() if any(fails) and not all(fails)]
    story = STORY.format(
        **{**about, **large, **last},
        command=found["command"],
        seconds=found["seconds"],
        versions=", ".join(f"{key} {about[key]}" for key in ("python", "gbgnn", "torch", "scikit-learn")),
        n_small=small["n_nodes"],
        n_met=large["rounds_that_met_the_condition"],
        n_rounds=len(rounds),
        verdict="kept their promise" if large["certificate_holds"] else "SOME BROKE THEIR PROMISE",
        vacuous_until=last_vacuous(rounds, "total"),
        vacuous_counted=last_vacuous(rounds, "total_counted"),
        settled=1 + max(r["round"] for r in rounds if r["test_error"] > 2 * last["test_error"]),
        any_total=counted,
        certified_any=counted - last["margin_error"] + last["training_bound"],
        lowest=min(r["total_counted"] for r in rounds),
        lowest_at=min(rounds, key=lambda r: r["total_counted"])["round"],
        turn=2 + summands.index(min(summands)),
        n_held=sum(bound >= error for bound, error in pairs),
        n_splits=len(pairs),
        least_bound=min(bound for bound, _ in pairs),
        most_error=max(error for _, error in pairs),
        failed=" and ".join(failed),
        unsteady=f", at {' and '.join(unsteady)} in some" if unsteady else "",
        lambda_2=small["lambda_2"],
    )
    return "\n".join([story, *tables(found), ""])


def tables(found):
    """Return the lines of the Markdown tables."""
    large, small, n_rounds = found["large"], found["small"], len(found["large"]["rounds"])
    columns = ("gamma_total", "promised", "kept", "training_bound", "complexity", "total", "margin_error")
    columns += ("total_counted", "train_error", "test_error")
    rounds = [r for r in large["rounds"] if r["round"] in (1, 2, 5, 10, 20, 50, 100)]
    runs_at_end = [(run, run["rounds"][-1]) for run in (large, *small["splits"])]
    depths = []
    for depth, runs in by_depth(found):
        depths.append([depth, *(span(runs, key) for key in ("train_error", "test_error", "distance"))])
        if depth <= n_rounds:
            ours = [split["rounds"][depth - 1] for split in small["splits"][: len(runs)]]
            depths[-1] += [
                span(ours, "train_error"),
                span(ours, "test_error"),
                short(small["distance"][depth - 1]),
            ]
    return [
        f"Ours, {large['n_nodes']:,} nodes, steps as if fixed. Total: training bound, complexity, partition "
        f"{large['partition']:.4f} and deviation {large['deviation']:.4f}; by count: with the margin error "
        "for the training bound.",
        "",
        *table(
            *("T", "Gamma", "promised drop", "drop", "training bound", "complexity", "total", "margin error"),
            *("total by count", "train error", "test error"),
            rows=[[r["round"], *(short(r[key]) for key in columns)] for r in rounds],
        ),
        "",
        f"The total by count after {n_rounds} rounds; one draw of the labelled nodes per row.",
        "",
        *table(
            *("nodes", "draw", "steps as if fixed", "any steps", "any steps, closed form", "test error"),
            rows=[
                [
                    *(f"{run['n_nodes']:,}", run["seed"], short(end["total_counted"])),
                    *(short(run["any_steps"]["total"]), short(run["any_steps_closed_form_total"])),
                    short(end["test_error"]),
                ]
                for run, end in runs_at_end
            ],
        ),
        "",
        f"By depth, {small['n_nodes']:,} nodes: mean (smallest to largest) of {len(runs)} draw(s). Round T "
        "looks T - 1 hops far, a network of depth L looks L. Distance from the top eigenspace of P in units "
        "of the norm: of the network's last hidden layer, and of our round's input.",
        "",
        *table(
            *("depth", "GCN train error", "GCN test error", "GCN distance"),
            *("our train error", "our test error", "our distance"),
            rows=depths,
        ),
    ]


def figure(found):
    """Draw loss, bound, errors and smoothing against depth."""
    from matplotlib.figure import Figure

    large, small, rounds = found["large"], found["small"], found["large"]["rounds"]
    drawing = Figure(figsize=(10, 7.8), layout="constrained", facecolor="white")
    panels = loss, bound, error, smoothing = tuple(drawing.subplots(2, 2).flat)
    T = [r["round"] for r in rounds]

    def line(axes, key, color, label=None, at=60, lift=1.12, **style):
        """Draw a column of the rounds; name it in the legend, or beside the line where there is none."""
        points = [(r["round"], r[key]) for r in rounds if r[key] is not None]
        axes.plot(*zip(*points, strict=True), color=color, label=label, **{"lw": 1.8, **style})
        if axes is bound:
            axes.text(at, rounds[at - 1][key] * lift, label, color=color, fontsize=9)

    start = rounds[0]["loss"] + rounds[0]["kept"]
    loss.plot(T, [start - r["promised"] for r in rounds], color=AMBER, ls="--", label="at most, as promised")
    line(loss, "loss", BLUE, "training loss")
    gamma = loss.twinx()
    line(gamma, "gamma_total", QUIET, lw=1.2)
    gamma.set_ylim(bottom=0)
    loss.plot([], [], color=QUIET, lw=1.2, label=r"$\Gamma_T$ (right axis)")

    bound.axhspan(1, 100, color=LINES, alpha=0.5, lw=0)
    bound.text(20, 13, "vacuous", color=QUIET, fontsize=9, va="top")
    line(bound, "total", INK, "total, training error bounded", at=42, lw=2.4)
    line(bound, "training_bound", BLUE, "training bound", at=30, lift=0.5, lw=1.3)
    line(bound, "printed_total", QUIET, "as printed: does not hold", at=40, lift=1.35, lw=0.7)
    line(bound, "total_counted", GREEN, "total, error counted", at=14, lift=1.3, lw=2.4)
    bound.plot(T[-1], large["any_steps"]["total"], "o", color=GREEN, ms=6)
    bound.text(T[-1], large["any_steps"]["total"] * 1.25, "any steps", color=GREEN, fontsize=9, ha="right")
    line(bound, "complexity", AMBER, "complexity", at=60, lift=1.15, lw=1.3)
    for key in ("partition", "deviation"):
        bound.axhline(large[key], color=QUIET, lw=1.2, ls="--")
        bound.text(30, large[key] * 0.85, key, color=QUIET, fontsize=9, va="top")
    line(bound, "test_error", RED, "test error", lift=1.25, lw=1.3)

    depths, networks = zip(*by_depth(found), strict=True)
    same_draws = small["splits"][: len(networks[0])]
    draws = list(zip(*(split["rounds"] for split in same_draws), strict=True))
    for key, style, name in (("train_error", "--", "train"), ("test_error", "-", "test")):
        error.plot(T, [average(runs, key) for runs in draws], color=BLUE, ls=style, label=f"ours, {name}")
        means = [average(runs, key) for runs in networks]
        error.plot(depths, means, color=AMBER, ls=style, marker="o", ms=4, label=f"GCN, {name}")
    smoothing.plot(T, small["distance"], color=BLUE, label="ours, input of round T")
    means = [average(runs, "distance") for runs in networks]
    smoothing.plot(depths, means, color=AMBER, marker="o", ms=4, label="GCN, last hidden layer")

    names = ("Training loss and its certificate", "Bound of the test error, term by term")
    names += (f"Error, {small['n_nodes']:,} nodes", "Distance to the top eigenspace / norm")
    ticks = ((0.05, 0.1, 0.2, 0.4, 0.7), (1e-4, 1e-3, 0.01, 0.1, 1, 10), (1e-4, 1e-3, 0.01, 0.1, 0.5))
    for axes, name, places in zip(panels, names, (*ticks, (0.05, 0.1, 0.2, 0.5, 1)), strict=True):
        axes.set_title(name, loc="left", color=INK, fontsize=11)
        axes.set_xlabel("rounds T" if axes in (loss, bound) else "depth: rounds T, or layers", color=QUIET)
        axes.set_yscale("log")
        axes.set_yticks(places, [f"{place:g}" for place in places])
        axes.grid(color=LINES, lw=0.8)
        axes.set_axisbelow(True)
    for axes in (error, smoothing):
        axes.set_xscale("log")
        axes.set_xticks(depths, [str(depth) for depth in depths])
    bound.set_ylim(1e-4, 20)
    for axes, place in ((loss, "upper center"), (error, "lower left"), (smoothing, "lower left")):
        axes.legend(frameon=False, labelcolor=INK, fontsize=9, loc=place)
    for axes in (*panels, gamma):
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(LINES)
        axes.tick_params(colors=QUIET, labelsize=9, length=0)
    return drawing


def by_depth(found):
    """Return pairs of a depth and the networks of that depth."""
    depths = dict.fromkeys(run["depth"] for run in found["gcn"])
    return [(depth, [run for run in found["gcn"] if run["depth"] == depth]) for depth in depths]


def last_vacuous(rounds, key):
    return max(r["round"] for r in rounds if r[key] is None or r[key] >= 1)


def average(runs, key):
    return sum(run[key] for run in runs) / len(runs)


def span(runs, key):
    values = [run[key] for run in runs]
    ends = f" ({short(min(values))} to {short(max(values))})" if len(runs) > 1 else ""
    return short(average(runs, key)) + ends


def short(value):
    return "" if value is None else f"{value:.3g}"


def table(*header, rows):
    cells = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(map(str, row)) + " |" for row in cells]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the page and the figure, too")
    is_writing = parser.parse_args().write
    found = json.loads((RESULTS / "theory_at_work.json").read_text())
    if is_writing:
        write_page(found)
    print("\n".join(tables(found)))


if __name__ == "__main__":
    main()
