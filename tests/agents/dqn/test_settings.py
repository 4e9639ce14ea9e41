"""The settings of DQN: allowed values and error messages; and the algorithms built on them."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from adaqn.agents.population import Population
from adaqn.agents.registry import algorithm, algorithm_names
from adaqn.agents.settings import DQNSettings
from adaqn.base.errors import UserError
from adaqn.members.hyperparameters import Hyperparameters

FROM_ZERO = ["learning_starts", "exploration_steps", "behaviour_steps"]
FROM_ONE = ["buffer_size", "batch_size", "train_freq", "gradient_steps", "target_update_interval", "n_steps"]
UP_TO_ONE = [
    "gamma",
    "exploration_initial_eps",
    "exploration_final_eps",
    "behaviour_initial_eps",
    "behaviour_final_eps",
]


def settings_with(name: str, value: Any) -> DQNSettings:
    return DQNSettings(**{name: value})


@pytest.mark.parametrize(("names", "low"), [(FROM_ZERO, 0), (FROM_ONE, 1)])
def test_counts(names: list[str], low: int) -> None:
    for name in names:
        kept = getattr(settings_with(name, str(low)), name)
        assert (kept, type(kept)) == (low, int)
        for wrong in (low - 1, 2.5):
            sentence = f"{name} must be a whole number of at least {low}, but got {wrong}"
            with pytest.raises(UserError, match=re.escape(sentence)):
                settings_with(name, wrong)
        with pytest.raises(UserError, match=f"{name} must be a number, but got 'soon'"):
            settings_with(name, "soon")


@pytest.mark.parametrize("name", UP_TO_ONE)
@pytest.mark.parametrize("wrong", [-0.1, 1.1, math.nan, True])
def test_probabilities_and_discounts(name: str, wrong: float) -> None:
    assert getattr(settings_with(name, 0.0), name) == 0.0
    assert getattr(settings_with(name, 1), name) == 1.0
    with pytest.raises(UserError, match=f"^{name} must be a finite number between 0 and 1, but got {wrong}$"):
        settings_with(name, wrong)


def test_rules_by_name() -> None:
    with pytest.raises(UserError, match=r"unknown selection 'higest'; did you mean 'highest'\?"):
        DQNSettings(selection="higest")
    with pytest.raises(UserError, match=r"unknown behaviour 'eps'.*allowed: epsilon"):
        DQNSettings(behaviour="eps")


@pytest.mark.parametrize(
    ("name", "selection", "members", "one"),
    [
        ("adadqn", "lowest", 4, False),
        ("randdqn", "random", 4, False),
        ("adadqn-max", "highest", 4, False),
        ("dqn", "lowest", 1, True),
    ],
)
def test_algorithms_are_names_for_settings_and_members(name: str, selection: str, members: int, one: bool) -> None:
    found = algorithm(name)
    assert found.configure({}).selection == selection
    assert found.configure({"gamma": 0.5}) == DQNSettings(selection=selection, gamma=0.5)
    population = found.population(Population(), found.configure({}), 0, lambda: (4,))
    assert population.members == found.members((4,))
    assert len(population.members) == members
    assert (found.copies == 1) is one


def test_an_unknown_algorithm_or_setting_is_an_error() -> None:
    with pytest.raises(UserError, match=r"unknown algorithm 'adadqm'; did you mean 'adadqn'\?"):
        algorithm("adadqm")
    with pytest.raises(UserError, match=r"unknown setting 'gama'; did you mean 'gamma'\?"):
        algorithm("dqn").configure({"gama": 0.9})
    with pytest.raises(UserError, match=r"^this algorithm trains exactly one member, but got 2 "):
        dqn = algorithm("dqn")
        dqn.population(Population(members=(Hyperparameters(),) * 2), dqn.configure({}), 0, lambda: (4,))


def test_every_setting_says_what_it_is() -> None:
    assert "adadqn" in algorithm_names()
    for name in algorithm_names():
        fields: dict[str, Any] = algorithm(name).settings.__dataclass_fields__
        texts = {setting: field.metadata["help"].partition(" (default")[0] for setting, field in fields.items()}
        assert "gamma" in texts
        for setting, text in texts.items():
            words = text.lower().split()
            assert len(words) >= 2 and words != setting.split("_"), f"{setting} of {name} says only {text!r}"
        assert len(set(texts.values())) == len(texts), f"two settings of {name} say the same"
