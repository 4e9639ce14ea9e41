"""A `RunConfig` says everything about a run; command lines, YAML files and presets are overrides on it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from adaqn.agents import algorithm
from adaqn.agents.catalogue import Population, Scheduled
from adaqn.envs.making import observation_shape_of
from adaqn.errors import UserError, count, unknown_name
from adaqn.files import read_text, read_yaml, yaml_value
from adaqn.hyperparameters import Hyperparameters, grid, members_from
from adaqn.space import SearchSpace, space_from

CONFIG_VERSION = 1
# Watching a run does not change it, so these may differ between a run and its resumption.
OF_WATCHING = ("log_interval", "checkpoint_interval", "eval_interval", "eval_episodes", "wandb_project")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One (method, environment, seed), complete. `settings` are those of the algorithm."""

    algo: str
    env: str | None  # None: an environment object that a program passed, which no file can name
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    steps: int
    seed: int = 0
    n_envs: int = 1
    members: tuple[Hyperparameters, ...]
    space: SearchSpace | None = None  # what members may become, or are drawn from
    schedule: tuple[Scheduled, ...] = ()  # what the one member of a dqn becomes, and when
    settings: Any
    log_interval: int = 1_000
    checkpoint_interval: int = 10_000
    eval_interval: int | None = None
    eval_episodes: int = 10
    wandb_project: str | None = None

    def __post_init__(self) -> None:
        set_field = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731 (frozen)
        for name, low in (("steps", 1), ("seed", 0), ("n_envs", 1), ("eval_episodes", 1)):
            set_field(name, count(name, getattr(self, name), low))
        for name in ("log_interval", "checkpoint_interval"):
            set_field(name, count(name, getattr(self, name), low=1))
        if self.wandb_project is not None and not isinstance(self.wandb_project, str):
            raise UserError(f"wandb_project must be the name of a project, but got {self.wandb_project!r}")
        if self.eval_interval is not None:
            set_field("eval_interval", count("eval_interval", self.eval_interval, low=1))
        least = self.settings.least_steps
        if self.steps < least.steps:
            raise UserError(f"a run of {self.steps} steps is too short: {least.reason}")

    @classmethod
    def from_dict(
        cls,
        values: Mapping[str, Any],
        source: str = "the configuration",
        observation_shape: tuple[int, ...] | None = None,
    ) -> RunConfig:
        """The configuration that these plain values describe; what is left out has its default.

        Where the shape of the observations matters and is not given, an environment is made to look at it.
        """
        if not isinstance(values, Mapping):
            raise UserError(f"{source} must be a mapping of names to values, but got {values!r}")
        values = dict(values)
        version = values.pop("version", CONFIG_VERSION)
        if version != CONFIG_VERSION:
            raise UserError(f"{source} has version {version!r}, but this adaqn reads version {CONFIG_VERSION}")
        _expand_grid(values, source)
        names = [f.name for f in dataclasses.fields(cls)]
        for name in values:
            if name not in names:
                raise unknown_name(f"entry in {source}:", name, names)
        for name in ("env", "steps"):
            if name not in values:
                raise UserError(f"{source} does not say {name}, which every run needs")
        chosen = algorithm(values.setdefault("algo", "adadqn"))
        values["settings"] = chosen.configure(as_mapping("settings", values.get("settings")))
        given = population_from(values.get("members"), values.get("space"), values.get("schedule"))
        seed = count("seed", values.get("seed", 0))
        env, kwargs = values["env"], as_mapping("env_kwargs", values.get("env_kwargs"))
        values["env_kwargs"] = kwargs

        if env is not None and not isinstance(env, str):
            raise UserError(f"env in {source} must be the id of an environment, but got {env!r}")

        def shape() -> tuple[int, ...]:
            if observation_shape is not None:
                return observation_shape
            return () if env is None else observation_shape_of(env, kwargs)

        values |= chosen.population(given, values["settings"], seed, shape)._asdict()
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, complete, in the order of the fields."""
        values: dict[str, Any] = {"version": CONFIG_VERSION}
        for f in dataclasses.fields(self):
            values[f.name] = getattr(self, f.name)
        values["env_kwargs"] = dict(self.env_kwargs)
        values["settings"] = dataclasses.asdict(self.settings)
        values["members"] = [member.to_dict() for member in self.members] or None  # a search draws its own
        values["space"] = None if self.space is None else self.space.to_dict()
        values["schedule"] = schedule_values(self.schedule)
        return values

    def to_yaml(self) -> str:
        """The text of `config.yaml`."""
        try:
            return yaml.safe_dump(self.to_dict(), sort_keys=False, default_flow_style=None, width=110)
        except yaml.YAMLError as error:
            raise UserError(f"a configuration holds only plain values, but {self.env_kwargs} has others") from error

    def differences(self, other: Mapping[str, Any]) -> list[str]:
        """The entries that matter to the result and differ from those of another configuration's `to_dict`."""
        mine = {name: value for name, value in self.to_dict().items() if name not in OF_WATCHING}
        return [name for name, value in mine.items() if other.get(name) != value]


