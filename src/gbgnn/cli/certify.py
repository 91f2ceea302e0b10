"""``gbgnn certify``: what a run's training promised and kept, and what can be said of other nodes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gbgnn
from gbgnn.cli import screen
from gbgnn.cli.files import Saved, open_saved
from gbgnn.errors import DataError, ParameterError

if TYPE_CHECKING:
    from gbgnn.theory import Certificate, DepthBound, GeneralisationBound

_FACTS = ("holds", "met", "gamma_total", "best_round", "smoothness", "n_labelled")
_KINDS = {
    "corrected": {"form": "corrected", "steps": "fixed"},
    "any steps": {"form": "corrected", "steps": "any"},
    "as printed": {"form": "paper", "steps": "fixed", "complexity": "closed"},
}
_CONDITION = ("round", "eta", "cosine", "alpha", "beta", "gamma", "gamma_total")
_OUTCOME = ("guaranteed", "actual", "loss", "gradient_norm")
_LEAST_WANTED = ("alpha", "beta", "gradient_norm", "eta", "loss")

Bounds = dict[str, "GeneralisationBound"]


def certify(
    saved_path: Path,
    delta: float = 0.5,
    confidence: float = 0.95,
    complexity: str = "closed",
    rounds: int = 20,
    plot: Path | None = None,
    dataset: str | None = None,
    data_dir: Path | None = None,
    as_json: bool = False,
) -> None:
    """Show what every round promised of the training loss and what it kept, and bounds of the test error.

    A bound speaks of all that could have been learned, so it needs learners with hard norms (gbgnn fit
    --learner constrained) and rule gradient; without them there is a certificate only. A bound of 1 or more
    is vacuous.
    """
    from gbgnn.reports import certificate_figure, check_figure_path, write_figure

    if plot is not None:
        check_figure_path(plot)  # before anything slow
    saved = open_saved(saved_path)
    model = gbgnn.load(saved.model_path)
    certificate = model.certificate_
    bounds, depth, reason = _bounds(
        model, saved, dataset, data_dir, delta=delta, confidence=confidence, complexity=complexity
    )
    if plot is not None:
        write_figure(certificate_figure(certificate, depth, f"Certificate of {saved_path}"), plot)
    if as_json:
        screen.emit_json(
            {
                "model": str(saved.model_path),
                "certificate": {
                    **{name: getattr(certificate, name) for name in _FACTS},
                    "rounds": certificate.rows(),
                },
                "bounds": {kind: bound.to_dict() for kind, bound in bounds.items()},
                "bound_by_depth": None if depth is None else depth.to_dict(),
                "no_bound_because": reason,
            }
        )
        return
    screen.out(f"{saved.model_path}: {screen.counted(certificate.n_labelled, 'labelled node')}")
    _show_certificate(certificate, model, rounds)
    if reason is not None:
        screen.out(f"no bound of the test error: {reason}")
    else:
        _show_bounds(bounds)
    if depth is not None:
        _show_depth(depth)
    if plot is not None:
        screen.out(f"drawn to {plot}")


def _bounds(
    model: gbgnn.GBGNNClassifier, saved: Saved, dataset: str | None, data_dir: Path | None, **wanted: Any
) -> tuple[Bounds, DepthBound | None, str | None]:
    """Return the bounds, by depth too where there is one score, or the reason why there are none."""
    from gbgnn.guarantees import covered_spaces

    try:
        covered_spaces(model.model_)
    except ParameterError as error:
        return {}, None, str(error)
    if dataset is None and "data" not in saved.config:
        return {}, None, "a bare model file does not know its graph; name the data with --dataset."
    source = saved.source.override(dataset, data_dir)
    graph = source.load_graph()
    if saved.graph_checksum not in (None, graph.checksum):
        raise DataError(
            f"the graph of {source.dataset} is not the one of the fit (or changed since), so the bound would "
            "not be about this model; fit again."
        )
    bounds = {
        kind: gbgnn.generalisation_bound(model, graph=graph, **wanted | how) for kind, how in _KINDS.items()
    }
    depth = gbgnn.depth_bound(model, graph=graph, **wanted) if model.scores_.shape[1] == 1 else None
    return bounds, depth, None


def _show_certificate(certificate: Certificate, model: gbgnn.GBGNNClassifier, n_shown: int) -> None:
    n_rounds, n_met = len(certificate.rounds), len(certificate.met)
    kept = "every promise was kept" if certificate.holds else "A PROMISE WAS BROKEN"
    screen.out(f"condition met in {n_met} of {screen.counted(n_rounds, 'round')}; {kept}")
    for note in certificate.notes:
        screen.out(f"  {note}")
    if n_shown:
        best, columns = certificate.best_round - 1, (*_CONDITION, *_OUTCOME)
        screen.show_records(certificate.rows(), columns, n_shown=n_shown, best=best, drop=_LEAST_WANTED)
    is_counted = model.metric_.name == "accuracy"  # else no round's training error was kept
    error = f"{1 - model.history_['train_accuracy'][certificate.best_round - 1]:.4f} " if is_counted else ""
    corrected, printed = (certificate.training_bounds(form=form)[-1] for form in ("corrected", "paper"))
    screen.out(
        f"* t*, the round of smallest gradient: training error {error}<= {_bound(corrected)} "
        f"(printed form, which does not hold: {_bound(printed)})"
    )
    screen.out()


def _show_bounds(bounds: Bounds) -> None:
    first = next(iter(bounds.values()))
    screen.out(f"test error, with confidence {first.confidence:g}, is at most")
    names = ("training", "complexity", "partition", "deviation", "total")
    words = {"training": f"training error at margin {first.delta:g}"}
    rows = [
        [words.get(name, name), *(_bound(getattr(bound, name)) for bound in bounds.values())]
        for name in names
    ]
    screen.show_table(["term", *bounds], rows, left=("term",))
    for note in dict.fromkeys(note for bound in bounds.values() for note in bound.notes):
        screen.out(f"  {note}")
    said = [kind for kind, bound in bounds.items() if kind != "as printed" and not bound.is_vacuous]
    screen.out(f"not vacuous: {', '.join(said)}" if said else "vacuous: every error is at most 1")


def _show_depth(depth: DepthBound) -> None:
    exponent, decay = screen.number(depth.gamma_exponent, ".3f"), screen.number(depth.decay, ".3f")
    holds = "both hold" if depth.conditions_hold else "not both hold"
    smallest = min(depth.totals)
    screen.out(
        f"by depth, training error bounded too: smallest at round {depth.best_depth}, {_bound(smallest)}"
        f"{' (vacuous)' if depth.is_vacuous else ''}. It falls with depth when Gamma grows like a power of T "
        f"(exponent here: {exponent}, wanted > 0) and what rounds add decays (ratio: {decay}, wanted < 1): "
        f"on this run {holds}"
    )


def _bound(value: float) -> str:
    return "no bound" if math.isinf(value) else f"{value:.4g}"
