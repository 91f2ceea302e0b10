from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn import MLP, GBGNNClassifier
from gbgnn.aggregation import Adjacency, Linear, MixingHop, NonLinear, PolynomialHop, mixing
from gbgnn.aggregation.mixing import CentredAlignment
from gbgnn.errors import ParameterError
from gbgnn.graph import Graph
from gbgnn.problem import InputRecipe, LabelledNodes, NodeInputs, Problem
from gbgnn.propagation import AugmentedAdjacency, DenseRows, Propagator, Representation
from gbgnn.tasks import MultiLabel, Regression
from gbgnn.testing import check_aggregation, make_context, make_problem, two_blocks

KINDS = [Linear, NonLinear]
OPTIMIZERS = ["sgd", "adam", "rmsprop"]


def random_problem(seed: int = 0, n_features: int = 6, scale: float = 1.0) -> Problem:
    """24 nodes of three classes, 9 of them labelled, with unequal weights."""
    graph, labels = two_blocks(24, n_classes=3, seed=seed, n_features=n_features)
    random = np.random.default_rng(seed)
    train = np.concatenate([[0, 1, 2], 3 + random.choice(21, size=6, replace=False)])
    problem = make_problem(Graph(graph.adjacency, scale * np.asarray(graph.features)), labels, train)
    weights = random.uniform(0.1, 1, size=9)
    return replace(problem, train=LabelledNodes.build(train, labels[train], weights))


def features_of(problem: Problem) -> torch.Tensor:
    return problem.inputs.features.dense()


def labelled_rows(problem: Problem) -> torch.Tensor:
    return problem.inputs.P(features_of(problem))[problem.train.rows]


def codes_of(problem: Problem) -> torch.Tensor:
    return problem.task.codes(problem.train.targets, torch.float64)


def aligned(problem: Problem, rows: torch.Tensor, is_linear: bool) -> CentredAlignment:
    return CentredAlignment(rows, codes_of(problem), problem.train.weights, is_linear)


def dense_alignment(problem: Problem, W: torch.Tensor, is_linear: bool) -> torch.Tensor:
    """The definition, with the centring matrix and M x M kernels, for autograd."""
    shares = problem.train.weights
    H = labelled_rows(problem) @ W
    H = H if is_linear else H.relu()
    Y = codes_of(problem)
    centre = shares.sqrt().diag() @ (torch.eye(len(H), dtype=torch.float64) - shares)
    K, K_Y = (centre @ A @ A.T @ centre.T for A in (H, Y))
    return (K * K_Y).sum() / (K.norm() * K_Y.norm())


def sorted_projection(W: torch.Tensor, radius: float) -> torch.Tensor:
    """Every column's nearest point in the L1 ball, one by one, by sorting."""
    columns = []
    for column in W.T:
        sizes = column.abs().sort(descending=True).values
        levels = (sizes.cumsum(0) - radius) / torch.arange(1, len(sizes) + 1)
        threshold = levels[sizes > levels][-1].clamp_min(0)
        columns.append(column.sign() * (column.abs() - threshold).clamp_min(0))
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize(
    "part",
    [Linear(), NonLinear(), Linear(max_norm=0.3, optimizer="adam"), NonLinear(learning_rate=1.0, epochs=30)],
    ids=repr,
)
def test_aggregation_keeps_its_contract(part: Linear | NonLinear) -> None:
    check_aggregation(part)


