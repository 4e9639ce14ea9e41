"""The base class of the public classes: agents from configurations, runs, files and the Hub."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from adaqn.agents.protocol import clock_from
from adaqn.agents.registry import algorithm
from adaqn.base.errors import CheckpointError, UserError, reading_saved
from adaqn.base.snapshot import reading, require_plausible_size
from adaqn.envs.source import EnvironmentLike, EnvironmentOverride, EnvironmentSource
from adaqn.envs.spaces_only import SpacesOnly, require_trust
from adaqn.model.access import zip_path
from adaqn.model.learning import CallbackLike, LearningAgent
from adaqn.model.signatures import signature_of
from adaqn.networks.xla.threads import Resumed
from adaqn.runs.checkpoint import CheckpointStore, recorded_threads
from adaqn.runs.config import RunConfig, read_config
from adaqn.runs.directory import RunDirectory
from adaqn.runs.hub import MODEL, fetch_agent
from adaqn.runs.saved_spaces import check_same_spaces, describe_spaces, gym_spaces_from
from adaqn.runs.session import Output, RunSession

MODELS: dict[str, type[Model]] = {}  # class of each algorithm, by name; filled when the classes are defined


class Model(LearningAgent):
    """An agent and its environment. Use one of the subclasses, such as AdaDQN or AdaSAC."""

    __signature__: ClassVar[inspect.Signature | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Add the algorithm's settings to the signature shown by `help` and notebooks."""
        super().__init_subclass__(**kwargs)
        if "algo" in cls.__dict__:
            cls.__signature__ = signature_of(Model.__init__, algorithm(cls.algo))
            MODELS.setdefault(cls.algo, cls)
        elif "__init__" in cls.__dict__:
            cls.__signature__ = None

    @classmethod
    def from_config(
        cls,
        config: RunConfig,
        env: EnvironmentLike | EnvironmentOverride | None = None,
        threads: int | Literal["auto"] | Resumed | None = "auto",
    ) -> Model:
        """Create the agent described by a configuration, for its environment or the given one.

        The configuration's own `threads` are ignored: an agent that is only used may have any number.
        """
        source = config.environment(env)
        return model_class(config.algo)(
            source.env,
            config.members or None,
            space=config.space,
            schedule=config.schedule or None,
            base=config.base,
            seed=config.seed,
            n_envs=config.n_envs if source.repeatable else 1,
            threads=threads,
            env_kwargs=source.kwargs,
            wrappers=source.wrappers,
            imports=source.imports,
            **dataclasses.asdict(config.settings),
        )

    @classmethod
    def resume(
        cls,
        run_dir: str | Path,
        env: EnvironmentLike | EnvironmentOverride | None = None,
        callback: CallbackLike = None,
        *,
        threads: int | Literal["auto"] | None = "auto",
        steps: int | None = None,
        stretch_schedules: bool = False,
        progress_bar: bool = False,
        console: bool = False,
        trust_env: bool = False,
    ) -> Model:
        """Continue an interrupted run exactly where it stopped, and train it to its end.

        `env` is required if the run was created with an environment object; `env` or `trust_env=True` is required if
        making its environment imports a module that the run names. A finished run is loaded without training.
        `steps` changes the total number of environment steps of a run, finished or not. Schedules that last until the
        end of the run (ε_b) keep their previous end, so that the result equals a run configured with these `steps` and
        the previous ones as `horizon`; with `stretch_schedules` they last until the new end from here on. `threads`
        is by default the number that the run has used so far, or if there is no checkpoint yet, the one of its
        configuration or the one that fits an update; if JAX is already in use with another one, a warning says so.
        See `learn` for `callback`, `progress_bar` and `console`.
        """
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
        model = Model.from_config(given, env, used)
        model._threads = model._threads._replace(
            given=given.threads
        )  # so that it saves what an uninterrupted run saves
        config = dataclasses.replace(given, **model._population._asdict())
        session = RunSession.open(path, config, model._trainer, Output(progress_bar, console), extends, standing)
        callbacks = model._callbacks(callback, config, path)
        session.restore()
        if session.finished:
            session.close()
        else:
            model._train(session, callbacks)
        return model

    @classmethod
    def from_run(
        cls,
        run_dir: str | Path,
        env: EnvironmentLike | EnvironmentOverride | None = None,
        *,
        trust_env: bool = False,
    ) -> Model:
        """Load the agent from a run's newest checkpoint; the run itself is not changed.

        It can be trained further like an agent from `load`; use `resume` to continue the run. See `load` for `env`
        and `trust_env`.
        """
        directory = RunDirectory.open(run_dir)
        snapshot = CheckpointStore(directory.checkpoint).load_newest_state()
        nbytes = sum(array.nbytes for array in snapshot.arrays.values())
        values = read_config(directory.config)
        model = _without_environment(str(directory.config), values, snapshot.meta.get("spaces"), nbytes, env, trust_env)
        model._trainer.restore_agent(snapshot)
        model._trainer.leave_run()
        return model

    @classmethod
    def load(
        cls,
        path: str | Path,
        env: EnvironmentLike | EnvironmentOverride | None = None,
        *,
        trust_env: bool = False,
    ) -> Model:
        """Load an agent that `save` wrote, for the environment it was trained in or the given one.

        Without `env`, the environment is made on first use; `predict` and `export` do not need it. If making it
        imports a module that the file names (in its id, wrappers or imports), `trust_env=True` is required, because a
        module can execute anything; nothing else in a file can. A loaded agent can be trained further, with an empty
        replay buffer and XLA's threads; to continue exactly, resume a run directory.
        """
        file = zip_path(path)
        if not file.exists() and RunDirectory(Path(path)).config.is_file():
            raise UserError(
                f"{path} is a run directory, not a saved agent: use {cls.__name__}.from_run for its last model, "
                f"or load {RunDirectory(Path(path)).best_model}"
            )
        with reading(file, kind="agent") as stored, reading_saved(str(file)):
            meta = stored.meta
            algo = meta["config"].get("algo")
            if cls is not Model and cls.algo != algo:
                raise UserError(
                    f"{file} holds an agent of {algo}, which {cls.__name__}.load does not read: "
                    f"use {_class_name(algo)}.load"
                )
            model = _without_environment(str(file), meta["config"], meta["spaces"], stored.nbytes, env, trust_env)
            agent, trainer = model._trainer.agent, model._trainer
            require_plausible_size(str(file), stored.nbytes, agent.saved_bytes(meta["agent"]))
            trainer.state = agent.from_arrays(stored.arrays(), meta["agent"])
            if not np.isfinite(agent.policy_weights(trainer.state).parameters).all():
                raise CheckpointError(f"{file} holds a policy with non-finite parameters, which cannot act")
            trainer.clock = clock_from(meta["clock"])
        trainer.leave_run()
        return model

    @classmethod
    def from_hub(
        cls,
        repo_id: str | Path,
        env: EnvironmentLike | EnvironmentOverride | None = None,
        *,
        filename: str = MODEL,
        revision: str | None = None,
        token: str | bool | None = None,
        trust_env: bool = False,
    ) -> Model:
        """Load an agent that `adaqn push` uploaded to the Hugging Face Hub, which needs the extra `hub`.

        `repo_id` is a repository (`"user/name"`) or a local folder with the same files, `revision` a branch, tag or
        commit of it, and `token` as in `huggingface_hub`. The downloaded file is checked as in `load` and cannot
        execute anything; see there for `env` and `trust_env`.
        """
        return cls.load(fetch_agent(repo_id, filename, revision, token), env, trust_env=trust_env)


