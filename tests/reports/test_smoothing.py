from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gbgnn.graph import Graph
from gbgnn.propagation import NormalizedLaplacian, RandomWalk
from gbgnn.reports import smoothing_figure, write_figure
from gbgnn.smoothing import SmoothingProfile, smoothing_profile
from gbgnn.testing import path4

SIGNATURES = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.fixture(scope="module")
def profile() -> SmoothingProfile:
    return smoothing_profile(path4(), rounds=30)


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
