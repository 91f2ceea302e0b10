from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gbgnn import ConstrainedMLP, GBGNNClassifier, depth_bound
from gbgnn.errors import MissingDependencyError, ParameterError
from gbgnn.graph import Graph
from gbgnn.plots import (
    certificate_figure,
    check_figure_path,
    importances_figure,
    reliability_figure,
    smoothing_figure,
    write_figure,
)
from gbgnn.propagation import NormalizedLaplacian, RandomWalk
from gbgnn.reliability import Reliability
from gbgnn.smoothing import SmoothingProfile, smoothing_profile
from gbgnn.testing import path4, two_blocks

SIGNATURES = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.fixture(scope="module")
def profile() -> SmoothingProfile:
    return smoothing_profile(path4(), rounds=30)


@pytest.mark.parametrize("suffix", [*SIGNATURES, ".PNG"])
def test_same_figure_gives_the_same_file(suffix: str, profile: SmoothingProfile, tmp_path: Path) -> None:
    paths = [tmp_path / "new" / f"{name}{suffix}" for name in ("one", "two")]
    for path in paths:
        write_figure(smoothing_figure(profile), path)
    content = paths[0].read_bytes()
    assert content.startswith(SIGNATURES[suffix.lower()])
    assert content == paths[1].read_bytes()
    assert sorted(paths[0].parent.iterdir()) == paths


