from __future__ import annotations

import numpy as np
import pytest

from gbgnn import GBGNNClassifier, GBGNNRegressor
from gbgnn.families import FAMILIES, Family
from gbgnn.fitting import FitPlan
from gbgnn.presets import Facts
from gbgnn.testing import two_blocks

GRAPH, Y = two_blocks(60)


WORDS, NUMBERS = Facts(100, 50, 3, 1000, True, True, True), Facts(100, 50, 3, 10, False, True, False)
MANY_LABELS = Facts(1000, 600, 3, 1000, True, True, True)


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        *((family, GBGNNClassifier) for family in FAMILIES),
        *((family, GBGNNRegressor) for family in FAMILIES if family.suits(NUMBERS)),
    ],
    ids=lambda each: each.name if isinstance(each, Family) else each.__name__,
)
def test_every_variant_is_a_model_that_passes_all_checks(family: Family, kind: type) -> None:
    y = Y if kind is GBGNNClassifier else GRAPH.adjacency.sum(axis=1)
    nodes, held_out = np.arange(30), np.arange(30, 40)
    assert family.variants
    assert family.cost > 0
    for variant in family.variants.values():
        model = kind(**{"preset": "fast", **variant})
        validation = (held_out, y[held_out])
        plan = FitPlan.build(model, model.task_for(y), nodes, y[nodes], GRAPH, seed=0, validation=validation)
        assert plan.member.n_rounds >= 1


def test_names_are_unique_and_a_wide_sparse_table_has_no_trees() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)
    suited = [[family.name for family in FAMILIES if family.suits(facts)] for facts in (WORDS, NUMBERS)]
    of_words = {"consistency", "smooth network", "convolution"}
    assert set(names) - set(suited[0]) == {"trees", "residuals", "smooth network", "convolution"}
    assert set(names) - set(suited[1]) == of_words
    assert of_words - {family.name for family in FAMILIES if family.suits(MANY_LABELS)} == {"consistency"}
