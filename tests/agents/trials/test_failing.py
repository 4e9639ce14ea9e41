"""A trial whose member diverges ends early as failed, and the search continues with the next."""

from __future__ import annotations

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.agents.protocol import Clock, Operation, TrialEnd
from adaqn.agents.trials.agent import TrialAgent, TrialState
from adaqn.members.search import DEHB
from adaqn.members.space import SearchSpace
from adaqn.replay.protocol import Batch
from adaqn.training.trainer import Trainer
from tests.agents.outcomes import acted, learned
from tests.agents.trials.cases import (
    BRACKETS,
    TINY,
    TRIAL,
    WILD,
    Diary,
    Scripted,
    agent_for,
    agent_of,
    state_of,
    trainer_for,
)

OBSERVATIONS = np.zeros((3, 2), np.float32)


@pytest.mark.parametrize("n_envs", [1, 3])
def test_trials_that_diverge_end_early_and_the_run_goes_on(n_envs: int) -> None:
    envs = [Scripted(5, lambda n: 1.0) for _ in range(n_envs)]
    trainer = trainer_for("random-search", TRIAL, envs, space=WILD)
    diary = Diary(lambda trainer: state_of(trainer).failed)
    trainer.run(120, [diary])
    assert len(diary.ends) >= 4
    assert all(end.fitness is None for end in diary.ends)
    # The first update makes its parameters huge, the next ones detect it; then one step is taken with a random action.
    assert all(10 < end.last_step - end.first_step < 40 for end in diary.ends)
    assert [end.first_step for end in diary.ends[1:]] == [end.last_step for end in diary.ends[:-1]]
    assert [step for step, failed in diary.looks.items() if failed] == [end.last_step for end in diary.ends]
    assert agent_of(trainer).best_trial(state_of(trainer)) is None
    assert trainer.report().lines == ("No trial has finished with a result yet.",)
    assert "search/best_return" not in trainer.agent.report(trainer.state, trainer.clock).metrics
    actions = trainer.agent.policy(trainer.state, OBSERVATIONS, None, trainer.clock)
    assert set(actions.tolist()) <= {0, 1}


def test_the_others_succeed_and_a_failed_one_is_never_promoted() -> None:
    # Uniform in log space: about half of the learning rates are far too large.
    space = SearchSpace.from_dict(TINY.to_dict() | {"learning_rate": [1e-9, 1e9]})
    settings = BRACKETS | {"min_trial_steps": 20, "max_trial_steps": 80}
    trainer = trainer_for("dehb", settings, [Scripted(5)], space=space, seed=2)
    diary = Diary()
    trainer.run(130, [diary])
    first = diary.ends[:4]
    succeeded = [end for end in first if end.fitness is not None]
    assert 0 < len(succeeded) < 4
    assert all((end.last_step - end.first_step < 20) == (end.fitness is None) for end in first)
    assert all((end.hyperparameters.learning_rate > 1e3) == (end.fitness is None) for end in first)
    best = max(succeeded, key=lambda end: end.fitness or -math.inf)
    assert diary.starts[3].hyperparameters == best.hyperparameters
    search = agent_of(trainer).searcher
    assert isinstance(search, DEHB)
    held = [m.fitness for m in state_of(trainer).search.subpopulations[0].slots if m is not None]
    assert sorted(held) == sorted(-end.fitness for end in succeeded if end.fitness is not None)


def broken(state: TrialState) -> TrialState:
    """A copy of the state with NaN parameters."""
    learning = jax.tree.map(jnp.copy, state.run.learning)
    (member,) = learning.ensemble
    learning = learning._replace(ensemble=(member._replace(parameters=member.parameters * jnp.nan),))
    return state._replace(run=state.run._replace(learning=learning))


def some_batch() -> Batch[np.ndarray]:
    x = np.ones((4, 2), np.float32)
    return Batch(
        x, np.zeros(4, np.int32), np.ones((4, 1), np.float32), x, np.zeros(4, np.float32), np.ones(4, np.int32)
    )


