from __future__ import annotations

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import NotFittedError

from gbgnn import (
    ConstrainedMLP,
    GBGNNClassifier,
    GBGNNRegressor,
    Graph,
    NodeSplit,
    datasets,
    holdout_bound,
    load,
)
from gbgnn.errors import GraphError, ParameterError
from gbgnn.guarantees.holdout import LEVELS
from gbgnn.testing import two_blocks
from gbgnn.theory import most_errors

N = 60
GRAPH, Y = two_blocks(N, n_classes=3)
ORDER = np.random.default_rng(0).permutation(N)
TRAIN, VAL, HELD, OTHERS = ORDER[:15], ORDER[15:25], ORDER[25:45], ORDER[45:]


def fit(**settings: object) -> GBGNNClassifier:
    model = GBGNNClassifier(preset="fast", learner=ConstrainedMLP(epochs=2), n_rounds=2, random_state=0)
    return model.set_params(**settings).fit(TRAIN, Y[TRAIN], graph=GRAPH, validation=(VAL, Y[VAL]))


MODEL = fit()


def test_it_counts_errors_of_the_model_s_own_predictions() -> None:
    bound = holdout_bound(MODEL, HELD, Y[HELD], confidence=0.9)
    k = int((MODEL.predict(HELD) != Y[HELD]).sum())
    assert (bound.n_wrong, bound.n_held_out, bound.n_others) == (k, len(HELD), len(OTHERS))
    assert bound.most_wrong == most_errors(k, len(HELD), len(HELD) + len(OTHERS), 0.9) - k
    assert bound.notes[0].endswith("how they were drawn is not known")
    assert bound.assumption_holds is None
    assert holdout_bound(MODEL.model_, HELD, Y[HELD], confidence=0.9) == bound


def test_by_the_class_that_is_predicted() -> None:
    bound = holdout_bound(MODEL, HELD, Y[HELD], confidence=0.9)
    said = MODEL.predict(np.arange(N))
    assert [each.label for each in bound.per_class] == np.unique(
        said[np.concatenate([HELD, OTHERS])]
    ).tolist()
    for each in bound.per_class:
        held, others = HELD[said[HELD] == each.label], OTHERS[said[OTHERS] == each.label]
        k = int((Y[held] != each.label).sum())
        assert (each.n_wrong, each.n_held_out, each.n_others) == (k, len(held), len(others))
        share = 1 - 0.1 / len(bound.per_class)
        assert each.most_wrong == most_errors(k, len(held), len(held) + len(others), share) - k


def test_by_how_sure_the_model_is() -> None:
    bound = holdout_bound(MODEL, HELD, Y[HELD], levels=(0.3, 0.36, 1.0))
    sure, right = MODEL.predict_proba(np.arange(N)).max(axis=1), MODEL.predict(np.arange(N)) == Y
    for each, level in zip(bound.per_level, (0.3, 0.36, 1.0), strict=True):
        held, others = HELD[sure[HELD] >= level], OTHERS[sure[OTHERS] >= level]
        k = int((~right[held]).sum())
        assert (each.level, each.n_wrong, each.n_held_out, each.n_others) == (
            level,
            k,
            len(held),
            len(others),
        )
        assert each.most_wrong == most_errors(k, len(held), len(held) + len(others), 1 - 0.05 / 3) - k
    assert [each.level for each in holdout_bound(MODEL, HELD, Y[HELD]).per_level] == list(LEVELS)


def test_choosing_by_these_nodes_is_paid_for() -> None:
    free, paid = (holdout_bound(MODEL, HELD, Y[HELD], n_choices=n) for n in (None, 20))
    assert paid.most_wrong > free.most_wrong
    assert "chose this model among 20" in paid.notes[1]
    for each, dear in zip(free.per_class, paid.per_class, strict=True):
        assert dear.most_wrong >= each.most_wrong


def test_validation_nodes_say_among_how_many_they_chose() -> None:
    with pytest.raises(ParameterError, match=r"10 of the nodes validated the fit.*n_choices="):
        holdout_bound(MODEL, VAL, Y[VAL])
    bound = holdout_bound(MODEL, VAL, Y[VAL], n_choices=2)
    assert (bound.n_held_out, bound.n_others) == (len(VAL), len(HELD) + len(OTHERS))


def test_training_nodes_cannot_be_held_out() -> None:
    with pytest.raises(GraphError, match="nodes shares 1 nodes with the training nodes"):
        holdout_bound(MODEL, [*HELD, TRAIN[0]], Y[[*HELD, TRAIN[0]]])


def test_a_population_says_who_could_have_been_drawn() -> None:
    few = OTHERS[:6]
    for population in (few, np.concatenate([few, HELD, TRAIN, VAL])):
        assert holdout_bound(MODEL, HELD, Y[HELD], population=population).n_others == 6
    with pytest.raises(ParameterError, match="there are no others to bound the error of"):
        holdout_bound(MODEL, HELD, Y[HELD], population=HELD)
    with pytest.raises(GraphError, match="population holds node id 60"):
        holdout_bound(MODEL, HELD, Y[HELD], population=[60])


