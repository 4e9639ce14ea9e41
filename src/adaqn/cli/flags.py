"""The flags of every command as plain values, from which `cli` builds a parser.

The flags of `adaqn train` depend on the algorithm: they are the entries of a RunConfig and the fields of its settings.
JAX and Gymnasium are not imported here, so that `--help` is quick.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

UNSET: object = object()  # default of a flag that is absent from the parsed values unless it is given


class Flag(NamedTuple):
    """One argument of a command; positional if its name has no dashes."""

    name: str
    help: str
    kind: type = str  # bool: written as true or false
    metavar: str | None = None
    default: object = UNSET
    values: Literal["one", "several", "repeated", "optional", "none"] = "one"  # none: a switch
    when_bare: object = None  # value of a flag with "optional" values that is given without one
    short: str | None = None
    dest: str | None = None  # name of the value, if it differs from the flag's name


class Group(NamedTuple):
    """Flags under a heading; without a title, the command's own flags."""

    title: str | None
    flags: tuple[Flag, ...]


def switch(name: str, text: str) -> Flag:
    """A flag without a value."""
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
_TRUST = switch("--trust-env", "allow importing the modules that the run names for its environment")

_ENVIRONMENT = (
    Flag("--env-kwargs", "arguments of the environment, as YAML: '{continuous: false}'", metavar="YAML"),
    Flag(
        "--wrappers",
        "wrappers around the environment, innermost first: gymnasium.wrappers:FlattenObservation",
        metavar="MODULE:NAME",
        values="several",
    ),
    Flag(
        "--import",
        "a module that registers the environment's id, such as gymnasium_robotics; may be repeated",
        metavar="MODULE",
        values="repeated",
        dest="imports",
    ),
)
_OF_AN_EXISTING_RUN = Group(
    "the environment, if the run does not name it",
    (
        Flag("--env", "Gymnasium id of the environment, for a run that was created with an environment object"),
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
                "train until N environment steps have been taken, also if the run is finished (default: the run's own "
                "number); schedules that last until the end of the run keep their previous end",
                int,
                default=None,
            ),
            switch("--stretch-schedules", "with --steps: these schedules last until the new end from here on"),
            Flag("--threads", "number of threads (default: as before the interruption)", int, default=None),
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
        (
            _AGENT,
            _BEST,
            Flag(
                "--format",
                "numpy, or onnx, which needs the extra onnx (default: that of FILE's suffix, .npz or .onnx)",
                default=None,
            ),
            _output("default: policy.npz or policy.onnx in the directory, best_policy with --best"),
            _FORCE,
        ),
    ),
    _OF_AN_EXISTING_RUN,
)
PUSH = (
    Group(
        None,
        (
            _RUN_DIRECTORY,
            Flag("repo", "the repository, created if it does not exist: USER/NAME", str, "REPO"),
            Flag("--to", "write the files to FOLDER instead of uploading them", Path, "FOLDER", None),
            _BEST,
            Flag("--episodes", "episodes of the evaluation on the card, 0 for none (default: 10)", int, default=10),
            Flag("--seed", "random seed of the evaluation (default: 0)", int, default=0),
            switch("--private", "make a new repository private"),
            switch("--force", "replace the files of an earlier push"),
            _TRUST,
        ),
    ),
    _OF_AN_EXISTING_RUN,
)
SCHEDULE = (Group(None, (_RUN_DIRECTORY, _output("default: schedule.yaml in the directory"), _FORCE)),)
FIGURES = (
    Group(
        None,
        (
            Flag("study", "the study's directory, with ARM/ENVIRONMENT/SEED in it", Path, "STUDY"),
            Flag("--output", "directory to write to (default: figures in STUDY)", Path, "DIR", None, short="-o"),
            Flag(
                "--epoch",
                "steps that returns are averaged over (default: the paper's for its environments, otherwise so that "
                "there are 20 or more)",
                int,
                default=None,
            ),
            switch("--force", "overwrite files in DIR that adaqn did not draw"),
        ),
    ),
)
REPORT = (
    Group(
        None,
        (
            Flag("paths", "directories of runs or studies", Path, "PATH", values="several"),
            Flag(
                "--output",
                "default: report.html in PATH, or in the working directory for several paths; replaced if it exists",
                Path,
                "FILE",
                None,
                short="-o",
            ),
            Flag(
                "--epoch",
                "steps that returns of a study are averaged over (default: as adaqn figures)",
                int,
                default=None,
            ),
            switch("--live", "serve the page on 127.0.0.1 and follow runs in progress, instead of writing a file"),
            Flag("--port", "port of --live (default: a free one)", int, default=0),
            _FORCE,
        ),
    ),
)
PICTURE = (Group(None, (_RUN_DIRECTORY, _output("default: picture.png in DIR, replaced if it exists"), _FORCE)),)
STUDY = (
    Group(
        None,
        (
            Flag("study", "YAML file, name of a preset, or directory of a study to go on with", str, "FILE|PRESET|DIR"),
            Flag("--scale", "size of a study that has several: paper, laptop", default=None),
            Flag("--dir", "directory of the study (default: runs/STUDY-SCALE)", Path, "DIR", None, dest="directory"),
            Flag("--arms", "run only these arms; a name may have wildcards: 'dqn-*'", default=None, values="several"),
            Flag(
                "--seeds", "run only these of the study's seeds: 0-4 7", metavar="N|N-N", default=None, values="several"
            ),
            Flag("--retries", "retries of a failed run (default: 1)", int, default=1),
            switch("--dry-run", "show the runs and their cost without starting any"),
            switch("--no-calibration", "do not estimate durations by training every arm for some seconds first"),
            switch("--discard-checkpoints", "delete the checkpoint of each run when it is finished"),
        ),
    ),
    Group(
        "where the runs execute",
        (
            Flag("--launcher", "local, ray, slurm, or one that is installed (default: local)", default="local"),
            Flag(
                "--jobs",
                "runs at the same time (default: as many as cores; on a cluster, as many as it places)",
                int,
                default=None,
            ),
            Flag(
                "--address",
                "address of a Ray cluster: auto, HOST:PORT or ray://HOST:PORT (default: start one here)",
                metavar="ADDRESS",
                default=None,
            ),
            Flag(
                "--resource",
                "resource of every run on a cluster, as an option of Ray's tasks (num_gpus=1) or submitit's executors "
                "(slurm_partition=gpu); may be repeated",
                metavar="NAME=VALUE",
                default=None,
                values="repeated",
                dest="resources",
            ),
        ),
    ),
)
WORK = (
    Group(
        None,
        (
            Flag("study_dir", "directory of a study", Path, "DIR"),
            Flag("run", "a run of the study", str, "ARM/ENVIRONMENT/SEED"),
            switch("--tied", "stop, with a checkpoint, when standard input is closed"),
        ),
    ),
)

