"""Trials within one run: where they begin and end, what they reset, and their fitness."""

from __future__ import annotations

import math

import numpy as np
import pytest

from adaqn.agents.protocol import Clock, Operation, TrialEnd, TrialStart
from adaqn.agents.trials.agent import FinishedTrial, Returns
from adaqn.members.search import RandomSearch, Trial
from adaqn.members.search.random_search import RandomSearchState
from adaqn.training.trainer import Trainer
from tests.agents.trials.cases import (
    BRACKETS,
    TRIAL,
    Diary,
    Scripted,
    agent_for,
    agent_of,
    state_of,
    trainer_for,
)

NOBODY = np.zeros(1, bool)


@pytest.mark.parametrize(("n_envs", "ends"), [(1, [40, 80, 120]), (3, [42, 84, 126])])
def test_a_trial_ends_at_the_first_step_that_reaches_its_budget(n_envs: int, ends: list[int]) -> None:
    envs = [Scripted(7) for _ in range(n_envs)]
    trainer, diary = trainer_for("random-search", TRIAL, envs), Diary()
    first = state_of(trainer).run.members[0]
    trainer.run(ends[-1], [diary])
    assert [(end.first_step, end.last_step) for end in diary.ends] == list(zip([0, *ends], ends, strict=False))
    assert [start.step for start in diary.starts] == ends
    assert [start.number for start in diary.starts] == [1, 2, 3]
    assert [end.number for end in diary.ends] == [0, 1, 2]
    assert all(event.fidelity == 40 for event in (*diary.ends, *diary.starts))
    # Every trial ends as it began, and all trials are different.
    begun = [first, *(start.hyperparameters for start in diary.starts)]
    assert [end.hyperparameters for end in diary.ends] == begun[:-1]
    assert len(set(begun)) == 4
    # members.jsonl tells the same.
    assert [(g.step, g.number, g.members[0].hyperparameters) for g in diary.generations] == [
        (start.step, start.number, start.hyperparameters) for start in diary.starts
    ]
    # An episode begins with every trial, and after every episode that came to its end.
    in_a_trial = (ends[0] // n_envs) // 7
    assert all(env.resets == 3 * (in_a_trial + 1) + 1 for env in envs)


def test_the_events_at_the_end_of_a_trial_are_in_this_order() -> None:
    trainer, diary = trainer_for("random-search", TRIAL, [Scripted(7)]), Diary()
    trainer.run(40, [diary])
    kinds = [type(event).__name__ for event in diary.events]
    assert kinds == ["TargetUpdate", "TargetUpdate", "TrialEnd", "TrialStart", "Generation"]


def test_all_clocks_are_reset() -> None:
    settings = TRIAL | {"exploration_steps": 20}
    trainer = trainer_for("random-search", settings, [Scripted(7)])
    tags = ("rollout/exploration_rate", "ada/behaviour_rate", "search/trial")

    def look(trainer: Trainer) -> list[float]:
        metrics = trainer.agent.report(trainer.state, trainer.clock).metrics
        return [*(metrics[tag] for tag in tags), trainer.updates]

    diary = Diary(look)
    trainer.run(100, [diary])
    # ε falls by 0.99 / 20 a step from 1; ε_b by 0.99 / 40, because "until the end" is the end of the trial. The look
    # is before the updates of its step: of the steps 11, ..., 40 of a trial, all but the last are done at its end.
    assert diary.looks[5] == [pytest.approx(1 - 0.99 * 5 / 20), pytest.approx(1 - 0.99 * 5 / 40), 0.0, 0]
    assert diary.looks[40] == [0.01, 0.01, 0.0, 29]
    assert diary.looks[45] == [*diary.looks[5][:2], 1.0, 30]
    assert diary.looks[51] == [*diary.looks[11][:2], 1.0, 30]
    assert diary.looks[52] == [*diary.looks[12][:2], 1.0, 31]
    assert diary.looks[85] == [*diary.looks[5][:2], 2.0, 60]
    # Every 15 steps of a trial that has 40.
    assert [event.step for event in diary.target_updates] == [15, 30, 55, 70, 95]


@pytest.mark.parametrize(("keep", "held"), [(True, 60), (False, 20)])
def test_the_replay_buffer_is_kept_or_cleared(keep: bool, held: int) -> None:
    trainer = trainer_for("random-search", TRIAL | {"keep_replay": keep}, [Scripted(7)])
    trainer.run(60)
    assert trainer.replay.added - trainer.replay.oldest == held


def test_the_mean_is_that_of_the_last_epoch() -> None:
    returns = Returns()
    for step, totals in ((10, [4.0]), (20, [8.0, 1.0]), (25, [3.0]), (30, [2.0])):
        returns = returns.add(step, totals, epoch_steps=10)
    assert returns.recent == ((25, 3.0), (30, 2.0))  # step 20 is the last of the epoch before
    assert returns.mean(30, epoch_steps=10) == 2.5
    assert returns.mean(35, epoch_steps=10) == 2.0
    assert returns.mean(40, epoch_steps=10) == 18.0 / 5  # none ended there, so all count
    assert Returns().mean(40, epoch_steps=10) is None


def test_the_fitness_of_a_trial_by_hand() -> None:
    # The n-th episode, counted from 0, returns n, and one ends every 5 steps. In the last 12 steps of the first trial
    # they end at 30, 35 and 40, with 5, 6 and 7; of the second at 70, 75, 80, with 13, 14 and 15.
    trainer, diary = trainer_for("random-search", TRIAL, [Scripted(5)]), Diary()
    trainer.run(100, [diary])
    assert [end.fitness for end in diary.ends] == [6.0, 14.0]
    assert trainer.agent.report(trainer.state, trainer.clock).metrics["search/best_return"] == 14.0


def test_several_environments_count_together() -> None:
    envs = [Scripted(5, lambda n: 1.0), Scripted(7, lambda n: 4.0), Scripted(1_000)]
    trainer, diary = trainer_for("random-search", TRIAL, envs), Diary()
    trainer.run(42, [diary])
    # Step 42 is the 14th of each: the last 12 are its steps 11 to 14, in which the second environment ends one.
    assert [end.fitness for end in diary.ends] == [4.0]


@pytest.mark.parametrize(("length", "fitness"), [(17, 0.5), (39, 0.0), (41, None)])
def test_without_an_episode_in_the_last_epoch_all_count_and_without_any_it_failed(
    length: int, fitness: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = TRIAL | {"epoch_steps": 1}
    trainer, diary = trainer_for("random-search", settings, [Scripted(length)]), Diary()
    told: list[float] = []
    tell = RandomSearch.tell

    def listen(search: RandomSearch, state: RandomSearchState, trial: Trial, fitness: float) -> RandomSearchState:
        told.append(fitness)
        return tell(search, state, trial, fitness)

    monkeypatch.setattr(RandomSearch, "tell", listen)
    trainer.run(40, [diary])
    assert [end.fitness for end in diary.ends] == [fitness]
    assert told == [math.inf if fitness is None else -fitness]
    assert (agent_of(trainer).best_trial(state_of(trainer)) is None) == (fitness is None)


def test_the_brackets_of_dehb_in_order_and_promotions_from_scratch() -> None:
    # η = 2 from 10 to 40 steps: 4 x 10, 2 x 20, 1 x 40; 3 x 20, 1 x 40; 3 x 40. One episode takes 10 steps.
    fidelities = [10, 10, 10, 10, 20, 20, 40, 20, 20, 20, 40, 40, 40, 40]
    # The first four trials return 1, 7, 3, 5; their second and fourth are promoted, and of these the fourth, because
    # with 20 steps it is better.
    totals = [1.0, 7.0, 3.0, 5.0, 0.0, 2.0, 0.0, 6.0]
    env = Scripted(10, lambda n: totals[n] if n < len(totals) else 0.0)
    trainer = trainer_for("dehb", BRACKETS, [env])
    diary = Diary(lambda trainer: np.array(state_of(trainer).run.learning.ensemble[0].parameters))
    trainer.run(340, [diary])
    assert [end.fidelity for end in diary.ends] == fidelities
    assert [end.last_step for end in diary.ends] == np.cumsum(fidelities).tolist()
    assert [end.fitness for end in diary.ends[:6]] == [1.0, 7.0, 3.0, 5.0, 2.0, 6.0]
    assert [end.origin["kind"] for end in diary.ends[:8]] == ["random"] * 4 + ["promoted"] * 3 + ["evolved"]
    assert diary.ends[6].origin == {"kind": "promoted", "bracket": 0, "rung": 2, "slot": 0}
    tried = [end.hyperparameters for end in diary.ends]
    assert (tried[4], tried[5], tried[6]) == (tried[1], tried[3], tried[3])
    assert len(set(tried[:4])) == 4
    # The first step of a trial is before learning starts: its weights are new ones, not those it ended with before.
    begun, ended = diary.looks[61], diary.looks[60]
    assert not np.array_equal(begun, ended) and not np.array_equal(begun, diary.looks[51])
    assert np.abs(begun - ended).max() > 0.1


def test_more_steps_count_more_than_a_better_return() -> None:
    def finished(fidelity: int, fitness: float) -> FinishedTrial:
        trial = TrialEnd(0, agent_for("dehb", BRACKETS).init(0).run.members[0], fidelity, 0, fidelity, fitness, {})
        return FinishedTrial(trial, agent_for("dehb", BRACKETS).init(0).run)

    assert finished(40, -5.0).beats(finished(20, 9.0)) and not finished(20, 9.0).beats(finished(40, -5.0))
    assert finished(40, 2.0).beats(finished(40, 1.0)) and not finished(40, 1.0).beats(finished(40, 2.0))
    assert not finished(40, 1.0).beats(finished(40, 1.0))  # the first stays
    assert finished(10, -99.0).beats(None)


def test_the_policy_is_that_of_the_best_finished_trial() -> None:
    # Updates are at steps 7, 14, ..., 35 of a trial: what its last step shows is what it leaves behind.
    totals = [3.0] * 8 + [9.0] * 8 + [5.0] * 8
    trainer = trainer_for("random-search", TRIAL | {"train_freq": 7}, [Scripted(5, lambda n: totals[n])])
    observations = np.random.default_rng(0).standard_normal((200, 2)).astype(np.float32)

    def look(trainer: Trainer) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        agent, state = agent_of(trainer), state_of(trainer)
        used = agent.policy_weights(state).parameters
        actions = agent.policy(state, observations, None, trainer.clock)
        return used, np.array(state.run.learning.ensemble[0].parameters[0]), actions

    diary = Diary(look)
    trainer.run(122, [diary])
    assert [end.fitness for end in diary.ends] == [3.0, 9.0, 5.0]
    for step, learned_at in ((20, 20), (40, 40), (41, 40), (80, 40), (81, 80), (120, 80), (121, 80)):
        used, _, actions = diary.looks[step]
        learned = diary.looks[learned_at][1]
        assert np.array_equal(used, learned), step
        q = observations @ learned[:4].reshape(2, 2) + learned[4:]
        assert actions.tolist() == q.argmax(axis=1).tolist(), step
    assert not np.array_equal(diary.looks[80][1], diary.looks[40][1])
    best = agent_of(trainer).best_trial(state_of(trainer))
    assert best is not None and (best.number, best.fitness) == (1, 9.0)
    assert trainer.report().lines == (
        "Best trial: 1, with a mean return of 9.0 at the end of its 40 steps.",
        f"  {best.hyperparameters.to_dict()}",
    )


def test_the_best_policy_explores_as_at_the_end_of_its_trial() -> None:
    settings = TRIAL | {"exploration_steps": 40, "exploration_final_eps": 0.0}
    trainer = trainer_for("random-search", settings, [Scripted(5)])
    observations = np.random.default_rng(0).standard_normal((400, 2)).astype(np.float32)

    def differing() -> int:
        agent, state = agent_of(trainer), state_of(trainer)
        greedy = agent.policy(state, observations, None, trainer.clock)
        drawn = agent.policy(state, observations, np.random.default_rng(1), trainer.clock)
        return int((drawn != greedy).sum())

    trainer.run(20)
    assert 60 < differing() < 140  # ε is a half, and half of what is drawn is the greedy action
    trainer.run(60)
    assert differing() == 0


def test_the_members_are_the_trial_under_way() -> None:
    trainer, diary = trainer_for("random-search", TRIAL, [Scripted(5)]), Diary()
    trainer.run(75, [diary])
    (report,) = trainer.report().members
    assert report.hyperparameters == diary.starts[0].hyperparameters
    assert (report.selections, report.selected, report.diverged) == (2, 1.0, False)
    assert trainer.report().target == 0


def test_a_clock_that_is_set_back_begins_the_trial_again() -> None:
    trainer, diary = trainer_for("random-search", TRIAL, [Scripted(5)]), Diary()
    trainer.run(60, [diary])
    before = state_of(trainer)
    trainer.begin(horizon=1_000)
    again = Diary()
    trainer.run(45, [again])
    kinds = [type(event) for event in again.events if not hasattr(event, "cumulated_loss")]
    assert kinds[0] is TrialStart and kinds[2] is TrialEnd
    assert again.starts[0] == diary.starts[0]._replace(step=0)
    assert [(end.number, end.first_step, end.last_step) for end in again.ends] == [(1, 0, 40)]
    assert again.ends[0].hyperparameters == before.run.members[0]


def test_where_the_replay_buffer_was_lost_learning_waits_again() -> None:
    agent = agent_for("random-search", TRIAL)
    state = agent.init(0)._replace(first_step=100)
    due = [agent.plan(state, Clock(step, step - 1, 1_000, replay_start=120), NOBODY) for step in range(101, 140)]
    assert [step for step, operations in enumerate(due, start=101) if operations] == list(range(131, 140))
    lost_before = agent.plan(state, Clock(111, 110, 1_000, replay_start=90), NOBODY)
    assert lost_before == (Operation.UPDATE,)
