"""The configuration of a run, complete: read from files, changed by overrides, written as config.yaml."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adaqn.agents.population import Population, Scheduled
from adaqn.agents.registry import Algorithm, algorithm
from adaqn.base.checks import count, most
from adaqn.base.errors import UserError, unknown_name
from adaqn.base.files import Json, read_yaml, yaml_text
from adaqn.base.plugins import PresetFolder
from adaqn.members.hyperparameters import Hyperparameters, grid, members_from
from adaqn.members.space import SearchSpace, space_from
from adaqn.networks.xla.threads import checked_threads

if TYPE_CHECKING:
    from adaqn.runs.config import RunConfig

Horizons = tuple[tuple[int, int], ...]


def horizon_from(given: object) -> int | Horizons | None:
    """The horizon from a configuration: None (its steps), one number, or a list of [step, end]."""
    if given is None:
        return None
    if not isinstance(given, list | tuple):
        return count("horizon", given, low=1)
    if not given or not all(isinstance(entry, list | tuple) and len(entry) == 2 for entry in given):
        raise UserError(f"horizon must be one step, or a list of [step, end] pairs, but got {given!r}")
    entries = tuple((count("a step of horizon", step), count("horizon", end, low=1)) for step, end in given)
    steps = [step for step, _ in entries]
    if steps[0] != 0 or steps != sorted(set(steps)):
        raise UserError(f"the steps of horizon must begin with 0 and increase, but they are {steps}")
    return entries[0][1] if len(entries) == 1 else entries


def horizons(horizon: object, steps: int) -> Horizons:
    """The horizon of a run of `steps` steps, always as a list."""
    known = horizon_from(horizon)
    if known is None:
        return ((0, steps),)
    return ((0, known),) if isinstance(known, int) else known


def until(entries: Horizons, step: int) -> Horizons:
    """The entries of a horizon that have affected a run up to this step."""
    return tuple(entry for entry in entries if entry[0] <= step)


def extended(config: RunConfig, steps: int, done: int, stretch_schedules: bool) -> RunConfig:
    """The configuration of a run that has taken `done` steps and gets a new end."""
    if steps < done:
        raise UserError(f"the run has taken {done:,} steps already, so it cannot end at step {steps:,}")
    seen = horizons(config.horizon, config.steps)
    if stretch_schedules:
        # Some operations due at the last step may already have been performed with the old end.
        seen = (*until(seen, done), (done + 1, steps)) if done else ((0, steps),)
    horizon = None if seen == ((0, steps),) else horizon_from(seen)
    return dataclasses.replace(config, steps=steps, horizon=horizon)


if TYPE_CHECKING:
    from adaqn.envs.source import EnvironmentLike, EnvironmentOverride, EnvironmentSource
    from adaqn.envs.wrapping import Wrapping

CONFIG_VERSION = 1
_PRESETS = PresetFolder("preset", ("presets",))
# Logging and evaluation do not change a run, so these settings may differ when it is resumed.
OBSERVATION_SETTINGS = ("log_interval", "checkpoint_interval", "eval_interval", "eval_episodes", "wandb_project")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Configuration of one (method, environment, seed). `settings` are those of the algorithm.

    `as_given` contains only the members, space and schedule given by the user, possibly none; `from_dict` also resolves
    those that follow from the algorithm, the seed and the environment, as in config.yaml.
    """

    algo: str
    base: str | None = None  # algorithm that a search trains in its trials, if not the default
    env: str | None  # None: an environment object or function, which a file cannot represent
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    wrappers: tuple[Wrapping, ...] = ()  # around the environment, innermost first
    imports: tuple[str, ...] = ()  # modules that register the environment's id
    steps: int
    horizon: int | Horizons | None = None  # step at which schedules "until the end of the run" end; None: steps
    seed: int = 0
    n_envs: int = 1
    threads: int | None = None  # of an update; None: chosen by the size of networks and batches
    members: tuple[Hyperparameters, ...]
    space: SearchSpace | None = None  # search space from which members are sampled or mutated
    schedule: tuple[Scheduled, ...] = ()  # hyperparameters of the only member of a dqn, from each step on
    settings: Any
    log_interval: int = 1_000
    checkpoint_interval: int = 10_000
    eval_interval: int | None = None
    eval_episodes: int = 10
    wandb_project: str | None = None

    def __post_init__(self) -> None:
        set_field = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731 (frozen)
        for name, low in (("steps", 1), ("seed", 0), ("n_envs", 1), ("eval_episodes", 1)):
            set_field(name, count(name, getattr(self, name), low, most(name)))
        for name in ("log_interval", "checkpoint_interval"):
            set_field(name, count(name, getattr(self, name), low=1))
        if self.threads is not None:
            set_field("threads", checked_threads(self.threads))
        set_field("horizon", horizon_from(self.horizon))
        if self.wandb_project is not None and not isinstance(self.wandb_project, str):
            raise UserError(f"wandb_project must be the name of a project, but got {self.wandb_project!r}")
        if self.eval_interval is not None:
            set_field("eval_interval", count("eval_interval", self.eval_interval, low=1))
        least = self.settings.minimum_steps
        if self.steps < least.steps:
            raise UserError(f"a run of {self.steps} steps is too short: {least.reason}")

    @classmethod
    def from_dict(
        cls,
        values: Mapping[str, Any],
        source: str = "the configuration",
        observation_shape: tuple[int, ...] | None = None,
    ) -> RunConfig:
        """The complete configuration from plain values; missing entries get their defaults.

        If the shape of observations is needed and not given, an environment is made to find it.
        """
        shape = None if observation_shape is None else lambda: observation_shape
        return cls.as_given(values, source).resolved(shape)

    def resolved(self, observation_shape: Callable[[], tuple[int, ...]] | None = None) -> RunConfig:
        """The configuration with the members that a run has: as given, a single one doubled for SAC, or the defaults.

        The shape of observations is asked for only if the members depend on it; without it, an environment is made.
        """

        def from_environment() -> tuple[int, ...]:
            return () if self.env is None else self.environment().observation_shape()

        given = Population(self.members, self.space, self.schedule)
        shape = observation_shape or from_environment
        population = self.algorithm.population(given, self.settings, self.seed, shape)
        return dataclasses.replace(self, **population._asdict())

    @classmethod
    def as_given(cls, values: Mapping[str, Any], source: str = "the configuration") -> RunConfig:
        """The configuration with only the given members, for callers that make the environment anyway."""
        # Imported here because it imports Gymnasium, which `adaqn train --help` should not wait for.
        from adaqn.envs.wrapping import modules_from, wrappings_from

        if not isinstance(values, Mapping):
            raise UserError(f"{source} must be a mapping of names to values, but got {values!r}")
        values = dict(values)
        version = values.pop("version", CONFIG_VERSION)
        if version != CONFIG_VERSION:
            raise UserError(f"{source} has version {version!r}, but this adaqn reads version {CONFIG_VERSION}")
        _expand_grid(values, source)
        _pick_member(values, source)
        names = [f.name for f in dataclasses.fields(cls)]
        for name in values:
            if name not in names:
                raise unknown_name(f"entry in {source}:", name, names)
        for name in ("env", "steps"):
            if name not in values:
                missing = f"--{name}" if source == "the command line" else name
                raise UserError(f"{source} does not set {missing}, which every run needs")
        chosen = algorithm(values.setdefault("algo", "adadqn"), values.get("base"))
        values["settings"] = chosen.configure(as_mapping("settings", values.get("settings")))
        values |= population_from(values.get("members"), values.get("space"), values.get("schedule"))._asdict()
        values["env_kwargs"] = as_mapping("env_kwargs", values.get("env_kwargs"))
        values["wrappers"] = wrappings_from(values.get("wrappers"))
        values["imports"] = modules_from(values.get("imports"))

        if values["env"] is not None and not isinstance(values["env"], str):
            raise UserError(f"env in {source} must be the id of an environment, but got {values['env']!r}")
        return cls(**values)

    @property
    def algorithm(self) -> Algorithm:
        """The registry entry of the algorithm."""
        return algorithm(self.algo, self.base)

    def to_dict(self) -> Json:
        """All entries as plain values, in the order of the fields."""
        values: Json = {"version": CONFIG_VERSION}
        for f in dataclasses.fields(self):
            values[f.name] = getattr(self, f.name)
        if isinstance(self.horizon, tuple):
            values["horizon"] = [list(entry) for entry in self.horizon]
        values["env_kwargs"] = dict(self.env_kwargs)
        for name, plain in (
            ("wrappers", [wrapping.to_plain() for wrapping in self.wrappers]),
            ("imports", list(self.imports)),
        ):
            values[name] = plain
            if not plain:  # as in most runs
                del values[name]
        settings = dataclasses.asdict(self.settings)
        values["settings"] = {k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}
        for name in ("base", "threads"):
            if values[name] is None:  # as in most runs
                del values[name]
        values["members"] = [member.to_dict() for member in self.members] or None  # a search samples its own
        values["space"] = None if self.space is None else self.space.to_dict()
        values["schedule"] = schedule_values(self.schedule)
        return values

    def to_yaml(self) -> str:
        """The text of `config.yaml`."""
        try:
            return yaml_text(self.to_dict())
        except UserError as error:
            kwargs = [self.env_kwargs, *(wrapping.kwargs for wrapping in self.wrappers)]
            given = ", ".join(str(dict(one)) for one in kwargs if one)
            raise UserError(f"a configuration holds only plain values, but {given} has others") from error

    def environment(self, given: EnvironmentLike | EnvironmentOverride | None = None) -> EnvironmentSource:
        """The source of the run's environments, or of the given environment with the recorded wrappers."""
        from adaqn.envs.source import EnvironmentOverride, EnvironmentSource

        override = given if isinstance(given, EnvironmentOverride) else EnvironmentOverride(given)
        env = self.env if override.env is None else override.env
        if env is None:
            raise UserError(
                "this run was made with an environment object, so it needs one again: pass env=, "
                "or on the command line --env ID"
            )
        # The recorded arguments belong to the recorded id, or to a function that is passed again.
        same = override.env is None or (self.env is None and callable(override.env))
        return EnvironmentSource.of(
            env,
            override.kwargs if override.kwargs is not None else self.env_kwargs if same else {},
            self.wrappers if override.wrappers is None else override.wrappers,
            (*self.imports, *override.imports),
        )

    @property
    def horizons(self) -> Horizons:
        """(step, end) pairs: from that step on, schedules "until the end of the run" end there."""
        return horizons(self.horizon, self.steps)

    def differences(self, other: Mapping[str, Any], step: int) -> list[str]:
        """The entries that differ from another configuration's `to_dict` and affect the run up to this step."""
        # Another number of threads may change the last bits; the checkpoint's platform facts report that.
        apart = (*OBSERVATION_SETTINGS, "steps", "horizon", "threads")
        mine = {name: value for name, value in self.to_dict().items() if name not in apart}
        changed = [name for name, value in mine.items() if other.get(name) != value]
        # The end of a run affects earlier steps only through schedules that depend on it.
        before = horizons(other.get("horizon"), other.get("steps", self.steps))
        if until(self.horizons, step) != until(before, step):
            changed.insert(0, "steps" if self.horizon is None else "horizon")
        return changed


