"""The public class: an agent for an environment, its training, its policy, its files. Subclasses are in `adaqn.api`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import gymnasium
import numpy as np

from adaqn.agents.execution.work import limit_of_lanes
from adaqn.agents.population import Population, Scheduled
from adaqn.agents.protocol import MemberReport
from adaqn.agents.registry import algorithm
from adaqn.agents.settings import Settings
from adaqn.base.checks import count
from adaqn.base.errors import UserError
from adaqn.base.files import writing
from adaqn.base.snapshot import Snapshot, require_replaceable, write_snapshot
from adaqn.envs.environments import Environments
from adaqn.envs.source import EnvironmentLike, EnvironmentOverride, EnvironmentSource
from adaqn.envs.spaces import environment_actions, observation_dtype
from adaqn.envs.spaces_only import SpacesOnly, require_trust
from adaqn.envs.values import Unusable, array_of, observation_of, require_finite
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace, named_spaces
from adaqn.model import loading
from adaqn.model.loading import zip_path
from adaqn.model.signatures import other_arguments, signature_of
from adaqn.model.stable_baselines import hyperparameters_from, refuse_foreign, refuse_policy_name, with_hyperparameters
from adaqn.model.threads import ThreadChoice, choose_threads
from adaqn.networks.xla.compilation import prepare_jax
from adaqn.networks.xla.threads import Resumed, available_cores, in_lanes
from adaqn.replay.making import make_replay
from adaqn.replay.memory import require_room
from adaqn.replay.protocol import Replay
from adaqn.runs.config import RunConfig, population_from
from adaqn.runs.display.hints import speed_hint
from adaqn.runs.export import PolicyFormat, policy_path, require_policy, write_policy
from adaqn.runs.hub import MODEL, fetch_agent
from adaqn.runs.replay_file import read_replay, write_replay
from adaqn.runs.saved_spaces import check_same_spaces, describe_spaces
from adaqn.runs.session import Output, RunSession, evaluation_callbacks
from adaqn.training.callbacks import BaseCallback, as_callback
from adaqn.training.interrupts import pass_on
from adaqn.training.trainer import Trainer

Members = Sequence[Hyperparameters | Mapping[str, object]] | None
CallbackLike = (
    BaseCallback | Callable[[Trainer], bool | None] | Sequence[BaseCallback | Callable[[Trainer], bool | None]] | None
)

MODELS: dict[str, type[Model]] = {}  # class of each algorithm, by name; filled when the classes are defined


class Model:
    """An agent and its environment. Use one of the subclasses, such as AdaDQN or AdaSAC."""

    settings: Any  # of the class that the algorithm has for them
    _trainer: Trainer
    _source: EnvironmentSource
    _n_envs: int
    _spaces_only: bool  # loaded without environments, which are made on first use
    _not_trusted: str | None  # the file that named the environment, if its modules must not be imported
    algo: ClassVar[str]
    seed: int
    observation_space: gymnasium.spaces.Box
    action_space: gymnasium.spaces.Discrete | gymnasium.spaces.Box
    _base: str | None
    _threads: ThreadChoice
    _population: Population
    _predict_rng: np.random.Generator
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

    @property
    def num_timesteps(self) -> int:
        """Number of environment steps taken."""
        return self._trainer.clock.step

    @property
    def members(self) -> tuple[MemberReport, ...]:
        """Hyperparameters, cumulated loss and share of selections of each member."""
        return self._trainer.report().members

    @property
    def space(self) -> SearchSpace | None:
        """The search space of the members; SEARL, RandomSearch and DEHB always have one."""
        return self._population.space

    @property
    def trainer(self) -> Trainer:
        """The training loop with its state: agent, environments, replay buffer, clock."""
        return self._trainer

    def predict(
        self,
        observation: np.ndarray,
        state: None = None,
        episode_start: object = None,
        deterministic: bool = False,
    ) -> tuple[Any, None]:
        """Return the action for one observation or a batch of them, and None in place of SB3's hidden state.

        The target member acts. `deterministic=False` explores as training does at its current step, with a separate
        random generator, so that predicting does not change training. `state` and `episode_start` exist for
        compatibility with SB3's recurrent policies and are ignored.
        """
        del state, episode_start
        shape = self.observation_space.shape
        try:
            observation = array_of(observation)
            single = observation.shape == shape
            if not single and observation.shape[1:] != shape:
                raise UserError(f"observations must have the shape {shape}, but got {observation.shape}")
            batch = observation_of(
                observation[None] if single else observation, observation_dtype(self.observation_space)
            )
            require_finite(batch)
        except Unusable as unusable:
            raise UserError(f"predict got {unusable}") from None
        trainer = self._trainer
        actions = trainer.agent.policy(
            trainer.state, batch, None if deterministic else self._predict_rng, trainer.clock
        )
        actions = environment_actions(self.action_space, actions)
        return (actions[0] if single else actions), None

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the agent to a zip file (`.zip` is appended), without its replay buffer; `load` reads it.

        A previously saved agent is replaced; any other existing file only with `force`.
        """
        file = zip_path(path)
        if not force:
            require_replaceable(file, "agent")
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
        trainer = self._trainer
        arrays, agent = trainer.agent.to_arrays(trainer.state)
        config = self._config(max(trainer.clock.horizon, self.settings.minimum_steps.steps)).to_dict()
        spaces = describe_spaces(self.observation_space, self.action_space)
        clock = trainer.clock._asdict()
        write_snapshot(
            file,
            Snapshot(arrays, {"config": config, "agent": agent, "spaces": spaces, "clock": clock}),
            "agent",
        )
        return file

    def export(self, path: str | Path, *, format: PolicyFormat | None = None, force: bool = False) -> Path:
        """Write only the policy to a file that runs without JAX.

        `format="numpy"` (`.npz` is appended) is for `adaqn.exported_policy`, which needs only NumPy; `format="onnx"`
        (`.onnx` is appended) needs the extra `onnx` to be written, and runs wherever ONNX models do. By default the
        suffix of `path` decides, and without one it is NumPy's.
        A previously exported policy is replaced; any other existing file only with `force`.
        """
        file, chosen = policy_path(path, format)
        if not force:
            require_policy(file)
        weights = self._trainer.agent.policy_weights(self._trainer.state)
        write_policy(
            file,
            weights,
            self.observation_space,
            self.action_space,
            env=self._source.id,
            algo=self.algo,
            format=chosen,
        )
        return file

    def _config(self, steps: int, **watching: Any) -> RunConfig:
        return RunConfig(
            algo=self.algo,
            base=self._base,
            env=self._source.id,
            env_kwargs=self._source.kwargs,
            wrappers=self._source.wrappers,
            imports=self._source.imports,
            steps=steps,
            seed=self.seed,
            n_envs=self._n_envs,
            threads=self._threads.given,
            **self._population._asdict(),
            settings=self.settings,
            **watching,
        )

    def get_env(self) -> gymnasium.Env:
        """The environment that this agent trains in, or the first of several.

        Stepping it aborts the current training episode; `make_env` returns a new environment.
        """
        self._require_environments()
        return self._trainer.lend()

    def set_env(self, env: EnvironmentLike, force_reset: bool = True) -> None:
        """Train in another environment with the same spaces from now on, starting new episodes.

        `env` is an id, a function or an object, and replaces everything about the previous environment, its arguments
        and wrappers included. `force_reset` exists for compatibility with SB3; an episode is never continued in
        another environment.
        """
        if not force_reset:
            raise UserError("set_env starts new episodes in the new environment: leave force_reset=False out")
        trainer = self._trainer
        before = trainer.environments
        source = EnvironmentSource.of(env)
        environments = Environments.make(source, self._n_envs)
        try:
            check_same_spaces(
                "this agent",
                describe_spaces(before.observation_space, before.action_space),
                describe_spaces(environments.observation_space, environments.action_space),
            )
            if environments.frame_stack != before.frame_stack and not self._spaces_only:
                raise UserError(
                    f"this agent stores observations of {before.frame_stack} stacked images, "
                    f"but the environment stacks {environments.frame_stack}"
                )
            trainer.set_environments(environments)
            if self._spaces_only:
                trainer.enter(environments, replay_for(self.settings, environments))
                self._spaces_only = False
        except UserError:
            environments.close()
            raise
        self._source = source
        before.close()

    def make_env(self, **kwargs: object) -> gymnasium.Env:
        """Make a new environment like the one that this agent trains in."""
        self._require_source()
        return self._source.require_new(self._source.make(**kwargs), self._trainer.environments.envs)

    def save_replay_buffer(self, path: str | Path) -> Path:
        """Write the replay buffer to a zip file of arrays (`.zip` is appended); `load_replay_buffer` reads it."""
        self._require_environments()
        file = zip_path(path)
        write_replay(file, self._trainer)
        return file

    def load_replay_buffer(self, path: str | Path) -> None:
        """Replace the replay buffer by one that `save_replay_buffer` wrote.

        The spaces and the number of environments must be the same. A loaded agent then learns without waiting for its
        buffer to fill again; a new agent still takes `learning_starts` steps first.
        """
        self._require_environments()
        trainer = self._trainer
        filled = replay_for(self.settings, trainer.environments)
        trainer.set_replay(filled, transitions=read_replay(zip_path(path), trainer, filled))

    def _require_environments(self) -> None:
        """Make the environments of an agent that was loaded without them."""
        if not self._spaces_only:
            return
        self._require_source()
        before, environments = self._trainer.environments, Environments.make(self._source, self._n_envs)
        saved, given = (describe_spaces(each.observation_space, each.action_space) for each in (before, environments))
        check_same_spaces("the agent", saved, given)
        replay = replay_for(self.settings, environments)
        self._trainer.enter(environments, replay)
        self._spaces_only = False

    def _require_source(self) -> None:
        """Raise if no environment can be made: it was given as an object, or its modules are not trusted."""
        if not self._source.repeatable:
            raise UserError(
                "this agent was made with an environment object, which cannot be made a second time; pass another "
                "such environment with env= (on the command line --env ID), for evaluations with eval_env="
            )
        if self._not_trusted is not None:
            require_trust(self._source, self._not_trusted)

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
        return loading.resume(
            cls, run_dir, env, callback, threads, steps, stretch_schedules, Output(progress_bar, console), trust_env
        )

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
        return loading.from_run(cls, run_dir, env, trust_env)

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
        return loading.load(cls, path, env, trust_env)

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

    @classmethod
    def class_of(cls, algo: str) -> str:
        """The name of an algorithm's public class; `Model` reads agents of all algorithms."""
        return MODELS[algo].__name__ if algo in MODELS else "adaqn.model.Model"


def model_class(algo: str) -> type[Model]:
    """The public class of an algorithm, or a new class if it has none."""
    return MODELS.get(algo) or type(algo, (Model,), {"algo": algo})


def replay_for(settings: Settings, environments: Environments, capacity: int | None = None) -> Replay:
    """An empty replay buffer for an agent's spaces, by default of size `settings.buffer_size`."""
    return make_replay(
        settings.buffer_size if capacity is None else capacity,
        environments.count,
        environments.observation_space,
        environments.action_space,
        settings.n_steps,
        environments.frame_stack,
        padding="zeros",
    )
