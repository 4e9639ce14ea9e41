"""A study as it is frozen in its directory: every arm with its complete configuration, environments and seeds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from adaqn.base.checks import count
from adaqn.base.errors import UserError, unknown_name
from adaqn.base.files import Json, path_safe
from adaqn.runs.config import OBSERVATION_SETTINGS, RunConfig, require_mapping

STUDY_VERSION = 1
ENVIRONMENT_ENTRIES = ("env", "env_kwargs", "wrappers", "imports")  # those of a RunConfig that an environment has
# Watching a run does not change it, and another number of threads changes at most its last digits.
WITHOUT_EFFECT = (*OBSERVATION_SETTINGS, "threads")
_SHOWN_DIFFERENCES = 8


class RunKey(NamedTuple):
    """One run of a study, and its place in the directory."""

    arm: str
    environment: str
    seed: int

    @classmethod
    def parse(cls, text: str) -> RunKey:
        """The run that `ARM/ENVIRONMENT/SEED` names."""
        parts = text.split("/")
        if len(parts) != 3 or not parts[2].isdecimal():
            raise UserError(f"a run of a study is named ARM/ENVIRONMENT/SEED, but got {text!r}")
        return cls(parts[0], parts[1], int(parts[2]))

    @property
    def path(self) -> Path:
        """Where its directory is within the study's."""
        return Path(self.arm, self.environment, str(self.seed))

    def __str__(self) -> str:
        return f"{self.arm}/{self.environment}/{self.seed}"


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is to be run. The arms' and environments' labels are names of directories."""

    name: str
    scale: str | None = None
    about: str = ""
    arms: Mapping[str, Json]  # complete configurations, without what the environment and the seed say
    environments: Mapping[str, Json]  # the entries of a configuration that say which environment it is
    seeds: tuple[int, ...]  # results are reported on these
    tuning_seeds: tuple[int, ...] = ()  # and choices made on these, by the arms that are chosen among
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # the arms that each choice is made among
    # Arms that train the best trial which another arm, a search, has found on the tuning seeds.
    retrained: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind, names in (("arm", self.arms), ("environment", self.environments), ("seed", self.seeds)):
            if not names:
                raise UserError(f"the study {self.name} needs at least one {kind}")
        both = sorted({*self.seeds} & {*self.tuning_seeds})
        if both:
            raise UserError(
                f"seeds that choose a setting cannot report on it: {both[0]} is among the seeds and the tuning_seeds "
                f"of the study {self.name}"
            )
        choosing = (*self.choices, *self.retrained)
        if choosing and not self.tuning_seeds:
            raise UserError(
                f"the study {self.name} makes choices ({', '.join(choosing)}), so it needs tuning_seeds to make them on"
            )
        for choice, arms in self.choices.items():
            for arm in arms:
                if arm not in self.arms:
                    raise unknown_name(f"arm in the choice {choice}:", arm, self.arms)

    def runs(self) -> list[RunKey]:
        """All runs, seed by seed, so that a study that is stopped early has every arm."""
        chosen_among = {arm for arms in self.choices.values() for arm in arms} | {*self.retrained.values()}
        return [
            RunKey(arm, environment, seed)
            for seeds, tuning in ((self.seeds, False), (self.tuning_seeds, True))
            for seed in seeds
            for environment in self.environments
            for arm in self.arms
            if not tuning or arm in chosen_among
        ]

    def values(self, key: RunKey) -> Json:
        """The plain values of one run's configuration."""
        if key.arm not in self.arms:
            raise unknown_name("arm", key.arm, self.arms)
        if key.environment not in self.environments:
            raise unknown_name("environment of the study:", key.environment, self.environments)
        return {**self.arms[key.arm], **self.environments[key.environment], "seed": key.seed}

    def config(self, key: RunKey) -> RunConfig:
        """One run's configuration, as it is given to a new run."""
        return RunConfig.as_given(self.values(key), f"the arm {key.arm}")

    def to_dict(self) -> Json:
        """Plain values, complete."""
        return {
            "version": STUDY_VERSION,
            "name": self.name,
            "scale": self.scale,
            "about": self.about,
            "seeds": list(self.seeds),
            "tuning_seeds": list(self.tuning_seeds),
            "choices": {name: list(arms) for name, arms in self.choices.items()},
            "retrained": dict(self.retrained),
            "environments": dict(self.environments),
            "arms": dict(self.arms),
        }

    @classmethod
    def from_dict(cls, values: object, source: str) -> Study:
        """The inverse of `to_dict`."""
        given = require_mapping(source, values)
        version = given.pop("version", None)
        if version != STUDY_VERSION:
            raise UserError(f"{source} has version {version!r}, but this adaqn reads version {STUDY_VERSION}")
        names = ("name", "scale", "about", "seeds", "tuning_seeds", "choices", "retrained", "environments", "arms")
        for name in given:
            if name not in names:
                raise unknown_name(f"entry in {source}:", name, names)
        given = {"tuning_seeds": [], "choices": {}, "retrained": {}, **given}
        for name in names:
            if name not in given:
                raise UserError(f"{source} does not say {name}, so it is not a study that adaqn wrote")
        tables = {
            name: {
                require_label(name, label): require_mapping(f"{name}.{label} in {source}", entry)
                for label, entry in require_mapping(f"{name} in {source}", given[name]).items()
            }
            for name in ("arms", "environments")
        }
        choices = require_mapping(f"choices in {source}", given["choices"])
        return cls(
            name=str(given["name"]),
            scale=given["scale"],
            about=str(given["about"]),
            seeds=seeds_from("seeds", given["seeds"]),
            tuning_seeds=seeds_from("tuning_seeds", given["tuning_seeds"]),
            choices={name: tuple(map(str, arms)) for name, arms in choices.items()},
            retrained=require_mapping(f"retrained in {source}", given["retrained"]),
            **tables,
        )


