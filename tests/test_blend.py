from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gbgnn import MLP, GBGNNClassifier, GBGNNRegressor, load
from gbgnn.blend import BlendedModel, BlendMember, as_scores, temper
from gbgnn.errors import AbsentError, ModelFileError
from gbgnn.persistence import read_header, save
from gbgnn.tasks import Classification, MultiLabel
from gbgnn.testing import two_blocks

N = 45


def blend(n_classes: int, temperatures: tuple[float, float] = (1.0, 1.0), **settings: object) -> BlendedModel:
    graph, y = two_blocks(N, n_classes=n_classes)
    learner = MLP(units=6, epochs=10)
    fitted = [
        GBGNNClassifier(learner=learner, n_rounds=2, random_state=seed, rule=rule, **settings)
        .fit(np.arange(20), y[:20], graph=graph)
        .model_
        for seed, rule in enumerate(("gradient", "samme"))
    ]
    weighted = zip(("one", "other"), fitted, (0.75, 0.25), temperatures, strict=True)
    return BlendedModel(
        task=fitted[0].task,
        loss=fitted[0].task.default_loss,
        metric=fitted[0].metric,
        members=tuple(BlendMember(*each) for each in weighted),
        leaderboard=[],
        seed=0,
        settings=fitted[0].settings,
        validation_score=0.5,
        validation_loss=1.0,
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("temperatures", [(1.0, 1.0), (0.5, 2.0)])
def test_probabilities_are_the_weighted_mean(n_classes: int, temperatures: tuple[float, float]) -> None:
    model, expected = blend(n_classes, temperatures), 0.0
    for own in model.members:
        powers = own.model.predict_proba(np.arange(N)).astype(float) ** (1 / own.temperature)
        expected = expected + own.weight * powers / powers.sum(axis=1, keepdims=True)
    found = model.predict_proba(np.arange(N))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(model.predict(np.arange(N)), model.classes[found.argmax(axis=1)])
    decided = model.decision_function(np.arange(N))
    logs = np.log(found.astype(float))
    np.testing.assert_allclose(decided, logs[:, 1] - logs[:, 0] if n_classes == 2 else logs, atol=1e-4)
    assert set(model.predict_all([0])) == {"predict", "predict_proba"}


def test_stage_one_is_the_heaviest_member() -> None:
    model = blend(3)
    first, last = model.staged_predict_proba(np.arange(N))
    np.testing.assert_allclose(first, model.members[0].model.predict_proba(np.arange(N)), atol=1e-6)
    np.testing.assert_allclose(last, model.predict_proba(np.arange(N)), atol=1e-6)


def test_a_file_holds_all_members_and_an_old_reader_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, path = blend(3, (0.5, 2.0)), tmp_path / "blend.gbgnn"
    save(model, path)
    header = read_header(path)
    assert header["format_version"] == 4
    assert [own["weight"] for own in header["members"]] == [0.75, 0.25]
    again = load(path).model_
    assert again.predict_proba(range(N)).tobytes() == model.predict_proba(range(N)).tobytes()
    assert (again.graph, again.graph_checksum) == (None, model.graph_checksum)
    save(model.members[0].model, path)
    assert read_header(path)["format_version"] == 3
    monkeypatch.setattr("gbgnn.persistence.WRAPPED_VERSION", 3)
    save_with_version_4 = tmp_path / "new.gbgnn"
    monkeypatch.setattr("gbgnn.packing.FORMAT_VERSION", 4)
    save(model.members[0].model, save_with_version_4)
    with pytest.raises(ModelFileError, match="has format 4, .* reads up to format 3"):
        load(save_with_version_4)


def test_equal_averages_are_equal_files_however_long_they_took(tmp_path: Path) -> None:
    for name, seconds in (("one", 1.5), ("other", 2.5)):
        tried = [{"family": "a", "score": 0.5, "seconds": seconds, "status": "used"}]
        save(replace(blend(3), leaderboard=tried), tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert load(tmp_path / "one").leaderboard_ == [{**tried[0], "seconds": None}]


def test_a_file_without_learners_still_predicts_its_graph(tmp_path: Path) -> None:
    model, path = blend(2), tmp_path / "blend.gbgnn"
    save(model, path, learners=False)
    again = load(path).model_
    assert again.predict_proba([1, 2]).tobytes() == model.predict_proba([1, 2]).tobytes()
    graph, _ = two_blocks(N, n_classes=2)
    with pytest.raises(ValueError, match="learner"):
        again.predict([0], graph=graph)


def test_importances_are_of_those_who_know() -> None:
    model = blend(3)
    assert model.feature_importances.sum() == pytest.approx(1)
    nobody = blend(3, keep_learners=False)
    with pytest.raises(AbsentError, match="the fitted learners were not kept"):
        nobody.feature_importances  # noqa: B018


def test_rows_of_all_members_are_told_apart() -> None:
    rows = blend(2).history_rows
    assert [(row["member"], row["name"], row["round"]) for row in rows] == [
        *((1, "one", 1), (1, "one", 2)),
        *((2, "other", 1), (2, "other", 2)),
    ]


def test_it_moves_to_another_device_and_knows_its_graph() -> None:
    model = blend(3)
    moved = model.with_device(torch.device("cpu"))
    assert torch.equal(moved.score_tensor, model.score_tensor)
    assert model.known_graph(None) is model.graph
    assert model.n_features_in == len(model.feature_names_in) == 5


@given(st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3), st.floats(0.5, 2.0))
def test_scores_stand_for_the_probabilities_that_they_were_made_of(
    shares: list[float], temperature: float
) -> None:
    proba = torch.tensor([shares], dtype=torch.float64) / sum(shares)
    task = Classification().fit(["a", "b", "c"])
    back = task.proba(as_scores(task, proba), task.default_loss.link)
    assert torch.allclose(back, proba)
    undone = temper(
        task, temper(task, proba, task.default_loss, temperature), task.default_loss, 1 / temperature
    )
    assert torch.allclose(undone, proba, atol=1e-6)
    labels = MultiLabel(n_labels=3).fit([[0, 1, 1]])
    assert torch.allclose(labels.proba(as_scores(labels, proba), labels.default_loss.link), proba)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_members_contributions_sum_to_probabilities(n_classes: int) -> None:
    model, nodes = blend(n_classes, (0.5, 2.0)), np.array([3, 30])
    told = model.contributions(nodes)
    assert told.quantity == "probability"
    assert told.parts == ["member 1: one", "member 2: other"]
    assert told.outputs == [str(each) for each in range(n_classes)]
    np.testing.assert_allclose(told.scores, model.predict_proba(nodes), atol=1e-6)
    np.testing.assert_allclose(told.by_round.sum(axis=2), [[0.75, 0.25]] * 2, atol=1e-6)
    np.testing.assert_allclose(told.values.sum(axis=2), told.by_round, atol=1e-12)
    own = [each.model.scale_shares(nodes) for each in model.members]
    expected = {name: 0.75 * own[0].get(name, 0) + 0.25 * own[1].get(name, 0) for name in (own[0] | own[1])}
    assert model.scale_shares(nodes) == pytest.approx(expected)
    with pytest.raises(AbsentError, match="there is no .* of an average of 2 models"):
        _ = model.response_curves


@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_columns_and_neighbours_of_members_added_sums_to_probabilities(n_classes: int) -> None:
    model, nodes = blend(n_classes, (0.5, 2.0)), np.array([3, 30])
    columns, expected = model.attributions(nodes), model.predict_proba(nodes)
    assert columns.quantity == "probability"
    assert columns.columns == [*(f"x{i}" for i in range(5)), "member 2: other, as a whole"]  # a hard vote
    np.testing.assert_allclose(columns.scores, expected, atol=1e-6)
    np.testing.assert_allclose(columns.base + columns.seen_values.sum(axis=1), expected, atol=1e-6)
    whole = columns.values[:, -1]
    np.testing.assert_allclose(whole.sum(axis=1), 0.25, atol=1e-6)
    told = model.neighbour_contributions(nodes)
    assert [each.rest_parts for each in told] == [["member 2: other"]] * 2
    for each, one in zip(told, expected, strict=True):
        np.testing.assert_allclose(each.scores, one, atol=1e-6)
        assert set(each.neighbours.tolist()) > {each.node}
        np.testing.assert_array_equal(np.sort(-np.abs(each.lead())), -np.abs(each.lead()))
    again = blend(n_classes, (0.5, 2.0)).attributions(nodes)
    assert again.values.tobytes() == columns.values.tobytes()


def test_a_small_part_of_a_score_is_that_part_of_a_probability() -> None:
    """Parts that hardly move the score are multiplied by the slope of the link there."""
    model, nodes = blend(2), np.array([3])
    ((first, *_),) = [model.members]
    alone = replace(model, members=(replace(first, weight=1.0),))
    own, told = first.model.attributions(nodes), alone.attributions(nodes)
    steps = np.linspace(0, 1, 20_001)[:, None] * (own.scores - own.base) + own.base
    slope = np.trapezoid(np.exp(steps[:, 0]) / (1 + np.exp(steps[:, 0])) ** 2, dx=1 / 20_000)
    np.testing.assert_allclose(told.values[0, :, 1], own.values[0, :, 0] * slope, atol=1e-6)
    np.testing.assert_allclose(told.values[0, :, 0], -told.values[0, :, 1], atol=1e-9)


def test_an_average_of_one_says_of_numbers_what_the_model_says() -> None:
    model = average_of_numbers()
    (first, _), nodes = model.members, np.array([1, 2])
    alone = replace(model, members=(first,))
    np.testing.assert_allclose(
        alone.attributions(nodes).values, first.model.attributions(nodes).values, atol=1e-6
    )
    one, own = alone.neighbour_contributions(nodes)[0], first.model.neighbour_contributions(nodes)[0]
    assert one.neighbours.tolist() == own.neighbours.tolist()
    assert one.steps.tolist() == own.steps.tolist()
    np.testing.assert_allclose(one.values, own.values, atol=1e-6)


def test_labels_are_explained_one_by_one() -> None:
    graph, y = two_blocks(N)
    labels = np.stack([y, graph.features[:, 0] > 0], axis=1).astype(int)
    fitted = [
        GBGNNClassifier(learner=MLP(units=6, epochs=10), n_rounds=2, random_state=seed)
        .fit(np.arange(20), labels[:20], graph=graph)
        .model_
        for seed in (0, 1)
    ]
    members = tuple(BlendMember(*each) for each in zip("ab", fitted, (0.75, 0.25), (1.0, 2.0), strict=True))
    model = replace(blend(2), task=fitted[0].task, loss=fitted[0].loss, members=members)
    told, expected = model.explain([1, 2]), model.predict_proba([1, 2])
    assert (told.is_choice, told.contributions.quantity) == (False, "probability")
    for found in (told.contributions, told.attributions):
        np.testing.assert_allclose(found.scores, expected, atol=1e-6)
    by_scale = told.contributions.by_scale
    np.testing.assert_allclose(by_scale[:, -1], 0.5, atol=1e-6)  # before any round
    np.testing.assert_allclose(by_scale.sum(axis=1), expected, atol=1e-6)


def test_where_no_member_says_the_average_does_not() -> None:
    model = blend(3)
    _, vote = model.members
    votes = replace(model, members=(vote, replace(vote, name="again")))
    for ask in (votes.attributions, votes.neighbour_contributions):
        with pytest.raises(AbsentError, match="votes for one class"):
            ask([1])
    nobody = blend(3, keep_learners=False).contributions([1])
    assert nobody.scales is None
    np.testing.assert_allclose(nobody.by_round.sum(), 1.0, atol=1e-6)
    with pytest.raises(AbsentError, match="no contributions by scale: .*learners were not kept"):
        _ = nobody.by_scale


def test_members_contributions_to_numbers_sum_to_the_scores() -> None:
    told = average_of_numbers().contributions([1, 2])
    assert told.quantity == "score"
    np.testing.assert_allclose(told.scores, average_of_numbers().scores[[1, 2]], atol=1e-6)


def average_of_numbers() -> BlendedModel:
    graph, y = two_blocks(N)
    numbers = graph.features[:, 0] + y
    fitted = [
        GBGNNRegressor(learner=MLP(units=6, epochs=10), n_rounds=2, random_state=seed)
        .fit(np.arange(20), numbers[:20], graph=graph)
        .model_
        for seed in (0, 1)
    ]
    return BlendedModel(
        task=fitted[0].task,
        loss=fitted[0].loss,
        metric=fitted[0].metric,
        members=tuple(BlendMember(*each) for each in zip("ab", fitted, (0.75, 0.25), strict=True)),
        leaderboard=[],
        seed=0,
        settings={},
        validation_score=0.5,
        validation_loss=1.0,
    )


def test_a_notebook_shows_the_members() -> None:
    shown = blend(3)._repr_html_()
    assert "one (75%), other (25%)" in shown
    assert "validation loss" in shown