@settings(max_examples=60)
@given(
    kind=st.sampled_from(KINDS),
    optimizer=st.sampled_from(OPTIMIZERS),
    max_norm=st.floats(1e-3, 100),
    learning_rate=st.floats(1e-3, 10),
    n_features=st.integers(1, 14),
    seed=st.integers(0, 10_000),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_every_column_stays_in_its_ball(
    kind: type,
    optimizer: str,
    max_norm: float,
    learning_rate: float,
    n_features: int,
    seed: int,
    dtype: object,
) -> None:
    graph, y = two_blocks(20, n_classes=2, seed=seed, n_features=n_features)
    problem = make_problem(graph, y, np.arange(7), dtype=dtype)
    part = kind(max_norm=max_norm, optimizer=optimizer, learning_rate=learning_rate, epochs=6)
    hop = part.fit(make_context(problem))
    # The start, max_norm times I, is rounded to the type.
    bound = max(max_norm, float(torch.tensor(max_norm, dtype=dtype)))
    assert hop.weight.dtype == dtype
    assert float(hop.weight.double().abs().sum(dim=0).max()) <= bound
    assert hop.record()["max_norm"] <= bound


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), n_features=st.integers(1, 9), is_linear=st.booleans())
def test_hop_equals_the_dense_formula(seed: int, n_features: int, is_linear: bool) -> None:
    graph, _ = two_blocks(20, seed=seed, n_features=n_features)
    inputs = InputRecipe(AugmentedAdjacency(), dtype=torch.float64).build(graph)
    P = torch.tensor(AugmentedAdjacency().build(graph.adjacency).toarray())
    W = torch.tensor(np.random.default_rng(seed).normal(size=(n_features, n_features)))
    expected = P @ inputs.features.dense() @ W
    hop = MixingHop.from_weight(W, is_linear)
    assert torch.equal(hop.weight, W)
    actual = hop(inputs.features, inputs).dense()
    torch.testing.assert_close(actual, expected if is_linear else expected.relu())


def test_blocks_of_rows_give_the_same_in_the_memory_of_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    products = []

    class Watched(Propagator):
        def __call__(self, X: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
            products.append(super().__call__(X, out))
            return products[-1]

    graph, _ = two_blocks(20)
    X = DenseRows(torch.tensor(graph.features))
    inputs = NodeInputs(X, Watched(AugmentedAdjacency().build(graph.adjacency), dtype=torch.float64))
    hop = MixingHop.from_weight(torch.tensor(np.random.default_rng(0).normal(size=(5, 5))))
    whole = hop(X, inputs).dense()
    monkeypatch.setattr(mixing, "BLOCK_BYTES", 3 * 5 * 8)  # three rows, and two at the end
    blocks = hop(X, inputs).dense()
    torch.testing.assert_close(blocks, whole)
    assert blocks.data_ptr() == products[-1].data_ptr()
    assert torch.equal(X.dense(), torch.tensor(graph.features))


@pytest.mark.parametrize("max_norm", [1.0, 0.25])
def test_without_epochs_it_is_a_scaled_adjacency(max_norm: float) -> None:
    context = make_context(random_problem())
    plain = Adjacency().step(context)[1].dense() * max_norm
    linear, cut = (kind(max_norm=max_norm, epochs=0).step(context)[1].dense() for kind in KINDS)
    assert torch.equal(linear, plain)
    assert torch.equal(cut, plain.relu())


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    n_features=st.sampled_from([3, 20]),  # fewer, and more, columns than labelled rows
    is_linear=st.booleans(),
)
def test_alignment_and_gradient_equal_autograd_on_the_definition(
    seed: int, n_features: int, is_linear: bool
) -> None:
    problem = random_problem(seed, n_features)
    W = torch.tensor(np.random.default_rng(seed).normal(size=(n_features, n_features)), requires_grad=True)
    expected = dense_alignment(problem, W, is_linear)
    expected.backward()
    alignment = aligned(problem, labelled_rows(problem), is_linear)
    value, gradient = alignment.value_and_gradient(W.detach())
    assert value == pytest.approx(expected.item(), abs=1e-10)
    # The rows were divided by their largest entry, which the alignment does not notice.
    torch.testing.assert_close(gradient, W.grad, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_equal_projected_steps_of_torchs_classes(kind: type, optimizer: str) -> None:
    problem, radius, rate = random_problem(3), 1.5, 0.02
    rows, shares = labelled_rows(problem), problem.train.weights
    variances = shares @ (rows - shares @ rows).square()
    spread = variances.sum() / variances.max()
    U = torch.eye(6, dtype=torch.float64, requires_grad=True)  # W in units of the radius
    classes = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}
    stepper = classes[optimizer]([U], lr=rate)
    for epochs in range(1, 9):
        stepper.zero_grad()
        (-spread * dense_alignment(problem, U, kind is Linear)).backward()
        stepper.step()
        with torch.no_grad():
            U.copy_(sorted_projection(U, 1.0))
        part = kind(max_norm=radius, optimizer=optimizer, learning_rate=rate, epochs=epochs)
        hop = part.fit(make_context(problem))
        torch.testing.assert_close(hop.weight, radius * U.detach(), rtol=1e-6, atol=1e-8)
        assert hop.alignment == pytest.approx(dense_alignment(problem, U, kind is Linear).item(), abs=1e-8)