def arm_values(config: RunConfig) -> Json:
    """What a study keeps of an arm: its configuration without the environment, the seed and who watches."""
    apart = ("version", "seed", *ENVIRONMENT_ENTRIES)
    return {name: value for name, value in config.to_dict().items() if name not in apart}


def seeds_from(what: str, given: object) -> tuple[int, ...]:
    """Seeds as a study names them: how many (from 0 on), a list, or text such as 0-9,20."""
    if isinstance(given, str):
        seeds = seeds_from_text(what, given)
    elif isinstance(given, list | tuple):
        seeds = [count(f"one of the {what}", seed) for seed in given]
    else:
        seeds = list(range(count(what, given)))
    if len(set(seeds)) != len(seeds):
        raise UserError(f"{what} must be different from each other, but got {given!r}")
    return tuple(seeds)


def seeds_from_text(what: str, text: str) -> list[int]:
    """`0-4,7` as numbers."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        if match is None:
            raise UserError(f"{what} are whole numbers or ranges such as 0-4, but got {text!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < first + 10_000:
            raise UserError(f"a range of {what} goes upwards, over fewer than 10,000 seeds, but got {part.strip()!r}")
        seeds += range(first, last + 1)
    return seeds


def require_label(kind: str, label: object) -> str:
    """The label, if it can be the name of a directory."""
    if not isinstance(label, str) or path_safe(label) != label or label == "logs":
        raise UserError(
            f"a label among the {kind} is the name of a directory (letters, digits and . _ = + -, and not 'logs'), "
            f"but got {label!r}"
        )
    return label


def differences(before: Any, after: Any) -> list[str]:
    """The entries in which two mappings of plain values differ, each with both values."""
    old, new = dict(_flat(before)), dict(_flat(after))
    return [
        f"{name} was {old[name]!r} and is {new[name]!r}"
        if name in old and name in new
        else (f"{name} is new ({new[name]!r})" if name in new else f"{name} is gone (it was {old[name]!r})")
        for name in {**old, **new}
        if name not in old or name not in new or old[name] != new[name]
    ]


def config_differences(recorded: RunConfig, wanted: RunConfig) -> list[str]:
    """The entries in which the configuration of a run that exists differs from the one that it should have."""
    plain = [
        {name: value for name, value in config.to_dict().items() if name not in ("version", *WITHOUT_EFFECT)}
        for config in (recorded, wanted)
    ]
    for values, config in zip(plain, (recorded, wanted), strict=True):
        values["horizon"] = [list(entry) for entry in config.horizons]
    return differences(*plain)


def listed(entries: Sequence[str]) -> str:
    """Differences in one sentence, the first few of them."""
    more = len(entries) - _SHOWN_DIFFERENCES
    return "; ".join(entries[:_SHOWN_DIFFERENCES]) + (f"; and {more} more" if more > 0 else "")


def _flat(values: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested mappings and lists of mappings, by their path."""
    if isinstance(values, Mapping) and (values or not prefix):
        for name, value in values.items():
            yield from _flat(value, f"{prefix}.{name}" if prefix else str(name))
    elif isinstance(values, list | tuple) and values and all(isinstance(value, Mapping) for value in values):
        for index, value in enumerate(values):
            yield from _flat(value, f"{prefix}[{index}]")
    else:
        yield prefix, list(values) if isinstance(values, tuple) else values
