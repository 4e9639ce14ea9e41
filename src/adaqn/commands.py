"""What the commands do, once argv has been read.

JAX and Gymnasium are imported by what a command does and not by its flags, so that `adaqn train --help` is quick.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adaqn.agents.registry import algorithm, algorithm_names
from adaqn.environment_flags import add_environment_flags
from adaqn.errors import UserError
from adaqn.files import require_free, yaml_value
from adaqn.hyperparameters import convolutions_from_text, grid, layers_from_text
from adaqn.printing import fitting, say
from adaqn.runs.config import RunConfig, as_mapping, read_config
from adaqn.runs.directory import RunDirectory
from adaqn.space import SearchSpace, named_spaces

if TYPE_CHECKING:
    from adaqn.api import Model
    from adaqn.envs.source import EnvironmentOverride
    from adaqn.runs.session import RunSession

_RUN_FLAGS = {
    "env": (str, "Gymnasium id of the environment"),
    "algo": (str, "algorithm"),
    "base": (str, "algorithm that random-search and dehb try: dqn, sac or td3 (default: dqn)"),
    "steps": (int, "environment steps to train for"),
    "horizon": (int, "end that schedules lasting until the end of the run refer to (default: the steps)"),
    "seed": (int, "random seed of the run"),
    "n_envs": (int, "environments stepped in parallel"),
    "log_interval": (int, "steps between rows of progress.csv"),
    "checkpoint_interval": (int, "steps between checkpoints"),
    "eval_interval": (int, "steps between evaluations (default: no evaluations)"),
    "eval_episodes": (int, "episodes per evaluation"),
    "wandb_project": (str, "also log to this Weights & Biases project"),
}


_METAVARS = {"env": "ID", "env_kwargs": "YAML", "space": "NAME|FILE", "schedule": "FILE"}


def base_values(config: str | None, algo: str | None, base: str | None) -> dict[str, Any]:
    """What the file or preset says, and the algorithm that the rest of the command line is about."""
    values = read_config(config) if config is not None else {}
    values.setdefault("algo", "adadqn" if algo is None else algo)
    values["settings"] = as_mapping("settings", values.get("settings"))
    before = algorithm(values["algo"], values.get("base"))
    if (algo is not None and algo != values["algo"]) or (base is not None and base != values.get("base")):
        # What makes the file's algorithm, or the one asked for, is not a value that the file chose.
        algo = values["algo"] if algo is None else algo
        after = algorithm(algo, base)
        # Nor can the other algorithm use what only the file's has: settings, a space, members to start from.
        lost = {f.name for f in dataclasses.fields(before.settings)} - {
            f.name for f in dataclasses.fields(after.settings)
        }
        for name in {*before.overrides, *after.overrides, *lost}:
            values["settings"].pop(name, None)
        if after.space == "none":
            values.pop("space", None)
        if after.base is not None:
            values.pop("members", None)
            values.pop("grid", None)
        values |= {"algo": algo, "base": base}
    return values


def add_run_flags(group: Any, base: Mapping[str, Any]) -> None:
    """A flag for each entry of a RunConfig that is one value."""
    defaults = {f.name: f.default for f in dataclasses.fields(RunConfig)}
    for name, (kind, text) in _RUN_FLAGS.items():
        if name == "algo":
            text = f"{text}: {', '.join(algorithm_names())}"
        value = base.get(name, defaults[name])
        shown = "" if value in (None, dataclasses.MISSING) else f" (default: {value})"
        _add_flag(group, name, kind, text + shown)
    add_environment_flags(group)


def environment_of(flags: argparse.Namespace) -> EnvironmentOverride:
    """What the command line says about the environment of a run that exists."""
    from adaqn.envs.source import EnvironmentOverride

    given = vars(flags)
    kwargs = given.get("env_kwargs")
    return EnvironmentOverride(
        env=given.get("env"),
        kwargs=None if kwargs is None else as_mapping("--env-kwargs", yaml_value("--env-kwargs", kwargs)),
        wrappers=given.get("wrappers"),
        imports=given.get("imports", ()),
    )


def add_member_flags(group: Any) -> None:
    """Where members come from, besides --grid."""
    names = ", ".join(named_spaces())
    _add_flag(group, "space", str, f"draw members from a space and let them move through it: {names}, or a YAML file")
    _add_flag(group, "member", int, "train this member of the file or preset alone, numbered from 0 as in its table")
    _add_flag(group, "schedule", str, "a YAML file with the hyperparameters of a dqn over time (see adaqn schedule)")


def add_settings_flags(group: Any, base: Mapping[str, Any]) -> None:
    """A flag for each setting of the algorithm."""
    chosen = algorithm(base["algo"], base.get("base"))
    given = {**chosen.overrides, **base["settings"]}
    for field in dataclasses.fields(chosen.settings):
        value = given.get(field.name, field.default)
        text, own, default = field.metadata["help"].partition(" (default: ")
        if value is not None:
            own, default = " (default: ", f"{_shown(value)})"
        kinds = {"int": int, "float": float, "str": str, "bool": _boolean, "tuple[str,": str}
        kind = kinds[str(field.type).split(" ")[0]]
        choices = field.metadata["choices"]
        names = f": {', '.join(choices())}" if choices else ""
        _add_flag(group, field.name, kind, text + names + own + default)


def _shown(value: Any) -> str:
    """A default as it is written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, (tuple, list)) else str(value)


