"""The public classes, with Stable-Baselines3's names: `learn`, `predict`, `save`, `load`."""

from __future__ import annotations

import dataclasses
import inspect
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, Unpack

import gymnasium
import numpy as np

from adaqn.agents import algorithm
from adaqn.agents.catalogue import Scheduled
from adaqn.agents.events import TrialEnd
from adaqn.agents.protocol import Clock, MemberReport
from adaqn.agents.trials import TrialAgent
from adaqn.checkpoint import CheckpointStore
from adaqn.compilation import prepare_jax
from adaqn.envs.actions import environment_actions
from adaqn.envs.environments import Environments
from adaqn.envs.source import EnvironmentLike, EnvironmentOverride, EnvironmentSource
from adaqn.envs.spaces import observation_dtype
from adaqn.errors import CheckpointError, UserError, count
from adaqn.hyperparameters import Hyperparameters
from adaqn.model_access import EnvironmentAndReplay, replay_for, zip_path
from adaqn.runs.config import RunConfig, population_from
from adaqn.runs.export import policy_path, write_policy
from adaqn.runs.session import Output, RunSession
from adaqn.runs.spaces import check_same_spaces, describe_spaces
from adaqn.signatures import (
    DEHBArguments,
    DQNArguments,
    OneDQNArguments,
    OneSACArguments,
    RandomSearchArguments,
    SACArguments,
    SEARLArguments,
    signature_of,
)
from adaqn.snapshot import Snapshot, read_snapshot, write_snapshot
from adaqn.space import SearchSpace
from adaqn.stable_baselines import hyperparameters_from, refuse_foreign, refuse_policy_name, with_hyperparameters
from adaqn.training.callbacks import as_callback
from adaqn.training.trainer import Trainer

Members = Sequence[Hyperparameters | Mapping[str, Any]] | None


