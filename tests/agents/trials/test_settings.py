"""The settings of a search, and which values are rejected."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock
from adaqn.agents.registry import algorithm
from adaqn.agents.settings import DQNSettings, EvolutionSettings
from adaqn.agents.trials.agent import TrialAgent
from adaqn.agents.trials.settings import settings_of_one_trial
from adaqn.base.errors import UserError
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace
from tests.agents.trials.cases import BRACKETS, TINY, TRIAL, agent_for

SEARCHES = ("random-search", "dehb")


@pytest.mark.parametrize("name", SEARCHES)
def test_nothing_is_offered_that_would_do_nothing(name: str) -> None:
    offered = {f.name for f in dataclasses.fields(algorithm(name).settings)}
    assert offered.isdisjoint({f.name for f in dataclasses.fields(EvolutionSettings)})
    assert offered.isdisjoint({"selection", "behaviour", "behaviour_initial_eps", "behaviour_final_eps"})
    assert {"gamma", "buffer_size", "exploration_steps", "epoch_steps", "keep_replay"} <= offered
    with pytest.raises(UserError, match=r"^unknown setting 'population'"):
        algorithm(name).configure({"population": 3})


def test_a_trial_has_the_settings_of_a_dqn() -> None:
    settings = algorithm("random-search").configure(TRIAL | {"gamma": 0.9, "exploration_steps": 17})
    assert settings_of_one_trial(settings, algorithm("dqn")) == DQNSettings(
        gamma=0.9, exploration_steps=17, learning_starts=10, target_update_interval=15, batch_size=4
    )


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("random-search", {"trial_steps": 0}, "trial_steps must be a whole number of at least 1, but got 0"),
        ("random-search", {"epoch_steps": 0}, "epoch_steps must be a whole number of at least 1, but got 0"),
        ("random-search", {"keep_replay": 1}, "keep_replay must be true or false, but got 1"),
        ("random-search", {"gamma": 2}, "gamma must be a finite number between 0 and 1, but got 2"),
        (
            "random-search",
            {"trial_steps": 500, "learning_starts": 500},
            "a trial of 500 steps would never learn, because learning_starts is 500; give trials more steps or use "
            "a smaller learning_starts",
        ),
        # 100 // 3 = 33 steps are the fewest that a trial gets, though it may have 20.
        (
            "dehb",
            {"min_trial_steps": 20, "max_trial_steps": 100, "learning_starts": 33},
            "a trial of 33 steps would never learn, because learning_starts is 33; give trials more steps or use "
            "a smaller learning_starts",
        ),
        (
            "dehb",
            {"min_trial_steps": 2_000, "max_trial_steps": 1_500},
            "max_trial_steps must be at least min_trial_steps, which is 2000, but got 1500",
        ),
        ("dehb", {"eta": 1}, "eta must be a whole number of at least 2, but got 1"),
    ],
)
def test_a_mistake_gets_one_sentence(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        algorithm(name).configure(given)
    assert str(error.value) == message


def test_the_shortest_trial_may_just_learn() -> None:
    settings = {"min_trial_steps": 20, "max_trial_steps": 100, "learning_starts": 32}
    assert algorithm("dehb").configure(settings).learning_starts == 32
    assert algorithm("random-search").configure({"trial_steps": 501, "learning_starts": 500}).trial_steps == 501


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_has_a_space_and_takes_no_members(name: str) -> None:
    found, settings = algorithm(name), algorithm(name).configure({})
    for shape, space in (((2,), "vectors"), ((3, 4), "vectors"), ((10, 10, 4), "images")):
        chosen = found.population(Population(), settings, 0, lambda shape=shape: shape)
        assert chosen == Population(space=SearchSpace.named(space))
    with pytest.raises(UserError, match="draws what it tries from the space, so it takes no members, but got 1"):
        found.population(Population((Hyperparameters(),), TINY), settings, 0, lambda: (2,))
    assert found.population(Population(space=TINY), settings, 0, lambda: (2,)) == Population(space=TINY)


def test_a_space_of_one_point_is_refused() -> None:
    point = SearchSpace.from_dict(TINY.to_dict() | {"learning_rate": 1e-3})
    with pytest.raises(UserError, match="searched dimensions must be a whole number of at least 1, but got 0"):
        agent_for("random-search", TRIAL, point)


def test_memory_needs_count_the_largest_member_twice() -> None:
    space = SearchSpace.from_dict(TINY.to_dict() | {"hidden": {"layers": [1, 2], "neurons": [3, 5]}})
    agent = agent_for("random-search", TRIAL, space)
    parameters = (2 + 1) * 5 + (5 + 1) * 5 + (5 + 1) * 2
    assert agent.parameter_bytes == 2 * 4 * 4 * parameters


def lines_of(agent: TrialAgent) -> list[str]:
    return list(agent.report(agent.init(0), Clock()).lines)


def test_the_planned_trials_are_described_beforehand() -> None:
    assert lines_of(agent_for("random-search", TRIAL)) == ["Random search: every trial takes 40 steps."]
    assert lines_of(agent_for("dehb", BRACKETS)) == [
        "DEHB: A round of 3 brackets (eta = 2) has 14 trials and takes 340 steps:",
        "  bracket 0: 4 x 10, 2 x 20, 1 x 40 steps",
        "  bracket 1: 3 x 20, 1 x 40 steps",
        "  bracket 2: 3 x 40 steps",
        "Subpopulations from the lowest fidelity to the highest: 4, 3, 3.",
    ]
