from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from gbgnn import (
    MLP,
    BlendedModel,
    Callback,
    GBGNNClassifier,
    GBGNNRegressor,
    Graph,
    SquaredError,
    StopReason,
    export,
    generalisation_bound,
    load,
)
from gbgnn import best as module
from gbgnn.best import N_SEEDS, list_candidates
from gbgnn.boosting import FunctionalGradient
from gbgnn.boosting.history import without_measurements
from gbgnn.errors import AbsentError, GBGNNWarning, GraphError, ParameterError
from gbgnn.families import FAMILIES, Family
from gbgnn.folds import N_FOLDS, draw_folds
from gbgnn.population import PopulationInputs, reason_apart
from gbgnn.presets import FEWEST_TO_CHOOSE, Facts
from gbgnn.testing import two_blocks

SMALL = MLP(units=8, epochs=20)
QUICK = (
    Family(
        name="boosted",
        variants={
            "plain": {"learner": SMALL, "n_rounds": 2},
            "injection": {"learner": SMALL, "n_rounds": 2, "aggregation": "injection"},
        },
    ),
    Family(
        name="alone",
        variants={"a round": {"learner": SMALL, "n_rounds": 1, "rule": FunctionalGradient(target="loss")}},
        cost=2.0,
    ),
)
HARDLY_TRAINED = {"learner": MLP(units=1, epochs=1), "n_rounds": 1}
BLIND = Family(name="blind", variants={"one": HARDLY_TRAINED, "same": HARDLY_TRAINED}, cost=3.0)
BROKEN = Family(name="broken", variants={"none": {"learner": MLP(units=-1)}}, cost=0.5)