class Model(EnvironmentAndReplay):
    """An agent and its environment. Use one of the subclasses, such as AdaDQN or AdaSAC."""

    algo: ClassVar[str]
    __signature__: ClassVar[inspect.Signature | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Put the settings of the algorithm into the signature that `help` and notebooks show."""
        super().__init_subclass__(**kwargs)
        if "algo" in cls.__dict__:
            cls.__signature__ = signature_of(Model.__init__, algorithm(cls.algo))
        elif "__init__" in cls.__dict__:
            cls.__signature__ = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Meet `DQN("MlpPolicy", env)` before Python complains of an argument that was given twice."""
        refuse_policy_name(cls.__name__, args, kwargs)
        return super().__new__(cls)

    def __init__(
        self,
        env: EnvironmentLike,
        members: Members = None,
        *,
        space: SearchSpace | str | Mapping[str, Any] | None = None,
        schedule: Sequence[Scheduled | Mapping[str, Any]] | str | Path | None = None,
        seed: int = 0,
        n_envs: int = 1,
        env_kwargs: Mapping[str, Any] | None = None,
        wrappers: Sequence[Any] = (),
        imports: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        """Make an agent for an environment, given by its id, as a function that makes one, or as an object.

        `env_kwargs` go to the id or the function. `wrappers` go around the environment, the innermost first: classes,
        names such as `"gymnasium.wrappers:FlattenObservation"`, or mappings with such a `name` and `kwargs`. `imports`
        are modules that register the id; a run needs them to be resumed on the command line.
        `members` are the hyperparameters to choose from; without them a default set is used. With a `space`, by
        name, as a mapping or as an object, members are drawn from it and move through it. A `schedule` says what
        the one member of a DQN becomes, and when. `settings` are what all members share, such as `gamma` or
        `buffer_size`; DQN and SAC also take `learning_rate` and `policy_kwargs=dict(net_arch=[64, 64])` for their one
        kind of member.
        """
        prepare_jax()
        chosen = algorithm(self.algo)
        refuse_foreign(type(self).__name__, chosen, settings)
        changes = hyperparameters_from(type(self).__name__, chosen, settings)
        self.settings = chosen.configure(settings)
        self.seed = count("seed", seed)
        given = population_from(members, space, schedule)
        self._source = EnvironmentSource.of(env, env_kwargs, wrappers, imports)
        environments = Environments.make(self._source, chosen.environments(n_envs))
        self.observation_space = environments.observation_space
        self.action_space = environments.action_space
        shape = self.observation_space.shape
        given = with_hyperparameters(given, changes, lambda: chosen.members(shape)[0])
        self._population = chosen.population(given, self.settings, self.seed, lambda: shape)
        agent = chosen.make(self.settings, self._population, self.observation_space, self.action_space)
        replay = replay_for(agent, self.settings.buffer_size, environments)
        self._trainer = Trainer(agent, environments, replay, self.seed)
        self._predict_rng = np.random.default_rng(self.seed)

    @classmethod
    def from_config(cls, config: RunConfig, env: EnvironmentLike | EnvironmentOverride | None = None) -> Model:
        """The agent that a configuration describes, for its environment or for the one given."""
        source = config.environment(env)
        return model_class(config.algo)(
            source.env,
            config.members or None,
            space=config.space,
            schedule=config.schedule or None,
            seed=config.seed,
            n_envs=config.n_envs if source.repeatable else 1,
            env_kwargs=source.kwargs,
            wrappers=source.wrappers,
            imports=source.imports,
            **dataclasses.asdict(config.settings),
        )

    def learn(
        self,
        total_timesteps: int,
        callback: Any = None,
        *,
        progress_bar: bool = False,
        run_dir: str | Path | None = None,
        force: bool = False,
        log_interval: int = 1_000,
        checkpoint_interval: int = 10_000,
        wandb_project: str | None = None,
        reset_num_timesteps: bool = True,
    ) -> Self:
        """Train for so many environment steps.

        Without `run_dir` nothing is written; with it the run is, and can be resumed from there. `callback` is a
        `BaseCallback`, a function of the trainer, or a list of these. With `reset_num_timesteps=False` the clock
        goes on from the last call, and schedules stay at their end.
        """
        trainer = self._trainer
        steps = count("total_timesteps", total_timesteps, low=1)
        fresh = reset_num_timesteps or trainer.clock.step == 0
        if run_dir is not None and (trainer.clock.step or trainer.updates):
            raise UserError(
                "run_dir= records a run from its first step, but this agent has trained already; make a new one"
            )
        until = steps if fresh else trainer.clock.step + steps
        config = self._config(
            until,
            log_interval=log_interval,
            checkpoint_interval=checkpoint_interval,
            wandb_project=wandb_project,
        )
        called = as_callback(callback)
        called.bind(self)
        output = Output(progress_bar=progress_bar)
        if run_dir is None:
            session = RunSession(config, trainer, output, directory=None)
        else:
            session = RunSession.create(Path(run_dir), config, trainer, output, force=force)
        if fresh:
            trainer.begin(horizon=until)
        session.run([called], model=self)
        if trainer.interrupted and run_dir is None:
            # Only now that the step is whole and the agent can be used: raised in the middle of a step, its memory,
            # which goes from state to state, would be lost.
            raise KeyboardInterrupt if trainer.stop_reason == "SIGINT" else SystemExit(128 + signal.SIGTERM)
        return self

    @classmethod
    def resume(
        cls,
        run_dir: str | Path,
        env: EnvironmentLike | EnvironmentOverride | None = None,
        callback: Any = None,
        *,
        progress_bar: bool = False,
    ) -> Model:
        """Go on with a run that was interrupted, exactly where it was, and train it to its end.

        `env` is needed where the run was made with an environment object. A finished run is loaded as it is.
        """
        session, model = open_run(Path(run_dir), env, Output(progress_bar=progress_bar))
        called = as_callback(callback)
        called.bind(model)
        session.restore()
        if not session.finished:
            session.run([called], model=model)
        return model

    @classmethod
    def from_run(cls, run_dir: str | Path, env: EnvironmentLike | EnvironmentOverride | None = None) -> Model:
        """The agent of a run as its newest checkpoint has it, to look at or to use; the run itself is not touched.

        Training can go on from it as from a loaded one; to go on with the run, resume it.
        """
        session, model = open_run(Path(run_dir), env, Output())
        assert session.directory is not None
        snapshot = CheckpointStore(session.directory.checkpoint).load(replay=None)
        given = describe_spaces(model.observation_space, model.action_space)
        check_same_spaces(str(run_dir), snapshot.meta.get("spaces"), given)
        model._trainer.restore(snapshot, episodes=False)
        model._trainer.leave_run()
        return model

    def _config(self, steps: int, **watching: Any) -> RunConfig:
        return RunConfig(
            algo=self.algo,
            env=self._source.id,
            env_kwargs=self._source.kwargs,
            wrappers=self._source.wrappers,
            imports=self._source.imports,
            steps=steps,
            seed=self.seed,
            n_envs=self._trainer.environments.count,
            **self._population._asdict(),
            settings=self.settings,
            **watching,
        )

    @property
    def num_timesteps(self) -> int:
        """Environment steps taken."""
        return self._trainer.clock.step

    @property
    def members(self) -> tuple[MemberReport, ...]:
        """Hyperparameters, cumulated loss and share of selections of each member."""
        return self._trainer.agent.report(self._trainer.state)

    @property
    def trainer(self) -> Trainer:
        """The loop and all that it carries."""
        return self._trainer

    def predict(
        self,
        observation: np.ndarray,
        state: None = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, None]:
        """The action for one observation or a batch of them, and None where SB3 has a hidden state.

        The target member acts. `deterministic=False` explores as training does at its current step; it uses a
        generator of its own, so that predicting does not change training. `state` and `episode_start` are there
        for callers that know SB3's policies with a memory; there is none here.
        """
        del state, episode_start
        observation = np.asarray(observation)
        shape = self.observation_space.shape
        single = observation.shape == shape
        if not single and observation.shape[1:] != shape:
            raise UserError(f"observations have the shape {shape}, but got {observation.shape}")
        batch = np.asarray(observation[None] if single else observation, observation_dtype(self.observation_space))
        trainer = self._trainer
        actions = trainer.agent.policy(
            trainer.state, batch, None if deterministic else self._predict_rng, trainer.clock
        )
        actions = environment_actions(self.action_space, actions)
        return (actions[0] if single else actions), None

    def make_env(self, **kwargs: Any) -> gymnasium.Env[Any, Any]:
        """A fresh environment of the kind that this agent trains in."""
        if not self._source.repeatable:
            raise UserError(
                "this agent was made with an environment object, which cannot be made a second time; pass another "
                "one of its kind, for example eval_env="
            )
        return self._source.require_new(self._source.make(**kwargs), self._trainer.environments.envs)

    def save(self, path: str | Path) -> Path:
        """Write the agent to one file (`.zip` is added), without its replay buffer; `load` reads it."""
        file = zip_path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        trainer = self._trainer
        arrays, agent = trainer.agent.to_arrays(trainer.state)
        config = self._config(max(trainer.clock.horizon, self.settings.least_steps.steps)).to_dict()
        spaces = describe_spaces(self.observation_space, self.action_space)
        clock = trainer.clock._asdict()
        write_snapshot(
            file,
            Snapshot(arrays, {"config": config, "agent": agent, "spaces": spaces, "clock": clock}),
            "agent",
        )
        return file

    def export(self, path: str | Path) -> Path:
        """Write the policy alone to one file (`.npz` is added), which `adaqn.exported_policy` runs without JAX."""
        file = policy_path(path)
        weights = self._trainer.agent.policy_weights(self._trainer.state)
        write_policy(file, weights, self.observation_space, self.action_space, env=self._source.id, algo=self.algo)
        return file

    @classmethod
    def load(cls, path: str | Path, env: EnvironmentLike | EnvironmentOverride | None = None) -> Model:
        """The agent that `save` wrote, for the environment it was trained in or the one given.

        Training can go on from it, with an empty replay buffer; to go on exactly, resume a run directory.
        """
        file = zip_path(path)
        arrays, meta = read_snapshot(file, kind="agent")
        try:
            config = RunConfig.from_dict(meta["config"], str(file))
            saved_spaces, agent_meta, clock = meta["spaces"], meta["agent"], Clock(**meta["clock"])
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{file} is not a complete agent: {error} is missing or wrong") from error
        if cls is not Model and cls.algo != config.algo:
            raise UserError(f"{file} holds a {config.algo} agent, which {cls.__name__}.load does not read")
        model = Model.from_config(config, env)
        given = describe_spaces(model.observation_space, model.action_space)
        check_same_spaces(str(file), saved_spaces, given)
        model._trainer.state = model._trainer.agent.from_arrays(arrays, agent_meta)
        model._trainer.clock = clock
        model._trainer.leave_run()
        return model


class _DQNFamily(Model):
    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[DQNArguments]) -> None:
        super().__init__(env, members, **settings)


class AdaDQN(_DQNFamily):
    """The Adaptive Deep Q-Network (Algorithm 1): the member with the smallest cumulated loss becomes the target."""

    algo = "adadqn"


class RandDQN(_DQNFamily):
    """AdaDQN with a random member as target, one of the paper's ablations."""

    algo = "randdqn"


class AdaDQNMax(_DQNFamily):
    """AdaDQN with the member of the largest cumulated loss as target, one of the paper's ablations."""

    algo = "adadqn-max"


class DQN(Model):
    """The Deep Q-Network: AdaDQN with one member."""

    algo = "dqn"

    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[OneDQNArguments]) -> None:
        super().__init__(env, members, **settings)


