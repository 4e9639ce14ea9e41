"""An agent that learns: its construction for an environment, and training, with Stable-Baselines3's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from adaqn.agents.execution.work import limit_of_lanes
from adaqn.agents.population import Scheduled
from adaqn.agents.registry import algorithm
from adaqn.base.checks import count
from adaqn.base.errors import UserError
from adaqn.envs.environments import Environments
from adaqn.envs.source import EnvironmentLike, EnvironmentSource
from adaqn.envs.spaces_only import SpacesOnly
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace, named_spaces
from adaqn.model.access import replay_for
from adaqn.model.policy import TrainedPolicy
from adaqn.model.signatures import other_arguments
from adaqn.model.stable_baselines import hyperparameters_from, refuse_foreign, refuse_policy_name, with_hyperparameters
from adaqn.model.threads import choose_threads
from adaqn.networks.xla.compilation import prepare_jax
from adaqn.networks.xla.threads import Resumed, available_cores, in_lanes
from adaqn.replay.memory import require_room
from adaqn.runs.config import RunConfig, population_from
from adaqn.runs.display.hints import speed_hint
from adaqn.runs.session import Output, RunSession, evaluation_callbacks
from adaqn.training.callbacks import BaseCallback, as_callback
from adaqn.training.interrupts import pass_on
from adaqn.training.trainer import Trainer

Members = Sequence[Hyperparameters | Mapping[str, object]] | None
CallbackLike = (
    BaseCallback | Callable[[Trainer], bool | None] | Sequence[BaseCallback | Callable[[Trainer], bool | None]] | None
)


class LearningAgent(TrainedPolicy):
    """The methods of the public classes for creating an agent and training it."""

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
