"""A diverged critic of TD3 is never used and is reported once; a diverged actor ends the run with an error."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.td3 import TD3Agent
from adaqn.api import TD3
from adaqn.base.errors import ActorDiverged, AllMembersDiverged
from adaqn.members.hyperparameters import Hyperparameters
from tests.agents.outcomes import failed, learned
from tests.agents.td3.cases import State, agent_of, random_batch, summed_up

SOUND = Hyperparameters(hidden=(), optimizer="sgd", learning_rate=1e-3)
WILD = SOUND.replace(learning_rate=1e30)
CLOCK = Clock(step=0, settled=0, horizon=1000)  # ε_b = 1: any critic trains AdaTD3's actor


@cache
def agent_with(members: tuple[Hyperparameters, ...], algo: str = "adatd3") -> TD3Agent:
    return agent_of(members, algo, actor_optimizer="adam", actor_learning_rate=1e-3, tau=0.005)


def with_parameters(run: State, member: int, value: float) -> State:
    """The state with all online parameters of a member set to this number."""
    (group,) = run.learning.ensemble
    group = group._replace(parameters=group.parameters.at[member].set(value))
    return run._replace(learning=run.learning._replace(ensemble=(group,)))


def assert_sound_actor(run: State) -> None:
    for leaf in jax.tree.leaves((run.learning.actor, run.learning.target_actor)):
        assert jnp.isfinite(leaf).all()


@pytest.mark.parametrize("broken", [math.nan, math.inf, 1e30])
@pytest.mark.parametrize("member", [0, 2])
def test_a_broken_critic_is_not_used_and_reported_once(member: int, broken: float) -> None:
    agent, rng = agent_with((SOUND,) * 3), np.random.default_rng(0)
    # A member of the pair, or another one.
    run = with_parameters(agent.init(0), member, broken)
    others = [k for k in range(3) if k != member]
    events, actors, targets = [], [], []
    for _ in range(10):
        run = learned(agent.update(run, Operation.ACTOR_UPDATE, random_batch(rng), CLOCK, rng))
        actors.append(np.array(run.learning.actor.parameters))
        targets.append(np.array(run.learning.target[0])[others])
        assert sorted(run.learning.selected.members.tolist()) == others
        run, event = summed_up(agent, run)
        events.append(event)
    assert [event.newly_diverged for event in events] == [(member,)] + [()] * 9
    assert all(event.cumulated_loss[member] == math.inf for event in events)
    assert all(event.selected is not None and event.selected[member] == 0.0 for event in events)
    # It may have been drawn for the actor's first step, which was then not made.
    assert all(event.acted[member] == 0.0 and sum(event.acted) == 1.0 for event in events[1:])
    assert all((now != before).any() for before, now in itertools.pairwise(actors))
    assert all((now != before).any() and np.isfinite(now).all() for before, now in itertools.pairwise(targets))
    assert_sound_actor(run)
    assert [report.diverged for report in agent.report(run, Clock()).members] == [k == member for k in range(3)]


@pytest.mark.parametrize("algo", ["td3", "adatd3"])
@pytest.mark.parametrize("dead", [0, 1])
def test_if_one_of_two_diverges_the_other_is_the_pair_and_trains_the_actor(dead: int, algo: str) -> None:
    agent, rng = agent_with((SOUND,) * 2, algo), np.random.default_rng(0)
    run, living = with_parameters(agent.init(0), dead, math.nan), 1 - dead
    actors, critics = [], []
    for _ in range(5):
        run = learned(agent.update(run, Operation.ACTOR_UPDATE, random_batch(rng), CLOCK, rng))
        actors.append(np.array(run.learning.actor.parameters))
        critics.append(np.array(run.learning.ensemble[0].parameters[living]))
        assert run.learning.selected.members.tolist() == [living] * 2
        run, event = summed_up(agent, run)
        assert event.acted == event.selected == tuple(float(k == living) for k in range(2))
    assert all((now != before).any() for before, now in itertools.pairwise(actors))
    assert all((now != before).any() for before, now in itertools.pairwise(critics))
    assert_sound_actor(run)


def test_a_critic_that_explodes_does_not_stop_the_actor() -> None:
    # Its first step makes its values huge but finite. Their slopes, squared in Adam's average, are not, and would
    # hold the actor in place for ever.
    agent, rng = agent_with((WILD, SOUND, SOUND)), np.random.default_rng(0)
    run = agent.init(0)
    before = np.array(run.learning.actor.parameters)
    for _ in range(12):
        before = np.array(run.learning.actor.parameters)
        run = learned(agent.update(run, Operation.ACTOR_UPDATE, random_batch(rng), CLOCK, rng))
        assert_sound_actor(run)
    assert run.learning.record.diverged.tolist() == [True, False, False]
    # Adam's steps are as long as its rate.
    assert np.abs(np.array(run.learning.actor.parameters) - before).max() > 1e-4


def test_a_step_of_the_actor_that_is_not_made_leaves_all_targets_where_they_were() -> None:
    # The first critic explodes in its own step, after which the actor finds it unusable.
    agent, rng = agent_with((WILD, SOUND), "td3"), np.random.default_rng(0)
    run = agent.init(0)
    before = jax.device_get((run.learning.actor, run.learning.target_actor, run.learning.target))
    run = learned(agent.update(run, Operation.ACTOR_UPDATE, random_batch(rng), CLOCK, rng))
    after = jax.device_get((run.learning.actor, run.learning.target_actor, run.learning.target))
    assert run.learning.counts.learned.tolist() == [1, 0]
    assert run.learning.record.diverged.tolist() == [True, False]
    jax.tree.map(np.testing.assert_array_equal, after, before)


def test_a_target_that_overflows_does_not_take_the_others_along() -> None:
    agent, rng = agent_with((SOUND,) * 3), np.random.default_rng(0)
    run = agent.init(0)
    (target,) = run.learning.target
    # 1e30 is finite, its square is not: this shows only when values and errors are computed.
    run = run._replace(learning=run.learning._replace(target=(target.at[0].set(1e30).at[1].set(1e30),)))
    before = np.array(run.learning.ensemble[0].parameters)
    run = learned(agent.update(run, Operation.ACTOR_UPDATE, random_batch(rng), CLOCK, rng))
    assert run.learning.record.diverged.tolist() == [True, True, False]
    assert np.array_equal(run.learning.ensemble[0].parameters, before)
    assert run.learning.selected.members.tolist() == [2, 2]
    for _ in range(3):
        run = learned(agent.update(run, Operation.ACTOR_UPDATE, random_batch(rng), CLOCK, rng))
    # The only remaining member learns from itself.
    assert run.learning.record.diverged.tolist() == [True, True, False]
    assert not np.array_equal(run.learning.ensemble[0].parameters[2], before[2])
    assert math.isfinite(float(run.learning.record.loss[2]))


def test_when_all_diverge_the_error_names_them() -> None:
    agent, rng = agent_with((SOUND, WILD, SOUND)), np.random.default_rng(0)
    run = agent.init(0)
    for member in range(3):
        run = with_parameters(run, member, math.nan)
    actor = np.array(run.learning.actor.parameters)
    run = learned(agent.update(run, Operation.ACTOR_UPDATE, random_batch(rng), CLOCK, rng))
    assert np.array_equal(run.learning.actor.parameters, actor)
    names = r"all members diverged .*0: \{'hidden': \[\].*'learning_rate': 0.001.*; 1: \{.*'learning_rate': 1e\+30"
    with pytest.raises(AllMembersDiverged, match=names):
        raise failed(agent.perform(run, Operation.TARGET_UPDATE, Clock(step=7), rng))


def test_actions_that_are_not_finite_are_a_failure_of_the_actor() -> None:
    agent, rng = agent_with((SOUND,) * 2), np.random.default_rng(0)
    run, clock, observations = agent.init(0), Clock(2000, 2000, 3000), np.ones((1, 1), np.float32)
    actor = run.learning.actor._replace(parameters=run.learning.actor.parameters.at[0].set(math.nan))
    run = run._replace(learning=run.learning._replace(actor=actor))
    sentence = r"^the actor diverged \(its actions are not finite\): try a smaller actor_learning_rate than 0\.001$"
    with pytest.raises(ActorDiverged, match=sentence):
        raise failed(agent.act(run, observations, clock, rng))
    with pytest.raises(ActorDiverged, match=sentence):
        raise failed(agent.update(run, Operation.ACTOR_UPDATE, random_batch(rng), clock, rng, observations))


def test_an_actor_that_diverges_ends_the_run_with_its_name() -> None:
    small: dict[str, Any] = {"learning_starts": 40, "batch_size": 8, "selection_interval": 20, "actor_hidden": "16x16"}
    critic = Hyperparameters(hidden=(4,))
    with pytest.raises(ActorDiverged, match=r"^the actor diverged \(.*\): try a smaller actor_learning_rate"):
        TD3("Pendulum-v1", [critic], seed=0, actor_learning_rate=1e30, **small).learn(200)
