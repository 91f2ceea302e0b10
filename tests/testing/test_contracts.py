"""A contract check that cannot fail is worth nothing: each is shown a part that breaks it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn import MLP, Adjacency, AugmentedAdjacency, Samme
from gbgnn.aggregation import PolynomialHop
from gbgnn.testing import check_aggregation, check_learner, check_propagation, check_rule


class Peeks(MLP):
    def fit(self, X: torch.Tensor, task: object, seed: int) -> object:
        head = super().fit(X, task, seed)
        head.layers[-1].bias.add_(X.mean())
        return head


class Changes(Adjacency):
    def fit(self, X: torch.Tensor, problem: object, seed: int) -> object:
        X.mul_(2)
        return super().fit(X, problem, seed)


class Numbered(Adjacency):
    def fit(self, X: torch.Tensor, problem: object, seed: int) -> object:
        return PolynomialHop((1,), (float(X[0, 0]),))


class Unweighted(Samme):
    def advance(self, importance: torch.Tensor, vote: object, problem: object) -> torch.Tensor:
        return 2 * importance


class Hard(Samme):
    def soft_direction(self, output: torch.Tensor, n_classes: int) -> torch.Tensor:
        return self.direction(output, n_classes)


class Silent(Samme):
    @property
    def votes_for_one_class(self) -> bool:
        return False


class Misnamed(MLP):
    def fit(self, X: torch.Tensor, task: object, seed: int) -> object:
        head = super().fit(X, task, seed)
        head.__class__ = type("Head", (type(head),), {"first_layer": ("no.weight", "no.bias")})
        return head


class Ordered(AugmentedAdjacency):
    def build(self, adjacency: sp.csr_array) -> sp.csr_array:
        return sp.csr_array(sp.diags_array(np.arange(20.0)))


@pytest.mark.parametrize(
    ("check", "part", "message"),
    [
        (check_learner, Peeks(epochs=1), "depends on rows that carry no label"),
        (check_aggregation, Changes(), "changed its input"),
        (check_aggregation, Numbered(), "not equivariant"),
        (check_learner, Misnamed(epochs=1), "first_layer must name parameters"),
        (check_rule, Unweighted(), "importance does not sum to one"),
        (check_rule, Hard(), "no gradient passes soft_direction"),
        (check_rule, Silent(), "votes_for_one_class must say"),
        (check_propagation, Ordered(), "Not equal to tolerance"),
    ],
)
def test_broken_part_is_caught(check: object, part: object, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check(part)
