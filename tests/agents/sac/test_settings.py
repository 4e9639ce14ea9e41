"""The settings of SAC: allowed values and error messages; the algorithms, and the spaces that they accept."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from adaqn.agents.algorithms import PAPER_CRITIC, SAC_MEMBERS
from adaqn.agents.population import Population
from adaqn.agents.registry import algorithm
from adaqn.agents.sac import SACAgent
from adaqn.agents.settings import SACSettings
from adaqn.base.errors import UserError
from adaqn.members.hyperparameters import Hyperparameters, grid
from tests.agents.sac.cases import make_agent

FROM_ZERO = ["learning_starts", "behaviour_steps"]
FROM_ONE = [
    "buffer_size",
    "batch_size",
    "train_freq",
    "gradient_steps",
    "policy_delay",
    "n_steps",
    "selection_interval",
]
UP_TO_ONE = ["gamma", "tau", "behaviour_initial_eps", "behaviour_final_eps"]
VECTOR = spaces.Box(-1.0, 1.0, (3,))
ONE = Hyperparameters(hidden=(8,))


def members_of(name: str, given: Sequence[Hyperparameters] = ()) -> tuple[Hyperparameters, ...]:
    """The members that an algorithm trains, given these."""
    found = algorithm(name)
    return found.population(Population(tuple(given)), found.configure({}), 0, lambda: VECTOR.shape).members


def settings_with(name: str, value: Any) -> SACSettings:
    return SACSettings(**{name: value})


@pytest.mark.parametrize(("names", "low"), [(FROM_ZERO, 0), (FROM_ONE, 1)])
def test_whole_numbers(names: list[str], low: int) -> None:
    for name in names:
        assert getattr(settings_with(name, low), name) == low
        for wrong in (low - 1, 1.5):
            sentence = f"{name} must be a whole number of at least {low}, but got {wrong}"
            with pytest.raises(UserError, match=re.escape(sentence)):
                settings_with(name, wrong)


@pytest.mark.parametrize("name", UP_TO_ONE)
@pytest.mark.parametrize("wrong", [-0.1, 1.1, math.nan, True])
def test_probabilities_rates_and_discounts(name: str, wrong: float) -> None:
    assert getattr(settings_with(name, 0.0), name) == 0.0
    assert getattr(settings_with(name, 1), name) == 1.0
    with pytest.raises(UserError, match=f"^{name} must be a finite number between 0 and 1, but got {wrong}$"):
        settings_with(name, wrong)


def test_the_entropy_coefficient_is_a_number_or_auto() -> None:
    assert SACSettings().ent_coef == "auto"
    assert SACSettings(ent_coef="0.2").ent_coef == 0.2
    assert SACSettings(ent_coef=0).ent_coef == 0.0
    with pytest.raises(UserError, match=r"^ent_coef \(auto, or a number\) must be a number, but got 'autp'$"):
        SACSettings(ent_coef="autp")
    with pytest.raises(UserError, match=r"ent_coef .* must be a finite number of at least 0, but got -1"):
        SACSettings(ent_coef=-1.0)


def test_the_target_entropy_is_minus_the_dimension_or_a_number() -> None:
    assert SACSettings().target_entropy_of(6) == -6.0
    assert SACSettings(target_entropy="-2.5").target_entropy_of(6) == -2.5
    assert SACSettings(target_entropy=0.0).target_entropy_of(6) == 0.0
    with pytest.raises(UserError, match=r"target_entropy \(auto, or a number\) must be a finite number, but got nan"):
        SACSettings(target_entropy=math.nan)


@pytest.mark.parametrize(
    ("given", "kept", "layers"),
    [
        ("64x32", "64x32", (64, 32)),
        ((64, 32), "64x32", (64, 32)),
        ([16], "16", (16,)),
        (16, "16", (16,)),
        ("linear", "linear", ()),
        ((), "linear", ()),
    ],
)
def test_the_actor_s_layers_are_kept_as_one_word(given: Any, kept: str, layers: tuple[int, ...]) -> None:
    settings = SACSettings(actor_hidden=given)
    assert (settings.actor_hidden, settings.actor.hidden) == (kept, layers)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("actor_hidden", "64y32", "such as 25x25, but got '64y32'"),
        ("actor_hidden", "64x0", "the width of a hidden layer must be a whole number of at least 1, but got 0"),
        ("actor_hidden", None, "actor_hidden must be layer widths such as 256x256, but got None"),
        ("actor_activation", "rellu", "unknown actor_activation 'rellu'; did you mean 'relu'?"),
        ("actor_optimizer", "adamm", "unknown actor_optimizer 'adamm'; did you mean 'adam'?"),
        ("actor_learning_rate", -1.0, "learning_rate must be a finite number of at least 0, but got -1.0"),
        ("selection", "lowst", "unknown selection 'lowst'; did you mean 'lowest'?"),
        ("behaviour", "epsilom", "unknown behaviour 'epsilom'; did you mean 'epsilon'?"),
    ],
)
def test_names_and_the_actor_are_checked(name: str, value: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=re.escape(sentence)):
        settings_with(name, value)


@pytest.mark.parametrize(("name", "selection"), [("adasac", "lowest"), ("randsac", "random"), ("sac", "lowest")])
def test_algorithms_are_names_for_settings_and_members(name: str, selection: str) -> None:
    found = algorithm(name)
    assert found.configure({"gamma": 0.5}) == SACSettings(selection=selection, gamma=0.5)
    assert found.settings is SACSettings
    agent = found.make(found.configure({}), Population((ONE, ONE)), VECTOR, spaces.Box(-1.0, 1.0, (1,)))
    assert isinstance(agent, SACAgent) and agent.settings.selection == selection
    if name != "sac":
        assert members_of(name) == SAC_MEMBERS and len(SAC_MEMBERS) == 4
    with pytest.raises(UserError, match="unknown setting 'exploration_steps'"):
        found.configure({"exploration_steps": 5})


def test_rand_sac_has_no_other_rule() -> None:
    with pytest.raises(UserError, match="always uses selection='random', but got selection='highest'"):
        algorithm("randsac").configure({"selection": "highest"})


def test_sac_is_two_equal_members() -> None:
    assert members_of("sac") == (PAPER_CRITIC, PAPER_CRITIC)
    assert members_of("sac", [ONE]) == (ONE, ONE)
    assert members_of("sac", [ONE, ONE]) == (ONE, ONE)
    with pytest.raises(UserError, match=r"exactly 2 equal members, but got 2 \(of 2 kinds\)"):
        members_of("sac", grid(hidden=[(8,), (9,)]))
    with pytest.raises(UserError, match=r"exactly 2 equal members, but got 3 \(of 1 kinds\)"):
        members_of("sac", [ONE] * 3)


@pytest.mark.parametrize("name", ["adasac", "randsac"])
def test_a_pair_needs_two_members(name: str) -> None:
    with pytest.raises(UserError, match="needs at least 2 members, but got 1"):
        members_of(name, [ONE])
    assert members_of(name, [ONE, ONE]) == (ONE, ONE)


@pytest.mark.parametrize(
    ("actions", "sentence"),
    [
        (
            spaces.Discrete(2),
            "must be a Box, but it is a Discrete; for Discrete actions use AdaDQN (--algo adadqn)",
        ),
        (spaces.Box(-np.inf, 1.0, (1,)), "must be a Box with finite limits, but they are [-inf] and [1.]"),
        (spaces.Box(-1.0, 1.0, (2, 2)), "with one dimension, but its shape is (2, 2)"),
        (spaces.MultiBinary(3), "must be a Box, but it is a MultiBinary"),
    ],
)
def test_an_unsupported_action_space_is_an_error(actions: spaces.Space, sentence: str) -> None:
    with pytest.raises(UserError, match=re.escape(sentence)):
        make_agent(SACSettings(), (ONE, ONE), VECTOR, actions)


def test_an_unsupported_observation_space_is_an_error() -> None:
    actions = spaces.Box(-1.0, 1.0, (1,))
    with pytest.raises(UserError, match="the observation space must be a Box, but it is a Discrete"):
        make_agent(SACSettings(), (ONE, ONE), spaces.Discrete(3), actions)
    with pytest.raises(UserError, match=r"shape \(8, 8, 3\) are images"):
        make_agent(SACSettings(), (ONE, ONE), spaces.Box(0, 255, (8, 8, 3), np.uint8), actions)


def test_the_memory_is_that_of_critics_and_actor() -> None:
    agent = make_agent(SACSettings(actor_hidden="4"), (ONE, ONE), VECTOR, spaces.Box(-1.0, 1.0, (2,)))
    critic = (3 + 2) * 8 + 8 + 8 + 1
    actor = 3 * 4 + 4 + 4 * 4 + 4  # two outputs for each dimension of the actions
    # Four bytes each; a critic has a target and two moments, an actor only the moments.
    assert agent.parameter_bytes == 4 * (2 * 4 * critic + 3 * actor)
