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
    monkeypatch.setattr("gbgnn.persistence.FORMAT_VERSION", 4)
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
    assert told.scales is None
    with pytest.raises(AbsentError, match=r"model_\.members\[0\]\.model\.contributions"):
        _ = told.by_scale
    own = [each.model.scale_shares(nodes) for each in model.members]
    expected = {name: 0.75 * own[0].get(name, 0) + 0.25 * own[1].get(name, 0) for name in (own[0] | own[1])}
    assert model.scale_shares(nodes) == pytest.approx(expected)
    for ask in (lambda: model.response_curves, lambda: model.attributions(nodes)):
        with pytest.raises(AbsentError, match="there is no .* of an average of 2 models"):
            ask()


def test_members_contributions_to_numbers_sum_to_the_scores() -> None:
    graph, y = two_blocks(N)
    numbers = graph.features[:, 0] + y
    fitted = [
        GBGNNRegressor(learner=MLP(units=6, epochs=10), n_rounds=2, random_state=seed)
        .fit(np.arange(20), numbers[:20], graph=graph)
        .model_
        for seed in (0, 1)
    ]
    model = BlendedModel(
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
    told = model.contributions([1, 2])
    assert told.quantity == "score"
    np.testing.assert_allclose(told.scores, model.scores[[1, 2]], atol=1e-6)


def test_a_notebook_shows_the_members() -> None:
    shown = blend(3)._repr_html_()
    assert "one (75%), other (25%)" in shown
    assert "validation loss" in shown
