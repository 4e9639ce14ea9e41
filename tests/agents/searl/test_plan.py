"""The schedule of SEARL: members act in turn, then all learn in a burst, then the tournament."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Failure, Generation, MemberEvaluation, Operation, TargetUpdate
from adaqn.agents.searl import SEARLAgent, SEARLState
from adaqn.agents.settings import SEARLSettings
from adaqn.envs.environments import Environments
from adaqn.members.space import SearchSpace
from adaqn.replay.making import make_replay
from adaqn.replay.protocol import Batch
from adaqn.training.trainer import Trainer
from tests.agents.outcomes import acted, learned
from tests.agents.searl.cases import DOWN, FLAT, HALF, STEEP, Diary, agent_of, evaluated, started, with_record

ENDED, GOES_ON = np.array([True]), np.array([False])
EPISODE, NEXT, LEARN, RENEW, COMPETE = (
    Operation.EPISODE_END,
    Operation.NEXT_MEMBER,
    Operation.UPDATE,
    Operation.TARGET_UPDATE,
    Operation.GENERATION,
)
SMALL = SearchSpace.from_dict(
    {
        "activation": ["relu", "tanh"],
        "optimizer": ["sgd", "adam"],
        "loss": ["l2"],
        "learning_rate": [1e-3, 1e-1],
        "hidden": {"layers": [0, 1], "neurons": [2, 3]},
    }
)


class WatchedAgent(SEARLAgent):
    """Records the acting member, its action, and the greedy action of its network."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.actions: list[tuple[int, int]] = []  # generation and member of each
        self.taken: list[int] = []
        self.greedy: list[int] = []
        self.updates: list[int] = []  # generation of each
        self.targets_at_updates: list[list[list[float]]] = []
        self.learned: list[list[list[float]]] = []  # online parameters after each update

    def act(
        self, state: SEARLState, observations: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> tuple[SEARLState, np.ndarray | Failure]:
        member = state.evaluation.member
        ensemble = self.members.ensemble_of(state.population.members)
        network = ensemble.network(member)
        weights = ensemble.member(ensemble.parameters(state.population.learning.ensemble), member)
        before = rng.bit_generator.state
        state, actions = acted(super().act(state, observations, clock, rng))
        assert rng.bit_generator.state == before
        self.actions.append((state.population.generation, member))
        self.taken.append(int(actions[0]))
        self.greedy.append(
            int(np.asarray(network.apply(network.unravel(weights), jnp.asarray(observations)))[0].argmax())
        )
        return state, actions

    def update(
        self,
        state: SEARLState,
        operation: Operation,
        batch: Batch[np.ndarray],
        clock: Clock,
        rng: np.random.Generator,
        act_on: np.ndarray | None = None,
    ) -> tuple[SEARLState, np.ndarray | Failure | None]:
        assert act_on is None, "a burst ends with a generation"
        self.updates.append(state.population.generation)
        self.targets_at_updates.append([np.asarray(rows)[0].tolist() for rows in state.population.learning.target])
        state = learned(super().update(state, operation, batch, clock, rng))
        self.learned.append([np.asarray(group.parameters)[0].tolist() for group in state.population.learning.ensemble])
        return state, None


def ran(steps: int, **settings: Any) -> tuple[WatchedAgent, Trainer, Diary]:
    environments = Environments.make("CartPole-v1", 1, {})
    rng = np.random.default_rng(5)
    population = Population(members=tuple(SMALL.sample(rng) for _ in range(3)), space=SMALL)
    values = {"generation_interval": 50, "batch_size": 8, "train_freq": 3, "target_update_interval": 20, **settings}
    spaces_of = (environments.observation_space, environments.action_space)
    agent = WatchedAgent(SEARLSettings(**values), population, *spaces_of)
    trainer = Trainer(
        agent,
        environments,
        make_replay(steps, 1, *spaces_of, agent.settings.n_steps),
        agent.settings.batch_size,
        seed=2,
    )
    diary = Diary()
    trainer.run(steps, [diary])
    environments.close()
    return agent, trainer, diary


@pytest.fixture(scope="module")
def run() -> tuple[WatchedAgent, Trainer, Diary]:
    return ran(260)


LEAST = 17  # of 50 steps for three members


def test_each_member_is_evaluated_for_its_share_and_to_the_end_of_its_episode(run: Any) -> None:
    agent, _, diary = run
    generations, evaluations = diary.of(Generation), diary.of(MemberEvaluation)
    assert len(generations) >= 3
    for number in range(len(generations)):
        of_generation = [e for e in evaluations if e.generation == number]
        turns = [e.member for e in of_generation]
        assert turns == sorted(turns) and set(turns) == {0, 1, 2}
        for member in range(3):
            lengths = [e.length for e in of_generation if e.member == member]
            # An evaluation ends at the first end of an episode after this many steps.
            assert sum(lengths) >= LEAST > sum(lengths[:-1])
            assert agent.actions.count((number, member)) == sum(lengths)
        assert of_generation[-1].step == generations[number].step


def test_the_members_episodes_are_the_training_episodes(run: Any) -> None:
    _, _, diary = run
    evaluations = diary.of(MemberEvaluation)
    assert [(e.step, e.total, e.length) for e in evaluations] == [tuple(episode) for episode in diary.episodes]


def test_no_action_is_random(run: Any) -> None:
    agent, _, _ = run
    assert agent.taken == agent.greedy
    assert len(agent.taken) == 260 and set(agent.taken) == {0, 1}


def test_all_samples_are_in_the_replay_buffer(run: Any) -> None:
    agent, trainer, _ = run
    rows = trainer.replay.rows(0, 260)
    assert rows["action"][:, 0].tolist() == agent.taken


def test_as_many_updates_as_samples_at_every_gth(run: Any) -> None:
    agent, trainer, diary = run
    events = diary.of(TargetUpdate)
    samples = np.diff([0, *(event.step for event in events)])
    assert [sum(event.acted) for event in events] == samples.tolist()
    in_generation = Counter(agent.updates)
    assert [in_generation[number] for number in range(len(events))] == [n // 3 for n in samples.tolist()]
    assert trainer.updates == sum(n // 3 for n in samples.tolist())
    for event in events:
        of_generation = [e for e in diary.of(MemberEvaluation) if e.generation == events.index(event)]
        lengths = [sum(e.length for e in of_generation if e.member == k) for k in range(3)]
        assert list(event.acted) == lengths


def test_within_a_burst_targets_are_renewed_after_the_last_update_in_every_interval(run: Any) -> None:
    agent, _, diary = run
    ends = [0, *(event.step for event in diary.of(TargetUpdate))]
    bursts = [range(begin + 3, end + 1, 3) for begin, end in itertools.pairwise(ends)]  # steps of their updates
    assert [len(steps) for steps in bursts] == [agent.updates.count(number) for number in range(len(bursts))]
    at = 0
    renewals = 0
    for steps in bursts:
        for before, step in itertools.pairwise(steps):
            at += 1
            renewed = any(between % 20 == 0 for between in range(before, step))
            expected = agent.learned[at - 1] if renewed else agent.targets_at_updates[at - 1]
            assert agent.targets_at_updates[at] == expected, (before, step)
            renewals += renewed
        at += 1
    assert renewals >= 8
    # For every member: survivors have learned since, and children have other weights.
    first, second = (agent.targets_at_updates[agent.updates.index(number)] for number in (0, 1))
    assert all(before != after for before, after in zip(first, second, strict=True))


def test_a_generation_is_reported_after_its_target_update(run: Any) -> None:
    _, trainer, diary = run
    kinds = [type(event) for event in diary.events if not isinstance(event, MemberEvaluation)]
    numbers = [event.number for event in diary.of(Generation)]
    assert kinds == [TargetUpdate, Generation] * len(numbers)
    assert numbers == list(range(1, len(numbers) + 1))
    assert trainer.state.population.generation == len(numbers)
    assert trainer.state.population.members == tuple(n.hyperparameters for n in diary.of(Generation)[-1].members)


def test_before_there_is_a_batch_generations_go_without_learning() -> None:
    agent, trainer, diary = ran(130, batch_size=100)
    first, second = diary.of(TargetUpdate)[:2]
    assert first.step < 100 <= second.step
    assert first.cumulated_loss == (0.0, 0.0, 0.0)
    assert set(agent.updates) == {1}
    assert trainer.updates == (second.step - first.step) // 3  # those left out are not made up for


def test_what_is_due_at_the_end_of_an_episode() -> None:
    agent = agent_of([HALF] * 3, generation_interval=7, batch_size=4, train_freq=2)
    fresh = started(agent, [STEEP, FLAT, DOWN])
    assert agent.steps_per_member == 3
    short, enough = evaluated(agent, fresh, [[1.0]]), evaluated(agent, fresh, [[1.0, 1.0]])  # 2 and 4 steps
    last = evaluated(agent, fresh, [[1.0, 1.0]] * 3)
    assert agent.plan(short, Clock(2, 1), ENDED) == (EPISODE,)
    assert agent.plan(enough, Clock(4, 3), ENDED) == (EPISODE, NEXT)
    assert agent.plan(last, Clock(12, 11), ENDED) == (EPISODE, *[LEARN] * 6, COMPETE)
    for run in (short, enough, last):
        assert agent.plan(run, Clock(12, 11), GOES_ON) == ()
        assert agent.plan(run, Clock(12, 12), ENDED) == ()  # it has been done


@pytest.mark.parametrize(("step", "settings", "burst"), [
    (12, {"target_update_interval": 100}, "L" * 12),
    (12, {"target_update_interval": 5}, "LLLLLR" "LLLLLR" "LL"),
    (14, {"target_update_interval": 5}, "LLLR" "LLLLLR" "LLLL"),  # intervals of the run, not of the burst
    (12, {"target_update_interval": 12}, "L" * 12 + "R"),
    (12, {"target_update_interval": 1}, "LR" * 12),
    # Updates in the steps 2, 4, ..., 12, and targets in the steps 3, 6, 9, 12.
    (12, {"target_update_interval": 3, "train_freq": 2}, "LR" "LLR" "LR" "LLR"),
    # Updates in the steps 5 and 10, and nothing to renew in the steps 3 and 9.
    (12, {"target_update_interval": 3, "train_freq": 5}, "LRLR"),
])  # fmt: skip
def test_when_targets_are_renewed_in_a_burst(step: int, settings: dict[str, int], burst: str) -> None:
    agent = agent_of([HALF] * 3, generation_interval=12, batch_size=1, **settings)
    run = evaluated(agent, started(agent, [STEEP, FLAT, DOWN]), [[1.0, 1.0]] * 3)  # 12 steps
    due = agent.plan(run, Clock(step, step - 1), ENDED)
    assert due == (EPISODE, *({"L": LEARN, "R": RENEW}[letter] for letter in burst), COMPETE)


@pytest.mark.parametrize(("settings", "began", "learns"), [
    ({}, 0, True), ({}, 8, True), ({}, 9, False),
    ({"learning_starts": 11}, 0, True), ({"learning_starts": 12}, 0, False), ({"learning_starts": 11}, 1, False),
])  # fmt: skip
def test_when_a_burst_is_left_out(settings: dict[str, int], began: int, learns: bool) -> None:
    agent = agent_of([HALF] * 2, generation_interval=12, batch_size=4, **settings)
    run = evaluated(agent, started(agent, [STEEP, FLAT]), [[1.0, 2.0, 3.0]] * 2)
    due = agent.plan(run, Clock(12, 11, replay_start=began), ENDED)
    assert due == (EPISODE, *[LEARN] * (12 if learns else 0), COMPETE)


def test_a_member_that_diverged_has_no_turn() -> None:
    agent = agent_of([HALF] * 3, generation_interval=6, batch_size=1)
    run = started(agent, [STEEP, [np.nan] * 4, FLAT])
    run = evaluated(agent, run, [[1.0]])
    run = with_record(run, diverged=np.array([False, True, False]))
    assert agent.plan(run, Clock(2, 1), ENDED) == (EPISODE, NEXT)
    run, events = agent.perform(run, NEXT, Clock(2, 1), np.random.default_rng(0))
    assert (run.evaluation.member, events) == (2, ())
    run = with_record(run, diverged=np.array([False, True, True]))
    # The last member diverged in its first episode, which ends its evaluation.
    assert agent.plan(run, Clock(3, 2), ENDED) == (EPISODE, LEARN, LEARN, COMPETE)
