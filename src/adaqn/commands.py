"""What the commands do, once argv has been read."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adaqn.agents import algorithm, algorithms
from adaqn.analysis.video import checked_video_path, record_video
from adaqn.api import Model, open_run
from adaqn.envs.making import close
from adaqn.errors import UserError
from adaqn.files import yaml_value
from adaqn.hyperparameters import grid, layers_from_text
from adaqn.runs.config import RunConfig, as_mapping, read_config
from adaqn.runs.export import policy_path
from adaqn.runs.session import Output, RunSession
from adaqn.space import named_spaces
from adaqn.training.evaluation import evaluate_policy

_RUN_FLAGS = {
    "env": (str, "the environment's Gymnasium id"),
    "algo": (str, "the algorithm"),
    "steps": (int, "environment steps to train for"),
    "seed": (int, "decides everything that is random"),
    "n_envs": (int, "environments that are stepped side by side"),
    "log_interval": (int, "steps between two rows of progress.csv"),
    "checkpoint_interval": (int, "steps between two checkpoints"),
    "eval_interval": (int, "steps between two evaluations (default: none)"),
    "eval_episodes": (int, "episodes of an evaluation"),
    "wandb_project": (str, "also log to this Weights & Biases project"),
}


def base_values(config: str | None, algo: str | None) -> dict[str, Any]:
    """What the file or preset says, and the algorithm that the rest of the command line is about."""
    values = read_config(config) if config is not None else {}
    values.setdefault("algo", "adadqn" if algo is None else algo)
    values["settings"] = as_mapping("settings", values.get("settings"))
    before = algorithm(values["algo"])
    if algo is not None and algo != values["algo"]:
        # What makes the file's algorithm, or the one asked for, is not a value that the file chose.
        after = algorithm(algo)
        # Nor can the other algorithm use what only the file's has: settings, a space, members to start from.
        lost = {f.name for f in dataclasses.fields(before.settings)} - {
            f.name for f in dataclasses.fields(after.settings)
        }
        for name in {*before.overrides, *after.overrides, *lost}:
            values["settings"].pop(name, None)
        if after.space == "none":
            values.pop("space", None)
        if after.trials:
            values.pop("members", None)
            values.pop("grid", None)
        values["algo"] = algo
    return values


def add_run_flags(group: Any, base: Mapping[str, Any]) -> None:
    """A flag for each entry of a RunConfig that is one value."""
    defaults = {f.name: f.default for f in dataclasses.fields(RunConfig)}
    for name, (kind, text) in _RUN_FLAGS.items():
        if name == "algo":
            text = f"{text}: {', '.join(algorithms())}"
        value = base.get(name, defaults[name])
        shown = "" if value in (None, dataclasses.MISSING) else f" (default: {value})"
        _add_flag(group, name, kind, text + shown)
    _add_flag(group, "env_kwargs", str, "arguments of the environment, as YAML: '{continuous: false}'")


def add_member_flags(group: Any) -> None:
    """Where members come from, besides --grid."""
    names = ", ".join(named_spaces())
    _add_flag(group, "space", str, f"draw members from a space and let them move through it: {names}, or a YAML file")
    _add_flag(group, "schedule", str, "a YAML file with the hyperparameters of a dqn over time (see adaqn schedule)")


def add_settings_flags(group: Any, base: Mapping[str, Any]) -> None:
    """A flag for each setting of the algorithm."""
    chosen = algorithm(base["algo"])
    given = {**chosen.overrides, **base["settings"]}
    for field in dataclasses.fields(chosen.settings):
        value = given.get(field.name, field.default)
        shown = "" if value is None else f" (default: {value})"
        kind = {"int": int, "float": float, "str": str, "bool": _boolean}[str(field.type).split(" ")[0]]
        choices = field.metadata["choices"]
        names = f": {', '.join(choices())}" if choices else ""
        _add_flag(group, field.name, kind, field.metadata["help"] + names + shown)


def _boolean(text: str) -> bool:
    values = {"true": True, "yes": True, "false": False, "no": False}
    if text.lower() not in values:
        raise argparse.ArgumentTypeError(f"must be true or false, but got {text!r}")
    return values[text.lower()]


def _add_flag(group: Any, name: str, kind: Any, text: str) -> None:
    metavar = {int: "N", float: "X", str: "NAME", _boolean: "true|false"}[kind]
    group.add_argument(
        f"--{name.replace('_', '-')}",
        type=kind,
        metavar=metavar,
        default=argparse.SUPPRESS,
        help=text.replace("%", "%%"),
    )


def train(base: dict[str, Any], flags: argparse.Namespace) -> int:
    """`adaqn train`."""
    source = vars(flags).get("config", "the command line")
    config = RunConfig.from_dict(_with_flags(base, vars(flags)), source)
    if config.env is None:
        raise UserError("no environment was given; say --env ID or name it in the file")
    model = Model.from_config(config)
    output = Output(console=not flags.quiet)
    if flags.run_dir is None:
        session = RunSession(config, model.trainer, output, directory=None)
    else:
        session = RunSession.create(Path(flags.run_dir), config, model.trainer, output, force=flags.force)
    return _run(session, model)


def _run(session: RunSession, model: Model) -> int:
    session.run([], model=model)
    if not session.trainer.interrupted:
        return 0
    reason = session.trainer.stop_reason or ""
    message = f"interrupted by {reason} at step {session.trainer.clock.step}"
    if session.directory is not None:
        message += f"; go on with: adaqn resume {shlex.quote(str(session.directory.path))}"
    print(message)
    return 128 + signal.Signals[reason].value


def _with_flags(base: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """The values of the file with the flags over them."""
    values = dict(base)
    settings = {f.name for f in dataclasses.fields(algorithm(base["algo"]).settings)}
    values["settings"] = {**base["settings"], **{n: v for n, v in flags.items() if n in settings}}
    values |= {name: value for name, value in flags.items() if name in _RUN_FLAGS}
    if "env_kwargs" in flags:
        values["env_kwargs"] = yaml_value("--env-kwargs", flags["env_kwargs"])
    values |= {name: flags[name] for name in ("space", "schedule") if name in flags}
    if "schedule" in flags:
        values = {name: value for name, value in values.items() if name not in ("members", "grid")}
    if "grid" in flags:
        values.pop("grid", None)
        values["members"] = [member.to_dict() for member in grid(**_columns(flags["grid"]))]
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
    return layers_from_text(text) if name == "hidden" else yaml_value(f"the value of {name} in --grid", text)


def resume(run_dir: Path, quiet: bool, trust_env: bool = False) -> int:
    """`adaqn resume`."""
    session, model = open_run(run_dir, None, Output(console=not quiet), trust_env)
    if session.finished:
        print(f"{run_dir} is finished: nothing to resume (see its summary.json)")
        return 0
    session.restore()
    return _run(session, model)


def evaluate(flags: argparse.Namespace) -> int:
    """`adaqn evaluate`."""
    if flags.episodes < 1:
        raise UserError(f"--episodes must be at least 1, but got {flags.episodes}")
    folder = flags.source if os.path.isdir(flags.source) else flags.source.parent
    video = None
    if flags.video is not None:
        video = checked_video_path(folder / "video.mp4" if flags.video == Path("") else flags.video)
        _require_free(video, flags.force)
    model = _agent(flags.source, flags.trust_env)
    env = model.make_env()
    result = evaluate_policy(model, env, flags.episodes, deterministic=True, seed=flags.seed)
    close(env)
    for index, (total, length) in enumerate(zip(result.returns, result.lengths, strict=True)):
        print(f"episode {index:3d}: return {total:10.2f}, {length} steps")
    print(f"mean return {result.mean:.2f} ± {result.std:.2f} over {len(result.returns)} episodes")
    if video is not None:
        filmed = model.make_env(render_mode="rgb_array")
        record_video(model, filmed, video, episodes=1, seed=flags.seed)
        close(filmed)
        print(f"video: {video}")
    sys.stdout.flush()
    return 0


def export(flags: argparse.Namespace) -> int:
    """`adaqn export`."""
    folder = flags.source if os.path.isdir(flags.source) else flags.source.parent
    path = policy_path(folder / "policy.npz" if flags.output is None else flags.output)
    _require_free(path, flags.force)
    print(_agent(flags.source).export(path))
    return 0


def _agent(source: Path, trust_env: bool = False) -> Model:
    """The agent of a run, or one that was saved."""
    load = Model.from_run if os.path.isdir(source) else Model.load
    return load(source, trust_env=trust_env)


def _require_free(path: Path, force: bool) -> None:
    if path.exists() and not force:
        raise UserError(f"{path} exists already; add --force to overwrite it, or name another file")
