"""Memory and time of fine-tuning against depth: KTA on PubMed, ours beside plain automatic differentiation.

Every measurement is a process of its own. Memory is the peak of the process while it fine-tunes, above what
it held before. The plain implementation unrolls all hops over all nodes and lets torch differentiate.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import subprocess
import sys
import time
from typing import Any

import torch
from common import publish, reset_peak_memory, resident_bytes, table

from gbgnn import MLP, FineTuner, GBGNNClassifier, datasets
from gbgnn.finetuning import fine_tune_model
from gbgnn.fitting import build_problem
from gbgnn.model import FittedModel
from gbgnn.problem import Problem
from gbgnn.tasks import Classification

DEPTHS, PLAIN_DEPTHS, N_EPOCHS = (5, 10, 20, 40, 100), (5, 10, 20, 40), 3


class Product(torch.autograd.Function):
    """P @ X; P is symmetric, so the way back is P again."""

    @staticmethod
    def forward(ctx: Any, P: Any, X: torch.Tensor) -> torch.Tensor:
        """Multiply."""
        ctx.P = P
        return P(X)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """Multiply again."""
        return None, ctx.P(gradient)


def plain(model: FittedModel, problem: Problem) -> None:
    """Take Adam steps on the unrolled model."""
    etas = torch.tensor(model.etas, dtype=torch.float32, requires_grad=True)
    hops = model.ensemble.hops
    weights = [torch.tensor(hop.coefficients, requires_grad=True) for hop in hops[1:]]
    heads = [copy.deepcopy(r.head).requires_grad_(True) for r in model.ensemble]
    moved = [etas, *weights, *(p for head in heads for p in head.parameters())]
    optimizer, voting = torch.optim.Adam(moved, lr=1e-3), model.voting.softened()
    train, P = problem.train, problem.inputs.P
    for _ in range(N_EPOCHS):
        X, scores = problem.inputs.features.dense(), 0.0
        for t, head in enumerate(heads):
            if t:
                X = unrolled_hop(X, hops[t].powers, weights[t - 1], P)
            scores = scores + etas[t] * voting.direction(head(X[train.rows]))
        loss = (model.loss.values(scores, train.targets) * train.weights).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def unrolled_hop(X: torch.Tensor, powers: Any, weights: torch.Tensor, P: Any) -> torch.Tensor:
    reached, Z, result = 0, X, 0.0
    for power, weight in zip(powers, weights, strict=True):
        for _ in range(power - reached):
            Z = Product.apply(P, Z)
        reached, result = power, result + weight * Z
    return result


def measure(how: str, n_rounds: int, name: str) -> dict[str, float]:
    """Boost, then fine-tune one way; return megabytes above the start, and seconds per epoch."""
    data = datasets.load(name)
    estimator = GBGNNClassifier(
        aggregation="kta",
        rule="samme",
        learner=MLP(epochs=10),
        n_rounds=n_rounds,
        select="last",
        random_state=0,
        device="cpu",
    )
    labels = data.train, data.y[data.train]
    model = estimator.fit(*labels, graph=data.graph).model_
    problem = build_problem(
        estimator, Classification(), *labels, data.graph, validation=None, seed=model.seed
    )
    gc.collect()
    reset_peak_memory()
    held, started = resident_bytes(), time.perf_counter()
    if how == "plain":
        plain(model, problem)
    else:
        tuner = FineTuner(epochs=N_EPOCHS, keep="tuned", memory_limit="2GB")
        fine_tune_model(model, problem, tuner)
    seconds = (time.perf_counter() - started) / N_EPOCHS
    return {
        "megabytes": (resident_bytes(peak=True) - held) / 1e6,
        "seconds": seconds,
        "rounds": len(model.ensemble),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=2, metavar=("HOW", "ROUNDS"), help="measure once and print JSON")
    parser.add_argument("--dataset", default="pubmed", help="of --one")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one[0], int(args.one[1]), args.dataset)))
        return
    found: dict[str, dict[int, dict[str, float]]] = {"ours": {}, "plain": {}}
    for how, depths in (("ours", DEPTHS), ("plain", PLAIN_DEPTHS)):
        for n_rounds in depths:
            command = [sys.executable, __file__, "--one", how, str(n_rounds)]
            found[how][n_rounds] = json.loads(subprocess.check_output(command))
    rows = [
        [T, *(cell(found[how].get(T), key) for key in ("megabytes", "seconds") for how in ("ours", "plain"))]
        for T in DEPTHS
    ]
    lines = [
        f"KTA of degree 3, SAMME, PubMed; learners, steps and coefficients move. {N_EPOCHS} epochs; what is",
        "computed beforehand is part of an epoch's time. A dash was not run: at 200 MB a round, some 20 GB.",
        "",
        *table(["rounds", "ours, MB", "plain, MB", "ours, s an epoch", "plain, s an epoch"], rows),
    ]
    publish("finetuning", "Fine-tuning: memory and time against depth", lines, found)


def cell(result: dict[str, float] | None, key: str) -> str:
    return "-" if result is None else f"{result[key]:,.{0 if key == 'megabytes' else 2}f}"


if __name__ == "__main__":
    main()
