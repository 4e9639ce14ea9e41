"""How a model is loaded: from a run that goes on, from a checkpoint, or from a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from adaqn.agents.protocol import clock_from
from adaqn.base.errors import CheckpointError, UserError, reading_saved
from adaqn.base.snapshot import reading, require_plausible_size
from adaqn.envs.source import EnvironmentLike, EnvironmentOverride, EnvironmentSource
from adaqn.envs.spaces_only import SpacesOnly, require_trust
from adaqn.networks.xla.threads import Resumed
from adaqn.runs.checkpoint import CheckpointStore, recorded_threads
from adaqn.runs.config import RunConfig, read_config
from adaqn.runs.directory import RunDirectory
from adaqn.runs.saved_spaces import check_same_spaces, describe_spaces, gym_spaces_from
from adaqn.runs.session import Output, RunSession

if TYPE_CHECKING:
    from adaqn.model.model import CallbackLike, Model

EnvironmentGiven = EnvironmentLike | EnvironmentOverride | None


def resume(
    cls: type[Model],
    run_dir: str | Path,
    env: EnvironmentGiven,
    callback: CallbackLike,
    threads: int | Literal["auto"] | None,
    steps: int | None,
    stretch_schedules: bool,
    output: Output,
    trust_env: bool,
) -> Model:
    """As `Model.resume`."""
    path = Path(run_dir)
    file = RunDirectory.open(path).config
    standing = RunSession.standing(path)
    values = read_config(file)
    if not trust_env:
        require_trust(_named_by_file(values, env), str(file), _named_by_user(env))
    given, extends = RunSession.with_end(path, RunConfig.as_given(values, str(file)), steps, stretch_schedules)
    used: int | Literal["auto"] | Resumed | None = threads
    if threads in (None, "auto"):
        before = recorded_threads(CheckpointStore(RunDirectory.open(path).checkpoint)) or given.threads
        used = threads if before is None else Resumed(before)
    model = cls.from_config(given, env, used)
    model._threads = model._threads._replace(given=given.threads)  # so that it saves what an uninterrupted run saves
    config = dataclasses.replace(given, **model._population._asdict())
    session = RunSession.open(path, config, model._trainer, output, extends, standing)
    callbacks = model._callbacks(callback, config, path)
    session.restore()
    if session.finished:
        session.close()
    else:
        model._train(session, callbacks)
    return model


def from_run(cls: type[Model], run_dir: str | Path, env: EnvironmentGiven, trust_env: bool) -> Model:
    """As `Model.from_run`."""
    directory = RunDirectory.open(run_dir)
    snapshot = CheckpointStore(directory.checkpoint).load_newest_state()
    nbytes = sum(array.nbytes for array in snapshot.arrays.values())
    values = read_config(directory.config)
    model = _without_environment(
        cls, str(directory.config), values, snapshot.meta.get("spaces"), nbytes, env, trust_env
    )
    model._trainer.restore_agent(snapshot)
    model._trainer.leave_run()
    return model


def load(cls: type[Model], path: str | Path, env: EnvironmentGiven, trust_env: bool) -> Model:
    """As `Model.load`."""
    file = zip_path(path)
    if not file.exists() and RunDirectory(Path(path)).config.is_file():
        raise UserError(
            f"{path} is a run directory, not a saved agent: use {cls.__name__}.from_run for its last model, "
            f"or load {RunDirectory(Path(path)).best_model}"
        )
    with reading(file, kind="agent") as stored, reading_saved(str(file)):
        meta = stored.meta
        algo = meta["config"].get("algo")
        if getattr(cls, "algo", algo) != algo:
            raise UserError(
                f"{file} holds an agent of {algo}, which {cls.__name__}.load does not read: "
                f"use {cls.class_of(algo)}.load"
            )
        model = _without_environment(cls, str(file), meta["config"], meta["spaces"], stored.nbytes, env, trust_env)
        agent, trainer = model._trainer.agent, model._trainer
        require_plausible_size(str(file), stored.nbytes, agent.saved_bytes(meta["agent"]))
        trainer.state = agent.from_arrays(stored.arrays(), meta["agent"])
        if not np.isfinite(agent.policy_weights(trainer.state).parameters).all():
            raise CheckpointError(f"{file} holds a policy with non-finite parameters, which cannot act")
        trainer.clock = clock_from(meta["clock"])
    trainer.leave_run()
    return model


def _named_by_user(env: EnvironmentGiven) -> tuple[str, ...]:
    return tuple(env.imports) if isinstance(env, EnvironmentOverride) else ()


def _named_by_file(values: Mapping[str, Any], env: EnvironmentGiven) -> EnvironmentSource:
    """The parts of the environment that are named by a file, not by the user."""
    given = env if isinstance(env, EnvironmentOverride) else EnvironmentOverride(env)
    wrappers = values.get("wrappers") if given.wrappers is None else None
    identifier = values.get("env") if given.env is None else None
    return EnvironmentSource.of(
        identifier if isinstance(identifier, str) else "", None, wrappers, values.get("imports")
    )


def _without_environment(
    cls: type[Model],
    source: str,
    values: Mapping[str, Any],
    spaces: object,
    nbytes: int,
    env: EnvironmentGiven,
    trust_env: bool,
) -> Model:
    """The agent that a file describes, for the given environment, or with one that is made on first use.

    XLA's threads are left to JAX: to use a policy must not confine other code of the process to one thread.
    """
    with reading_saved(source):
        observations, actions = gym_spaces_from(spaces, nbytes)
        config = RunConfig.as_given(values, source)
        if env is not None and env != EnvironmentOverride():
            if not trust_env:
                require_trust(_named_by_file(values, env), source, _named_by_user(env))
            model = cls.from_config(config, env, threads=None)
            check_same_spaces(source, spaces, describe_spaces(model.observation_space, model.action_space))
            return model
        only_spaces = EnvironmentOverride(SpacesOnly(observations, actions), wrappers=())
        model = cls.from_config(config, only_spaces, threads=None)
        if config.env is not None:
            model._source = config.environment()
        model._n_envs = config.n_envs
        model._not_trusted = None if trust_env else source
        return model


def zip_path(path: str | Path) -> Path:
    """The path with `.zip` appended unless it already has this suffix."""
    path = Path(path)
    return path if path.suffix == ".zip" else path.with_name(path.name + ".zip")
