"""SEARL trains members on their own targets and compares them by their returns: numbers worked out by hand."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Generation, MemberEvaluation, Operation, TargetUpdate
from adaqn.agents.searl import Evaluation, SEARLAgent, SEARLState
from adaqn.agents.settings import SEARLSettings
from adaqn.base.errors import AllMembersDiverged
from adaqn.envs.environments import Environments, FinishedEpisode
from adaqn.members.selection import Selection
from adaqn.replay.making import make_replay
from adaqn.training.trainer import Trainer
from tests.agents.generation_cases import Witness
from tests.agents.outcomes import acted, failed
from tests.agents.searl.cases import (
    DOWN,
    FLAT,
    HALF,
    RATES_ONLY,
    STEEP,
    agent_of,
    batch_of,
    evaluated,
    online_of,
    started,
    targets_of,
    updated,
    with_learning,
    with_record,
)

RNG = np.random.default_rng(0)  # required by the interface; nothing here is random
ONE = batch_of((1.0, 0, 1.0, 2.0, False))
BROKEN = [math.nan] * 4


def competed(agent: SEARLAgent, run: SEARLState, seed: int = 0) -> tuple[SEARLState, TargetUpdate, Generation]:
    run, events = agent.perform(run, Operation.GENERATION, Clock(step=12), np.random.default_rng(seed))
    update, generation = events
    assert isinstance(update, TargetUpdate) and isinstance(generation, Generation)
    return run, update, generation


def test_every_member_learns_from_its_own_target() -> None:
    agent = agent_of([HALF, HALF.replace(learning_rate=1.0), HALF.replace(discount=0.25)])
    run = updated(agent, started(agent, [STEEP, FLAT, STEEP]), ONE)
    # Q(1, 0) is 1, 0, 1. With γ = ½ it is y = 1 + ½ max(2, 4) = 3, and y = 1 + ½ max(0, 1) = 1.5; with γ = ¼ it is
    # y = 1 + ¼ max(2, 4) = 2. The errors -2, -1.5, -1 times the learning rates ½, 1, ½ go into w_0 and b_0.
    assert online_of(run) == [[2.0, 2.0, 1.0, 0.0], [1.5, 0.0, 1.5, 1.0], [1.5, 2.0, 0.5, 0.0]]
    # Compared with γ = ½: ½ 2², ½ 1.5², ½ 2².
    assert run.population.learning.record.last_loss.tolist() == [2.0, 1.125, 2.0]
    assert targets_of(run) == [STEEP, FLAT, STEEP]


def test_in_a_burst_every_target_is_renewed_at_each_multiple_of_its_interval() -> None:
    members = [HALF, HALF.replace(learning_rate=0.25)]
    agent = agent_of(members, batch_size=1, generation_interval=8, target_update_interval=3)
    run = evaluated(agent, started(agent, [STEEP, FLAT]), [[2.0, 2.0], [1.0, 1.0]])
    # The burst is for the steps 5 to 12.
    first, *burst, last = agent.plan(run, Clock(12, 11), np.array([True]))
    assert (first, last) == (Operation.EPISODE_END, Operation.GENERATION)
    targets, learned = [], []
    for operation in burst:
        if operation is Operation.UPDATE:
            targets.append(targets_of(run))
            run = updated(agent, run, ONE)
            learned.append(online_of(run))
        else:
            run, events = agent.perform(run, operation, Clock(12, 11), RNG)
            assert events == ()
    # Member 0 reaches y in one update. Its target says (2, 4), then (5, 4), then (5.75, 4) at x' = 2: y is 3, 3.5 and
    # 3.875, and Q(1, 0) = w_0 + b_0 goes up by 2, ½ and 3/8.
    a, b, c = [2.0, 2.0, 1.0, 0.0], [2.25, 2.0, 1.25, 0.0], [2.4375, 2.0, 1.4375, 0.0]
    assert [each[0] for each in learned] == [a, a, b, b, b, c, c, c]
    assert [each[0] for each in targets] == [STEEP, STEEP, a, a, a, b, b, b]
    # Member 1 goes half the way to y. Its target says max(0, 1) = 1, so y = 1.5, and w_0 = b_0 is 3/8, then 9/16. With
    # this as target, max(27/16, 1) makes y = 59/32, and Q(1, 0) goes from 36/32 over 95/64 and 213/128 to 449/256.
    half = [3 / 8, 9 / 16, 95 / 128, 213 / 256, 449 / 512]
    assert [each[1] for each in learned[:5]] == [[w, 0.0, w, 1.0] for w in half]
    assert [each[1] for each in targets] == [FLAT] * 2 + [learned[1][1]] * 3 + [learned[4][1]] * 3
    # The last update, in step 12, has been followed by a renewal too.
    assert targets_of(run) == online_of(run) == learned[7]


def test_a_member_that_diverged_in_the_burst_keeps_the_target_that_it_can_act_with() -> None:
    agent = agent_of([HALF] * 3)
    run = started(agent, [STEEP, FLAT, DOWN])
    online = list(run.population.learning.ensemble)
    for k, parameters in enumerate([BROKEN, [5.0] * 4, [6.0] * 4]):
        online[k] = online[k]._replace(parameters=jnp.asarray([parameters]))
    # The second has parameters that are finite, and was found to be too large to compute with.
    run = with_record(with_learning(run, ensemble=tuple(online)), diverged=jnp.asarray([False, True, False]))
    run, _ = agent.perform(run, Operation.TARGET_UPDATE, Clock(), RNG)
    assert targets_of(run) == [STEEP, FLAT, [6.0] * 4]
    # The first is the elite, whose network is broken.
    actions = agent.policy(run, np.array([[-3.0], [0.5]], np.float32), None, Clock())
    assert actions.tolist() == [0, 1]


def test_targets_are_renewed_in_a_generation_and_by_no_update() -> None:
    agent = agent_of([HALF, HALF], batch_size=1)
    run = evaluated(agent, started(agent, [STEEP, FLAT]), [[2.0], [1.0]])
    for _ in range(3):
        run = updated(agent, run, ONE)
        assert targets_of(run) == [STEEP, FLAT]
    learned = online_of(run)
    assert learned[0] == [2.0, 2.0, 1.0, 0.0]  # after one update there is nothing left to learn
    run, update, _ = competed(agent, run)
    assert targets_of(run) == online_of(run)
    assert targets_of(run)[0] == learned[0]
    # Member 1: y = 1.5 against 0, 1.5, 1.5.
    assert update.cumulated_loss == (2.0, 1.125)
    assert run.population.learning.record.loss.tolist() == [0.0, 0.0]
    # The new target says max(5, 4) = 5 at x' = 2, y = 3.5 against Q(1, 0) = 3: up by ¼.
    assert online_of(updated(agent, run, ONE))[0] == [2.25, 2.0, 1.25, 0.0]


def test_the_tournament_is_won_by_the_highest_mean_return_whatever_the_losses() -> None:
    agent = agent_of([HALF.replace(learning_rate=rate) for rate in (0.25, 0.5, 1.0)])
    run = evaluated(agent, started(agent, [STEEP, FLAT, DOWN]), [[3.0, 4.0], [1.0, 8.0], [5.0, 0.0]])
    losses = jnp.asarray([0.125, 9.0, 2.0])
    agent.members.evolution = witness = Witness(agent.members.evolution)
    run, update, generation = competed(agent, with_record(run, loss=losses))
    assert witness.fitness == [[-3.5, -4.5, -2.5]]
    assert update == TargetUpdate(12, 1, (0.125, 9.0, 2.0), (4, 4, 4), (), discount=0.5)
    # All three are drawn in every round, so the best wins all of them: it stays, and the others are its children.
    assert [member.parent for member in generation.members] == [1, 1, 1]
    assert [member.mutation for member in generation.members] == ["learning_rate", None, "learning_rate"]
    rates = [member.hyperparameters.learning_rate for member in generation.members]
    assert rates[1] == 0.5 and {rates[0], rates[2]} <= {0.4, 0.6}
    assert online_of(run) == [FLAT] * 3
    assert (agent.members.target_member(run.population), run.population.generation) == (1, 1)
    assert agent.report(run, Clock()).target == 1
    assert [report.selected for report in agent.report(run, Clock()).members] == [0.0, 1.0, 0.0]


def test_a_generation_begins_the_next_evaluation_and_keeps_the_returns_for_the_logs() -> None:
    agent = agent_of([HALF] * 3)
    run = started(agent, [STEEP, FLAT, DOWN])
    assert not [tag for tag in agent.report(run, Clock()).metrics if "searl" in tag]
    assert agent.report(run, Clock()).policy_return is None
    run, _, _ = competed(agent, evaluated(agent, run, [[3.0, 4.0], [1.0, 8.0], [5.0, 0.0]]))
    returns = (3.5, 4.5, 2.5)
    assert run.evaluation == Evaluation.begin(3, returns, elite_return=4.5)
    assert agent.report(run, Clock()).policy_return == 4.5
    metrics = agent.report(run, Clock()).metrics
    names = [f"rollout/searl_return_{name}" for name in ("max", "mean", "min")]
    assert [metrics[name] for name in names] == [4.5, 3.5, 2.5]
    assert metrics["ada/target_member"] == 1.0
    assert "ada/behaviour_rate" not in metrics


def test_episodes_are_reported_with_their_member_and_once() -> None:
    agent = agent_of([HALF] * 2)
    run = evaluated(agent, started(agent, [STEEP, FLAT]), [[], [7.0]])
    run, events = agent.perform(run, Operation.EPISODE_END, Clock(step=2), RNG)
    assert events == (MemberEvaluation(2, 0, 1, 7.0, 2),)
    run, events = agent.perform(run, Operation.EPISODE_END, Clock(step=3), RNG)
    assert events == ()
    assert run.evaluation.returns == (None, 7.0)


def test_members_act_greedily_in_turn() -> None:
    agent = agent_of([HALF] * 3)
    run = started(agent, [STEEP, FLAT, DOWN])
    chosen = []
    for member in range(3):
        if member:
            run, _ = agent.perform(run, Operation.NEXT_MEMBER, Clock(), RNG)
        for x in (-3.0, 0.5):
            run, actions = acted(agent.act(run, np.full((1, 1), x, np.float32), Clock(), RNG))
            chosen.append(actions.tolist())
    # (x, 2x), (0, 1), (0, -x) at -3 and at ½.
    assert chosen == [[0], [1], [1], [1], [1], [0]]
    assert run.evaluation.steps == (2, 2, 2)


def test_an_unusable_target_affects_only_its_member() -> None:
    agent = agent_of([HALF] * 3)
    run = started(agent, [STEEP, FLAT, FLAT])
    # Finite, but the error to one of its values would not be; the largest value alone would not show it.
    huge = jnp.asarray([[0.0, 0.0, -1e30, 1.0]])
    target = (run.population.learning.target[0], huge, run.population.learning.target[2])
    run = updated(agent, with_learning(run, target=target), ONE)
    alone = updated(agent_of([HALF] * 2), started(agent_of([HALF] * 2), [STEEP, FLAT]), ONE)
    assert run.population.learning.record.diverged.tolist() == [False, True, False]
    assert [online_of(run)[0], online_of(run)[2]] == online_of(alone)
    assert not np.isfinite(run.population.learning.record.last_loss[1])
    assert run.population.learning.record.last_loss[2] == 1.125


@pytest.mark.parametrize("found", ["in the parameters", "before"])
def test_a_diverged_member_loses_whatever_its_return_and_is_reported_once(found: str) -> None:
    agent = agent_of([HALF] * 3)
    run = evaluated(agent, started(agent, [STEEP, FLAT, DOWN]), [[1.0], [9.0], [2.0]])
    if found == "before":
        run = with_record(run, diverged=jnp.asarray([False, True, False]))
    else:
        first, second, third = run.population.learning.ensemble
        run = with_learning(run, ensemble=(first, second._replace(parameters=jnp.asarray([BROKEN])), third))
    run, update, generation = competed(agent, run)
    assert (update.target, update.newly_diverged) == (2, (1,))
    assert update.cumulated_loss == (0.0, math.inf, 0.0)
    assert [member.parent for member in generation.members] == [2, 2, 2]
    assert run.population.learning.record.diverged.tolist() == [False] * 3
    assert online_of(run) == [DOWN] * 3
    _, update, _ = competed(agent, evaluated(agent, run, [[1.0], [2.0], [3.0]]))
    assert update.newly_diverged == ()


def test_an_episode_of_a_diverged_member_is_finished_by_another_and_counts_for_neither() -> None:
    agent = agent_of([HALF] * 3, generation_interval=3)
    run = started(agent, [STEEP, BROKEN, FLAT])
    run = evaluated(agent, run, [[1.0]])
    run, _ = agent.perform(run, Operation.NEXT_MEMBER, Clock(), RNG)
    run, _ = agent.perform(run, Operation.EPISODE_END, Clock(), RNG)
    for _ in range(3):
        run, actions = acted(agent.act(run, np.full((1, 1), -1.0, np.float32), Clock(), RNG))
        assert actions.tolist() == [1]  # FLAT's
    assert run.population.learning.record.diverged.tolist() == [False, True, False]
    assert (run.evaluation.member, run.evaluation.steps) == (1, (2, 0, 3))
    run = agent.episodes_ended(run, [FinishedEpisode(0, 5.0, 3)], Clock(step=5))
    assert run.evaluation.returns == (1.0, None, None)
    assert run.evaluation.unreported == ()
    run, _ = agent.perform(run, Operation.NEXT_MEMBER, Clock(), RNG)
    assert run.evaluation.member == 2


def test_when_the_last_one_diverges_the_first_that_lives_ends_its_episode() -> None:
    agent = agent_of([HALF] * 3)
    run = started(agent, [BROKEN, FLAT, BROKEN])
    run = run._replace(evaluation=run.evaluation._replace(member=2))
    run, actions = acted(agent.act(run, np.zeros((1, 1), np.float32), Clock(), RNG))
    assert actions.tolist() == [1]
    assert (run.population.learning.record.diverged.tolist(), run.evaluation.steps) == ([True, False, True], (0, 1, 0))


def test_when_all_diverge_the_error_names_them() -> None:
    agent = agent_of([HALF, HALF.replace(learning_rate=0.25)])
    broken, x = started(agent, [BROKEN, BROKEN]), np.zeros((1, 1), np.float32)
    outcomes = [agent.act(broken, x, Clock(), RNG), agent.update(broken, Operation.UPDATE, ONE, Clock(), RNG, x)]
    for outcome in outcomes:
        with pytest.raises(AllMembersDiverged, match=r"0: .*'learning_rate': 0.5.*; 1: .*'learning_rate': 0.25"):
            raise failed(outcome)
    run = evaluated(agent, started(agent, [STEEP, FLAT]), [[1.0], [2.0]])
    run = with_record(run, diverged=jnp.asarray([True, True]))
    with pytest.raises(AllMembersDiverged, match="all members diverged"):
        raise failed(agent.perform(run, Operation.GENERATION, Clock(step=12), RNG))


def test_when_all_diverge_the_loop_ends_with_the_error() -> None:
    environments = Environments.make("CartPole-v1", 1, {})
    wild = HALF.replace(learning_rate=1e30)
    settings = SEARLSettings(generation_interval=20, batch_size=4)
    spaces_of = environments.observation_space, environments.action_space
    agent = SEARLAgent(settings, Population((wild, wild), RATES_ONLY), *spaces_of)
    trainer = Trainer(agent, environments, make_replay(500, 1, *spaces_of, 1), settings.batch_size, seed=1)
    with pytest.raises(AllMembersDiverged, match=r"all members diverged .*0: .*'learning_rate': 1e\+30.*; 1: "):
        trainer.run(200)
    assert trainer.updates > 0 and trainer.state.population.generation == 0
    environments.close()


def test_the_policy_is_the_elite_and_never_explores() -> None:
    agent = agent_of([HALF] * 3)
    run = started(agent, [STEEP, FLAT, DOWN])
    # The third is the elite, while the second is being evaluated.
    elite = Selection(jnp.asarray([2], jnp.int32), jnp.ones(1))
    run = with_learning(run, selected=elite)._replace(evaluation=run.evaluation._replace(member=1))
    observations = np.linspace(-2.0, 1.5, 40, dtype=np.float32)[:, None]
    expected = (observations[:, 0] < 0.0).astype(int).tolist()
    for rng in (None, np.random.default_rng(0)):
        assert agent.policy(run, observations, rng, Clock()).tolist() == expected
    weights = agent.policy_weights(run)
    assert weights.parameters.tolist() == DOWN and weights.kind == "greedy"