def test_a_split_says_whether_it_drew_as_is_assumed() -> None:
    parts = np.sort(TRAIN), np.sort(VAL), np.sort(HELD)
    for draw, holds in (("uniform", True), ("per class", True), ("strata", False), ("", None)):
        bound = holdout_bound(MODEL, HELD, Y[HELD], split=NodeSplit(*parts, draw=draw))
        assert bound.assumption_holds is holds
    assert (
        "no theorem" in holdout_bound(MODEL, HELD, Y[HELD], split=NodeSplit(*parts, draw="strata")).notes[0]
    )
    with pytest.raises(ParameterError, match="the 19 held-out nodes are neither the validation nor the test"):
        holdout_bound(MODEL, HELD[1:], Y[HELD[1:]], split=NodeSplit(*parts))


def test_models_of_other_libraries() -> None:
    dummy = DummyClassifier(strategy="prior").fit(TRAIN, Y[TRAIN])
    with pytest.raises(ParameterError, match="does not know which nodes DummyClassifier was trained on"):
        holdout_bound(dummy, HELD, Y[HELD])
    bound = holdout_bound(dummy, HELD, Y[HELD], population=OTHERS)
    assert bound.n_wrong == (dummy.predict(HELD) != Y[HELD]).sum()
    assert bound.per_class[0].label == dummy.predict(HELD)[0]
    assert len(bound.per_level) == len(LEVELS)


def test_predictions_of_some_system() -> None:
    said = MODEL.predict(np.arange(N))
    bound = holdout_bound(said, HELD, Y[HELD], population=OTHERS)
    known = holdout_bound(MODEL, HELD, Y[HELD])
    assert (bound.n_wrong, bound.most_wrong, bound.per_class) == (
        known.n_wrong,
        known.most_wrong,
        known.per_class,
    )
    assert bound.per_level == ()


def test_a_model_from_a_file_knows_who_validated(tmp_path: object) -> None:
    MODEL.save(tmp_path / "m.gbgnn")
    again = load(tmp_path / "m.gbgnn")
    assert np.array_equal(again.validation_nodes_, MODEL.validation_nodes_)
    assert holdout_bound(again, HELD, Y[HELD]) == holdout_bound(MODEL, HELD, Y[HELD])


def test_an_average_of_models_knows_all_that_its_members_saw() -> None:
    data = datasets.csbm(200, per_class=15, n_val=30, n_test=60, seed=0)
    model = GBGNNClassifier(preset="best", time_limit=1, random_state=0)
    model.fit(data.train, data.y[data.train], graph=data.graph, validation=(data.val, data.y[data.val]))
    bound = holdout_bound(model, data.test, data.y[data.test], split=data.split)
    assert bound.n_others == 200 - 30 - 30 - 60
    assert bound.assumption_holds is True


def test_another_graph_has_no_nodes_that_were_seen() -> None:
    other = Graph(GRAPH.adjacency, 2 * np.asarray(GRAPH.features))
    bound = holdout_bound(MODEL, HELD, Y[HELD], graph=other)
    assert bound.n_others == N - len(HELD)
    assert holdout_bound(MODEL, HELD, Y[HELD], graph=GRAPH) == holdout_bound(MODEL, HELD, Y[HELD])


def test_numbers_have_no_errors_to_count() -> None:
    y = np.linspace(0, 1, len(TRAIN))
    regressor = GBGNNRegressor(n_rounds=1, random_state=0, preset="fast").fit(TRAIN, y, graph=GRAPH)
    for model in (regressor, DummyRegressor().fit(TRAIN, y)):
        with pytest.raises(ParameterError, match="it is for classes and labels"):
            holdout_bound(model, HELD, np.zeros(len(HELD)), population=OTHERS)


def test_any_label_that_is_wrong_makes_a_node_wrong() -> None:
    said = np.array([[1, 0], [1, 1], [0, 0], [0, 1]])
    bound = holdout_bound(said, [0, 1, 2], [[1, 0], [1, 0], [0, 0]], population=[3])
    assert (bound.n_wrong, bound.per_class, bound.per_level) == (1, (), ())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"confidence": 0.0}, r"holdout_bound.confidence must be in \(0, 1\); got 0.0"),
        ({"n_choices": 0}, "n_choices must be an integer >= 1, or None; got 0"),
        ({"levels": (0.5, 1.2)}, r"levels\[1\] must be in \[0, 1\]; got 1.2"),
    ],
)
def test_bad_arguments_are_named(arguments: dict, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        holdout_bound(MODEL, HELD, Y[HELD], **arguments)


def test_nothing_held_out_and_nothing_fitted() -> None:
    with pytest.raises(ParameterError, match="needs at least one held-out node"):
        holdout_bound(MODEL, [], [])
    with pytest.raises(GraphError, match="y has 2 labels for 20 nodes"):
        holdout_bound(MODEL, HELD, [0, 1])
    with pytest.raises(NotFittedError):
        holdout_bound(GBGNNClassifier(), HELD, Y[HELD])


def test_over_random_draws_it_fails_as_rarely_as_it_says() -> None:
    """2,000 uniform draws of 40 of the 100 nodes that did not train; 5 % may fail, and four sigma."""
    random = np.random.default_rng(0)
    truth = random.integers(3, size=100)
    said = np.where(random.random(100) < 0.7, truth, (truth + 1) % 3)
    fails = 0
    for _ in range(2000):
        order = random.permutation(100)
        held, others = order[:40], order[40:]
        bound = holdout_bound(said, held, truth[held], population=others)
        fails += np.mean(said[others] != truth[others]) > bound.bound
    assert 0 < fails / 2000 <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 2000)
