"""A tiny agent and a tiny run of every registered algorithm, built from its registry entry alone.

Nothing here names an algorithm: the action space is one that its agent accepts, its members are the defaults with small
networks, and settings are made small by field name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from adaqn.agents.population import Population
from adaqn.agents.registry import Algorithm, algorithm, algorithm_names, base_names
from adaqn.agents.settings import EVOLUTION_NAMES
from adaqn.api import Model, model_class
from adaqn.base.errors import UserError
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace

ENVIRONMENT = "Contract/Walk-v0"
STEPS = 66
ACTIVATION = "tanh"  # so few units of another kind may all die
WIDTHS = (8, 6, 8)  # widths of the members' networks: two groups with interleaved members
N_ENVS = 2

# The ring buffer wraps around, every kind of operation is due several times, and several are due at once. Compiled
# functions depend on the batch, on τ and on the entropy coefficient, so these have values that also allow learning.
SMALL: dict[str, Any] = {
    "gamma": 0.8,
    "learning_starts": 8,
    "buffer_size": 40,
    "batch_size": 16,
    "train_freq": 2,
    "gradient_steps": 3,
    "n_steps": 1,
    "target_update_interval": 6,
    "selection_interval": 6,
    "exploration_steps": 30,
    "epoch_steps": 9,
    "trial_steps": 18,
    "min_trial_steps": 12,
    "max_trial_steps": 24,
    "eta": 2,
    "tau": 0.1,
    "ent_coef": 0.0,
    "actor_hidden": "8",
    "actor_activation": ACTIVATION,
    "actor_learning_rate": 0.01,
}
OF_GENERATIONS: dict[str, Any] = {"population": 3, "generation_interval": 18}
SPACE: dict[str, Any] = {
    "activation": [ACTIVATION],
    "optimizer": ["adam"],
    "loss": ["l2", "huber"],
    "learning_rate": [1e-3, 1e-2],
    "hidden": {"layers": [1, 1], "neurons": [WIDTHS[0], WIDTHS[0]]},
}
BINS: dict[str, Any] = {"bins": 12, "value_range": [-6.0, 6.0]}  # the rewards are at most 1, and gamma is 0.8


SHAPE = (1,)


class Walk(gymnasium.Env[np.ndarray, Any]):
    """A noisy walk away from 0, which ends at a distance of 1, or after nine steps. Its spaces equal a probe's."""

    observation_space = spaces.Box(-1.0, 1.0, SHAPE, np.float32)

    def __init__(self, continuous: bool = False) -> None:
        self.continuous = continuous
        # Limits of which neither is -1 or 1, which are those that agents act within.
        box = spaces.Box(np.array([-0.5], np.float32), np.array([2.0], np.float32))
        self.action_space = box if continuous else spaces.Discrete(2)
        self._place, self._steps = 0.0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._place, self._steps = self.np_random.uniform(-0.5, 0.5), 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        push = float(action[0]) - 0.5 if self.continuous else float(action) - 0.5
        self._place += 0.4 * push + 0.2 * self.np_random.standard_normal()
        self._steps += 1
        return self._seen(), 1.0 - abs(self._place), abs(self._place) > 1.0, self._steps == 9, {}

    def _seen(self) -> np.ndarray:
        return np.array([np.clip(self._place, -1.0, 1.0)], np.float32)


if ENVIRONMENT not in gymnasium.registry:
    gymnasium.register(ENVIRONMENT, entry_point=lambda **kwargs: Walk(**kwargs))