def test_other_endings_are_refused(profile: SmoothingProfile, tmp_path: Path) -> None:
    for name in ("curve.jpeg", "curve"):
        with pytest.raises(ParameterError, match=rf"must end in \.png, \.svg or \.pdf; got .*{name}\."):
            write_figure(smoothing_figure(profile), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_the_extra_is_named(
    profile: SmoothingProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for call in (lambda: smoothing_figure(profile), lambda: check_figure_path("curve.png")):
        with pytest.raises(MissingDependencyError, match=r'needs matplotlib: pip install "gbgnn\[plot\]"'):
            call()


def test_no_window_system_and_no_current_figure() -> None:
    code = (
        "import sys; from gbgnn.plots import smoothing_figure; assert 'matplotlib' not in sys.modules;"
        "from gbgnn.testing import path4; from gbgnn.smoothing import smoothing_profile;"
        "smoothing_figure(smoothing_profile(path4(), rounds=1));"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def fit(n_rounds: int = 5) -> GBGNNClassifier:
    graph, y = two_blocks(40)
    learner = ConstrainedMLP(epochs=5)
    model = GBGNNClassifier(learner=learner, n_rounds=n_rounds, random_state=0)
    return model.fit(np.arange(20), y[:20], graph=graph)


def test_curves_are_the_certificate() -> None:
    certificate = fit().certificate_
    progress, angle, gradient, bound = certificate_figure(certificate, title="Five rounds").axes
    actual, guaranteed = (line.get_ydata() for line in progress.lines)
    np.testing.assert_allclose(actual, np.cumsum([r.actual for r in certificate.rounds]))
    np.testing.assert_allclose(guaranteed, np.cumsum([r.guaranteed for r in certificate.rounds]))
    assert (np.array(actual) >= np.array(guaranteed) - 1e-6).all()
    np.testing.assert_array_equal(angle.lines[0].get_ydata(), [r.cosine for r in certificate.rounds])
    np.testing.assert_array_equal(
        gradient.lines[0].get_ydata(), [r.gradient_norm for r in certificate.rounds]
    )
    assert gradient.lines[1].get_xdata()[0] == certificate.best_round
    assert bound.get_title(loc="left") == "Bound of the training error"
    np.testing.assert_allclose(bound.lines[0].get_ydata()[1:], certificate.training_bounds()[1:])
    assert np.isnan(bound.lines[0].get_ydata()[0])


def test_terms_of_the_bound_by_depth_are_drawn_one_by_one() -> None:
    model = fit(n_rounds=50)
    depth = depth_bound(model)
    axes = certificate_figure(model.certificate_, depth).axes[3]
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert words == ["training", "complexity", "partition", "deviation", "total", "vacuous from here up"]
    np.testing.assert_allclose(axes.lines[1].get_ydata(), depth.complexity)
    np.testing.assert_allclose(axes.lines[4].get_ydata()[1:], depth.totals[1:])


def test_without_a_bound_the_reason_stands_in_its_place() -> None:
    certificate = fit().certificate_
    first, second, *rest = certificate.rounds
    too_long = replace(second, alpha=None, beta=None, gamma=None)
    axes = certificate_figure(replace(certificate, rounds=(first, too_long, *rest))).axes[3]
    assert "a round took a step that the" in axes.texts[0].get_text()


SIGNATURES = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


def test_curves_are_the_columns(profile: SmoothingProfile) -> None:
    distance, rank, energy, norm = smoothing_figure(profile).axes
    np.testing.assert_array_equal(distance.lines[0].get_ydata(), profile.distance)
    np.testing.assert_array_equal(distance.lines[1].get_ydata(), profile.predicted)
    for axes, column in ((rank, profile.effective_rank), (energy, profile.energy), (norm, profile.norm)):
        np.testing.assert_array_equal(axes.lines[0].get_ydata(), column)
        np.testing.assert_array_equal(axes.lines[0].get_xdata(), np.arange(31))


def test_exponential_decay_is_drawn_on_a_logarithmic_axis(profile: SmoothingProfile) -> None:
    distance, rank, energy, norm = smoothing_figure(profile).axes
    assert [axes.get_yscale() for axes in (distance, rank, energy, norm)] == [
        "log",
        "linear",
        "log",
        "linear",
    ]
    assert rank.get_ylim()[0] == norm.get_ylim()[0] == 0


def test_values_below_zero_and_zero_throughout_stay_linear() -> None:
    sharpened = smoothing_profile(path4(), rounds=5, propagation=3 * np.eye(4))
    assert smoothing_figure(sharpened).axes[2].get_yscale() == "linear"
    zero = smoothing_profile(Graph([[0, 1], [1, 0]], [[0.0], [0.0]]), rounds=2)
    assert {axes.get_yscale() for axes in smoothing_figure(zero).axes} == {"linear"}


def test_legend_says_bound_only_where_it_is_one(profile: SmoothingProfile) -> None:
    def words(of: SmoothingProfile) -> list[str]:
        return [text.get_text() for text in smoothing_figure(of).axes[0].get_legend().get_texts()]

    assert words(profile) == ["measured", r"bound, $|\lambda_2|$ = 0.7287"]
    walk = smoothing_profile(path4(), rounds=3, propagation=RandomWalk())
    assert words(walk)[1].startswith("long-run pace")


def test_what_is_missing_is_said_in_its_place(profile: SmoothingProfile) -> None:
    reasons = {"distance": "not found", "effective_rank": "too wide"}
    bare = replace(profile, distance=None, effective_rank=None, missing=reasons)
    distance, rank, *_ = smoothing_figure(bare, title="Bare").axes
    assert [text.get_text() for text in (*distance.texts, *rank.texts)] == [
        "none: not found",
        "none: too wide",
    ]
    assert distance.get_legend() is None
    assert not distance.lines


def test_title_and_short_axes() -> None:
    figure = smoothing_figure(smoothing_profile(path4(), rounds=0), title="Four nodes")
    assert figure.get_suptitle() == "Four nodes"
    assert [axes.get_xlabel() for axes in figure.axes] == ["", "", "hops t", "hops t"]


def test_laplacian_profile_can_be_written(tmp_path: Path) -> None:
    profile = smoothing_profile(path4(), rounds=60, propagation=NormalizedLaplacian())
    write_figure(smoothing_figure(profile), tmp_path / "sharp.png")
    assert (tmp_path / "sharp.png").stat().st_size > 10_000


def test_importances_are_bars_with_names_the_largest_first() -> None:
    figure = importances_figure({"$a$": 0.2, "labels 1 step away": 0.7, "position 1": 0.1}, n_shown=2)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["labels 1 step away", "$a$"]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([70, 20])
    assert axes.yaxis_inverted()
    assert not axes.get_yticklabels()[1].get_parse_math()


def test_reliability_is_drawn_without_empty_bins(tmp_path: Path) -> None:
    found = Reliability.measure([0.95, 0.9, 0.55, 0.6], [True, True, False, True], n_bins=5)
    figure = reliability_figure(found, "Cora")
    curve, bars = figure.axes
    (measured,) = [line for line in curve.get_lines() if line.get_label() == "measured"]
    np.testing.assert_allclose(measured.get_xydata(), [[0.575, 0.5], [0.925, 1.0]])
    assert [bar.get_height() for bar in bars.patches] == found.counts.tolist()
    assert "4 nodes, ECE 7.5 %" in curve.get_title(loc="left")
    write_figure(figure, tmp_path / "r.png")
    assert (tmp_path / "r.png").stat().st_size > 5000
