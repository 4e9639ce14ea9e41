"""The commands of the command line, called with parsed arguments.

JAX and Gymnasium are imported inside the commands, so that `adaqn train --help`, which only reads the values of a
file, is quick.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adaqn.agents.registry import algorithm
from adaqn.base.errors import UserError
from adaqn.base.files import require_free, yaml_value
from adaqn.base.output import fitting, print_line
from adaqn.cli.flags import RUN_ENTRIES
from adaqn.members.hyperparameters import convolutions_from_text, grid, layers_from_text, range_from_text
from adaqn.runs.config import OBSERVATION_SETTINGS, RunConfig, as_mapping, read_config, with_algorithm
from adaqn.runs.directory import RunDirectory
from adaqn.runs.lock import RunLock

if TYPE_CHECKING:
    from adaqn.api import Model
    from adaqn.envs.source import EnvironmentOverride


def base_values(config: str | None, algo: str | None, base: str | None) -> dict[str, Any]:
    """The values of the file or preset, with the algorithm whose settings the command line takes."""
    values = read_config(config) if config is not None else {}
    values.setdefault("algo", "adadqn" if algo is None else algo)
    values["settings"] = as_mapping("settings", values.get("settings"))
    algorithm(values["algo"], values.get("base"))  # raises for an unknown name
    if (algo is not None and algo != values["algo"]) or (base is not None and base != values.get("base")):
        values = with_algorithm(values, values["algo"] if algo is None else algo, base)
    return values


def left_out(config: str | None, values: Mapping[str, Any]) -> str | None:
    """A sentence about what the file says of members and the algorithm of the command line cannot use."""
    of_file = {} if config is None else read_config(config)
    lost = None
    if of_file.get("space") and not values.get("space"):
        lost = "a space"
    elif (of_file.get("members") or of_file.get("grid")) and not values.keys() & {"members", "grid", "schedule"}:
        lost = "members"
    return None if lost is None else f"{config} has {lost}, which {values['algo']} does not use."


def with_flags(base: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the file, overridden by the flags."""
    values = dict(base)
    settings = {f.name for f in dataclasses.fields(algorithm(base["algo"], base.get("base")).settings)}
    values["settings"] = {**base["settings"], **{n: v for n, v in flags.items() if n in settings}}
    values |= {name: value for name, value in flags.items() if name in RUN_ENTRIES}
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
                "--member picks one of the members of a file or preset, but --grid replaces them: leave out one of the "
                "two"
            )
        values.pop("grid", None)
        values.pop("member", None)
        values["members"] = [member.to_dict() for member in grid(**_columns(flags["grid"]))]
    if "member" in flags:
        values["member"] = flags["member"]
    return values


def _columns(pairs: list[str]) -> dict[str, list[object]]:
    """Parse pairs such as `hidden=25x25,50x50` into names and their values."""
    columns: dict[str, list[object]] = {}
    for pair in pairs:
        name, equals, values = pair.partition("=")
        if not equals or not name or not values:
            raise UserError(f"--grid takes name=value,value pairs such as hidden=25x25,50x50, but got {pair!r}")
        if name in columns:
            raise UserError(f"--grid names {name} twice; write its values as one list: {name}=value,value")
        columns[name] = [_value(name, text) for text in values.split(",")]
    return columns


def _value(name: str, text: str) -> object:
    written = {"hidden": layers_from_text, "convolutions": convolutions_from_text, "value_range": range_from_text}
    return written[name](text) if name in written else yaml_value(f"the value of {name} in --grid", text)


def train(values: Mapping[str, Any], source: str, *, run_dir: Path | None, force: bool, quiet: bool) -> int:
    """Implement `adaqn train`: the run described by plain values."""
    from adaqn.api import Model

    config = RunConfig.as_given(values, source)
    if config.env is None:
        raise UserError("no environment was given; pass --env ID or set env in the file")
    model = Model.from_config(config, threads=config.threads or "auto")
    observation = {name: getattr(config, name) for name in OBSERVATION_SETTINGS}

    def learn() -> None:
        model.learn(
            config.steps, run_dir=run_dir, force=force, console=not quiet, horizon=config.horizon, **observation
        )

    return _interruptible(learn, run_dir)


def resume(
    run_dir: Path,
    *,
    threads: int | None,
    steps: int | None,
    stretch_schedules: bool,
    quiet: bool,
    environment: EnvironmentOverride,
    trust_env: bool,
) -> int:
    """Implement `adaqn resume`."""
    from adaqn.api import Model
    from adaqn.runs.session import RunSession

    config = RunSession.read_config(run_dir)
    _refuse_other_environment(run_dir, config, environment)
    _, extends = RunSession.with_end(run_dir, config, steps, stretch_schedules)
    if RunDirectory.open(run_dir).finished and not extends:
        RunLock(run_dir).require_free()
        print_line(f"{run_dir} is finished: nothing to resume (see its summary.json; --steps extends it)")
        return 0

    def go_on() -> None:
        Model.resume(
            run_dir,
            environment,
            threads=threads or "auto",
            steps=steps,
            stretch_schedules=stretch_schedules,
            console=not quiet,
            trust_env=trust_env,
        )

    return _interruptible(go_on, run_dir)


