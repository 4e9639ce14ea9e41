"""The base class of the public classes: construction, learning and loading, with Stable-Baselines3's names."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np

from adaqn.agents.core.population import Scheduled
from adaqn.agents.core.work import limit_of_lanes
from adaqn.agents.protocol import clock_from
from adaqn.agents.registry import algorithm
from adaqn.checkpoint import CheckpointStore
from adaqn.checks import count
from adaqn.compilation import prepare_jax
from adaqn.envs.environments import Environments
from adaqn.envs.source import EnvironmentLike, EnvironmentOverride, EnvironmentSource
from adaqn.envs.spaces_only import SpacesOnly, require_trust
from adaqn.errors import CheckpointError, UserError, reading_saved
from adaqn.hyperparameters import Hyperparameters
from adaqn.model_access import replay_for, zip_path
from adaqn.model_policy import TrainedPolicy
from adaqn.model_threads import choose_threads
from adaqn.replay.memory import require_room
from adaqn.runs.checkpointing import recorded_threads
from adaqn.runs.config import RunConfig, population_from, read_config
from adaqn.runs.directory import RunDirectory
from adaqn.runs.gym_spaces import check_same_spaces, describe_spaces, gym_spaces_from
from adaqn.runs.hints import speed_hint
from adaqn.runs.hub import MODEL, fetch_agent
from adaqn.runs.session import Output, RunSession, evaluation_callbacks
from adaqn.signatures import other_arguments, signature_of
from adaqn.snapshot import reading, require_plausible_size
from adaqn.space import SearchSpace, named_spaces
from adaqn.stable_baselines import hyperparameters_from, refuse_foreign, refuse_policy_name, with_hyperparameters
from adaqn.threads import Resumed, available_cores, in_lanes
from adaqn.training.callbacks import BaseCallback, as_callback
from adaqn.training.interrupts import pass_on
from adaqn.training.trainer import Trainer

MODELS: dict[str, type[Model]] = {}  # class of each algorithm, by name; filled when the classes are defined
Members = Sequence[Hyperparameters | Mapping[str, object]] | None
CallbackLike = (
    BaseCallback | Callable[[Trainer], bool | None] | Sequence[BaseCallback | Callable[[Trainer], bool | None]] | None
)


class Model(TrainedPolicy):
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

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        """Catch `DQN("MlpPolicy", env)` before Python complains about a duplicate argument."""
        refuse_policy_name(cls.__name__, args, kwargs)
        return super().__new__(cls)

    def __init__(
        self,
        env: EnvironmentLike,
        members: Members = None,
        *,
        space: SearchSpace | str | Mapping[str, object] | None = None,
        schedule: Sequence[Scheduled | Mapping[str, object]] | str | Path | None = None,
        base: str | None = None,
        seed: int = 0,
        n_envs: int = 1,
        threads: int | Literal["auto"] | Resumed | None = "auto",  # `Resumed` only from `resume`
        env_kwargs: Mapping[str, object] | None = None,
        wrappers: Sequence[object] = (),
        imports: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        """Create an agent for an environment, given as an id, a function that returns one, or an object.

        `env_kwargs` are passed to the id's constructor or the function. `wrappers` are applied to the environment, the
        innermost first: classes, names such as `"gymnasium.wrappers:FlattenObservation"`, or mappings with such a
        `name` and `kwargs`. `imports` are modules that register the id; they are stored with a run, which needs them
        to be resumed.
        `members` are the hyperparameters to choose from; a default set is used without them. With a `space` (a name, a
        mapping or an object), members are sampled from it and evolve within it; without one, SEARL, RandomSearch and
        DEHB use the named space that fits the observations. A `schedule` lists the hyperparameters of a DQN's single
        member over time. `settings` are shared by all members, such as `gamma` or `buffer_size`; DQN, SAC and TD3,
        whose members are all equal, also take `learning_rate` and `policy_kwargs=dict(net_arch=[64, 64])`. `base` is
        the algorithm that RandomSearch and DEHB tune, by default `"dqn"`; they take its settings too.
        `threads` is the number of threads of an update: by default all cores for large networks and batches, otherwise
        one, with which small networks are faster. The first agent sets XLA's threads for the whole process, unless JAX
        is already in use or the environment variable PJRT_NPROC is set; until JAX is used, a later agent changes them
        only if it is given a number. None leaves them to JAX, one per core.
        """
        prepare_jax()
        chosen = algorithm(self.algo, base)
        self._base = base
        refuse_foreign(type(self).__name__, chosen, settings)
        changes = hyperparameters_from(type(self).__name__, chosen, settings)
        self.settings = chosen.configure(settings, other_arguments(chosen))
        self.seed = count("seed", seed)
        given = population_from(members, space, schedule)
        self._source = EnvironmentSource.of(env, env_kwargs, wrappers, imports)
        self._n_envs = chosen.environments(n_envs)
        self._not_trusted = None
        environments = Environments.make(self._source, self._n_envs)
        self.observation_space = environments.observation_space
        self.action_space = environments.action_space
        shape = self.observation_space.shape
        given = with_hyperparameters(given, changes, lambda: chosen.members(shape)[0])
        self._population = chosen.population(given, self.settings, self.seed, lambda: shape)
        self._traits = chosen.traits
        # Before the agent makes the first array.
        self._threads = choose_threads(threads, self._traits, self._population, self.settings, shape or ())
        self._space_was_given = given.space is not None
        with in_lanes(self._threads.lanes):
            agent = chosen.agent(self.settings, self._population, self.observation_space, self.action_space)
        require_room(agent.memory_needs)  # before anything is allocated
        self._spaces_only = isinstance(env, SpacesOnly)
        replay = replay_for(self.settings, environments, self.settings.n_steps if self._spaces_only else None)
        self._trainer = Trainer(agent, environments, replay, self.settings.sample_size, self.seed, chosen.traits)
        self._predict_rng = np.random.default_rng(self.seed)

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

    def learn(
        self,
        total_timesteps: int,
        callback: CallbackLike = None,
        *,
        progress_bar: bool = False,
        console: bool = False,
        run_dir: str | Path | None = None,
        force: bool = False,
        log_interval: int = 1_000,
        checkpoint_interval: int = 10_000,
        eval_interval: int | None = None,
        eval_episodes: int = 10,
        wandb_project: str | None = None,
        horizon: int | Sequence[tuple[int, int]] | None = None,
        reset_num_timesteps: bool = True,
    ) -> Self:
        """Train for `total_timesteps` environment steps.

        Without `run_dir` nothing is written to disk; with it the run is recorded there and can be resumed. SIGINT and
        SIGTERM end the run after the current update, write a checkpoint, and raise KeyboardInterrupt or SystemExit.
        `callback` is a `BaseCallback`, a function of the trainer, or a list of these. With `reset_num_timesteps=False`
        the step count continues from the last call, and schedules stay at their final values.

        `progress_bar` shows a progress line; `console` shows everything that the command line shows: a header with
        the members, the progress line, evaluations, and a final table of the members. With `eval_interval`, the policy
        is evaluated every `eval_interval` steps for `eval_episodes` episodes in a separate environment; the results go
        to the logs and decide the best model of the run (`EvalCallback` has more options). `horizon` is the step at
        which schedules that last until the end of the run end instead of `total_timesteps`, or a list of (step,
        horizon from that step on).
        """
        trainer = self._trainer
        steps = count("total_timesteps", total_timesteps, low=1)
        self._require_environments()
        fresh = reset_num_timesteps or trainer.clock.step == 0
        if run_dir is not None and (trainer.clock.step or trainer.updates):
            raise UserError(
                "run_dir= records a run from its first step, but this agent has already been trained; create a new one"
            )
        config = self._config(
            steps if fresh else trainer.clock.step + steps,
            horizon=horizon,
            log_interval=log_interval,
            checkpoint_interval=checkpoint_interval,
            eval_interval=eval_interval,
            eval_episodes=eval_episodes,
            wandb_project=wandb_project,
        )
        path = None if run_dir is None else Path(run_dir)
        callbacks = self._callbacks(callback, config, path)
        output = Output(progress_bar, console, self._notes())
        if path is None:
            if wandb_project is not None:
                raise UserError("logging to W&B is part of a run directory: give one (--run-dir DIR, or run_dir=)")
            session = RunSession(config, trainer, output, directory=None)
        else:
            session = RunSession.create(path, config, trainer, output, force, callbacks)
        if fresh:
            trainer.begin(horizon=config.horizons[0][1])
        self._train(session, callbacks)
        return self

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

    def _callbacks(self, callback: CallbackLike, config: RunConfig, run_dir: Path | None) -> list[BaseCallback]:
        """The user's callbacks and those that evaluate; recorders and the console are not among them."""
        callbacks = [as_callback(callback), *evaluation_callbacks(config, run_dir)]
        for each in callbacks:
            each.bind(self)
        return callbacks

    def _train(self, session: RunSession, callbacks: Sequence[BaseCallback]) -> None:
        session.run(callbacks, model=self)
        trainer = self._trainer
        if trainer.interrupted:
            pass_on(trainer.stop_reason or "", trainer.clock.step, session.finished)

    def _notes(self) -> tuple[str, ...]:
        """Notes on automatic choices that the table of members does not show, and a hint at faster settings."""
        notes: list[str] = []
        if not self._space_was_given and self.space is not None:
            (name,) = (name for name in named_spaces() if SearchSpace.named(name) == self.space)
            notes.append(
                f"No space was given: members come from the space '{name}', which fits these observations "
                "(see --space)."
            )
        shape = self.observation_space.shape
        threads = self._trainer.threads
        given = self._threads.given
        if given is not None and threads.lanes > 1 and threads.number < given:
            limit = limit_of_lanes(self._traits, self._population, self.settings)
            notes.append(f"Updates use {threads.number} of {given} threads: {limit}.")
        # A number from outside, as a study gives its processes, is no choice of this run's.
        cores = threads.number if self._threads.imposed else available_cores()
        hint = speed_hint(self._population, self.settings, shape, threads=threads.number, cores=cores)
        return (*notes, *([] if hint is None else [hint]))

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
    return MODELS[algo].__name__ if algo in MODELS else "adaqn.model.Model"


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
