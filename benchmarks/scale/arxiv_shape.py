"""Our default beside PyG's GCN on a graph of the shape of ogbn-arxiv: seconds to train, and peak memory.

A power-law graph of 169,343 nodes, 2.3 million entries, 128 features and 40 classes with as many labelled
nodes as arxiv has, of which nothing is downloaded. The GCN has 3 layers of 256 units with batch normalisation
and dropout 0.5, full batch, Adam with steps of 0.01; its time is that until its best validation epoch, with
no word on the epochs after it. Every fit is a process of its own, watched from outside.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from children import answer_parent, run_child
from common import publish, table

from gbgnn import GBGNNClassifier, datasets
from gbgnn.datasets import Dataset

N_NODES, N_ENTRIES, N_FEATURES, N_CLASSES = 169_343, 2_315_598, 128, 40
TRAIN, VAL = 90_941, 29_799


def load(seed: int) -> Dataset:
    """Draw the graph."""
    sizes = {"n_nodes": N_NODES, "n_features": N_FEATURES, "n_classes": N_CLASSES}
    shares = {"train": TRAIN / N_NODES, "val": VAL / N_NODES}
    return datasets.power_law(
        **sizes, **shares, mean_degree=N_ENTRIES / N_NODES, homophily=0.65, separation=1.5, seed=seed
    )


def judge(proba: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return accuracy and log loss."""
    own = np.clip(proba[np.arange(len(y)), y], 1e-12, None)
    return {"accuracy": float((proba.argmax(1) == y).mean()), "log_loss": float(-np.log(own).mean())}


def fit_ours(seed: int, device: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Fit, predict the test nodes."""
    data = load(seed)
    model = GBGNNClassifier(**settings, random_state=seed, device=device)
    started = time.perf_counter()
    model.fit(data.train, data.y[data.train], graph=data.graph, validation=(data.val, data.y[data.val]))
    seconds = time.perf_counter() - started
    told = judge(model.predict_proba(data.test), data.y[data.test])
    return {**told, "seconds": seconds, "what": f"round {model.best_round_}", **gpu_peak(device)}


def fit_gcn(seed: int, device: str, epochs: int, patience: int = 50) -> dict[str, Any]:
    """Do the same with a graph convolutional network."""
    from torch import nn
    from torch.nn.functional import cross_entropy
    from torch_geometric.nn import GCNConv
    from torch_geometric.utils import from_scipy_sparse_matrix

    torch.manual_seed(seed)
    data = load(seed)
    started = time.perf_counter()
    edges = from_scipy_sparse_matrix(data.graph.adjacency.tocoo())[0].to(device)
    X = torch.from_numpy(np.asarray(data.graph.features)).to(device)
    y = torch.from_numpy(data.y).to(device)
    train, val, test = (
        torch.from_numpy(np.asarray(part)).to(device) for part in (data.train, data.val, data.test)
    )
    widths = [N_FEATURES, 256, 256, N_CLASSES]
    layers = nn.ModuleList(GCNConv(*ends, cached=True) for ends in pairwise(widths)).to(device)
    norms = nn.ModuleList(nn.BatchNorm1d(256) for _ in layers[1:]).to(device)
    optimizer = torch.optim.Adam([*layers.parameters(), *norms.parameters()], lr=0.01)

    def run() -> torch.Tensor:
        H = X
        for layer, norm in zip(layers[:-1], norms, strict=True):
            H = nn.functional.dropout(norm(layer(H, edges)).relu(), 0.5, training=layers.training)
        return layers[-1](H, edges)

    best: dict[str, Any] = {"val": -1.0}
    for epoch in range(epochs):
        layers.train(), norms.train()
        optimizer.zero_grad()
        cross_entropy(run()[train], y[train]).backward()
        optimizer.step()
        layers.eval(), norms.eval()
        with torch.no_grad():
            output = run()
        accuracy = float((output[val].argmax(1) == y[val]).float().mean())
        if accuracy > best["val"]:
            proba = output[test].softmax(1).cpu().numpy()
            best = {"val": accuracy, "seconds": time.perf_counter() - started, "epoch": epoch, "proba": proba}
        if epoch - best["epoch"] >= patience:
            break
    told = judge(best["proba"], data.y[data.test])
    return {**told, "seconds": best["seconds"], "what": f"epoch {best['epoch'] + 1}", **gpu_peak(device)}


def gpu_peak(device: str) -> dict[str, int]:
    """Return the most memory that was taken on a GPU."""
    return {"gpu_peak": torch.cuda.max_memory_allocated()} if device == "cuda" else {}


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=500)
    options = parser.parse_args()
    systems: dict[str, tuple[str, dict[str, Any]]] = {
        "gbgnn, default": ("fit_ours", {"settings": {}}),
        'gbgnn, preset="fast"': ("fit_ours", {"settings": {"preset": "fast"}}),
        "PyG's GCN": ("fit_gcn", {"epochs": options.epochs}),
    }
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in systems}
    for seed in range(options.repeats):
        for name, (task, own) in systems.items():
            runs[name].append(run_child(task, seed=seed, device=options.device, **own))
    rival, rows = np.median([run["seconds"] for run in runs["PyG's GCN"]]), []
    for name, own in runs.items():
        seconds, peak = (np.median([run[key] for run in own]) for key in ("seconds", "peak"))
        accuracy, loss = (np.mean([run[key] for run in own]) for key in ("accuracy", "log_loss"))
        spread = np.std([run["accuracy"] for run in own])
        cells = [
            f"{seconds:.1f}",
            f"{rival / seconds:.1f}",
            f"{peak / 1e9:.2f}",
            ", ".join(run["what"] for run in own),
        ]
        rows.append([name, f"{accuracy:.4f} ± {spread:.4f}", f"{loss:.3f}", *cells])
    head = ["system", "accuracy", "log loss", "seconds to train", "times as fast", "peak, GB", "kept"]
    shape = f"{N_NODES:,} nodes, {N_ENTRIES:,} entries, {N_FEATURES} features, {N_CLASSES} classes"
    lines = [
        f"{shape}, {TRAIN:,} labelled nodes, on {options.device}; medians of {options.repeats} graphs and "
        "seeds, accuracy and log loss their mean. Peak is that of the process, libraries and data included.",
        "",
        *table(head, rows),
    ]
    publish(
        f"arxiv_shape{'_gpu' * (options.device == 'cuda')}", "A graph of the shape of ogbn-arxiv", lines, runs
    )


if __name__ == "__main__":
    answer_parent({"fit_ours": fit_ours, "fit_gcn": fit_gcn})
    main()
