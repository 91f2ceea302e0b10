from __future__ import annotations

import pytest
import torch

from gbgnn import Graph
from gbgnn.dask.graph import DaskGraph
from gbgnn.dask.storage import Cluster
from gbgnn.problem import InputRecipe
from gbgnn.propagation import AugmentedAdjacency, GraphRows, Mixable
from gbgnn.storage import Needs

HOPS = (
    ((1,), [1.0], 0.0),
    ((0, 1), [0.25, 0.75], 0.0),
    ((1,), [0.9], 0.1),
    ((0, 1, 2, 4), [0.1, 0.2, 0.3, 0.4], 0.5),
)


def both(client, graph: Graph, dtype: torch.dtype = torch.float32) -> tuple[Mixable, Mixable]:
    """Return the rows of a graph on workers, and here."""
    recipe = InputRecipe(AugmentedAdjacency(), dtype=dtype)
    there = DaskGraph.from_graph(graph, client=client, n_chunks=3)
    remote = Cluster(client).build(recipe, there, None, Needs(1)).features
    inputs = recipe.build(graph)
    assert isinstance(remote, Mixable)
    return remote, GraphRows.of(inputs.features, inputs.P)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_are_mixed_as_in_memory_bit_by_bit(client, make_graph, dtype: torch.dtype) -> None:
    there, here = both(client, make_graph(), dtype)
    ids = torch.tensor([59, 0, 20, 20, 41])
    for exponents, weights, injection in HOPS:
        own = torch.tensor(weights, dtype=torch.float64)
        assert torch.equal(there.power_rows(exponents, ids), here.power_rows(exponents, ids))
        there, here = there.mixed(exponents, own, injection), here.mixed(exponents, own, injection)
        assert torch.equal(there.rows(ids), here.rows(ids))
    assert torch.equal(there.dense(), here.dense())
    assert (there.shape, there.dtype, there.nbytes) == (here.shape, here.dtype, 0)


def test_in_16_bits_sums_differ_by_a_last_bit_at_most(client, make_graph) -> None:
    there, here = both(client, make_graph(), torch.bfloat16)
    product = there.mixed((1,), torch.ones(1)), here.mixed((1,), torch.ones(1))
    assert torch.equal(*(X.dense() for X in product))
    share = torch.tensor([0.25, 0.75])
    summed = (X.mixed((0, 1), share).dense() for X in (there, here))
    torch.testing.assert_close(*summed, rtol=2**-7, atol=2**-7)


def test_blocks_are_of_the_size_that_was_asked_for(client, make_graph) -> None:
    there, here = both(client, make_graph())
    blocks = list(there.blocks(5 * 7 * 4))
    assert max(map(len, blocks)) == 5
    assert torch.equal(torch.cat(blocks), here.dense())


def test_rows_that_nobody_has_any_more_are_let_go(client, make_graph) -> None:
    X, _ = both(client, make_graph())
    held = []
    for _ in range(6):
        X = X.mixed((1,), torch.ones(1))
        X.rows(torch.tensor([0]))
        client.sync(_settled, client)
        keys = {key for keys in client.has_what().values() for key in keys}
        held.append(sum("multiply" in str(key) for key in keys))
    assert max(held[2:]) <= 2 * 3  # those of now, and at most those of before


async def _settled(client) -> None:
    import asyncio

    await asyncio.sleep(0.1)