@dataclass(frozen=True)
class Case:
    """An algorithm by default, a search with another base, or an algorithm with an optional search space.

    If it is categorical, every other member has a categorical head, or the space varies the head.
    """

    name: str
    base: str | None = None
    moves: bool = False
    categorical: bool = False

    def __str__(self) -> str:
        return (
            self.name
            + (f"-{self.base}" if self.base else "")
            + ("-in-a-space" if self.moves else "")
            + ("-categorical" if self.categorical else "")
        )

    @property
    def entry(self) -> Algorithm:
        return algorithm(self.name, self.base)

    @property
    def in_space(self) -> bool:
        """Whether the case has a search space."""
        return self.moves or self.entry.space == "required"

    @property
    def tries(self) -> bool:
        """Whether it is a search, whose trials have one kind of member each."""
        return self.entry.base is not None

    @property
    def ensemble(self) -> bool:
        """Whether its members can differ."""
        return not self.tries and self.entry.copies is None

    @property
    def continuous(self) -> bool:
        """The kind of action space that it accepts."""
        return _is_continuous(self)

    @property
    def size(self) -> int:
        """The number of members of the case."""
        return self.entry.copies or max(3, self.entry.least)

    def small(self, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Settings for a tiny run: all fields of the algorithm that can be made small."""
        names = {item.name: item.default for item in dataclasses.fields(self.entry.settings)}
        wanted = {**SMALL, **OF_GENERATIONS, **(changes or {})}
        without = () if self.in_space else EVOLUTION_NAMES
        given = {name: value for name, value in wanted.items() if name in names and name not in without}
        known = {*SMALL, *OF_GENERATIONS, *given}
        # An unknown count with a default as large as in real runs.
        unknown = {n: 12 for n, d in names.items() if n not in known and type(d) is int and d > 100}
        return {**given, **unknown, **self.entry.overrides}

    def members(self, **changes: Any) -> tuple[Hyperparameters, ...]:
        """The default members with small networks and these changes; none if they are sampled from a space."""
        if self.in_space:
            return ()
        own = self.entry.members(SHAPE)
        changes = {"convolutions": (), "activation": ACTIVATION, **changes}
        if self.entry.copies is not None:
            return (own[0].replace(hidden=WIDTHS[:1], **changes),) * self.entry.copies
        widths = [(WIDTHS[k % len(WIDTHS)],) for k in range(self.size)]
        heads = [{"head": "categorical", **BINS} if self.categorical and k % 2 == 0 else {} for k in range(self.size)]
        return tuple(
            own[k % len(own)].replace(hidden=width, **changes, **head)
            for k, (width, head) in enumerate(zip(widths, heads, strict=True))
        )

    def space(self, changes: Mapping[str, Any] | None = None) -> SearchSpace | None:
        if not self.in_space:
            return None
        values = {**SPACE, **({"head": ["categorical", "scalar"]} if self.categorical else {}), **(changes or {})}
        fixed = {**(BINS if self.categorical else {}), **values.get("fixed", {})}
        return SearchSpace.from_dict({**values, "fixed": fixed})

    def model(self, **given: Any) -> Model:
        """A tiny agent in the walk, with several environments if supported; `given`: model arguments or settings."""
        settings = self.small({n: v for n, v in given.items() if n not in _ARGUMENTS})
        arguments: dict[str, Any] = {
            "env": ENVIRONMENT,
            "env_kwargs": {"continuous": self.continuous},
            "members": self.members() or None,
            "space": self.space(),
            "base": self.base,
            "n_envs": 1 if self.entry.one_environment else N_ENVS,
            **{n: v for n, v in given.items() if n in _ARGUMENTS},
        }
        return model_class(self.name)(**arguments, **settings)


_ARGUMENTS = ("env", "env_kwargs", "members", "space", "base", "seed", "n_envs", "threads")


@cache
def _is_continuous(case: Case) -> bool:
    accepted = [kind for kind, actions in _ACTIONS.items() if _accepts(case, actions)]
    assert len(accepted) == 1, f"{case} accepts {accepted or 'no'} actions"
    return accepted == ["continuous"]


_ACTIONS = {"continuous": spaces.Box(-1.0, 1.0, (1,)), "discrete": spaces.Discrete(2)}


def _accepts(case: Case, actions: gymnasium.Space[Any]) -> bool:
    """Whether an agent can be created for this action space."""
    entry, settings = case.entry, case.entry.configure(case.small())
    given = Population(case.members(), case.space())
    population = entry.population(given, settings, 0, lambda: SHAPE)
    try:
        entry.make(settings, population, Walk.observation_space, actions)
    except UserError as error:
        assert "action" in str(error), error
        return False
    return True


@cache
def cases() -> tuple[Case, ...]:
    """Every registered algorithm, including those of other packages."""
    return tuple(Case(name) for name in algorithm_names())


@cache
def variants() -> tuple[Case, ...]:
    """Searches with other bases, algorithms with an optional search space, and categorical heads.

    Algorithms that only give another one other settings do the same with a categorical head.
    """
    entries = [case.entry for case in cases()]
    named = list(zip(cases(), entries, strict=True))
    searches = [Case(case.name, base) for case, entry in named if entry.over for base in base_names()]
    return (
        *(case for case in searches if case.entry.base != algorithm(case.name).base),
        *(Case(case.name, moves=True) for case, entry in named if entry.space == "optional"),
        *(Case(case.name, categorical=True) for case, entry in named if case.in_space or _is_original(entry)),
    )


def _is_original(entry: Algorithm) -> bool:
    return entry.copies is None and not entry.overrides


def every(*, more: bool = True) -> list[Any]:
    """The cases as parameters of a test; variants are marked thorough."""
    thorough = [pytest.param(case, marks=pytest.mark.thorough, id=str(case)) for case in variants() if more]
    return [*(pytest.param(case, id=str(case)) for case in cases()), *thorough]