_RUN = {
    "env": (str, "Gymnasium id of the environment"),
    "algo": (str, "algorithm"),
    "base": (str, "algorithm that random-search and dehb tune: dqn, sac or td3 (default: dqn)"),
    "steps": (int, "environment steps to train for"),
    "horizon": (int, "end of the schedules that last until the end of the run (default: --steps)"),
    "seed": (int, "random seed of the run"),
    "n_envs": (int, "environments stepped in parallel"),
    "threads": (int, "number of threads (default: all cores for large networks and batches, else 1)"),
    "log_interval": (int, "steps between rows of progress.csv"),
    "checkpoint_interval": (int, "steps between checkpoints"),
    "eval_interval": (int, "steps between evaluations (default: no evaluations)"),
    "eval_episodes": (int, "episodes per evaluation"),
    "wandb_project": (str, "also log to this Weights & Biases project"),
}
RUN_ENTRIES = tuple(_RUN)  # entries of a RunConfig that are a single value with a flag of the same name


def train(base: Mapping[str, Any]) -> tuple[Group, ...]:
    """The flags of `adaqn train`, with the values of a file as defaults; they include the algorithm."""
    return (
        Group("the run", _run_flags(base)),
        Group("the members", _member_flags()),
        Group(f"settings of {base['algo']}", _settings_flags(base)),
        Group(
            "output",
            (
                Flag("--run-dir", "directory to write the run to (default: nothing is saved)", Path, "DIR", None),
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
    from adaqn.members.space import named_spaces

    names = ", ".join(named_spaces())
    return (
        Flag(
            "--grid",
            "values of hyperparameters, all combinations of which are members, for example: hidden=100x100,200x200 "
            "learning_rate=3e-4,1e-3 optimizer.eps=1e-8,1e-4 or, for images, "
            "convolutions=32k8s4+64k4s2+64k3s1,16k3s1 (channels, kernel, stride of each layer); a categorical head "
            "needs a range of values: head=scalar,categorical value_range=-100:100",
            metavar="NAME=V,V",
            values="several",
        ),
        Flag(
            "--space",
            f"sample members from a search space and evolve them in it: {names}, or a YAML file",
            metavar="NAME|FILE",
        ),
        Flag("--member", "train only this member of the file or preset, numbered from 0 as on the console", int),
        Flag(
            "--schedule",
            "YAML file with the hyperparameters of a dqn over time (see adaqn schedule)",
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
        flags.append(
            Flag(_dashed(field.name), text + names + own + default, kinds[_type_name(field.type).split(" ")[0]])
        )
    return tuple(flags)


def _type_name(annotation: Any) -> str:
    """A field's type as text; without `from __future__ import annotations`, a module's fields have the class itself."""
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _dashed(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _shown(value: object) -> str:
    """A default value as written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, (tuple, list)) else str(value)
