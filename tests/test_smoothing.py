from __future__ import annotations

import numpy as np
import pytest

from gbgnn import GivenMatrix, RandomWalk, smoothing_profile
from gbgnn.errors import ParameterError
from gbgnn.testing import path4
from gbgnn.theory import smoothing


@pytest.mark.parametrize(
    ("name", "recipe"), [("random_walk", RandomWalk()), (np.eye(4), GivenMatrix(matrix=np.eye(4)))]
)
def test_names_objects_and_matrices_are_the_same(name: object, recipe: object) -> None:
    direct = smoothing.smoothing_profile(path4(), rounds=3, propagation=recipe)
    assert smoothing_profile(path4(), rounds=3, propagation=name) == direct
    assert smoothing_profile(path4(), rounds=3, propagation=recipe) == direct


def test_default_is_the_augmented_adjacency_and_the_graphs_own_features() -> None:
    graph = path4()
    assert smoothing_profile(graph, rounds=3) == smoothing.smoothing_profile(graph, graph.features, 3)


def test_unknown_names_are_an_error() -> None:
    with pytest.raises(ParameterError, match="unknown propagation 'augmentd'"):
        smoothing_profile(path4(), propagation="augmentd")
