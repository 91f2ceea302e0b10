"""TreesHead: fitted trees, averaged, saved without pickle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn._threads import LARGE, n_threads
from gbgnn.errors import MissingDependencyError, ModelFileError, ParameterError
from gbgnn.learners.base import Head
from gbgnn.learners.estimator_bytes import as_bytes, as_tensor
from gbgnn.learners.tree_arrays import TreeArrays
from gbgnn.learners.tree_libraries import KINDS, Forest, TreeModel
from gbgnn.learners.tree_shap import shapley_values


class AveragedTrees(NamedTuple):
    """Models that see the same first columns, one of all classes or one for each column, and their weight."""

    weight: float
    models: Sequence[TreeModel]

    @property
    def n_features(self) -> int:
        """How many columns they see."""
        return self.models[0].n_features

    def predict(self, rows: NDArray[Any], threads: int) -> NDArray[Any]:
        """Return raw outputs; of two classes it may be the logit of the second alone."""
        seen = rows[:, : self.n_features]
        return np.hstack([model.predict(seen, threads) for model in self.models])

    def trees(self) -> tuple[list[TreeArrays], NDArray[Any]]:
        """Return the trees with their leaves times the weight, and what is added to each column, as well."""
        trees: list[TreeArrays] = []
        base: list[float] = []
        for model in self.models:
            own, start = model.trees()
            trees += [
                replace(tree, value=self.weight * tree.value, column=len(base) + tree.column) for tree in own
            ]
            base += (self.weight * start).tolist()
        return trees, np.array(base)


class TreesHead(Head):
    """Fitted trees: the weighted mean of what members say that were grown on fewer or more columns."""

    def __init__(self, members: Sequence[AveragedTrees], n_outputs: int, n_features: int) -> None:
        super().__init__()
        self.members, self.n_outputs, self.n_features = list(members), n_outputs, n_features

    @property
    def models(self) -> list[TreeModel]:
        """The models of all members, one after another."""
        return [model for member in self.members for model in member.models]

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return logits of classes, or numbers."""
        if X.shape[1] != self.n_features:
            raise ParameterError(
                f"rows have {X.shape[1]} columns, but the trees have seen {self.n_features}."
            )
        rows = X.detach().cpu().numpy()
        threads = threads_for_trees(16 * rows.size)  # a row takes many steps through many trees
        output = np.sum([member.weight * member.predict(rows, threads) for member in self.members], axis=0)
        if output.shape[1] < self.n_outputs:  # two classes: the logit of the first is zero
            output = np.hstack([np.zeros_like(output), output])
        return torch.tensor(output, dtype=X.dtype, device=X.device)

    def trees(self) -> tuple[list[TreeArrays], NDArray[Any]]:
        """Return trees whose sum the outputs are, and what is added to it; of two classes to the second."""
        members = [member.trees() for member in self.members]
        return [tree for trees, _ in members for tree in trees], np.sum([base for _, base in members], axis=0)

    def shapley(self, rows: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return exact Shapley values of the columns; None of a library whose trees cannot be read."""
        try:
            trees, base = self.trees()
        except ParameterError:
            return None
        values, means = shapley_values(trees, rows, len(base))
        n_silent = self.n_outputs - len(base)  # of two classes the first
        return np.pad(values, ((0, 0), (0, 0), (n_silent, 0))), np.pad(base + means, (n_silent, 0))

    def importances(self) -> NDArray[np.float64]:
        """Return what splits on each column gained, of all trees, times the weights of the members.

        A member of another kind than the first has gains in a unit of its own: they count as shares of what
        the first has gained.
        """
        gains = [self._gains(member) for member in self.members]
        kinds = [member.models[0].library for member in self.members]
        units = [
            1.0 if kind == kinds[0] or not own.any() else gains[0].sum() / own.sum()
            for kind, own in zip(kinds, gains, strict=True)
        ]
        weights = [member.weight for member in self.members]
        return np.asarray(np.multiply(weights, units) @ np.stack(gains))

    def _gains(self, member: AveragedTrees) -> NDArray[np.float64]:
        total = np.zeros(self.n_features)
        for model in member.models:
            total[: model.n_features] += model.importances()
        return total

    def state(self) -> dict[str, torch.Tensor]:
        """Return the models in their library's own format, as bytes; weights only where there are several."""
        models = {f"model.{i}": as_tensor(model.to_bytes()) for i, model in enumerate(self.models)}
        kinds = [model.library for model in self.models]
        library = as_tensor((",".join(kinds) if len(set(kinds)) > 1 else kinds[0]).encode())
        sizes = {"n_outputs": torch.tensor(self.n_outputs), "n_features": torch.tensor(self.n_features)}
        weights = torch.tensor([member.weight for member in self.members], dtype=torch.float64)
        return {"library": library} | sizes | models | ({"weights": weights} if len(weights) > 1 else {})

    @classmethod
    def from_state(cls, state: dict[str, torch.Tensor]) -> TreesHead:
        """Read the models again; anything that is not what :meth:`state` writes is a ModelFileError."""
        try:
            kinds = as_bytes(state["library"]).decode().split(",")  # one for each model, or one for all
            n_outputs, n_features = int(state["n_outputs"]), int(state["n_features"])
            weights = _read_weights(state["weights"]) if "weights" in state else [1.0]
            n_models = len(state) - 3 - ("weights" in state)
            kinds = kinds * n_models if len(kinds) == 1 else kinds
            models = [
                KINDS[kind].from_bytes(as_bytes(state[f"model.{i}"]))
                for i, kind in zip(range(n_models), kinds, strict=True)
            ]
            members = _share_out(models, weights)
            _check_members(members, n_outputs, n_features)
        except MissingDependencyError:
            raise
        except Exception as error:  # whatever a library makes of forged bytes
            raise ModelFileError(f"its boosted trees cannot be read: {error}") from error
        return cls(members, n_outputs, n_features)

    def report(self) -> dict[str, Any]:
        """Return the weights of the members, summed by how many of the columns they see, and of forests."""
        weights: dict[str, float] = {}
        for member in self.members:
            weights[str(member.n_features)] = weights.get(str(member.n_features), 0.0) + member.weight
        forests = sum(member.weight for member in self.members if member.models[0].library == Forest.library)
        return {"columns": weights} | ({"forest": forests} if forests else {})


def _read_weights(stored: torch.Tensor) -> list[float]:
    """Return the weights of several members."""
    weights = stored.tolist()
    if stored.dtype != torch.float64 or stored.ndim != 1 or len(weights) < 2:
        raise ValueError("the weights of its members are not a list of numbers")
    if min(weights) <= 0 or not math.isclose(sum(weights), 1):
        raise ValueError(f"the weights of its members, {weights}, are not positive with sum one")
    return weights


def _share_out(models: Sequence[TreeModel], weights: Sequence[float]) -> list[AveragedTrees]:
    """Return as many members as there are weights, all with as many of the models."""
    size, rest = divmod(len(models), len(weights))
    if rest or not size:
        raise ValueError(f"{len(models)} models cannot be shared out to {len(weights)} members")
    return [AveragedTrees(w, models[i * size : (i + 1) * size]) for i, w in enumerate(weights)]


def _check_members(members: Sequence[AveragedTrees], n_outputs: int, n_features: int) -> None:
    """Raise unless models see the same of the columns, and return the outputs, or all but one of two."""
    n_columns = {sum(model.n_columns for model in member.models) for member in members}
    fits = n_columns == {n_outputs} or (n_columns, n_outputs) == ({1}, 2)
    seen = [{model.n_features for model in member.models} for member in members]
    if not fits or any(len(each) != 1 or max(each) > n_features for each in seen):
        raise ValueError(f"models with {sorted(n_columns)} columns do not give {n_outputs} outputs")


def threads_for_trees(work: float) -> int:
    """Return how many threads a library may use: one where there is little to do."""
    return n_threads() if work >= LARGE else 1