@settings(max_examples=30)
@given(
    kind=st.sampled_from(KINDS),
    scale=st.floats(1e-12, 1e12),
    max_norm=st.floats(1e-3, 1e3),
    seed=st.integers(0, 10_000),
)
def test_scale_of_features_and_radius_scale_the_result_and_nothing_else(
    kind: type, scale: float, max_norm: float, seed: int
) -> None:
    one, other = random_problem(seed), random_problem(seed, scale=scale)
    expected = kind().fit(make_context(one))
    hop = kind(max_norm=max_norm).fit(make_context(other))
    torch.testing.assert_close(hop.weight / max_norm, expected.weight, rtol=1e-5, atol=1e-7)
    assert hop.alignment == pytest.approx(expected.alignment, abs=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_whose_squares_are_zero_in_single_precision_are_no_obstacle(kind: type) -> None:
    graph, y = two_blocks(24, n_classes=3)
    small = Graph(graph.adjacency, 2.0**-100 * np.asarray(graph.features))
    one, other = (make_problem(g, y, np.arange(9), dtype=torch.float32) for g in (graph, small))
    expected = kind().fit(make_context(one))
    hop = kind(max_norm=2.0**-60).fit(make_context(other))
    assert not torch.equal(expected.weight, torch.eye(5))
    torch.testing.assert_close(2.0**60 * hop.weight, expected.weight)


def test_doubling_the_columns_leaves_every_scaled_slope_as_it_is() -> None:
    """The spread is what makes a step mean the same for any number of columns."""
    problem = random_problem()
    rows, identity = labelled_rows(problem), torch.eye(6, dtype=torch.float64)
    one = aligned(problem, rows, is_linear=True)
    two = aligned(problem, torch.hstack([rows, rows]), is_linear=True)
    value, gradient = one.value_and_gradient(identity)
    doubled_value, doubled = two.value_and_gradient(torch.eye(12, dtype=torch.float64))
    assert doubled_value == pytest.approx(value)
    assert 1 <= one.spread <= 6
    assert two.spread == pytest.approx(2 * one.spread)
    torch.testing.assert_close(two.spread * doubled, one.spread * gradient.tile(2, 2))


@pytest.mark.parametrize("kind", KINDS)
def test_more_steps_raise_the_alignment(kind: type) -> None:
    context = make_context(random_problem(1))
    values = [kind(epochs=n).fit(context).alignment for n in (0, 5, 50)]
    assert values[0] < values[1] < values[2] <= 1


def test_the_column_that_tells_the_classes_apart_is_kept_and_the_others_shrink_or_borrow_from_it() -> None:
    random = np.random.default_rng(0)
    y = np.arange(200) % 2
    features = random.normal(size=(200, 8))
    features[:, 3] += 4 * y
    problem = make_problem(Graph(sp.csr_array((200, 200)), features), y, np.arange(200))
    W = Linear().fit(make_context(problem)).weight
    sizes = W.abs().sum(dim=0)
    assert W[:, 3].tolist() == pytest.approx([0, 0, 0, 1, 0, 0, 0, 0], abs=1e-12)
    assert all(sizes[c] < 1 for c in range(8) if c != 3)
    assert (W - W.diagonal().diag()).abs().sum(dim=1).argmax() == 3


@pytest.mark.parametrize("is_linear", [True, False])
def test_weight_of_a_row_equals_repeating_it_and_weight_zero_leaving_it_out(is_linear: bool) -> None:
    random = np.random.default_rng(0)
    rows, y = torch.tensor(random.normal(size=(6, 4))), np.array([0, 1, 0, 1, 1, 0])
    counts = np.array([1, 3, 2, 1, 0, 2])
    W = torch.tensor(random.normal(size=(4, 4)))
    repeated = np.repeat(np.arange(6), counts)
    codes = torch.eye(2, dtype=torch.float64)[y]
    weights, uniform = torch.tensor(counts / 9), torch.full((9,), 1 / 9, dtype=torch.float64)
    first = CentredAlignment(rows, codes, weights, is_linear).value_and_gradient(W)
    second = CentredAlignment(rows[repeated], codes[repeated], uniform, is_linear).value_and_gradient(W)
    assert first[0] == pytest.approx(second[0])
    torch.testing.assert_close(first[1], second[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimizer", ["sgd", "rmsprop"])
def test_nothing_to_learn_leaves_the_identity(kind: type, optimizer: str) -> None:
    problem = random_problem()
    X, train = features_of(problem), problem.train
    one_class_weighs = LabelledNodes.build(
        train.rows.numpy(), train.targets.numpy(), (train.targets == 0).numpy().astype(float)
    )
    for rows, nodes in ((torch.zeros_like(X), train), (X, one_class_weighs)):
        hop = kind(optimizer=optimizer).fit(make_context(replace(problem, train=nodes), rows))
        assert torch.equal(hop.weight, torch.eye(6, dtype=torch.float64))
        assert hop.alignment == 0


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), n_hops=st.integers(1, 5))
def test_hops_in_sequence_equal_all_of_p_and_then_all_of_w(seed: int, n_hops: int) -> None:
    problem = random_problem(seed)
    context, product = make_context(problem), torch.eye(6, dtype=torch.float64)
    result: Representation = context.X
    for _ in range(n_hops):
        hop, result = Linear(max_norm=0.9).step(replace(context, X=result))
        product = product @ hop.weight
    mixed = PolynomialHop((n_hops,), (1.0,))(context.X, problem.inputs).dense()
    torch.testing.assert_close(result.dense(), mixed @ product)


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_neighbourhood_of_labelled_nodes_is_looked_at(kind: type) -> None:
    problem = random_problem(4)
    X = features_of(problem)
    marks = torch.zeros(24, 1, dtype=torch.float64)
    marks[problem.train.rows] = 1
    far = problem.inputs.P(marks)[:, 0] == 0  # P is symmetric
    assert far.any()
    scrambled = X.clone()
    scrambled[far] = 7.0
    first, second = (kind().fit(make_context(problem, Z, seed=s)) for Z, s in ((X, 0), (scrambled, 1)))
    assert torch.equal(first.weight, second.weight)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", [Regression(), MultiLabel()], ids=repr)
def test_numbers_and_several_labels_are_aligned_with_too(kind: type, task: Regression | MultiLabel) -> None:
    graph, _ = two_blocks(24, n_features=6)
    y = np.random.default_rng(0).normal(size=(24, 2))
    y = (y > 0).astype(float) if isinstance(task, MultiLabel) else 100 * y + 7
    problem = make_problem(graph, y, np.arange(9), task=task)
    torch.testing.assert_close(codes_of(problem), torch.tensor(task.fit(y).encode(y[:9])))
    before, hop = (kind(epochs=n).fit(make_context(problem)) for n in (0, 20))
    assert hop.alignment == pytest.approx(dense_alignment(problem, hop.weight, kind is Linear).item())
    assert hop.alignment > before.alignment


@pytest.mark.parametrize("kind", KINDS)
def test_space_is_the_product_with_p_and_the_ball(kind: type) -> None:
    space = kind(max_norm=0.7).hypothesis_space()
    assert space.envelope == PolynomialHop((1,), (1.0,))
    assert (space.max_norm, space.is_linear) == (0.7, kind is Linear)


def test_record_is_json_and_round_trips() -> None:
    hop = NonLinear(max_norm=0.5).fit(make_context(random_problem()))
    record = json.loads(json.dumps(hop.record()))
    assert record == {
        "n_columns": 6,
        "max_norm": pytest.approx(0.5, abs=1e-12),
        "is_linear": False,
        "alignment": hop.alignment,
    }
    again = MixingHop.from_record(record, hop.state())
    assert torch.equal(again.weight, hop.weight)
    assert again.record() == hop.record()


def test_zeros_of_w_are_not_kept() -> None:
    hop = MixingHop.from_weight(torch.eye(50))
    assert [len(tensor) for tensor in hop.state().values()] == [50, 50]


def test_hop_follows_the_type_of_what_it_is_given() -> None:
    graph, _ = two_blocks(20)
    hop = MixingHop.from_weight(torch.eye(5, dtype=torch.float64))
    inputs = InputRecipe(AugmentedAdjacency(), dtype=torch.float32).build(graph)
    assert torch.equal(hop(inputs.features, inputs).dense(), inputs.P(inputs.features.dense()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"max_norm": 0}, r"max_norm must be in \(0, inf\); got 0"),
        ({"max_norm": float("inf")}, r"max_norm must be in \(0, inf\); got inf"),
        (
            {"optimizer": "adams"},
            "optimizer must be one of adam, rmsprop, sgd; got 'adams'. Did you mean 'adam'",
        ),
        ({"learning_rate": -1}, r"learning_rate must be in \(0, inf\); got -1"),
        ({"epochs": -1}, "epochs must be an integer >= 0; got -1"),
    ],
)
def test_settings_are_checked(kind: type, settings_: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=f"^{kind.__name__}.{message}"):
        kind(**settings_).check()


