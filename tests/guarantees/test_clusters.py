from __future__ import annotations

import json
import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import normalize

from gbgnn import cluster_bound, datasets
from gbgnn.errors import GraphError, ParameterError
from gbgnn.guarantees import clusters as module
from gbgnn.propagation import AugmentedAdjacency
from gbgnn.testing import two_blocks
from gbgnn.theory.holdout import most_errors_at

DATA = datasets.csbm(300, separation=2.0, seed=0)
HALF = np.random.default_rng(0).permutation(300)[:150]
REST = np.setdiff1d(np.arange(300), HALF)


def test_the_bound_is_the_formula_of_the_best_clustering() -> None:
    bound = cluster_bound(DATA.graph, HALF, DATA.y[HALF], hops=(1, 2), sizes=(2, 5), confidence=0.9)
    assert bound.n_wrong == (bound.predictions[HALF] != DATA.y[HALF]).sum()
    log_failure = math.log(0.1) - bound.n_clusters * math.log(2) - math.log(4)
    assert bound.most_wrong == most_errors_at(bound.n_wrong, 150, 300, log_failure) - bound.n_wrong
    assert (bound.n_labelled, bound.n_others, bound.n_tried) == (150, 150, 4)
    assert bound.bound == bound.most_wrong / 150
    for t, size in product((1, 2), (2, 5)):
        one = cluster_bound(DATA.graph, HALF, DATA.y[HALF], hops=(t,), sizes=(size,), confidence=1 - 0.1 / 4)
        assert one.most_wrong >= bound.most_wrong
    assert not bound.is_vacuous
    assert np.mean(bound.predictions[REST] != DATA.y[REST]) <= bound.bound


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n_clusters=st.integers(1, 3), K=st.integers(2, 3))
def test_the_commonest_classes_are_the_best_of_all_ways_to_name_clusters(
    seed: int, n_clusters: int, K: int
) -> None:
    """And it holds as rarely wrong as it says: every way fails with at most its share of the probability."""
    random = np.random.default_rng(seed)
    graph, _ = two_blocks(24)
    y = random.integers(K, size=24)
    y[:K] = np.arange(K)
    nodes = np.concatenate([np.arange(K), random.choice(np.arange(K, 24), 9, replace=False)])
    bound = cluster_bound(graph, nodes, y[nodes], hops=(1,), sizes=(n_clusters,), n_classes=K)
    (_, found), *_ = module._clusterings(graph, (1,), (n_clusters,), "augmented", 0)
    ways = product(range(K), repeat=n_clusters)
    assert bound.n_wrong == min(int((np.array(names)[found[nodes]] != y[nodes]).sum()) for names in ways)


def test_it_fails_as_rarely_as_it_says_over_random_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 draws of the labelled nodes; random labels, so that names of clusters are learned by heart."""
    graph, _ = two_blocks(60)
    known = list(module._clusterings(graph, (1,), (6,), "augmented", 0))
    monkeypatch.setattr(module, "_clusterings", lambda *_: iter(known))
    random = np.random.default_rng(1)
    y, fails = random.integers(2, size=60), 0
    for _ in range(1000):
        order = random.permutation(60)
        rows = order[:40]
        bound = cluster_bound(graph, rows, y[rows], hops=(1,), sizes=(6,), n_classes=2, confidence=0.5)
        fails += (bound.predictions[order[40:]] != y[order[40:]]).sum() > bound.most_wrong
    assert fails / 1000 <= 0.5


def test_what_is_tried_is_known_before_the_labels() -> None:
    """The price is that of all clusterings; other defaults are other promises."""
    assert (module.HOPS, module.SIZES) == ((2, 4, 8, 16), (8, 12, 16, 24, 32, 48))
    assert cluster_bound(DATA.graph, HALF, DATA.y[HALF]).n_tried == 24


def test_labels_have_no_say_in_the_clusters() -> None:
    first = cluster_bound(DATA.graph, HALF, DATA.y[HALF], hops=(2,), sizes=(4,))
    swapped = cluster_bound(DATA.graph, HALF, 1 - DATA.y[HALF], hops=(2,), sizes=(4,))
    assert np.array_equal(first.predictions, 1 - swapped.predictions)
    assert first.most_wrong == swapped.most_wrong


def test_other_predictions_are_bounded_by_how_often_they_differ() -> None:
    bound = cluster_bound(DATA.graph, HALF, DATA.y[HALF], hops=(2,), sizes=(2,))
    said = bound.predictions[REST].copy()
    assert bound.bound_of(said, REST) == bound.bound
    said[:15] = 1 - said[:15]
    assert bound.bound_of(said, REST) == pytest.approx(bound.bound + 0.1)
    assert bound.bound_of(1 - bound.predictions[REST], REST) == 1.0
    with pytest.raises(ParameterError, match="nodes must be the 150 others; got 1 nodes"):
        bound.bound_of([0], [1])


def test_a_population_and_more_classes_than_were_seen() -> None:
    among = np.concatenate([HALF, REST[:50]])
    few = cluster_bound(DATA.graph, HALF, DATA.y[HALF], hops=(2,), sizes=(4,), population=among)
    assert few.n_others == 50
    assert "uniform draw from all 200" in few.notes[0]
    more = cluster_bound(DATA.graph, HALF, DATA.y[HALF], hops=(2,), sizes=(4,), population=among, n_classes=9)
    assert more.most_wrong > few.most_wrong


def test_words_and_json() -> None:
    bound = cluster_bound(DATA.graph, HALF, DATA.y[HALF], hops=(2,), sizes=(4,))
    assert str(bound).startswith("with 95 % confidence at most ")
    assert "4 clusters after 2 hops" in str(bound)
    document = json.loads(json.dumps(bound.to_dict()))
    assert document["bound"] == bound.bound
    assert document["sentence"] in str(bound)
    assert "predictions" not in document


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"hops": ()}, ParameterError, "cluster_bound.hops is empty"),
        ({"sizes": (0,)}, ParameterError, r"sizes\[0\] must be an integer >= 1; got 0"),
        ({"hops": (-1,)}, ParameterError, r"hops\[0\] must be an integer >= 0"),
        ({"n_classes": 1}, ParameterError, "n_classes must be an integer >= 2, or None; got 1"),
        ({"confidence": 1}, ParameterError, r"confidence must be in \(0, 1\)"),
        ({"population": [1]}, ParameterError, "population must hold the labelled nodes"),
        ({"population": HALF}, ParameterError, "every node is labelled"),
        ({"population": [900]}, GraphError, "population holds node id 900"),
    ],
)
def test_bad_arguments_are_named(arguments: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        cluster_bound(DATA.graph, HALF, DATA.y[HALF], **arguments)


def test_clusters_are_of_the_directions_after_so_many_hops() -> None:
    P = AugmentedAdjacency().build(DATA.graph.adjacency).toarray()
    found = module._clusterings(DATA.graph, (1, 3), (4,), "augmented", 0)
    for t, clusters in found:
        rows = normalize(np.linalg.matrix_power(P, t) @ np.asarray(DATA.graph.features, float))
        table = PCA(min(32, *rows.shape), random_state=0).fit_transform(rows)
        same = KMeans(4, n_init=3, random_state=0).fit(table).labels_
        assert adjusted_rand_score(clusters, same) > 0.95
