"""When TD3 updates its critics, its actor and its targets; and the memory of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.registry import algorithm
from adaqn.agents.td3 import TD3Agent, TD3Settings
from adaqn.base.errors import UserError
from adaqn.envs.environments import Environments
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.replay.making import make_replay
from adaqn.training.trainer import Trainer

LETTERS = {Operation.UPDATE: "U", Operation.ACTOR_UPDATE: "A", Operation.TARGET_UPDATE: "T"}
LINEAR = Hyperparameters(hidden=(), optimizer="sgd", learning_rate=0.0)


def agent_with(**values: Any) -> TD3Agent:
    given = TD3Settings(actor_hidden="linear", **values)
    return TD3Agent(given, Population((LINEAR, LINEAR)), spaces.Box(-1.0, 1.0, (1,)), spaces.Box(-1.0, 1.0, (2,)))


def plan(agent: TD3Agent, settled: int, step: int, n_envs: int = 1) -> str:
    """The operations due in (settled, step], as letters."""
    due = agent.plan(None, Clock(step, settled, 1000), np.zeros(n_envs, bool))  # type: ignore[arg-type]
    return "".join(LETTERS[operation] for operation in due)


def plans(steps: int, stride: int = 1, **values: Any) -> list[str]:
    """The operations due after each step of `stride` environments."""
    agent = agent_with(**values)
    return [plan(agent, step, step + stride, stride) for step in range(0, steps, stride)]


def test_the_actor_moves_with_every_second_update_of_the_critics() -> None:
    assert plans(6, learning_starts=1, selection_interval=4) == ["", "A", "U", "AT", "U", "A"]
    # By default the first update comes after step 1,001.
    agent = agent_with()
    assert [plan(agent, step - 1, step) for step in (1_000, 1_001, 1_002, 1_003)] == ["", "U", "A", "U"]


def test_the_delay_counts_updates_of_the_critics_also_where_there_are_several_at_a_time() -> None:
    assert plans(3, learning_starts=0, gradient_steps=3) == ["UAU", "AUA", "UAU"]
    assert plans(4, learning_starts=0, train_freq=2, gradient_steps=4, policy_delay=3) == ["", "UUAU", "", "UAUU"]
    assert plans(2, learning_starts=0, gradient_steps=2, policy_delay=1) == ["AA", "AA"]


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5), st.integers(1, 5))
def test_one_in_so_many_updates_has_the_actor_s(freq: int, updates: int, delay: int, stride: int) -> None:
    values = {"learning_starts": 0, "train_freq": freq, "gradient_steps": updates, "policy_delay": delay}
    letters = "".join(plans(12 * stride, stride, **values))
    assert [letter == "A" for letter in letters] == [n % delay == 0 for n in range(1, len(letters) + 1)]
    assert len(letters) == 12 * stride // freq * updates


def test_the_loop_makes_the_updates_that_were_planned() -> None:
    environments = Environments.make("Pendulum-v1", 1, {})
    given = TD3Settings(
        actor_hidden="linear", learning_starts=20, gradient_steps=2, policy_delay=3, batch_size=4, selection_interval=99
    )
    agent = TD3Agent(given, Population((LINEAR, LINEAR)), environments.observation_space, environments.action_space)
    replay = make_replay(100, 1, environments.observation_space, environments.action_space, 1)
    trainer = Trainer(agent, environments, replay, given.batch_size, seed=0)
    trainer.run(49)
    environments.close()
    # Updates 41 to 98, of which 42, 45, ..., 96 are the actor's.
    assert trainer.updates == 58
    assert trainer.state.learning.counts.made.tolist() == [58, 19]
    assert int(trainer.state.learning.record.choices) == 58


def test_the_memory_has_room_for_the_target_of_the_actor() -> None:
    agent = agent_with()
    # Critics of 1 + 2 inputs and a bias, with targets and two moments; an actor of 2 kernels and biases, with the same.
    assert agent.parameter_bytes == 4 * 4 * (2 * 4) + 4 * 4 * 4
    held = sum(array.nbytes for array in agent.to_arrays(agent.init(0))[0].values())
    assert held >= 4 * (2 * 2 * 4 + 2 * 4)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("policy_delay", 0, "at least 1"),
        ("action_noise", -0.1, "at least 0"),
        ("target_policy_noise", float("nan"), ""),
        ("target_noise_clip", "wide", ""),
    ],
)
def test_settings_that_cannot_be(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(UserError, match=f"^{name} must be .*{allowed}"):
        algorithm("adatd3").configure({name: value})


def test_one_critic_is_too_few_and_two_kinds_are_no_td3() -> None:
    ada, plain = algorithm("adatd3"), algorithm("td3")
    with pytest.raises(UserError, match="needs at least 2 members, but got 1"):
        ada.population(Population((LINEAR,)), ada.configure({}), 0, lambda: (3,))
    with pytest.raises(UserError, match="trains exactly 2 equal members"):
        plain.population(Population((LINEAR, LINEAR.replace(hidden=(2,)))), plain.configure({}), 0, lambda: (3,))
    assert (
        plain.population(Population(), plain.configure({}), 0, lambda: (3,)).members
        == (Hyperparameters(hidden=(256, 256), learning_rate=1e-3),) * 2
    )
