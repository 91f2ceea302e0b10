"""The repository's own rules. Which module may import which is in pyproject.toml, for ``lint-imports``."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import gbgnn
import gbgnn_lab

ROOT = Path(__file__).parent.parent
PACKAGES = {"gbgnn": ROOT / "tests", "gbgnn_lab": ROOT / "tests" / "lab"}


def test_every_module_can_be_imported() -> None:
    for package in (gbgnn, gbgnn_lab):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__") and "triton" not in module.name:
                import_module(module.name)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_of_the_source_has_a_folder_of_tests(package: str) -> None:
    source = ROOT / "src" / package
    for module in sorted(path for path in source.rglob("*.py") if path.stem != "__init__"):
        folder = PACKAGES[package] / module.parent.relative_to(source)
        assert any(folder.glob("test_*.py")), f"{module.parent} has no tests in {folder}"


def test_import_needs_the_four_core_packages_only() -> None:
    optional = [
        *("typer", "rich", "pooch", "safetensors", "pyarrow", "networkx"),
        *("matplotlib", "torch_geometric", "optuna", "pandas", "polars", "pynndescent"),
        *("lightgbm", "xgboost", "catboost", "skops", "onnx", "plotly", "jinja2", "playwright"),
        *("dask", "distributed"),
    ]
    blocked = f"import sys; sys.modules.update(dict.fromkeys({optional!r})); from gbgnn import *"
    subprocess.run([sys.executable, "-c", blocked], check=True)


def test_the_bare_import_is_free_of_torch() -> None:
    code = "import sys, gbgnn; assert 'torch' not in sys.modules; gbgnn.Graph; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'gbgnn' has no attribute 'Grahp'"):
        gbgnn.Grahp  # noqa: B018


def test_every_public_name_is_importable() -> None:
    assert sorted(gbgnn.__all__, key=str.lower) == sorted(set(gbgnn.__all__), key=str.lower)
    for name in gbgnn.__all__:
        assert getattr(gbgnn, name) is not None
    assert set(gbgnn.__all__) <= set(dir(gbgnn))