def _boolean(text: str) -> bool:
    values = {"true": True, "yes": True, "false": False, "no": False}
    if text.lower() not in values:
        raise argparse.ArgumentTypeError(f"must be true or false, but got {text!r}")
    return values[text.lower()]


def _add_flag(group: Any, name: str, kind: Any, text: str) -> None:
    metavar = _METAVARS.get(name) or {int: "N", float: "X", str: "NAME", _boolean: "true|false"}[kind]
    group.add_argument(
        f"--{name.replace('_', '-')}",
        type=kind,
        metavar=metavar,
        default=argparse.SUPPRESS,
        help=text.replace("%", "%%"),
    )


def train(base: dict[str, Any], flags: argparse.Namespace) -> int:
    """`adaqn train`."""
    from adaqn.api import Model
    from adaqn.runs.session import Output, RunSession

    source = vars(flags).get("config", "the command line")
    values = _with_flags(base, vars(flags))
    config = RunConfig.from_dict(values, source)
    if config.env is None:
        raise UserError("no environment was given; say --env ID or name it in the file")
    model = Model.from_config(config)
    output = Output(console=not flags.quiet, notes=notes(values, config))
    if flags.run_dir is None:
        session = RunSession(config, model.trainer, output, directory=None)
    else:
        session = RunSession.create(Path(flags.run_dir), config, model.trainer, output, force=flags.force)
    return _run(session, model)


def notes(values: Mapping[str, Any], config: RunConfig) -> tuple[str, ...]:
    """What was chosen for the user and cannot be seen in the table of the members."""
    if values.get("space") is not None or config.space is None:
        return ()
    (name,) = (name for name in named_spaces() if SearchSpace.named(name) == config.space)
    return (f"No space was given: members come from the space '{name}', which fits these observations (see --space).",)


def _run(session: RunSession, model: Model) -> int:
    session.run([], model=model)
    if not session.trainer.interrupted or session.finished:  # an interruption can come too late to be one
        return 0
    reason = session.trainer.stop_reason or ""
    message = f"interrupted by {reason} at step {session.trainer.clock.step}"
    if session.directory is not None:
        message += f"; continue with: adaqn resume {shlex.quote(str(session.directory.path))}"
    say(message)
    return 128 + signal.Signals[reason].value