def _interruptible(train: Callable[[], None], run_dir: Path | None) -> int:
    """Train, and return the exit status; a signal may interrupt the training."""
    from adaqn.training.interrupts import RunInterrupted

    try:
        train()
    except (KeyboardInterrupt, SystemExit) as left:
        interrupted = left.__cause__
        if not isinstance(interrupted, RunInterrupted):
            raise
        if interrupted.finished:
            return 0
        way_on = "" if run_dir is None else f"; continue with: adaqn resume {shlex.quote(str(run_dir))}"
        print_line(f"{interrupted}{way_on}")
        return 128 + interrupted.signal
    return 0


def environment_override(
    env: str | None = None,
    env_kwargs: str | None = None,
    wrappers: Sequence[str] | None = None,
    imports: Sequence[str] = (),
) -> EnvironmentOverride:
    """The environment given for an existing run; `env_kwargs` is YAML."""
    from adaqn.envs.source import EnvironmentOverride

    kwargs = None if env_kwargs is None else as_mapping("--env-kwargs", yaml_value("--env-kwargs", env_kwargs))
    return EnvironmentOverride(env, kwargs, wrappers, imports)


def _refuse_other_environment(run_dir: Path, config: RunConfig, given: EnvironmentOverride) -> None:
    """Raise if a run that names its environment would continue in another one."""
    if config.env is not None and any(value is not None for value in (given.env, given.kwargs, given.wrappers)):
        raise UserError(
            f"{run_dir} continues in its own environment, {config.env!r}: --env, --env-kwargs and --wrappers are for "
            "runs that were created with an environment object"
        )


def evaluate(
    source: Path,
    *,
    best: bool,
    episodes: int,
    seed: int,
    video: Path | None,  # empty for the default path
    force: bool,
    environment: EnvironmentOverride,
    trust_env: bool,
) -> int:
    """Implement `adaqn evaluate`."""
    from adaqn.analysis.video import checked_video_path, record_video
    from adaqn.envs.making import close
    from adaqn.training.evaluation import evaluate_policy

    if episodes < 1:
        raise UserError(f"--episodes must be at least 1, but got {episodes}")
    if video is not None:
        usual = _folder(source) / ("best_video.mp4" if best else "video.mp4")
        video = checked_video_path(usual if video == Path("") else video)
        require_free(video, force)
    model = _agent(source, best, environment, trust_env)
    env = model.make_env()
    result = evaluate_policy(model, env, episodes, deterministic=True, seed=seed)
    close(env)
    for index, (total, length) in enumerate(zip(result.returns, result.lengths, strict=True)):
        print(f"episode {index:3d}: return {total:10.2f}, {length} steps")
    print(fitting(f"mean return {result.mean:.2f} ± {result.std:.2f} over {len(result.returns)} episodes"))
    if video is not None:
        filmed = model.make_env(render_mode="rgb_array")
        record_video(model, filmed, video, episodes=1, seed=seed)
        close(filmed)
        print(f"video: {video}")
    return 0


def export(
    source: Path,
    *,
    best: bool,
    format: str | None,
    output: Path | None,
    force: bool,
    environment: EnvironmentOverride,
    trust_env: bool,
) -> int:
    """Implement `adaqn export`."""
    from adaqn.runs.export import policy_path

    usual = _folder(source) / ("best_policy" if best else "policy")
    path, chosen = policy_path(usual if output is None else output, format)
    require_free(path, force)
    print(_agent(source, best, environment, trust_env).export(path, format=chosen, force=force))
    return 0


def push(
    run_dir: Path,
    repo: str,
    *,
    to: Path | None,
    best: bool,
    episodes: int,
    seed: int,
    private: bool,
    force: bool,
    environment: EnvironmentOverride,
    trust_env: bool,
) -> int:
    """Implement `adaqn push`."""
    from adaqn.analysis.hub import Upload, push_run, require_place

    if episodes < 0:
        raise UserError(f"--episodes must be at least 0, but got {episodes}")
    RunDirectory.open(run_dir)  # raises if it is not a run's
    upload = Upload(repo, to, best, episodes, seed, private, force)
    repository = require_place(upload)
    print(push_run(run_dir, _agent(run_dir, best, environment, trust_env), upload, repository))
    return 0


def _folder(source: Path) -> Path:
    """The default folder for files made from a run or a saved agent."""
    return source if os.path.isdir(source) else source.parent


def _agent(source: Path, best: bool, environment: EnvironmentOverride, trust_env: bool) -> Model:
    """The last or best agent of a run, or a saved agent."""
    from adaqn.api import Model
    from adaqn.model.loading import zip_path

    file = source
    if best:
        if not os.path.isdir(source):
            raise UserError(f"--best is for a run's directory, but {source} is not one")
        file = RunDirectory.open(source).best_model
        if not file.is_file():
            raise UserError(f"{source} has no best model yet: {file.name} is written during training")
    elif not source.exists() and not zip_path(source).exists():
        raise UserError(f"there is no run directory and no saved agent {source}")
    load = Model.from_run if os.path.isdir(file) else Model.load
    return load(file, environment, trust_env=trust_env)