def read_config(name_or_path: str | Path) -> Json:
    """The plain values of a YAML file or of the preset with this name."""
    values = _PRESETS.read_given(name_or_path)
    if not isinstance(values, Mapping):
        raise UserError(f"{name_or_path} must hold a mapping of names to values, but it holds {values!r}")
    return dict(values)


def presets() -> list[str]:
    """The names of all presets."""
    return _PRESETS.names()


def _expand_grid(values: Json, source: str) -> None:
    """Expand `grid:`, a short form of `members:`, as --grid is."""
    columns = values.pop("grid", None)
    if columns is None:
        return
    if values.get("members") is not None:
        raise UserError(f"{source} has members and a grid, which is another way to give members: leave one of them out")
    if not isinstance(columns, Mapping):
        raise UserError(f"grid in {source} must map names to lists of values, but got {columns!r}")
    values["members"] = grid(**{str(name): column for name, column in columns.items()})


def _pick_member(values: Json, source: str) -> None:
    """Apply `member: 3`, which keeps only that member, as --member does; members are numbered from 0."""
    given = values.pop("member", None)
    if given is None:
        return
    index = count("member", given)
    for name in ("space", "schedule"):
        if values.get(name):
            raise UserError(
                f"member picks one of the members that {source} lists, but this run has a {name}, which changes "
                "members: leave one of the two out"
            )
    if not values.get("members"):
        raise UserError(
            f"member picks one of the members that {source} lists, but it lists none (members are sampled from a "
            "space when a run begins)"
        )
    members = members_from(values["members"])
    if index >= len(members):
        raise UserError(f"member must be from 0 to {len(members) - 1}, for {len(members)} members, but got {given}")
    values["members"] = members[index : index + 1]


