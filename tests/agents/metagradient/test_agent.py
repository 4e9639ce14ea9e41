"""The learned discount in a run: what it moves towards, which transitions it is learned from, where it is reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import adaqn
from adaqn.agents.base import AgentState
from adaqn.agents.metagradient import MetaGradientAgent, MetaState
from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.settings import MetaGradientSettings
from adaqn.base.errors import UserError
from adaqn.members.hyperparameters import Convolution, Hyperparameters
from adaqn.replay.protocol import Batch
from tests.agents.metagradient.cases import agent_of, batch_of, discount_of, random_batch

CLOCK = Clock(100, 100, 100)
SMALL = Hyperparameters(hidden=(5,), activation="tanh", learning_rate=0.01, discount=0.6)
State = AgentState[MetaState]


def updated(agent: MetaGradientAgent, state: State, batch: Batch[np.ndarray]) -> State:
    return agent.update(state, Operation.UPDATE, batch, CLOCK, np.random.default_rng(0))[0]


@pytest.mark.thorough
@pytest.mark.parametrize("first", [0.6, 0.99])
def test_it_moves_to_the_discount_with_which_the_outer_loss_is_smallest(first: float) -> None:
    # Two states: reward 0 in the first, then 1 in the second, and the end. The value of the first is the discount, so
    # only the cross-validated one, 0.9, has no outer loss.
    member = Hyperparameters(hidden=(), optimizer="sgd", learning_rate=0.05, discount=first)
    agent = agent_of(member, size=2, gamma=0.9, meta_learning_rate=0.03)
    rows = [((1.0, 0.0), 0, 0.0, (0.0, 1.0), False), ((0.0, 1.0), 0, 1.0, (0.0, 0.0), True)] * 2
    state = agent.init(0)
    for number in range(1, 401):
        state = updated(agent, state, batch_of(*rows))
        if number % 10 == 0:
            state, _ = agent.perform(state, Operation.TARGET_UPDATE, CLOCK, np.random.default_rng(0))
    assert discount_of(state) == pytest.approx(0.9, abs=0.02)


def test_the_network_learns_from_the_first_half_and_the_discount_from_the_second() -> None:
    agent, rng = agent_of(SMALL, size=3, actions=2), np.random.default_rng(0)
    one, other = random_batch(rng, 8, 3, 2), random_batch(rng, 8, 3, 2)

    def learned(first: Batch[np.ndarray], second: Batch[np.ndarray]) -> tuple[np.ndarray, float]:
        batch = Batch(*(np.concatenate(parts) for parts in zip(first, second, strict=True)))
        state = updated(agent, agent.init(0), batch).learning
        return np.asarray(state.network.parameters), float(state.outer_loss)

    (weights, loss), (same, another), (different, _) = learned(one, other), learned(one, one), learned(other, one)
    np.testing.assert_array_equal(same, weights)
    assert abs(another - loss) > 1e-4
    assert np.abs(different - weights).max() > 1e-4


@pytest.mark.thorough
@pytest.mark.parametrize("images", [False, True], ids=["vectors", "images"])
def test_the_policy_is_the_network_conditioned_on_the_learned_discount(images: bool) -> None:
    shape = (6, 6, 2) if images else (3,)
    # SGD, because the first step of Adam hardly depends on the size of the gradient, and so on the discount.
    member = SMALL.replace(convolutions=(Convolution(3, 3, 2),) if images else (), optimizer="sgd", learning_rate=0.1)
    agent, rng = agent_of(member, shape, actions=2, meta_learning_rate=0.5), np.random.default_rng(0)
    batch = random_batch(rng, 8, int(np.prod(shape)), 2)
    batch = batch._replace(
        observation=batch.observation.reshape(8, *shape), next_observation=batch.next_observation.reshape(8, *shape)
    )
    state = updated(agent, agent.init(0), batch)
    # Far from where it started, so that the policy of another discount would differ.
    assert abs(discount_of(state) - 0.6) > 0.05
    network, learning, seen = agent.network_of((member,)), state.learning, jnp.asarray(batch.observation)
    expected = network.values(network.unravel(learning.network.parameters), seen, learning.discount.value)
    policy = agent.policy_weights(state)
    ordinary = policy.network.apply(policy.network.unravel(jnp.asarray(policy.parameters)), seen)
    np.testing.assert_allclose(ordinary, expected, rtol=1e-5, atol=1e-6)
    actions = agent.policy(state, batch.observation, None, CLOCK)
    np.testing.assert_array_equal(actions, np.asarray(expected).argmax(axis=1))
    before = network.values(network.unravel(learning.network.parameters), seen, jnp.asarray(0.6))
    assert np.abs(np.asarray(before - expected)).max() > 1e-3


def test_the_first_dense_layer_begins_as_one_kernel_of_features_and_embedding() -> None:
    agent = agent_of(Hyperparameters(hidden=(4000,)), size=48)
    network = agent.network_of(agent.init(0).members)
    arrays = network.unravel(jnp.asarray(network.init(np.random.default_rng(0))))
    for kernel in (arrays[0], arrays[-1]):  # 48 + 16 inputs
        assert float(np.asarray(kernel).std()) == pytest.approx(1 / 8, rel=0.02)


@pytest.mark.parametrize("given", [{"discount": 1.0}, {"discount": 0.0}])
def test_a_discount_that_has_no_logit_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(
        UserError, match=r"^the learned discount must start between 0 and 1, exclusively .* it is [01]$"
    ):
        agent_of(SMALL.replace(**given))


def test_a_categorical_head_is_refused() -> None:
    sentence = "^meta-gradient DQN needs a member with a scalar head, but its head is 'categorical'$"
    with pytest.raises(UserError, match=sentence):
        agent_of(SMALL.replace(head="categorical", value_range=(-1, 1)))


@pytest.mark.thorough
def test_a_wide_network_of_few_inputs_is_loaded_though_the_embedding_has_most_of_its_weights(tmp_path: Path) -> None:
    model = adaqn.MetaGradientDQN("CartPole-v1", policy_kwargs={"net_arch": [30_000]}, seed=0)
    arrays, meta = model.trainer.agent.to_arrays(model.trainer.state)
    held = sum(array.nbytes for array in arrays.values())
    assert held <= 16 * model.trainer.agent.saved_bytes(meta)
    assert model.trainer.agent.parameter_bytes == pytest.approx(held, rel=0.01)
    loaded = adaqn.MetaGradientDQN.load(model.save(tmp_path / "wide"))
    assert loaded.members == model.members


def test_each_update_samples_two_batches() -> None:
    assert MetaGradientSettings(batch_size=24).sample_size == 48
    model = adaqn.MetaGradientDQN("CartPole-v1", batch_size=24, policy_kwargs={"net_arch": [4]})
    assert model.trainer.batch_size == 48


def test_the_discount_is_in_the_progress_of_a_run_and_on_the_console(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = adaqn.MetaGradientDQN(
        "CartPole-v1", members=[SMALL], learning_starts=20, batch_size=8, target_update_interval=10, seed=0
    )
    model.learn(60, run_dir=tmp_path / "run", log_interval=20, console=True)
    names, *rows = (line.split(",") for line in (tmp_path / "run" / "progress.csv").read_text().splitlines())
    curve = [float(row[names.index("train/discount")]) for row in rows]
    assert curve[0] == pytest.approx(0.6) and len(set(curve)) > 1
    assert all(abs(value - 0.6) < 0.02 for value in curve)
    last = discount_of(model.trainer.state)  # after the updates of the last step, which are not in the progress
    assert 0.0 < abs(curve[-1] - last) < 0.001
    assert f"learned discount: {last:.6f} (started at 0.6, cross-validated with 0.99)" in capsys.readouterr().out