def model_class(algo: str) -> type[Model]:
    """The public class of an algorithm, or a new class if it has none."""
    return MODELS.get(algo) or type(algo, (Model,), {"algo": algo})


def _class_name(algo: str) -> str:
    """The public class of an algorithm; `Model` reads agents of all algorithms."""
    return MODELS[algo].__name__ if algo in MODELS else "adaqn.model.model.Model"


def _named_by_user(env: EnvironmentLike | EnvironmentOverride | None) -> tuple[str, ...]:
    return tuple(env.imports) if isinstance(env, EnvironmentOverride) else ()


def _named_by_file(values: Mapping[str, Any], env: EnvironmentLike | EnvironmentOverride | None) -> EnvironmentSource:
    """The parts of the environment that are named by a file, not by the user."""
    given = env if isinstance(env, EnvironmentOverride) else EnvironmentOverride(env)
    wrappers = values.get("wrappers") if given.wrappers is None else None
    identifier = values.get("env") if given.env is None else None
    return EnvironmentSource.of(
        identifier if isinstance(identifier, str) else "", None, wrappers, values.get("imports")
    )


def _without_environment(
    source: str,
    values: Mapping[str, Any],
    spaces: object,
    nbytes: int,
    env: EnvironmentLike | EnvironmentOverride | None,
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
            model = Model.from_config(config, env, threads=None)
            check_same_spaces(source, spaces, describe_spaces(model.observation_space, model.action_space))
            return model
        only_spaces = EnvironmentOverride(SpacesOnly(observations, actions), wrappers=())
        model = Model.from_config(config, only_spaces, threads=None)
        if config.env is not None:
            model._source = config.environment()
        model._n_envs = config.n_envs
        model._not_trusted = None if trust_env else source
        return model