GRAPH, Y = two_blocks(40, n_classes=3)
TRAIN, NODES = np.arange(20), np.arange(40)


def new_model(name: str, **settings_: object) -> GBGNNClassifier:
    defaults = {"learner": MLP(epochs=4, units=6), "n_rounds": 5, "random_state": 0}
    return GBGNNClassifier(aggregation=name, **{**defaults, **settings_})


def fit(name: str, **settings_: object) -> GBGNNClassifier:
    return new_model(name, **settings_).fit(TRAIN, Y[TRAIN], graph=GRAPH)


@pytest.mark.parametrize("name", ["linear", "nonlinear"])
def test_staged_equals_shorter_fits_and_warm_start_goes_on_to_the_same_bytes(name: str) -> None:
    model = fit(name)
    for t, proba in enumerate(model.staged_predict_proba(NODES), start=1):
        assert proba.tobytes() == fit(name, n_rounds=t).predict_proba(NODES).tobytes()
    warm = fit(name, n_rounds=2, warm_start=True).set_params(n_rounds=5)
    warm.fit(TRAIN, Y[TRAIN], graph=GRAPH)
    assert warm.scores_.tobytes() == model.scores_.tobytes()
    assert all(isinstance(r.hop, MixingHop) for r in warm.ensemble_.rounds[1:])
    assert all(value > 0 for value in warm.history_["alignment"][1:])


@pytest.mark.parametrize("name", ["linear", "nonlinear"])
def test_another_component_of_the_graph_changes_no_prediction(name: str) -> None:
    model = fit(name)
    other, _ = two_blocks(30, seed=9)
    both = Graph(
        sp.block_diag([GRAPH.adjacency, other.adjacency]),
        np.vstack([np.asarray(GRAPH.features), np.asarray(other.features)]),
    )
    predicted = model.predict_proba(np.arange(70), graph=both)
    np.testing.assert_allclose(predicted[:40], model.predict_proba(NODES), atol=1e-5)
    assert np.isfinite(predicted).all()


@pytest.mark.parametrize("name", ["linear", "nonlinear"])
def test_labels_of_nodes_that_do_not_train_do_not_matter(name: str) -> None:
    held_out, right = np.arange(20, 30), Y[20:30]
    fits = [
        new_model(name, select="last").fit(TRAIN, Y[TRAIN], graph=GRAPH, validation=(held_out, labels))
        for labels in (right, np.roll(right, 1))
    ]
    assert fits[0].scores_.tobytes() == fits[1].scores_.tobytes() == fit(name).scores_.tobytes()
