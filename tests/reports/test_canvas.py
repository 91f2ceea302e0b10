from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gbgnn.errors import MissingDependencyError, ParameterError
from gbgnn.reports import check_figure_path, smoothing_figure, write_figure
from gbgnn.smoothing import SmoothingProfile, smoothing_profile
from gbgnn.testing import path4

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
        "import sys; from gbgnn.reports import smoothing_figure; assert 'matplotlib' not in sys.modules;"
        "from gbgnn.testing import path4; from gbgnn.smoothing import smoothing_profile;"
        "smoothing_figure(smoothing_profile(path4(), rounds=1));"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