def population_from(members: Sequence[object] | None, space: Any, schedule: object) -> Population:
    """The population from the members, space and schedule given by a user, each of which may be None."""
    return Population(
        members=() if members is None else members_from(members),
        space=None if space is None else space_from(space),
        schedule=schedule_from(schedule) if schedule else (),
    )


def schedule_from(schedule: object) -> tuple[Scheduled, ...]:
    """A hyperparameter schedule from plain values, the path of a YAML file, or `Scheduled` entries."""
    if isinstance(schedule, str | Path):
        path = Path(schedule)
        if not os.path.isfile(path):
            raise UserError(f"there is no file {path} with a schedule of hyperparameters")
        schedule = read_yaml(path)
    if isinstance(schedule, Mapping):
        schedule = schedule.get("schedule")
    if not isinstance(schedule, list | tuple):
        raise UserError(f"a schedule is a list of entries with step and hyperparameters, but got {schedule!r}")
    if not schedule:
        raise UserError("a schedule needs at least one entry, but it is empty")
    entries = [entry if isinstance(entry, Scheduled) else _scheduled(entry) for entry in schedule]
    steps = [entry.step for entry in entries]
    if steps != sorted(set(steps)):
        raise UserError(f"the steps of a schedule must increase, but they are {steps}")
    return tuple(entries)


