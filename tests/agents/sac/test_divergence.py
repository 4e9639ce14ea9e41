"""A diverged critic is never in a pair and is reported once; the actor and the other critics continue without it."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from adaqn.agents.actor_critic import UpdateCounts
from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.sac import SACAgent, State
from adaqn.agents.settings import SACSettings
from adaqn.api import SAC
from adaqn.base.errors import ActorDiverged, AllMembersDiverged
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.replay.protocol import Batch
from tests.agents.outcomes import failed, learned
from tests.agents.sac.cases import make_agent, summed_up

SOUND = Hyperparameters(hidden=(), optimizer="sgd", learning_rate=1e-3)
WILD = SOUND.replace(learning_rate=1e30)
CLOCK = Clock(step=0, settled=0, horizon=1000)  # ε_b = 1: any pair trains the actor


@cache
def agent_of(*members: Hyperparameters) -> SACAgent:
    given = SACSettings(actor_hidden="linear", learning_starts=10, selection_interval=10, batch_size=8)
    return make_agent(given, members, spaces.Box(-9.0, 9.0, (2,)), spaces.Box(-1.0, 1.0, (1,)))


def with_parameters(run: State, member: int, value: float) -> State:
    """The state with all online parameters of a member set to this number."""
    (group,) = run.learning.ensemble
    group = group._replace(parameters=group.parameters.at[member].set(value))
    return run._replace(learning=run.learning._replace(ensemble=(group,)))


def some_batch(rng: np.random.Generator) -> Batch:
    x, following = rng.standard_normal((2, 8, 2), np.float32)
    action, rewards = rng.uniform(-1.0, 1.0, (8, 1)).astype(np.float32), rng.standard_normal((8, 1), np.float32)
    return Batch(x, action, rewards, following, np.zeros(8, np.float32), np.ones(8, np.int32))


def assert_sound_actor(run: State) -> None:
    for leaf in jax.tree.leaves((run.learning.actor, run.learning.log_alpha)):
        assert jnp.isfinite(leaf).all()


@pytest.mark.parametrize("broken", [math.nan, math.inf, 1e30])
@pytest.mark.parametrize("member", [0, 2])
def test_a_broken_critic_is_in_no_pair_and_reported_once(member: int, broken: float) -> None:
    agent, rng = agent_of(SOUND, SOUND, SOUND), np.random.default_rng(0)
    # A member of the pair, or another one.
    run = with_parameters(agent.init(0), member, broken)
    others = [k for k in range(3) if k != member]
    events, actors = [], []
    for _ in range(15):
        run = learned(agent.update(run, Operation.ACTOR_UPDATE, some_batch(rng), CLOCK, rng))
        actors.append(np.array(run.learning.actor.parameters))
        assert sorted(run.learning.selected.members.tolist()) == others
        run, event = summed_up(agent, run)
        events.append(event)
    assert [event.newly_diverged for event in events] == [(member,)] + [()] * 14
    assert all(event.cumulated_loss[member] == math.inf for event in events)
    assert all(event.selected is not None and event.selected[member] == 0.0 for event in events)
    # It may have been drawn for the actor's first step, which was then not made.
    assert all(event.acted == tuple(float(k in others) for k in range(3)) for event in events[1:])
    assert all(math.isfinite(event.cumulated_loss[k]) for event in events for k in others)
    assert all((now != before).any() for before, now in itertools.pairwise(actors))
    assert_sound_actor(run)
    reports = agent.report(run, Clock()).members
    assert [report.diverged for report in reports] == [k == member for k in range(3)]
    assert [report.selected for report in reports] == [float(k in others) for k in range(3)]
    assert agent.report(run, CLOCK).metrics["ada/diverged"] == 1.0


def test_a_critic_that_explodes_does_not_stop_the_actor() -> None:
    # Its first step makes its values huge but finite. Their slopes, squared in Adam's average, are not, and would
    # hold the actor in place for ever.
    agent, rng = agent_of(WILD, SOUND, SOUND), np.random.default_rng(0)
    run = agent.init(0)
    before = np.array(run.learning.actor.parameters)
    for _ in range(12):
        before = np.array(run.learning.actor.parameters)
        run = learned(agent.update(run, Operation.ACTOR_UPDATE, some_batch(rng), CLOCK, rng))
        assert_sound_actor(run)
    assert run.learning.record.diverged.tolist() == [True, False, False]
    # Adam's steps are as long as its rate.
    assert np.abs(np.array(run.learning.actor.parameters) - before).max() > 1e-4


def test_a_target_that_overflows_does_not_take_the_others_along() -> None:
    agent, rng = agent_of(SOUND, SOUND, SOUND), np.random.default_rng(0)
    run = agent.init(0)
    (target,) = run.learning.target
    # 1e30 is finite, its square is not: this shows only when values and errors are computed.
    run = run._replace(learning=run.learning._replace(target=(target.at[0].set(1e30).at[1].set(1e30),)))
    before = np.array(run.learning.ensemble[0].parameters)
    run = learned(agent.update(run, Operation.ACTOR_UPDATE, some_batch(rng), CLOCK, rng))
    assert run.learning.record.diverged.tolist() == [True, True, False]
    assert np.array_equal(run.learning.ensemble[0].parameters, before)
    # The only remaining member is both members of the pair, and learns from itself.
    assert run.learning.selected.members.tolist() == [2, 2]
    for _ in range(3):
        run = learned(agent.update(run, Operation.ACTOR_UPDATE, some_batch(rng), CLOCK, rng))
    assert run.learning.selected.members.tolist() == [2, 2]
    assert run.learning.record.diverged.tolist() == [True, True, False]
    assert not np.array_equal(run.learning.ensemble[0].parameters[2], before[2])
    assert math.isfinite(float(run.learning.record.loss[2]))


@pytest.mark.parametrize("dead", [0, 1])
def test_if_one_of_two_diverges_the_other_is_the_pair_and_trains_the_actor(dead: int) -> None:
    agent, rng = agent_of(SOUND, SOUND), np.random.default_rng(0)
    run, living = with_parameters(agent.init(0), dead, math.nan), 1 - dead
    events, actors, critics = [], [], []
    for _ in range(6):
        run = learned(agent.update(run, Operation.ACTOR_UPDATE, some_batch(rng), CLOCK, rng))
        actors.append(np.array(run.learning.actor.parameters))
        critics.append(np.array(run.learning.ensemble[0].parameters[living]))
        assert run.learning.selected.members.tolist() == [living] * 2
        run, event = summed_up(agent, run)
        events.append(event)
    assert all((now != before).any() for before, now in itertools.pairwise(actors))
    assert all((now != before).any() for before, now in itertools.pairwise(critics))
    assert_sound_actor(run)
    alone = tuple(float(k == living) for k in range(2))
    assert all(event.selected == alone and event.acted == alone and event.target == living for event in events)
    assert [event.newly_diverged for event in events] == [(dead,)] + [()] * 5
    assert [report.selected for report in agent.report(run, Clock()).members] == list(alone)


def test_when_all_diverge_the_error_names_them() -> None:
    agent, rng = agent_of(SOUND, WILD, SOUND), np.random.default_rng(0)
    run = agent.init(0)
    for member in range(3):
        run = with_parameters(run, member, math.nan)
    actor = np.array(run.learning.actor.parameters)
    run = learned(agent.update(run, Operation.ACTOR_UPDATE, some_batch(rng), CLOCK, rng))
    assert np.array_equal(run.learning.actor.parameters, actor)
    names = r"all members diverged .*0: \{'hidden': \[\].*'learning_rate': 0.001.*; 1: \{.*'learning_rate': 1e\+30"
    with pytest.raises(AllMembersDiverged, match=names):
        raise failed(agent.perform(run, Operation.TARGET_UPDATE, Clock(step=7), rng))


def test_an_actor_that_diverges_is_named() -> None:
    small: dict[str, Any] = {"learning_starts": 40, "batch_size": 8, "selection_interval": 20, "actor_hidden": "4"}
    with pytest.raises(ActorDiverged, match=r"^the actor diverged \(.*\): try a smaller actor_learning_rate"):
        SAC("Pendulum-v1", [Hyperparameters(hidden=(4,))], actor_learning_rate=1e30, **small).learn(200)


def test_actions_that_are_not_finite_are_a_failure_of_the_actor() -> None:
    agent, rng = agent_of(SOUND, SOUND), np.random.default_rng(0)
    run, clock, observations = agent.init(0), Clock(50, 50, 1000), np.ones((1, 2), np.float32)
    actor = run.learning.actor._replace(parameters=run.learning.actor.parameters.at[0].set(math.nan))
    run = run._replace(learning=run.learning._replace(actor=actor))
    sentence = r"^the actor diverged \(its actions are not finite\): try a smaller actor_learning_rate than 0\.001$"
    with pytest.raises(ActorDiverged, match=sentence):
        raise failed(agent.act(run, observations, clock, rng))
    with pytest.raises(ActorDiverged, match=sentence):
        raise failed(agent.update(run, Operation.ACTOR_UPDATE, some_batch(rng), clock, rng, observations))


def test_updates_that_change_nothing_are_a_failure_of_the_actor() -> None:
    agent, rng = agent_of(SOUND, SOUND), np.random.default_rng(0)
    counts = UpdateCounts(jnp.asarray([4, 3], jnp.int32), jnp.asarray([4, 0], jnp.int32))
    run = agent.init(0)
    run = run._replace(learning=run.learning._replace(counts=counts))
    with pytest.raises(ActorDiverged, match=r"^the actor diverged \(the last 4 updates changed nothing\)"):
        raise failed(agent.perform(run, Operation.TARGET_UPDATE, Clock(step=7), rng))