def read_config(name_or_path: str | Path) -> dict[str, Any]:
    """The plain values of a YAML file, or of the preset with this name."""
    path = Path(name_or_path)
    if os.path.isfile(path):  # `Path.is_file` raises for a name that is too long
        text = read_text(path)
    elif str(name_or_path) in presets():
        text = (resources.files("adaqn") / "presets" / f"{name_or_path}.yaml").read_text(encoding="utf-8")
    elif path.suffix in (".yaml", ".yml"):
        raise UserError(f"there is no file {path}")
    else:
        raise unknown_name("preset (and there is no such file)", str(name_or_path), presets())
    values = yaml_value(str(path), text)
    if not isinstance(values, Mapping):
        raise UserError(f"{path} must hold a mapping of names to values, but it holds {values!r}")
    return dict(values)


def presets() -> list[str]:
    """The names of all presets."""
    folder = resources.files("adaqn") / "presets"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def _expand_grid(values: dict[str, Any], source: str) -> None:
    """`grid:` is a short way to write `members:`, as --grid is."""
    columns = values.pop("grid", None)
    if columns is None:
        return
    if values.get("members") is not None:
        raise UserError(f"{source} has members and a grid, which is another way to give members: leave one of them out")
    if not isinstance(columns, Mapping):
        raise UserError(f"grid in {source} must map names to lists of values, but got {columns!r}")
    values["members"] = grid(**{str(name): column for name, column in columns.items()})


def population_from(members: Any, space: Any, schedule: Any) -> Population:
    """What a user gives as members, a space and a schedule, each of which may be None."""
    return Population(
        members=() if members is None else members_from(members),
        space=None if space is None else space_from(space),
        schedule=schedule_from(schedule) if schedule else (),
    )


def schedule_from(schedule: Any) -> tuple[Scheduled, ...]:
    """A schedule of hyperparameters from plain values, a YAML file, or as it is."""
    if isinstance(schedule, str | Path):
        path = Path(schedule)
        if not os.path.isfile(path):
            raise UserError(f"there is no file {path} with a schedule of hyperparameters")
        schedule = read_yaml(path)
    if isinstance(schedule, Mapping):
        schedule = schedule.get("schedule")
    if not isinstance(schedule, list | tuple):
        raise UserError(f"a schedule is a list of step and hyperparameters, but got {schedule!r}")
    if not schedule:
        raise UserError("a schedule needs at least one entry, but it is empty")
    entries = [entry if isinstance(entry, Scheduled) else _scheduled(entry) for entry in schedule]
    steps = [entry.step for entry in entries]
    if steps != sorted(set(steps)):
        raise UserError(f"the steps of a schedule must ascend, but they are {steps}")
    return tuple(entries)


def _scheduled(entry: Any) -> Scheduled:
    if not isinstance(entry, Mapping) or set(entry) != {"step", "hyperparameters"}:
        raise UserError(f"an entry of a schedule has step and hyperparameters, but got {entry!r}")
    return Scheduled(
        count("the step of a schedule", entry["step"]), Hyperparameters.from_dict(entry["hyperparameters"])
    )


def schedule_values(schedule: tuple[Scheduled, ...]) -> list[dict[str, Any]]:
    """The inverse of `schedule_from`."""
    return [{"step": entry.step, "hyperparameters": entry.hyperparameters.to_dict()} for entry in schedule]


def as_mapping(name: str, values: object) -> dict[str, Any]:
    """A section of a configuration, which may be missing."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise UserError(f"{name} must be a mapping of names to values, but got {values!r}")
    return dict(values)