def _scheduled(entry: object) -> Scheduled:
    if not isinstance(entry, Mapping) or set(entry) != {"step", "hyperparameters"}:
        raise UserError(f"an entry of a schedule has step and hyperparameters, but got {entry!r}")
    return Scheduled(
        count("the step of a schedule", entry["step"]), Hyperparameters.from_dict(entry["hyperparameters"])
    )


def schedule_values(schedule: tuple[Scheduled, ...]) -> list[Json]:
    """The inverse of `schedule_from`."""
    return [{"step": entry.step, "hyperparameters": entry.hyperparameters.to_dict()} for entry in schedule]


def as_mapping(name: str, values: object) -> Json:
    """A section of a configuration as a dict, empty if it is missing."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise UserError(f"{name} must be a mapping of names to values, but got {values!r}")
    return dict(values)


_MEMBERS = ("members", "grid", "member")  # ways to say which members there are


def with_algorithm(values: Mapping[str, Any], algo: str, base: str | None) -> Json:
    """The values for another algorithm: what only the former one can use is left out."""
    values = dict(values)
    before, after = algorithm(values["algo"], values.get("base")), algorithm(algo, base)
    if (algo, base) == (values["algo"], values.get("base")):
        return values
    settings = as_mapping("settings", values.get("settings"))
    lost = {f.name for f in dataclasses.fields(before.settings)} - {f.name for f in dataclasses.fields(after.settings)}
    # What makes the former algorithm, or the one asked for, is not a value that the file chose.
    for name in {*before.overrides, *after.overrides, *lost}:
        settings.pop(name, None)
    # Nor can the other algorithm use a space, or members to start from, if it has none.
    if after.space == "none":
        values.pop("space", None)
    if after.base is not None:
        for name in _MEMBERS:
            values.pop(name, None)
    return values | {"algo": algo, "base": base, "settings": settings}


def with_overrides(values: Mapping[str, Any], changes: Mapping[str, Any]) -> Json:
    """The values with changes over them: settings one by one, all else as a whole.

    Members are given in one of several ways, and each takes the place of the others; `member` picks one of those that
    are there.
    """
    algo = changes.get("algo", values["algo"])
    base = changes.get("base", values.get("base") if algo == values["algo"] else None)
    result = with_algorithm(values, algo, base)
    if any(name in changes for name in ("members", "grid", "schedule")):
        for name in _MEMBERS:
            result.pop(name, None)
    settings = {**as_mapping("settings", result.get("settings")), **as_mapping("settings", changes.get("settings"))}
    return result | dict(changes) | {"settings": settings}


def settings_of(values: Mapping[str, Any]) -> set[str]:
    """The names of the settings that the algorithm of these values has."""
    return {f.name for f in dataclasses.fields(algorithm(values["algo"], values.get("base")).settings)}


def require_mapping(what: str, given: object) -> Json:
    """The given value, which must be a mapping with text for keys."""
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise UserError(f"{what} must be a mapping of names to values, but got {given!r}")
    return dict(given)
