from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from gbgnn.dask.graph import DaskGraph
from gbgnn.dask.rows import DaskRows
from gbgnn.dask.storage import Cluster, check_recipe
from gbgnn.errors import AbsentError, ParameterError
from gbgnn.problem import InputRecipe
from gbgnn.propagation import AugmentedAdjacency, GivenMatrix, Propagation
from gbgnn.storage import Needs


def test_a_graph_in_memory_is_sent_once_and_goes_with_it(client, make_graph) -> None:
    storage, recipe, graph = Cluster(client), InputRecipe(AugmentedAdjacency()), make_graph()
    first, again = (storage.build(recipe, graph, None, Needs(1)).features for _ in range(2))
    assert isinstance(first, DaskRows)
    assert isinstance(again, DaskRows)
    assert first.graph is again.graph
    assert [chunk.key for chunk in first.chunks] == [chunk.key for chunk in again.chunks]
    del graph, first, again
    assert not len(storage._sent)


def test_parts_that_need_more_say_so(client, make_graph) -> None:
    needs = Needs(1, "learner=BoostedTrees()")
    with pytest.raises(
        ParameterError, match=r"labelled nodes alone, but learner=BoostedTrees\(\) needs more"
    ):
        Cluster(client).build(InputRecipe(AugmentedAdjacency()), make_graph(), None, needs)


def test_only_what_looks_at_degrees_can_be_made_in_chunks() -> None:
    @dataclass(kw_only=True, eq=False, repr=False)
    class Squared(Propagation):
        def build(self, adjacency):
            return adjacency @ adjacency

    with pytest.raises(ParameterError, match=r"propagation=Squared\(\) may look at more of the graph"):
        check_recipe(Squared())
    with pytest.raises(ParameterError, match="a matrix given as propagation= is not cut into chunks"):
        check_recipe(GivenMatrix(matrix=np.eye(2)))
    check_recipe(GivenMatrix())


def test_p_itself_is_not_here(client, make_graph) -> None:
    graph = DaskGraph.from_graph(make_graph(), client=client)
    P = Cluster(client).build(InputRecipe(AugmentedAdjacency()), graph, None, Needs(1)).P
    with pytest.raises(AbsentError, match=r"P is in blocks on the workers .* ask the model of to_local\(\)"):
        P.to_scipy()
    assert not hasattr(P, "__deepcopy__")


@pytest.mark.parametrize("norm", [None, "l1"])
def test_features_have_the_precision_and_norm_of_the_recipe(client, make_graph, norm) -> None:
    graph, recipe = make_graph(), InputRecipe(AugmentedAdjacency(), feature_norm=norm, dtype=torch.float64)
    there = Cluster(client).build(recipe, graph, None, Needs(1)).features.dense()
    assert torch.equal(there, recipe.build(graph).features.dense())
