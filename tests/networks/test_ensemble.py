"""Members in one program equal the same members one by one, in any order, and learn as worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from adaqn.base.errors import UserError
from adaqn.members.hyperparameters import Convolution, Hyperparameters, grid
from adaqn.networks.ensemble import Ensemble, EnsembleState, GroupState, fresh_members
from adaqn.networks.network import Network

SHAPE, ACTIONS, BATCH = (3,), 2, 8
A = Hyperparameters(hidden=(5,), activation="tanh", learning_rate=0.05)
B = Hyperparameters(hidden=(4, 3), activation="silu", optimizer="rmsprop", learning_rate=0.01, loss="huber")
C = Hyperparameters(hidden=(), optimizer="sgd", learning_rate=0.1, loss="l1")
D = A.replace(head="categorical", bins=7, value_range=(-3, 3))


@partial(jax.jit, static_argnums=0)
def update(ensemble: Ensemble, state: EnsembleState, observation: Array, targets: Array) -> tuple[EnsembleState, Array]:
    return ensemble.update(state, observation, targets, lambda q: q[:, 1])


def batches(count: int, members: int) -> list[tuple[Array, Array]]:
    rng = np.random.default_rng(7)
    return [
        (
            jnp.asarray(rng.standard_normal((BATCH, *SHAPE), np.float32)),
            jnp.asarray(rng.standard_normal((members, BATCH), np.float32)),
        )
        for _ in range(count)
    ]


def member_states(ensemble: Ensemble, state: EnsembleState) -> list[GroupState]:
    """The separate state of each member."""
    found: dict[int, GroupState] = {}
    for group, members in zip(state, ensemble.groups, strict=True):
        for place, k in enumerate(members):
            found[k] = jax.tree.map(lambda x, place=place: x[place], group)
    return [found[k] for k in range(ensemble.size)]


def assembled(ensemble: Ensemble, members: Sequence[GroupState]) -> EnsembleState:
    """The inverse of `member_states`."""
    return tuple(jax.tree.map(lambda *x: jnp.stack(x), *(members[k] for k in group)) for group in ensemble.groups)


def assert_equal_states(left: Sequence[Any], right: Sequence[Any]) -> None:
    for one, other in zip(left, right, strict=True):
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6), one, other)


@pytest.mark.parametrize("base", [A, D], ids=["scalar", "categorical"])
def test_a_group_of_equal_members_is_the_members_one_by_one(base: Hyperparameters) -> None:
    members = grid(base, learning_rate=[0.001, 0.003, 0.01, 0.03, 0.1])
    together = Ensemble.of(members, SHAPE, ACTIONS)
    apart = Ensemble.of(members, SHAPE, ACTIONS, grouped=False)
    assert together.groups == ((0, 1, 2, 3, 4),)
    assert apart.groups == ((0,), (1,), (2,), (3,), (4,))
    states = [e.init(members, np.random.default_rng(0)) for e in (together, apart)]
    start = member_states(together, states[0])
    assert_equal_states(start, member_states(apart, states[1]))
    for observation, targets in batches(6, members=5):
        (states[0], one), (states[1], other) = (
            update(ensemble, state, observation, targets)
            for ensemble, state in zip((together, apart), states, strict=True)
        )
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    trained = member_states(together, states[0])
    assert_equal_states(trained, member_states(apart, states[1]))
    moved = [float(jnp.abs(t.parameters - s.parameters).max()) for t, s in zip(trained, start, strict=True)]
    assert moved == sorted(moved)
    assert moved[0] > 0.003
    assert moved[-1] > 10 * moved[0]


ORDER = [3, 0, 4, 2, 1]


def test_members_may_be_in_any_order() -> None:
    members = [A, B, A.replace(learning_rate=0.5), C, B.replace(learning_rate=0.3)]
    ensemble = Ensemble.of(members, SHAPE, ACTIONS)
    assert ensemble.groups == ((0, 2), (1, 4), (3,))
    permuted = Ensemble.of([members[k] for k in ORDER], SHAPE, ACTIONS)
    assert permuted.groups == ((0,), (1, 3), (2, 4))
    state = ensemble.init(members, np.random.default_rng(0))
    of_permuted = assembled(permuted, [member_states(ensemble, state)[k] for k in ORDER])
    order = np.array(ORDER)
    for observation, targets in batches(4, members=5):
        state, predictions = update(ensemble, state, observation, targets)
        of_permuted, permuted_predictions = update(permuted, of_permuted, observation, targets[order])
        np.testing.assert_allclose(permuted_predictions, predictions[order], rtol=1e-5, atol=1e-6)
        assert np.abs(np.diff(predictions, axis=0)).max(axis=1).min() > 0.01  # all members predict differently
    in_order = [member_states(ensemble, state)[k] for k in ORDER]
    assert_equal_states(in_order, member_states(permuted, of_permuted))


@pytest.mark.parametrize(
    "members", [[A, B, A, C, B], [A, A, A], [B], [D, A, D]], ids=["mixed", "equal", "one", "heads"]
)
def test_values_by_index_are_those_of_the_member(members: list[Hyperparameters]) -> None:
    ensemble = Ensemble.of(members, SHAPE, ACTIONS)
    parameters = ensemble.parameters(ensemble.init(members, np.random.default_rng(3)))
    observation = batches(1, members=1)[0][0]
    values = jax.jit(ensemble.values)(parameters, observation)
    value = jax.jit(ensemble.value)
    for k in range(len(members)):
        of_member = value(parameters, jnp.asarray(k), observation)
        np.testing.assert_allclose(of_member, values[k], rtol=1e-5, atol=1e-6)
        network = next(n for n, group in zip(ensemble.networks, ensemble.groups, strict=True) if k in group)
        flat = np.concatenate([p[list(g).index(k)] for p, g in zip(parameters, ensemble.groups, strict=True) if k in g])
        expected = network.apply(network.unravel(jnp.asarray(flat)), observation)
        np.testing.assert_allclose(of_member, expected, rtol=1e-5, atol=1e-6)
    assert value._cache_size() == 1  # type: ignore[attr-defined]
    assert len(np.unique(np.asarray(values)[:, 0, 0])) == len(members)


def test_one_step_worked_out_by_hand() -> None:
    # Two linear members f(x) = w . x + b with learning rates 0.1 and 0.2, both at w = (1, 2), b = 0.5, and a batch
    # of x = (1, -1) and (2, 1), where f is -0.5 and 4.5.
    # Member 0 has the targets 1.5 and 4.5: errors -2 and 0. The gradient of the mean of ½ e² is
    #   w: ½ (-2 (1, -1) + 0 (2, 1)) = (-1, 1)   b: ½ (-2 + 0) = -1
    # so w = (1.1, 1.9) and b = 0.6. Member 1 has the targets -0.5 and 0.5: errors 0 and 4;
    #   w: ½ (4 (2, 1)) = (4, 2)   b: ½ 4 = 2
    # so w = (0.2, 1.6) and b = 0.1.
    members = grid(Hyperparameters(hidden=(), optimizer="sgd"), learning_rate=[0.1, 0.2])
    ensemble = Ensemble.of(members, (2,), 1)
    (group,) = ensemble.init(members, np.random.default_rng(0))
    state = (group._replace(parameters=jnp.asarray([[1.0, 2.0, 0.5]] * 2)),)
    observation, targets = jnp.asarray([[1.0, -1.0], [2.0, 1.0]]), jnp.asarray([[1.5, 4.5], [-0.5, 0.5]])
    (trained,), predictions = jax.jit(lambda s: ensemble.update(s, observation, targets, lambda q: q[:, 0]))(state)
    assert predictions.tolist() == [[-0.5, 4.5], [-0.5, 4.5]]
    np.testing.assert_allclose(trained.parameters, [[1.1, 1.9, 0.6], [0.2, 1.6, 0.1]], rtol=1e-6)


def test_only_the_predicted_output_learns() -> None:
    ensemble = Ensemble.of([C], SHAPE, ACTIONS)
    state = ensemble.init([C], np.random.default_rng(0))
    observation, targets = batches(1, members=1)[0]
    trained, _ = update(ensemble, state, observation, targets)
    changed = np.asarray(trained[0].parameters[0] != state[0].parameters[0])
    assert changed.tolist() == [False, True] * 3 + [False, True]  # the kernel [3, 2], then the bias [2]


def test_finite_tells_the_members_apart() -> None:
    members = [A, B, A, C, B]
    ensemble = Ensemble.of(members, SHAPE, ACTIONS)
    first, second, third = ensemble.parameters(ensemble.init(members, np.random.default_rng(0)))
    broken = (first.at[1, 3].set(jnp.nan), second.at[0, 0].set(jnp.inf), third)
    assert ensemble.finite((first, second, third)).tolist() == [True] * 5
    assert ensemble.finite(broken).tolist() == [True, False, False, True, True]


def test_members_with_convolutions_learn_by_themselves() -> None:
    layers = (Convolution(3, 3, 2), Convolution(4, 2, 1))
    seeing = Hyperparameters(convolutions=layers, hidden=(6,), optimizer="sgd")
    members = [*grid(seeing, learning_rate=[0.1, 0.5]), A, seeing.replace(padding="valid", learning_rate=0.3), A]
    rng = np.random.default_rng(5)
    images = jnp.asarray(rng.integers(256, size=(BATCH, 7, 8, 2), dtype=np.uint8))
    targets = jnp.asarray(rng.standard_normal((5, BATCH), np.float32))
    ensemble = Ensemble.of(members, (7, 8, 2), ACTIONS, scale=1 / 255)
    assert ensemble.groups == ((0,), (1,), (2, 4), (3,))
    start = ensemble.init(members, np.random.default_rng(0))
    trained, predictions = update(ensemble, start, images, targets)
    values = jax.jit(ensemble.values)(ensemble.parameters(start), images)
    np.testing.assert_allclose(predictions, values[:, :, 1], rtol=1e-5, atol=1e-6)
    for k in (0, 1, 3):
        network = ensemble.networks[ensemble.groups.index((k,))]
        flat, trained_flat = (member_states(ensemble, state)[k].parameters for state in (start, trained))

        def mean_loss(flat: Array, network: Network = network, k: int = k) -> Array:
            return 0.5 * jnp.square(network.apply(network.unravel(flat), images)[:, 1] - targets[k]).mean()

        expected = flat - members[k].learning_rate * jax.jit(jax.grad(mean_loss))(flat)
        np.testing.assert_allclose(trained_flat, expected, rtol=1e-4, atol=1e-6)
        assert np.abs(trained_flat - flat).max() > 1e-3


def test_observations_are_scaled_for_all_members() -> None:
    members = [A, B, A, C]
    plain, scaled = (Ensemble.of(members, SHAPE, ACTIONS, scale=scale) for scale in (1.0, 0.25))
    parameters = plain.parameters(plain.init(members, np.random.default_rng(0)))
    observation = batches(1, members=1)[0][0]
    expected = plain.values(parameters, observation / 4.0)
    np.testing.assert_allclose(scaled.values(parameters, observation), expected, rtol=1e-6)
    assert plain != scaled


def test_equal_ensembles_are_equal_keys_of_a_cache() -> None:
    numbers = [A.replace(learning_rate=1.0, discount=0.5), B]
    assert hash(Ensemble.of([A, B], SHAPE, ACTIONS)) == hash(Ensemble.of(numbers, SHAPE, ACTIONS))
    assert Ensemble.of([A, B], SHAPE, ACTIONS) == Ensemble.of(numbers, SHAPE, ACTIONS)
    assert Ensemble.of([A, B], SHAPE, ACTIONS) != Ensemble.of([B, A], SHAPE, ACTIONS)


def test_another_number_compiles_nothing() -> None:
    base = A.replace(optimizer_options=(("eps", 1e-8),))
    observation, targets = batches(1, members=1)[0]
    results = []
    before = update._cache_size()  # type: ignore[attr-defined]
    for member in (base, base.replace(learning_rate=0.2), base.replace(optimizer_options=(("eps", 0.1),))):
        ensemble = Ensemble.of([member], SHAPE, ACTIONS)
        state = ensemble.init([member], np.random.default_rng(0))
        results.append(update(ensemble, state, observation, targets)[0][0].parameters)
    assert update._cache_size() == before + 1  # type: ignore[attr-defined]
    assert float(jnp.abs(results[1] - results[0]).max()) > 0.1
    assert float(jnp.abs(results[2] - results[0]).max()) > 0.01


def test_an_option_that_the_optimizer_does_not_have_is_told() -> None:
    with pytest.raises(UserError, match="optimizer 'sgd' has no option 'eps'"):
        Ensemble.of([C.replace(optimizer_options=(("eps", 1.0),))], SHAPE, ACTIONS)


def test_parameters_are_counted() -> None:
    # A: 3 * 5 + 5 + 5 * 2 + 2 = 32; B: 3 * 4 + 4 + 4 * 3 + 3 + 3 * 2 + 2 = 39; C: 3 * 2 + 2 = 8
    assert Ensemble.of([A, B, A, C], SHAPE, ACTIONS).parameter_count == 2 * 32 + 39 + 8


DRAWS = Hyperparameters(hidden=(2,), optimizer="noisy_sgd", learning_rate=0.01)  # its state includes a random key


@pytest.mark.parametrize("grouped", [True, False])
def test_split_and_join_give_the_same_state_and_members_can_be_taken_out(grouped: bool) -> None:
    members = (A, DRAWS, B, A.replace(learning_rate=0.2), DRAWS.replace(learning_rate=0.02))
    ensemble = Ensemble.of(members, SHAPE, ACTIONS, grouped)
    state = ensemble.init(members, np.random.default_rng(0))
    one_by_one = ensemble.split(state)
    assert [float(np.asarray(one.learning_rate)[0]) for one in one_by_one] == [
        np.float32(member.learning_rate) for member in members
    ]
    for k, one in enumerate(one_by_one):
        assert all(leaf.shape[0] == 1 for leaf in jax.tree.leaves(one))
        taken = ensemble.member(ensemble.parameters(state), k)
        assert np.asarray(one.parameters)[0].tobytes() == np.asarray(taken).tobytes()
    joined = ensemble.join(one_by_one)
    assert jax.tree.structure(joined) == jax.tree.structure(state)
    assert raw_bytes(joined) == raw_bytes(state)
    # The permuted states are those of the ensemble with its members in that order.
    order = [4, 2, 0, 1, 3]
    other = Ensemble.of([members[k] for k in order], SHAPE, ACTIONS, grouped)
    moved = other.split(other.join([one_by_one[k] for k in order]))
    assert [raw_bytes(one) for one in moved] == [raw_bytes(one_by_one[k]) for k in order]


def test_a_member_alone_is_one_that_was_made_alone() -> None:
    ensemble = Ensemble.of((A, B, A), SHAPE, ACTIONS, scale=0.5)
    assert ensemble.alone(1) == Ensemble.of((B,), SHAPE, ACTIONS, grouped=False, scale=0.5)
    assert ensemble.alone(0) == ensemble.alone(2)
    state = ensemble.init((A, B, A), np.random.default_rng(0))
    observation = batches(1, 3)[0][0]
    of_all = ensemble.values(ensemble.parameters(state), observation)
    for k, one in enumerate(ensemble.split(state)):
        alone = ensemble.alone(k)
        np.testing.assert_allclose(alone.values(alone.parameters((one,)), observation)[0], of_all[k], rtol=1e-5)


def raw_bytes(tree: Any) -> list[bytes]:
    def data(leaf: Any) -> Any:
        return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf

    return [np.asarray(data(leaf)).tobytes() for leaf in jax.tree.leaves(tree)]


@pytest.mark.parametrize("taken", [None, True], ids=["always", "guarded"])
def test_every_member_has_its_own_limit_of_the_gradient(taken: bool | None) -> None:
    base = A.replace(optimizer="sgd", learning_rate=1.0, max_grad_norm=1e9)
    members = [base, base.replace(max_grad_norm=1e-3), A.replace(optimizer="sgd", learning_rate=1.0)]
    ensemble = Ensemble.of(members, SHAPE, ACTIONS)
    assert ensemble.groups == ((0, 1), (2,))
    weights = np.random.default_rng(0).standard_normal(ensemble.network(0).size).astype(np.float32)

    def with_weights(members: Sequence[Hyperparameters]) -> EnsembleState:
        keys = np.zeros((1, 2), np.uint32)
        each = [fresh_members(ensemble.network(k), [m], weights[None], keys) for k, m in enumerate(members)]
        return ensemble.join(each)

    observations = jnp.asarray(np.random.default_rng(1).standard_normal((6, *SHAPE), np.float32))
    moves = None if taken is None else jnp.asarray(taken)
    target = jnp.ones((3, 6))
    step: Any = jax.jit(lambda state: ensemble.update(state, observations, target, lambda q: q[:, 0], moves)[0])
    after = ensemble.parameters(step(with_weights(members)))
    loose, tight, free = (np.asarray(ensemble.member(after, k)) - weights for k in range(3))
    np.testing.assert_allclose(loose, free, rtol=1e-4, atol=1e-7)
    assert np.linalg.norm(free) > 0.01
    assert np.linalg.norm(tight) == pytest.approx(1e-3, rel=1e-3)
    np.testing.assert_allclose(tight / 1e-3, free / np.linalg.norm(free), atol=1e-3)
    # Another limit is another number in the same program.
    step(with_weights([base.replace(max_grad_norm=0.5), base, members[2]]))
    assert step._cache_size() == 1