def _with_flags(base: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """The values of the file with the flags over them."""
    values = dict(base)
    settings = {f.name for f in dataclasses.fields(algorithm(base["algo"]).settings)}
    values["settings"] = {**base["settings"], **{n: v for n, v in flags.items() if n in settings}}
    values |= {name: value for name, value in flags.items() if name in _RUN_FLAGS}
    if "env_kwargs" in flags:
        values["env_kwargs"] = yaml_value("--env-kwargs", flags["env_kwargs"])
    values |= {name: flags[name] for name in ("space", "schedule", "wrappers") if name in flags}
    if "imports" in flags:
        from adaqn.envs.wrapping import modules_from

        values["imports"] = [*modules_from(values.get("imports")), *flags["imports"]]
    if "schedule" in flags:
        values = {name: value for name, value in values.items() if name not in ("members", "grid", "member")}
    if "grid" in flags:
        if "member" in flags:
            raise UserError(
                "--member picks one of the members of a file or preset, but --grid replaces them: leave one of the "
                "two out"
            )
        values.pop("grid", None)
        values.pop("member", None)
        values["members"] = [member.to_dict() for member in grid(**_columns(flags["grid"]))]
    if "member" in flags:
        values["member"] = flags["member"]
    return values


def _columns(pairs: list[str]) -> dict[str, list[Any]]:
    """`hidden=25x25,50x50` as a name and its values."""
    columns: dict[str, list[Any]] = {}
    for pair in pairs:
        name, equals, values = pair.partition("=")
        if not equals or not name or not values:
            raise UserError(f"--grid takes name=value,value pairs such as hidden=25x25,50x50, but got {pair!r}")
        if name in columns:
            raise UserError(f"--grid names {name} twice; write its values as one list: {name}=value,value")
        columns[name] = [_value(name, text) for text in values.split(",")]
    return columns


def _value(name: str, text: str) -> Any:
    written = {"hidden": layers_from_text, "convolutions": convolutions_from_text}
    return written[name](text) if name in written else yaml_value(f"the value of {name} in --grid", text)


def resume(
    run_dir: Path,
    quiet: bool,
    steps: int | None = None,
    stretch_schedules: bool = False,
    environment: EnvironmentOverride | None = None,
    trust_env: bool = False,
) -> int:
    """`adaqn resume`."""
    from adaqn.api import open_run
    from adaqn.runs.session import Output

    _refuse_other_environment(run_dir, environment)
    output = Output(console=not quiet)
    session, model = open_run(run_dir, environment, output, steps, stretch_schedules, trust_env)
    if session.finished:
        session.require_unused()
        say(f"{run_dir} is finished: nothing to resume (see its summary.json; --steps extends it)")
        return 0
    session.restore()
    return _run(session, model)


def _refuse_other_environment(run_dir: Path, given: EnvironmentOverride | None) -> None:
    """Raise if a run that says which environment it has would go on in another one."""
    from adaqn.envs.source import EnvironmentOverride
    from adaqn.runs.session import RunSession

    recorded = RunSession.read_config(run_dir).env
    if recorded is not None and given is not None and given._replace(imports=()) != EnvironmentOverride():
        raise UserError(
            f"{run_dir} goes on in its own environment, {recorded!r}: --env, --env-kwargs and --wrappers are for "
            "runs that were made with an environment object"
        )


def evaluate(flags: argparse.Namespace) -> int:
    """`adaqn evaluate`."""
    from adaqn.analysis.video import checked_video_path, record_video
    from adaqn.envs.making import close
    from adaqn.training.evaluation import evaluate_policy

    if flags.episodes < 1:
        raise UserError(f"--episodes must be at least 1, but got {flags.episodes}")
    folder = flags.source if os.path.isdir(flags.source) else flags.source.parent
    video = None
    if flags.video is not None:
        name = "best_video.mp4" if flags.best else "video.mp4"
        video = checked_video_path(folder / name if flags.video == Path("") else flags.video)
        require_free(video, flags.force)
    model = _agent(flags)
    env = model.make_env()
    result = evaluate_policy(model, env, flags.episodes, deterministic=True, seed=flags.seed)
    close(env)
    for index, (total, length) in enumerate(zip(result.returns, result.lengths, strict=True)):
        print(f"episode {index:3d}: return {total:10.2f}, {length} steps")
    print(fitting(f"mean return {result.mean:.2f} ± {result.std:.2f} over {len(result.returns)} episodes"))
    if video is not None:
        filmed = model.make_env(render_mode="rgb_array")
        record_video(model, filmed, video, episodes=1, seed=flags.seed)
        close(filmed)
        print(f"video: {video}")
    return 0


def export(flags: argparse.Namespace) -> int:
    """`adaqn export`."""
    from adaqn.runs.export import policy_path

    folder = flags.source if os.path.isdir(flags.source) else flags.source.parent
    name = "best_policy.npz" if flags.best else "policy.npz"
    path = policy_path(folder / name if flags.output is None else flags.output)
    require_free(path, flags.force)
    print(_agent(flags).export(path, force=flags.force))
    return 0


def _agent(flags: argparse.Namespace) -> Model:
    """The last or the best agent of a run, or one that was saved."""
    from adaqn.api import Model

    source: Path = flags.source
    environment, trust_env = environment_of(flags), vars(flags).get("trust_env", False)
    if flags.best:
        if not os.path.isdir(source):
            raise UserError(f"--best is for a run's directory, but {source} is not one")
        source = RunDirectory.open(source).best_model
        if not source.is_file():
            raise UserError(f"{flags.source} has no best model yet: {source.name} is written during training")
    load = Model.from_run if os.path.isdir(source) else Model.load
    return load(source, environment, trust_env=trust_env)
