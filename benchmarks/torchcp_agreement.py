"""Diffused scores of classes and sets, ours beside TorchCP's own DAPS, on the graphs of Planetoid.

TorchCP is not installed: importing it needs transformers and more. Its wheel is unpacked into a folder
(``pip download torchcp==1.2.1 --no-deps``, ``unzip``), of which the modules for graphs are loaded one by one.
Both are handed the same scores of a fitted model, APS without random shares. TorchCP computes in single
precision. Nodes without neighbours are left out: there TorchCP takes 0 for the mean of no scores, so that
every class looks usual, and we leave a node its own scores.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import PLANETOID, publish, table
from held_out_graphs import read

from gbgnn import GBGNNClassifier
from gbgnn.calibration import find_proba
from gbgnn.conformal import aps_scores, conformal_quantile
from gbgnn.diffusion import diffuse


def load_module(folder: Path, name: str) -> Any:
    """Return a module of TorchCP's; packages above it stay empty, so that nothing else is imported."""
    parts = name.split(".")
    for n in range(1, len(parts)):
        package = ".".join(parts[:n])
        if package not in sys.modules:
            empty = types.ModuleType(package)
            empty.__path__ = [str(folder / Path(*parts[:n]))]
            sys.modules[package] = empty
    path = folder / Path(*parts[:-1]) / f"{parts[-1]}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def compare(name: str, folder: Path, confidence: float) -> list[list[str]]:
    """Return a row for every diffusion parameter."""
    daps = load_module(folder, "torchcp.graph.score.daps").DAPS
    aps = load_module(folder, "torchcp.classification.score.aps").APS(score_type="identity", randomized=False)
    quantile = load_module(folder, "torchcp.utils.common").calculate_conformal_value
    data = read(name)
    drawn = np.random.default_rng(0).permutation(data.held_out)
    linked = np.diff(data.graph.adjacency.indptr) > 0
    drawn = drawn[linked[drawn]]
    cal, others = drawn[:500], drawn[500:]
    model = GBGNNClassifier(preset="fast", random_state=0)
    model.fit(data.train, data.y[data.train], graph=data.graph)
    proba = find_proba(model.model_)
    targets = model.task_.encode(data.y[cal])
    edges = torch.as_tensor(np.stack(data.graph.adjacency.nonzero()), dtype=torch.int64)
    graph = types.SimpleNamespace(num_nodes=len(proba), edge_index=edges, edge_weight=None)
    rows = []
    for share in (0.25, 0.5, 0.75):
        theirs = daps(graph, aps, neigh_coef=share)(torch.as_tensor(proba, dtype=torch.float32))
        ours = diffuse(data.graph, aps_scores(proba, np.zeros(len(proba))), share)
        limit = conformal_quantile(ours[cal, targets], confidence)
        their_limit = float(quantile(theirs[cal, targets], 1 - confidence))
        sets, their_sets = ours[others] <= limit, (theirs[others] <= their_limit).numpy()
        gap = float(np.abs(ours - theirs.numpy())[linked].max())
        differ = int((sets != their_sets).any(axis=1).sum())
        told = f"{differ} of {len(others):,}"
        rows.append([name, f"{share:g}", f"{gap:.1e}", f"{limit:.6f}", f"{their_limit:.6f}", told])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the wheel of torchcp was unpacked")
    parser.add_argument("--confidence", type=float, default=0.9)
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    sys.argv[1] = "FOLDER"  # which is of no interest on the page
    rows = [row for name in PLANETOID for row in compare(name, asked.folder, asked.confidence)]
    head = ["graph", "lambda", "largest gap of scores", "our limit", "TorchCP's", "nodes with other sets"]
    lines = [*(__doc__ or "").strip().splitlines(), "", *table(head, rows)]
    publish("torchcp_agreement", "DAPS: gbgnn and TorchCP 1.2.1", lines, rows)


if __name__ == "__main__":
    main()