def test_wherever_it_shows_the_trial_has_failed() -> None:
    agent = agent_for("random-search", TRIAL)
    clock, rng = Clock(20, 19, 1_000), np.random.default_rng(0)
    renewed, events = agent.perform(broken(agent.init(0)), Operation.TARGET_UPDATE, clock, rng)
    assert events == ()
    after_act, actions = acted(agent.act(broken(agent.init(0)), OBSERVATIONS, clock, rng))
    assert set(actions.tolist()) <= {0, 1}
    both, actions = acted(agent.update(broken(agent.init(0)), Operation.UPDATE, some_batch(), clock, rng, OBSERVATIONS))
    assert set(actions.tolist()) <= {0, 1}
    for state in (renewed, after_act, both):
        assert_failed(agent, state, clock)


def assert_failed(agent: TrialAgent, state: TrialState, clock: Clock) -> None:
    """Check that a failed trial only gives actions, can be reported and saved, and is followed by the next."""
    rng = np.random.default_rng(1)
    assert state.failed and agent.report(state, clock).members[0].diverged
    assert learned(agent.update(state, Operation.UPDATE, some_batch(), clock, rng)) is state
    assert agent.perform(state, Operation.TARGET_UPDATE, clock, rng) == (state, ())
    after, actions = acted(agent.act(state, np.zeros((100, 2), np.float32), clock, rng))
    assert sorted(set(actions.tolist())) == [0, 1]
    after, actions = acted(agent.update(after, Operation.UPDATE, some_batch(), clock, rng, OBSERVATIONS))
    assert actions.shape == (3,)
    arrays, meta = agent.to_arrays(after)
    assert agent.from_arrays(arrays, json.loads(json.dumps(meta))).failed
    assert agent.plan(after, clock._replace(step=21, settled=20), np.zeros(1, bool)) == (Operation.NEW_TRIAL,)
    following, (end, *_) = agent.perform(after, Operation.NEW_TRIAL, clock._replace(step=21), rng)
    assert isinstance(end, TrialEnd)
    assert (end.fitness, end.first_step, end.last_step) == (None, 0, 21)
    assert not following.failed and following.trial.number == 1 and following.first_step == 21


def test_a_loss_that_overflows_in_the_last_update_is_a_failure_too() -> None:
    agent = agent_for("random-search", TRIAL)
    clock, rng = Clock(40, 39, 1_000), np.random.default_rng(0)
    state = agent.init(0)
    state = state._replace(returns=state.returns.add(40, [5.0], 12))
    state = learned(agent.update(broken(state), Operation.UPDATE, some_batch(), clock, rng))
    assert not state.failed  # nobody looked
    _, (end, *_) = agent.perform(state, Operation.NEW_TRIAL, clock, rng)
    assert isinstance(end, TrialEnd) and end.fitness is None


def test_a_failed_trial_is_saved_and_goes_on_exactly() -> None:
    def fresh() -> Trainer:
        return trainer_for("random-search", TRIAL, "CartPole-v1", space=WILD)

    whole, diary = fresh(), Diary(lambda trainer: state_of(trainer).failed)
    whole.run(60, [diary])
    failed_at = next(step for step, failed in diary.looks.items() if failed)
    first = fresh()
    first.run(1_000, [Stop(failed_at)])
    assert state_of(first).failed
    second = fresh()
    second.replay.restore(0, first.replay.rows(0, first.replay.added))
    second.restore(first.snapshot())
    again = Diary()
    second.run(60, [again])
    assert again.events == diary.events
    assert json.dumps(second.snapshot().meta) == json.dumps(whole.snapshot().meta)


class Stop(Diary):
    """Interrupts at a step."""

    def __init__(self, step: int) -> None:
        super().__init__(lambda trainer: trainer.clock.step == step and trainer.interrupt("test"))