class SEARL(Model):
    """Members that are judged by the returns they get when acting alone; the best of them acts in `predict`.

    It needs a space of hyperparameters, and one environment whose episodes end: until the current one does, the
    next member waits, and so does learning.
    """

    algo = "searl"

    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[SEARLArguments]) -> None:
        super().__init__(env, members, **settings)


class _Search(Model):
    """Trial after trial within one run, each a fresh DQN with hyperparameters out of a space, which is required.

    `predict`, `export` and evaluations use the best of the finished trials with the most steps; `members` has the
    trial under way.
    """

    @property
    def best_trial(self) -> TrialEnd | None:
        """The trial that `predict` acts with, or None before one is finished that did not fail."""
        agent = self._trainer.agent
        assert isinstance(agent, TrialAgent), "all searches are made of trials"
        return agent.best_trial(self._trainer.state)


class RandomSearch(_Search):
    """Trials with hyperparameters drawn at random, each for `trial_steps` steps."""

    algo = "random-search"

    def __init__(
        self, env: EnvironmentLike, members: Members = None, **settings: Unpack[RandomSearchArguments]
    ) -> None:
        super().__init__(env, members, **settings)


class DEHB(_Search):
    """Differential evolution in the brackets of Hyperband: promising hyperparameters are given more steps."""

    algo = "dehb"

    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[DEHBArguments]) -> None:
        super().__init__(env, members, **settings)


