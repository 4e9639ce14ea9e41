"""A diverged member is never the target, never acts and is reported once; the others continue without it."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from adaqn.agents.dqn import DQNAgent, State
from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Operation, TargetUpdate
from adaqn.agents.settings import DQNSettings
from adaqn.base.errors import AllMembersDiverged
from adaqn.envs.environments import Environments
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.replay.making import make_replay
from adaqn.replay.protocol import Batch
from adaqn.training.trainer import Trainer
from tests.agents.outcomes import acted, failed, learned

SOUND = Hyperparameters(hidden=(), optimizer="sgd", learning_rate=1e-3)
WILD = SOUND.replace(learning_rate=1e30)
CLOCK = Clock(step=10, settled=10, horizon=1000)


def agent_of(*members: Hyperparameters, **settings: Any) -> DQNAgent:
    return DQNAgent(DQNSettings(**settings), Population(members), spaces.Box(-9.0, 9.0, (2,)), spaces.Discrete(2))


def with_parameters(run: State, member: int, value: float) -> State:
    """The state with all online parameters of a member set to this number."""
    (group,) = run.learning.ensemble
    group = group._replace(parameters=group.parameters.at[member].set(value))
    return run._replace(learning=run.learning._replace(ensemble=(group,)))


def some_batch(rng: np.random.Generator) -> Batch:
    x, following = rng.standard_normal((2, 8, 2)).astype(np.float32)
    action, rewards = rng.integers(2, size=8).astype(np.int32), rng.standard_normal((8, 1)).astype(np.float32)
    return Batch(x, action, rewards, following, np.zeros(8, np.float32), np.ones(8, np.int32))


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_member_with_broken_parameters_never_acts(n_envs: int, broken: float) -> None:
    agent = agent_of(SOUND, SOUND, behaviour_final_eps=1.0, exploration_final_eps=0.0, exploration_steps=0)
    run = with_parameters(agent.init(0), member=0, value=broken)  # of the target member
    rng = np.random.default_rng(0)
    for _ in range(50):
        observations = rng.standard_normal((n_envs, 2)).astype(np.float32)
        run, actions = acted(agent.act(run, observations, CLOCK, rng))
        assert ((actions == 0) | (actions == 1)).all()
    assert run.learning.record.acted.tolist() == [0, 50 * n_envs]
    assert run.learning.record.diverged.tolist() == [True, False]


@pytest.mark.parametrize("selection", ["lowest", "random", "highest"])
def test_a_member_with_broken_parameters_is_never_the_target_and_reported_once(selection: str) -> None:
    agent = agent_of(SOUND, SOUND, selection=selection)
    rng = np.random.default_rng(0)
    run = with_parameters(agent.init(0), member=1, value=math.nan)
    events = []
    for _ in range(20):
        run = learned(agent.update(run, Operation.UPDATE, some_batch(rng), CLOCK, rng))
        run, (event,) = agent.perform(run, Operation.TARGET_UPDATE, CLOCK, rng)
        events.append(event)
    assert [event.target for event in events] == [0] * 20
    assert [event.newly_diverged for event in events] == [(1,)] + [()] * 19
    assert all(event.cumulated_loss[1] == math.inf for event in events)
    assert all(math.isfinite(event.cumulated_loss[0]) for event in events)
    sound, broken = agent.report(run, Clock()).members
    assert (sound.diverged, sound.selected, broken.diverged, broken.selected) == (False, 1.0, True, 0.0)
    assert broken.cumulated_loss == math.inf
    assert agent.report(run, CLOCK).metrics["ada/diverged"] == 1.0


def test_a_loss_that_overflows_is_noticed_at_once_though_the_parameters_are_finite() -> None:
    agent = agent_of(SOUND, SOUND.replace(learning_rate=0.0), selection="highest", behaviour_final_eps=1.0)
    rng = np.random.default_rng(0)
    run = with_parameters(agent.init(0), member=1, value=1e25)
    run = learned(agent.update(run, Operation.UPDATE, some_batch(rng), CLOCK, rng))
    assert run.learning.record.diverged.tolist() == [False, True]
    for _ in range(20):
        run, _ = acted(agent.act(run, np.zeros((1, 2), np.float32), CLOCK, rng))
    run, (event,) = agent.perform(run, Operation.TARGET_UPDATE, CLOCK, rng)
    assert isinstance(event, TargetUpdate)
    assert (event.target, event.acted, event.newly_diverged) == (0, (20, 0), (1,))


def test_a_target_that_overflows_does_not_take_the_others_along() -> None:
    agent = agent_of(WILD, SOUND)
    rng = np.random.default_rng(0)
    # 1e30 is finite, its square is not: this shows only when values and errors are computed.
    run = with_parameters(agent.init(0), member=0, value=1e30)
    run, (event,) = agent.perform(run, Operation.TARGET_UPDATE, CLOCK, rng)
    assert isinstance(event, TargetUpdate)
    assert (event.target, event.newly_diverged) == (0, ())
    before = np.array(run.learning.ensemble[0].parameters[1])
    for _ in range(3):
        run = learned(agent.update(run, Operation.UPDATE, some_batch(rng), CLOCK, rng))
    assert run.learning.record.diverged.tolist() == [True, False]
    assert np.array_equal(run.learning.ensemble[0].parameters[1], before)
    run, (event,) = agent.perform(run, Operation.TARGET_UPDATE, CLOCK, rng)
    assert isinstance(event, TargetUpdate)
    assert (event.target, event.newly_diverged, event.cumulated_loss) == (1, (0,), (math.inf, 0.0))
    run = learned(agent.update(run, Operation.UPDATE, some_batch(rng), CLOCK, rng))
    assert not np.array_equal(run.learning.ensemble[0].parameters[1], before)
    assert run.learning.record.diverged.tolist() == [True, False]


def test_the_policy_falls_back_to_the_last_sound_version_of_its_member() -> None:
    agent = agent_of(SOUND, SOUND)
    observations = np.random.default_rng(3).standard_normal((50, 2)).astype(np.float32)
    run = agent.init(0)
    sound = agent.policy(run, observations, None, CLOCK)
    assert 0 < sound.sum() < 50  # both actions are chosen
    broken = with_parameters(run, member=0, value=math.nan)
    assert agent.policy(broken, observations, None, CLOCK).tolist() == sound.tolist()


@pytest.mark.parametrize("n_envs", [1, 3])
def test_when_all_diverge_the_error_names_them(n_envs: int) -> None:
    agent = agent_of(SOUND, WILD)
    run = agent.init(0)
    for member in range(2):
        run = with_parameters(run, member, math.nan)
    names = r"all members diverged .*0: \{'hidden': \[\].*'learning_rate': 0.001.*; 1: \{.*'learning_rate': 1e\+30"
    rng = np.random.default_rng(0)
    observations = np.zeros((n_envs, 2), np.float32)
    copies = [copied(run) for _ in range(3)]
    for error in (
        failed(agent.act(copies[0], observations, CLOCK, rng)),
        failed(agent.update(copies[1], Operation.UPDATE, some_batch(rng), CLOCK, rng, observations)),
        failed(agent.perform(copies[2], Operation.TARGET_UPDATE, CLOCK, rng)),
    ):
        with pytest.raises(AllMembersDiverged, match=names):
            raise error


def copied(run: State) -> State:
    """A copy of the state in its own memory, which a program may donate."""
    return run._replace(learning=jax.tree.map(jnp.copy, run.learning))


@pytest.mark.parametrize("target_update_interval", [1, 10])
def test_when_all_diverge_the_loop_ends_with_the_error(target_update_interval: int) -> None:
    environments = Environments.make("CartPole-v1", 1, {})
    # With an interval of 10, the last member is found diverged when it acts; with 1, when a target is chosen.
    settings = DQNSettings(
        learning_starts=10,
        target_update_interval=target_update_interval,
        exploration_steps=0,
        exploration_final_eps=float(target_update_interval == 1),
    )
    agent = DQNAgent(settings, Population((WILD, WILD)), environments.observation_space, environments.action_space)
    replay = make_replay(500, 1, environments.observation_space, environments.action_space, 1)
    trainer = Trainer(agent, environments, replay, settings.batch_size, seed=1)
    with pytest.raises(AllMembersDiverged, match=r"all members diverged .*0: \{.*; 1: \{.*'learning_rate': 1e\+30"):
        trainer.run(100)
    assert 10 < trainer.clock.step < 20
    environments.close()
