"""The repository's own rules: every module has tests, and imports point one way."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gbgnn

SOURCE = Path(gbgnn.__file__).parent
TESTS = Path(__file__).parent
MODULES = sorted(
    p.relative_to(SOURCE) for p in SOURCE.rglob("*.py") if p.stem not in ("__init__", "_version")
)

# Each layer may import itself and those before it.
LAYERS = [
    ["errors", "_version"],
    [
        *("_random", "_checks", "_devices", "_isolation", "_files", "_optimizers", "_projections"),
        *("_threads", "_blocks", "_json"),
    ],
    ["_matrices"],
    ["graph", "losses"],
    ["propagation", "tasks", "_checksums", "runs"],
    ["problem", "metrics", "theory"],
    ["rounds"],
    ["aggregation", "learners"],
    ["boosting"],
    ["model", "registry"],
    ["finetuning"],
    ["fitting"],
    ["datasets"],
    ["callbacks", "persistence", "settings", "estimators", "guarantees", "smoothing"],
    ["population"],
    ["search"],
    ["reports"],
    ["testing"],
    ["cli", "__main__"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_every_module_has_a_test_module(module: Path) -> None:
    name = f"test_{module.stem.strip('_')}.py"  # _random.py has test_random.py
    assert (TESTS / module.parent / name).exists(), f"tests/{module.parent / name} is missing"


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_imports_point_one_way(module: Path) -> None:
    layer = RANK[module.parts[0].removesuffix(".py")]
    for node in ast.walk(ast.parse((SOURCE / module).read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gbgnn."):
            assert RANK[node.module.split(".")[1]] <= layer, f"{module} imports {node.module}"


def test_import_needs_the_four_core_packages_only() -> None:
    optional = [
        *("typer", "rich", "tomli_w", "pooch", "safetensors", "pyarrow", "networkx"),
        *("matplotlib", "torch_geometric", "optuna"),
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