class _SACFamily(Model):
    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[SACArguments]) -> None:
        super().__init__(env, members, **settings)


class AdaSAC(_SACFamily):
    """The Adaptive Soft Actor-Critic (Algorithm 2): the two members with the smallest losses make up the target."""

    algo = "adasac"


class RandSAC(_SACFamily):
    """AdaSAC with a random pair of members as target, one of the paper's ablations."""

    algo = "randsac"


class SAC(Model):
    """The Soft Actor-Critic: AdaSAC with two equal members; one is given, or none."""

    algo = "sac"

    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[OneSACArguments]) -> None:
        super().__init__(env, members, **settings)


MODELS: dict[str, type[Model]] = {
    model.algo: model for model in (AdaDQN, RandDQN, AdaDQNMax, DQN, SEARL, RandomSearch, DEHB, AdaSAC, RandSAC, SAC)
}


def model_class(algo: str) -> type[Model]:
    """The public class of an algorithm, or one made for an algorithm that has none."""
    return MODELS.get(algo) or type(algo, (Model,), {"algo": algo})


def open_run(path: Path, env: EnvironmentLike | EnvironmentOverride | None, output: Output) -> tuple[RunSession, Model]:
    """A run that exists and a fresh agent of its kind."""
    config = RunSession.read_config(path)
    model = Model.from_config(config, env)
    return RunSession.open(path, config, model.trainer, output), model
