"""The flags of every command as plain values; `cli` makes a parser of them.

Those of `adaqn train` follow from the algorithm: they are the entries of a RunConfig and the fields of its settings.
JAX and Gymnasium are not imported for them, so that `--help` is quick.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

UNSET: Any = object()  # the default of a flag that is no value at all unless it is given


class Flag(NamedTuple):
    """One argument of a command. A name without dashes is that of a positional one."""

    name: str
    help: str
    kind: type = str  # bool: the words true and false
    metavar: str | None = None
    default: Any = UNSET
    values: Literal["one", "several", "repeated", "optional", "none"] = "one"  # none: it is there or not
    when_bare: Any = None  # of a flag with an optional value, when it stands alone
    short: str | None = None
    dest: str | None = None  # the name of the value, where it is not that of the flag


class Group(NamedTuple):
    """Flags under a heading; without one, those that belong to the command itself."""

    title: str | None
    flags: tuple[Flag, ...]


def switch(name: str, text: str) -> Flag:
    """A flag that is there or not."""
    return Flag(name, text, values="none", default=False)


_RUN_DIRECTORY = Flag("run_dir", "the run's directory", Path, "DIR")
_AGENT = Flag("source", "a run's directory, or a saved agent", Path, "DIR|FILE")
_BEST = switch(
    "--best",
    "use the run's best model: the one with the highest return in an evaluation or, without evaluations, in the last "
    "10 training episodes (default: the last model)",
)
_FORCE = switch("--force", "overwrite FILE if it exists")
_QUIET = switch("--quiet", "print nothing but errors")
_TRUST = switch("--trust-env", "import the module that the run names in its environment's id")

_ENVIRONMENT = (
    Flag("--env-kwargs", "arguments of the environment, as YAML: '{continuous: false}'", metavar="YAML"),
    Flag(
        "--wrappers",
        "wrappers around the environment, the innermost first: gymnasium.wrappers:FlattenObservation",
        metavar="MODULE:NAME",
        values="several",
    ),
    Flag(
        "--import",
        "a module that registers the environment's id, as gymnasium_robotics does; may be repeated",
        metavar="MODULE",
        values="repeated",
        dest="imports",
    ),
)
_OF_AN_EXISTING_RUN = Group(
    "the environment, where the run does not say it",
    (
        Flag("--env", "the environment's Gymnasium id, for a run that was made with an environment object"),
        *_ENVIRONMENT,
    ),
)


def _output(text: str) -> Flag:
    return Flag("--output", text, Path, "FILE", None, short="-o")


RESUME = (
    Group(
        None,
        (
            _RUN_DIRECTORY,
            Flag(
                "--steps",
                "train until N environment steps have been taken, also if the run is finished (default: as it was "
                "begun); schedules that last until the end of the run keep the end they had",
                int,
                default=None,
            ),
            switch("--stretch-schedules", "with --steps: from here on, they refer to the new end"),
            Flag("--threads", "threads that XLA computes with (default: as before)", int, default=None),
            _QUIET,
            _TRUST,
        ),
    ),
    _OF_AN_EXISTING_RUN,
)
EVALUATE = (
    Group(
        None,
        (
            _AGENT,
            _BEST,
            Flag("--episodes", "number of episodes (default: 10)", int, default=10),
            Flag("--seed", "random seed of the episodes (default: 0)", int, default=0),
            Flag(
                "--video",
                "record the first episode to FILE, .mp4 or .gif (default: video.mp4 in the run's directory, "
                "best_video.mp4 with --best)",
                Path,
                "FILE",
                None,
                values="optional",
                when_bare=Path(""),
            ),
            _FORCE,
            _TRUST,
        ),
    ),
    _OF_AN_EXISTING_RUN,
)
EXPORT = (
    Group(
        None,
        (_AGENT, _BEST, _output("default: policy.npz in the directory, best_policy.npz with --best"), _FORCE),
    ),
    _OF_AN_EXISTING_RUN,
)
SCHEDULE = (Group(None, (_RUN_DIRECTORY, _output("default: schedule.yaml in the directory"), _FORCE)),)
PICTURE = (Group(None, (_RUN_DIRECTORY, _output("default: picture.png in DIR, which is replaced"), _FORCE)),)

_RUN = {
    "env": (str, "Gymnasium id of the environment"),
    "algo": (str, "algorithm"),
    "base": (str, "algorithm that random-search and dehb try: dqn, sac or td3 (default: dqn)"),
    "steps": (int, "environment steps to train for"),
    "horizon": (int, "end that schedules lasting until the end of the run refer to (default: the steps)"),
    "seed": (int, "random seed of the run"),
    "n_envs": (int, "environments stepped in parallel"),
    "threads": (int, "threads that XLA computes with (default: all cores for large networks and batches, else 1)"),
    "log_interval": (int, "steps between rows of progress.csv"),
    "checkpoint_interval": (int, "steps between checkpoints"),
    "eval_interval": (int, "steps between evaluations (default: no evaluations)"),
    "eval_episodes": (int, "episodes per evaluation"),
    "wandb_project": (str, "also log to this Weights & Biases project"),
}
RUN_ENTRIES = tuple(_RUN)  # those of a RunConfig that are one value, and a flag of the same name


def train(base: Mapping[str, Any]) -> tuple[Group, ...]:
    """The flags of `adaqn train` over these values of a file, which name the algorithm."""
    return (
        Group("the run", _run_flags(base)),
        Group("the members", _member_flags()),
        Group(f"settings of {base['algo']}", _settings_flags(base)),
        Group(
            "output",
            (
                Flag("--run-dir", "directory of the run (default: nothing is saved)", Path, "DIR", None),
                switch("--force", "overwrite an existing run in DIR"),
                _QUIET,
            ),
        ),
    )


def _run_flags(base: Mapping[str, Any]) -> tuple[Flag, ...]:
    from adaqn.agents.registry import algorithm_names
    from adaqn.runs.config import RunConfig

    defaults = {f.name: f.default for f in dataclasses.fields(RunConfig)}
    flags = [Flag("--config", "YAML file, or name of a preset", metavar="FILE")]
    for name, (kind, text) in _RUN.items():
        if name == "algo":
            text = f"{text}: {', '.join(algorithm_names())}"
        value = base.get(name, defaults[name])
        shown = "" if value in (None, dataclasses.MISSING) else f" (default: {value})"
        flags.append(Flag(_dashed(name), text + shown, kind, "ID" if name == "env" else None))
    return (*flags, *_ENVIRONMENT)


def _member_flags() -> tuple[Flag, ...]:
    from adaqn.space import named_spaces

    names = ", ".join(named_spaces())
    return (
        Flag(
            "--grid",
            "values of hyperparameters; the members are all their combinations, for example: hidden=100x100,200x200 "
            "learning_rate=3e-4,1e-3 optimizer.eps=1e-8,1e-4 or, for images, "
            "convolutions=32k8s4+64k4s2+64k3s1,16k3s1 (channels, kernel, stride of each layer)",
            metavar="NAME=V,V",
            values="several",
        ),
        Flag(
            "--space",
            f"draw members from a space and let them move through it: {names}, or a YAML file",
            metavar="NAME|FILE",
        ),
        Flag("--member", "train this member of the file or preset alone, numbered from 0 as in its table", int),
        Flag(
            "--schedule",
            "a YAML file with the hyperparameters of a dqn over time (see adaqn schedule)",
            metavar="FILE",
        ),
    )


def _settings_flags(base: Mapping[str, Any]) -> tuple[Flag, ...]:
    from adaqn.agents.registry import algorithm

    chosen = algorithm(base["algo"], base.get("base"))
    given = {**chosen.overrides, **base["settings"]}
    kinds: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool, "tuple[str,": str}
    flags: list[Flag] = []
    for field in dataclasses.fields(chosen.settings):
        value = given.get(field.name, field.default)
        text, own, default = field.metadata["help"].partition(" (default: ")
        if value is not None:
            own, default = " (default: ", f"{_shown(value)})"
        choices = field.metadata["choices"]
        names = f": {', '.join(choices())}" if choices else ""
        flags.append(Flag(_dashed(field.name), text + names + own + default, kinds[str(field.type).split(" ")[0]]))
    return tuple(flags)


def _dashed(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _shown(value: Any) -> str:
    """A default as it is written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, (tuple, list)) else str(value)