@pytest.fixture(autouse=True)
def catalogue(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A catalogue that takes a moment."""
    monkeypatch.setattr(module, "FAMILIES", QUICK)
    return monkeypatch


GRAPH, Y = two_blocks(120, n_classes=3)
TRAIN, VAL, TEST = np.arange(40), np.arange(40, 80), np.arange(80, 120)


def fit(y: Any = Y, kind: Any = GBGNNClassifier, validation: bool = True, **settings: Any) -> Any:
    model = kind(**{"preset": "best", "random_state": 0, "device": "cpu"} | settings)
    held_out = (VAL, y[VAL]) if validation else None
    return model.fit(TRAIN, y[TRAIN], graph=GRAPH, validation=held_out)


def test_the_average_predicts_better_than_chance_and_says_what_was_tried() -> None:
    model = fit()
    assert isinstance(model.model_, BlendedModel)
    assert model.score(TEST, Y[TEST]) > 0.7
    assert [set(row) for row in model.leaderboard_] == [set(model.leaderboard_[0])] * 3
    assert {row["family"] for row in model.leaderboard_} == {"boosted", "alone"}
    assert sum(row["weight"] for row in model.leaderboard_) == pytest.approx(1)
    losses = [row["loss"] for row in model.leaderboard_]
    assert losses == sorted(losses)
    for row in model.leaderboard_:
        assert (row["status"] == "kept") == (row["weight"] > 0)
        assert row["models"] == (N_SEEDS if row["status"] == "kept" else row["models"])
        assert row["metric"] == "accuracy"
    assert model.validation_loss_ <= losses[0] * 1.05
    assert model.validation_score_ == pytest.approx(model.model_.evaluate(VAL, Y[VAL]))
    weights = [own.weight for own in model.members_]
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) == pytest.approx(1)


def test_variants_have_names_and_settings_in_one_line() -> None:
    assert {row["variant"] for row in fit().leaderboard_} == {"plain", "injection", "a round"}
    row = next(row for row in fit().leaderboard_ if row["family"] == "alone")
    assert row["settings"]["learner"] == "MLP(epochs=20, units=8)"


def test_a_member_is_the_model_that_its_settings_make_alone() -> None:
    member = next(own for own in fit().members_ if own.model.seed == 0 and own.name == "boosted")
    settings = {k: member.model.settings[k] for k in ("aggregation", "learner", "n_rounds")}
    alone = fit(preset="fast", **settings)
    assert alone.predict_proba(TEST).tobytes() == member.model.predict_proba(TEST).tobytes()


def test_the_same_seed_gives_the_same_bytes() -> None:
    one, other, third = fit(), fit(), fit(random_state=1)
    assert one.predict_proba(TEST).tobytes() == other.predict_proba(TEST).tobytes()
    assert [own.weight for own in one.members_] == [own.weight for own in other.members_]
    assert one.predict_proba(TEST).tobytes() != third.predict_proba(TEST).tobytes()


@pytest.mark.parametrize("validation", [True, False])
def test_labels_of_other_nodes_do_not_matter(validation: bool) -> None:
    scrambled = Y.copy()
    scrambled[TEST] = np.random.default_rng(0).permutation(scrambled[TEST])
    if not validation:
        scrambled[VAL] = 0
    one, other = fit(validation=validation), fit(scrambled, validation=validation)
    assert one.predict_proba(TEST).tobytes() == other.predict_proba(TEST).tobytes()


def test_without_validation_nodes_folds_of_the_labelled_ones_judge() -> None:
    model = fit(validation=False)
    assert {row["models"] for row in model.leaderboard_} == {N_FOLDS}
    assert model.train_nodes_.tolist() == TRAIN.tolist()
    judged = [np.setdiff1d(TRAIN, own.model.train_nodes) for own in model.members_ if own.name == "boosted"]
    assert sorted(np.unique(np.concatenate(judged))) == TRAIN.tolist()
    assert model.score(TEST, Y[TEST]) > 0.7


def test_of_many_labels_a_share_judges(catalogue: pytest.MonkeyPatch) -> None:
    catalogue.setattr("gbgnn.folds.MANY_LABELS", 30)
    model = fit(validation=False)
    assert model.train_nodes_.tolist() == model.members_[0].model.train_nodes.tolist()
    assert len(model.train_nodes_) == 32
    asked = fit(validation=False, validation_fraction=0.5)
    assert len(asked.train_nodes_) == 20


def test_a_class_that_a_fold_lacks_is_still_a_class() -> None:
    y = Y.copy()
    y[0] = 3  # the only one of its kind
    model = fit(y, validation=False)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert model.predict_proba(TEST).shape == (40, 4)
    assert all(0 in own.model.train_nodes for own in model.members_)


@given(
    strata=st.lists(st.integers(0, 3), min_size=2, max_size=30),
    seed=st.integers(0, 100),
    has_strata=st.booleans(),
)
@settings(max_examples=50)
def test_folds_part_the_nodes_and_leave_every_class_in_training(
    strata: list[int], seed: int, has_strata: bool
) -> None:
    kinds = np.array(strata)
    counts = np.bincount(kinds, minlength=4)
    if has_strata and counts.max() < 2:
        with pytest.raises(ParameterError, match="too few"):
            draw_folds(kinds, len(kinds), seed)
        return
    folds = draw_folds(kinds if has_strata else None, len(kinds), seed)
    everyone = np.concatenate(folds)
    expected = counts[kinds][counts[kinds] > 1].size if has_strata else len(kinds)
    assert len(np.unique(everyone)) == len(everyone) == expected
    assert min(map(len, folds)) >= 1
    assert max(map(len, folds)) - min(map(len, folds)) <= 1
    if has_strata:
        for fold in folds:
            assert set(kinds.tolist()) == set(np.delete(kinds, fold).tolist())


def test_too_few_labels_to_set_any_aside() -> None:
    with pytest.raises(ParameterError, match="too few for that; pass validation="):
        GBGNNClassifier(preset="best").fit([0, 1], [0, 1], graph=GRAPH)


def test_numbers_are_averaged_and_keep_their_unit() -> None:
    degree = GRAPH.adjacency.sum(axis=1) * 1000.0
    model = fit(degree, GBGNNRegressor, metric="neg_mean_absolute_error")
    expected = sum(own.weight * own.model.predict(TEST) for own in model.members_)
    np.testing.assert_allclose(model.predict(TEST), expected, rtol=1e-5)
    assert {row["temperature"] for row in model.leaderboard_} == {1.0}
    assert model.leaderboard_[0]["metric"] == "neg_mean_absolute_error"
    folded = fit(degree, GBGNNRegressor, validation=False)
    np.testing.assert_allclose(
        folded.predict(TEST), sum(own.weight * own.model.predict(TEST) for own in folded.members_), rtol=1e-5
    )
    assert not hasattr(folded, "classes_")


def test_quantiles_and_labels_are_averaged_too() -> None:
    degree = GRAPH.adjacency.sum(axis=1)
    model = fit(degree, GBGNNRegressor, loss="quantile", quantile=[0.1, 0.9])
    low, high = model.predict(TEST, quantiles=[0.1, 0.9]).T
    assert (low <= high).all()
    labels = np.column_stack([Y == 0, Y != 1]).astype(int)
    several = fit(labels, class_weight="balanced")
    assert several.predict(TEST).shape == (40, 2)
    assert (several.predict(TEST) == labels[TEST]).mean() > 0.7
    tempered = [_temper(own.model.predict_proba(TEST), own.temperature) for own in several.members_]
    expected = np.average(tempered, axis=0, weights=[own.weight for own in several.members_])
    np.testing.assert_allclose(several.predict_proba(TEST), expected, atol=1e-5)


def _temper(proba: np.ndarray, temperature: float) -> np.ndarray:
    on, off = (each.astype(float) ** (1 / temperature) for each in (proba, 1 - proba))
    return on / (on + off)


def test_a_family_that_is_clearly_worse_is_given_up(catalogue: pytest.MonkeyPatch) -> None:
    variants = {"one": HARDLY_TRAINED, "two": {**HARDLY_TRAINED, "n_rounds": 2}}
    blind = Family(name="blind", variants=variants, cost=3.0)
    catalogue.setattr(module, "FAMILIES", (*QUICK, blind))
    told = {row["variant"]: row for row in fit().leaderboard_ if row["family"] == "blind"}
    assert told["one"]["status"] == "weak"
    assert told["two"]["status"] == "not tried"
    assert told["two"]["score"] is None


def test_a_candidate_that_fails_is_recorded(catalogue: pytest.MonkeyPatch) -> None:
    catalogue.setattr(module, "FAMILIES", (*QUICK, BROKEN))
    model = fit()
    (row,) = [row for row in model.leaderboard_ if row["family"] == "broken"]
    assert row["status"].startswith("failed: MLP.units must be")
    assert row["weight"] == 0
    assert model.score(TEST, Y[TEST]) > 0.7


def test_where_all_fail_the_first_error_is_raised(catalogue: pytest.MonkeyPatch) -> None:
    catalogue.setattr(module, "FAMILIES", (BROKEN,))
    with pytest.raises(ParameterError, match="MLP.units must be") as caught:
        fit()
    assert "every candidate" in caught.value.__notes__[0]
    with pytest.raises(ParameterError, match="has nothing to try: no family suits"):
        fit_with(())


def fit_with(families: tuple[Family, ...]) -> Any:
    model = GBGNNClassifier(preset="best")
    arguments: dict[str, Any] = {"seed": 0, "families": families, "validation": (VAL, Y[VAL])}
    return module.train_best(model, model.task_for(Y), TRAIN, Y[TRAIN], GRAPH, **arguments)


def test_what_would_not_end_in_time_is_not_begun(catalogue: pytest.MonkeyPatch) -> None:
    variants = {"ten rounds": {"learner": SMALL}, "three": {"learner": SMALL, "n_rounds": 3}}
    slow = Family(name="slow", variants=variants, cost=1e12)
    catalogue.setattr(module, "FAMILIES", (*QUICK, slow))
    rows = fit(time_limit="10m").leaderboard_
    assert [row["status"] for row in rows if row["family"] == "slow"] == ["out of time"] * 2
    assert [row["models"] > 0 for row in rows if row["family"] == "alone"] == [True]


def test_with_hardly_any_time_one_round_of_one_candidate_is_trained() -> None:
    started = time.monotonic()
    model = fit(time_limit=1e-6)
    assert time.monotonic() - started < 5
    assert [row["status"] for row in model.leaderboard_] == ["kept", "out of time", "out of time"]
    (member,) = model.members_
    assert member.model.stop_reason is StopReason.TIME_IS_UP
    assert len(member.model.ensemble) == 1


def test_a_time_limit_holds_for_one_model_too() -> None:
    model = fit(preset="fast", learner=SMALL, time_limit=1e-6)
    assert len(model.ensemble_) == 1
    assert model.stop_reason_ is StopReason.TIME_IS_UP
    assert len(fit(preset="fast", learner=SMALL, n_rounds=3, time_limit=600).ensemble_) == 3
    with pytest.raises(ParameterError, match="GBGNNClassifier.time_limit must be a number of seconds"):
        fit(time_limit="soon")


class _Interrupt(Callback):
    def __init__(self) -> None:
        self.candidates: list[str] = []

    def on_start(self, start: Any) -> None:
        self.candidates.append(start.candidate)
        if len(self.candidates) == 2:
            raise KeyboardInterrupt


def test_an_interrupted_fit_keeps_what_is_trained() -> None:
    seen = _Interrupt()
    model = GBGNNClassifier(preset="best", callbacks=[seen])
    with pytest.raises(KeyboardInterrupt):
        model.fit(TRAIN, Y[TRAIN], graph=GRAPH, validation=(VAL, Y[VAL]))
    assert seen.candidates == ["boosted (plain)", "alone (a round)"]
    assert [own.name for own in model.members_] == ["boosted"]
    assert model.predict(TEST).shape == (40,)


def test_progress_names_the_candidate(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "gbgnn"):
        fit(verbose=1)
    assert "boosted (injection)" in caplog.messages
    assert sum(message.endswith("2 more seeds") for message in caplog.messages) >= 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("learner", "wide"), ("rule", "samme"), ("n_rounds", 3), ("fine_tune", True), ("warm_start", True)],
)
def test_parts_cannot_be_chosen_beside_it(name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=f'preset="best" tries several models and chooses {name} itself'):
        fit(**{name: value})


def test_other_settings_are_those_of_every_candidate() -> None:
    given = {"dtype": "float64", "class_weight": "balanced", "select": "last", "metric": "f1_macro"}
    model = fit(**given)
    for own in model.members_:
        assert {name: own.model.settings[name] for name in given} == given
        assert own.model.score_tensor.dtype == model.score_tensor_.dtype
    chosen = Family(name="selects", variants={"own": {"learner": SMALL, "n_rounds": 2, "select": "gradient"}})
    facts = Facts.of(GRAPH, model.task_, np.arange(len(Y)), Y, has_validation=True)
    (own,) = list_candidates(GBGNNClassifier(select="last"), model.task_, facts, [chosen])
    (free,) = list_candidates(GBGNNClassifier(), model.task_, facts, [chosen])
    assert (own.model.select, free.model.select) == ("last", "gradient")


def test_nothing_is_tried_twice() -> None:
    few = TRAIN[: FEWEST_TO_CHOOSE - 1]
    facts = Facts.of(GRAPH, GBGNNClassifier().task_for(Y), few, Y[few], has_validation=True)
    task = GBGNNClassifier().task_for(Y).fit(Y)
    found = list_candidates(GBGNNClassifier(preset="best"), task, facts, FAMILIES)
    names = [each.family.name for each in found]
    assert "default" not in names  # which of so few labels is the paper's method
    by_cost = [family.name for family in sorted(FAMILIES, key=lambda family: family.cost)]
    assert names == sorted(names, key=by_cost.index)


def test_bad_input_is_said_before_anything_is_trained() -> None:
    with pytest.raises(GraphError, match="y has 3 labels for 40 nodes"):
        GBGNNClassifier(preset="best").fit(TRAIN, Y[:3], graph=GRAPH)
    with pytest.raises(ParameterError, match="give either validation= or validation_fraction"):
        fit(validation_fraction=0.2)
    with pytest.raises(ParameterError, match="GBGNNClassifier.preset must be one of"):
        fit(preset="bets")


def test_it_saves_into_one_file(tmp_path: Path) -> None:
    model = fit(time_limit="5m")
    model.save(tmp_path / "model.gbgnn")
    again = load(tmp_path / "model.gbgnn")
    assert again.predict_proba(TEST).tobytes() == model.predict_proba(TEST).tobytes()
    assert again.leaderboard_ == without_measurements(model.leaderboard_)
    assert (again.preset, again.time_limit, again.graph_) == ("best", "5m", None)
    np.testing.assert_allclose(
        again.predict_proba(TEST, graph=GRAPH), model.predict_proba(TEST, graph=GRAPH), atol=1e-6
    )
    refitted = clone(again).fit(TRAIN, Y[TRAIN], graph=GRAPH, validation=(VAL, Y[VAL]))
    assert refitted.predict_proba(TEST).tobytes() == model.predict_proba(TEST).tobytes()


def test_it_predicts_other_graphs_and_stages() -> None:
    model = fit()
    other, y = two_blocks(90, n_classes=3, seed=0)
    assert (model.predict(np.arange(90), graph=other) == y).mean() > 0.7
    stages = list(model.staged_predict_proba(TEST))
    assert len(stages) == len(model.members_)
    np.testing.assert_allclose(stages[-1], model.predict_proba(TEST), atol=1e-6)
    assert list(model.staged_score(TEST, Y[TEST]))[-1] == model.score(TEST, Y[TEST])
    with pytest.raises(GraphError, match="graph must be a gbgnn.Graph"):
        model.predict(TEST, graph=np.eye(3))


def test_what_belongs_to_one_model_is_said_to_be_the_members(tmp_path: Path) -> None:
    model = fit()
    with pytest.raises(
        AbsentError, match=r"there is no certificate of an average of \d+ models: every member"
    ):
        model.certificate_  # noqa: B018
    assert not any(hasattr(model, name) for name in ("ensemble_", "history_", "best_round_", "etas_"))
    assert model.members_[0].model.certificate.holds
    with pytest.raises(ParameterError, match="no bound covers an average of models"):
        generalisation_bound(model)
    with pytest.raises(AbsentError, match="no ensemble of an average"):
        export.export_onnx(model, tmp_path / "onnx")
    assert "ensemble_" not in dir(model)
    assert {"leaderboard_", "members_", "classes_"} <= set(dir(model))
    alone = fit(preset="fast", learner=SMALL, n_rounds=1)
    with pytest.raises(AbsentError, match='there is no leaderboard_: this is one model; preset="best"'):
        alone.leaderboard_  # noqa: B018
    model.set_params(preset="fast", learner=SMALL, warm_start=True)
    with pytest.raises(ParameterError, match="made an average of several; fit anew"):
        model.fit(TRAIN, Y[TRAIN], graph=GRAPH)


def test_importances_are_the_weighted_mean_of_the_members() -> None:
    model = fit()
    expected = np.average(
        [own.model.feature_importances for own in model.members_],
        axis=0,
        weights=[own.weight for own in model.members_],
    )
    np.testing.assert_allclose(model.feature_importances_, expected)
    assert sum(model.column_importances().values()) == pytest.approx(1)


def test_grid_search_and_clone_work() -> None:
    model = GBGNNClassifier(preset="best", random_state=0, time_limit=60)
    assert clone(model).get_params(deep=False) == model.get_params(deep=False)
    search = GridSearchCV(model, {"metric": ["accuracy", "neg_log_loss"]}, cv=2)
    search.fit(TRAIN, Y[TRAIN], graph=GRAPH)
    assert search.best_estimator_.leaderboard_[0]["weight"] > 0


def test_populations_and_searches_leave_it_alone() -> None:
    assert "trains several models by itself" in str(reason_apart([GBGNNClassifier(preset="best")]))
    with pytest.raises(ParameterError, match="trains several models by itself"):
        PopulationInputs.from_model(GBGNNClassifier(preset="best"), TRAIN, Y[TRAIN], graph=GRAPH)


def test_a_warning_of_the_data_is_said_once() -> None:
    features = np.column_stack([Y, np.zeros(120)])
    graph = Graph(GRAPH.adjacency, features, feature_names=["answer", "nothing"])
    model = GBGNNClassifier(preset="best", random_state=0)
    with pytest.warns(GBGNNWarning) as caught:
        model.fit(TRAIN, Y[TRAIN], graph=graph, validation=(VAL, Y[VAL]))
    assert len([each for each in caught if "answer" in str(each.message)]) == 1


def test_the_loss_of_numbers_stays_the_one_that_was_chosen() -> None:
    degree = GRAPH.adjacency.sum(axis=1)
    model = fit(degree, GBGNNRegressor, loss="poisson")
    assert {type(own.model.loss).__name__ for own in model.members_} == {"Poisson"}
    assert (model.predict(TEST) > 0).all()
    assert type(model.loss_).__name__ == "Poisson" != type(SquaredError()).__name__
