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

from adaqn.agents.core.population import Scheduled
from adaqn.agents.events import TrialEnd
from adaqn.agents.protocol import MemberReport, clock_from
from adaqn.agents.registry import algorithm
from adaqn.agents.trials.agent import TrialAgent
from adaqn.checkpoint import CheckpointStore
from adaqn.checks import count
from adaqn.compilation import prepare_jax
from adaqn.envs.actions import environment_actions
from adaqn.envs.environments import Environments
from adaqn.envs.gym_spaces import observation_dtype
from adaqn.envs.source import EnvironmentLike, EnvironmentOverride, EnvironmentSource
from adaqn.envs.spaces_only import SpacesOnly, require_trust
from adaqn.envs.values import Unusable, array_of, observation_of, require_finite
from adaqn.errors import CheckpointError, UserError, reading_saved
from adaqn.files import make_parent
from adaqn.hyperparameters import Hyperparameters
from adaqn.model_access import EnvironmentAndReplay, replay_for, zip_path
from adaqn.replay.memory import require_room
from adaqn.runs.config import RunConfig, population_from, read_config
from adaqn.runs.directory import RunDirectory
from adaqn.runs.export import policy_path, require_policy, write_policy
from adaqn.runs.gym_spaces import check_same_spaces, describe_spaces, gym_spaces_from
from adaqn.runs.session import Output, RunSession
from adaqn.signatures import (
    DEHBArguments,
    DQNArguments,
    OneDQNArguments,
    OneSACArguments,
    OneTD3Arguments,
    RandomSearchArguments,
    SACArguments,
    SEARLArguments,
    TD3Arguments,
    signature_of,
)
from adaqn.snapshot import Snapshot, reading, require_replaceable, write_snapshot
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
        base: str | None = None,
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
        name, as a mapping or as an object, members are drawn from it and move through it; SEARL, RandomSearch and DEHB
        take the named one that fits the observations if none is given. A `schedule` says what the one member of a DQN
        becomes, and when. `settings` are what all members share, such as `gamma` or
        `buffer_size`; DQN and SAC also take `learning_rate` and `policy_kwargs=dict(net_arch=[64, 64])` for their one
        kind of member. `base` names the algorithm that RandomSearch and DEHB try, by default `"dqn"`; their further
        settings are then those of that one.
        """
        prepare_jax()
        chosen = algorithm(self.algo, base)
        self._base = base
        refuse_foreign(type(self).__name__, chosen, settings)
        changes = hyperparameters_from(type(self).__name__, chosen, settings)
        self.settings = chosen.configure(settings)
        self.seed = count("seed", seed)
        given = population_from(members, space, schedule)
        self._source = EnvironmentSource.of(env, env_kwargs, wrappers, imports)
        self._n_envs = chosen.environments(n_envs)
        self._not_trusted: str | None = None  # the file that named the environment, if that is not to be made
        environments = Environments.make(self._source, self._n_envs)
        self.observation_space = environments.observation_space
        self.action_space = environments.action_space
        shape = self.observation_space.shape
        given = with_hyperparameters(given, changes, lambda: chosen.members(shape)[0])
        self._population = chosen.population(given, self.settings, self.seed, lambda: shape)
        agent = chosen.make(self.settings, self._population, self.observation_space, self.action_space)
        require_room(agent.memory_needs)  # before anything is allocated
        self._spaces_only = isinstance(env, SpacesOnly)
        replay = replay_for(self.settings, environments, self.settings.n_steps if self._spaces_only else None)
        self._trainer = Trainer(agent, environments, replay, self.settings.batch_size, self.seed, chosen.traits)
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
            base=config.base,
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

        Without `run_dir` nothing is written; with it the run is, and can be resumed from there. SIGINT and SIGTERM
        end it after a whole step, with a checkpoint, by KeyboardInterrupt or SystemExit. `callback` is a
        `BaseCallback`, a function of the trainer, or a list of these. With `reset_num_timesteps=False` the clock
        goes on from the last call, and schedules stay at their end.
        """
        trainer = self._trainer
        steps = count("total_timesteps", total_timesteps, low=1)
        self._require_environments()
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
            session = RunSession.create(Path(run_dir), config, trainer, output, force=force, callbacks=[called])
        if fresh:
            trainer.begin(horizon=until)
        session.run([called], model=self)
        _leave_if_interrupted(trainer)
        return self

    @classmethod
    def resume(
        cls,
        run_dir: str | Path,
        env: EnvironmentLike | EnvironmentOverride | None = None,
        callback: Any = None,
        *,
        steps: int | None = None,
        stretch_schedules: bool = False,
        progress_bar: bool = False,
        trust_env: bool = False,
    ) -> Model:
        """Go on with a run that was interrupted, exactly where it was, and train it to its end.

        `env` is needed where the run was made with an environment object, and `env` or `trust_env=True` where making
        its environment imports a module that the run names. A finished run is loaded as it is.
        `steps` gives the run, finished or not, another end: it goes on until it has taken so many environment steps.
        Schedules that last until the end of the run (ε_b) keep the end they had, so that the run becomes the one that
        is configured with these `steps` and the former ones as `horizon`; with `stretch_schedules` they refer to the
        new end from here on.
        """
        output = Output(progress_bar=progress_bar)
        session, model = open_run(Path(run_dir), env, output, steps, stretch_schedules, trust_env)
        called = as_callback(callback)
        called.bind(model)
        session.restore()
        if session.finished:
            session.close()
        else:
            session.run([called], model=model)
            _leave_if_interrupted(model.trainer)
        return model

    @classmethod
    def from_run(
        cls,
        run_dir: str | Path,
        env: EnvironmentLike | EnvironmentOverride | None = None,
        *,
        trust_env: bool = False,
    ) -> Model:
        """The agent of a run as its newest checkpoint has it, to look at or to use; the run itself is not touched.

        Training can go on from it as from a loaded one; to go on with the run, resume it. About `env` and
        `trust_env` see `load`.
        """
        directory = RunDirectory.open(run_dir)
        snapshot = CheckpointStore(directory.checkpoint).load_newest_state()
        nbytes = sum(array.nbytes for array in snapshot.arrays.values())
        values = read_config(directory.config)
        model = _without_environment(str(directory.config), values, snapshot.meta.get("spaces"), nbytes, env, trust_env)
        model._trainer.restore_agent(snapshot)
        model._trainer.leave_run()
        return model

    def _require_environments(self) -> None:
        """Make the environments of an agent that was loaded without them."""
        if not self._spaces_only:
            return
        self._require_source()
        environments = Environments.make(self._source, self._n_envs)
        saved, given = (describe_spaces(each.observation_space, each.action_space) for each in (self, environments))
        check_same_spaces("the agent", saved, given)
        replay = replay_for(self.settings, environments)
        self._trainer.enter(environments, replay)
        self._spaces_only = False

    def _require_source(self) -> None:
        """Raise if no environment can be made: it was an object, or nobody said that its modules can be trusted."""
        if not self._source.repeatable:
            raise UserError(
                "this agent was made with an environment object, which cannot be made a second time; pass another "
                "one of its kind with env=, for evaluations with eval_env="
            )
        if self._not_trusted is not None:
            require_trust(self._source, self._not_trusted)

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
        return self._trainer.report().members

    @property
    def space(self) -> SearchSpace | None:
        """The space that members move through or are drawn from; SEARL and searches have one even if none is given."""
        return self._population.space

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
        shape = self.observation_space.shape
        try:
            observation = array_of(observation)
            single = observation.shape == shape
            if not single and observation.shape[1:] != shape:
                raise UserError(f"observations have the shape {shape}, but got {observation.shape}")
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

    def make_env(self, **kwargs: Any) -> gymnasium.Env:
        """A fresh environment of the kind that this agent trains in."""
        self._require_source()
        return self._source.require_new(self._source.make(**kwargs), self._trainer.environments.envs)

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the agent to one file (`.zip` is added), without its replay buffer; `load` reads it.

        An agent that was saved there before is replaced; any other file only with `force`.
        """
        file = zip_path(path)
        if not force:
            require_replaceable(file, "agent")
        make_parent(file)
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

    def export(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the policy alone to one file (`.npz` is added), which `adaqn.exported_policy` runs without JAX.

        A policy that was exported there before is replaced; any other file only with `force`.
        """
        file = policy_path(path)
        if not force:
            require_policy(file)
        weights = self._trainer.agent.policy_weights(self._trainer.state)
        write_policy(file, weights, self.observation_space, self.action_space, env=self._source.id, algo=self.algo)
        return file

    @classmethod
    def load(
        cls,
        path: str | Path,
        env: EnvironmentLike | EnvironmentOverride | None = None,
        *,
        trust_env: bool = False,
    ) -> Model:
        """The agent that `save` wrote, for the environment it was trained in or the one given.

        Without `env`, the environment is made when it is needed, which it is not to predict or to export. If that
        imports a module which the file names (with its id, wrappers or imports), it takes `trust_env=True`, because a
        module can execute anything; all else in a file can only be refused. Training can go on from a loaded agent,
        with an empty replay buffer; to go on exactly, resume a run directory.
        """
        file = zip_path(path)
        with reading(file, kind="agent") as stored, reading_saved(str(file)):
            meta = stored.meta
            algo = meta["config"].get("algo")
            if cls is not Model and cls.algo != algo:
                raise UserError(f"{file} holds a {algo} agent, which {cls.__name__}.load does not read")
            model = _without_environment(str(file), meta["config"], meta["spaces"], stored.nbytes, env, trust_env)
            agent, trainer = model._trainer.agent, model._trainer
            trainer.state = agent.from_arrays(stored.arrays(), meta["agent"])
            if not np.isfinite(agent.policy_weights(trainer.state).parameters).all():
                raise CheckpointError(f"{file} holds a policy with parameters that are not finite, which cannot act")
            trainer.clock = clock_from(meta["clock"])
        trainer.leave_run()
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
    """Trial after trial within one run, each a fresh agent (`base`, by default DQN) with hyperparameters of a space.

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


class _TD3Family(Model):
    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[TD3Arguments]) -> None:
        super().__init__(env, members, **settings)


class AdaTD3(_TD3Family):
    """TD3 with an ensemble of critics: the two members with the smallest losses make up the target."""

    algo = "adatd3"


class RandTD3(_TD3Family):
    """AdaTD3 with a random pair of members as target."""

    algo = "randtd3"


class TD3(Model):
    """The Twin Delayed DDPG: AdaTD3 with two equal members; one is given, or none."""

    algo = "td3"

    def __init__(self, env: EnvironmentLike, members: Members = None, **settings: Unpack[OneTD3Arguments]) -> None:
        super().__init__(env, members, **settings)


_PUBLIC = (AdaDQN, RandDQN, AdaDQNMax, DQN, SEARL, RandomSearch, DEHB, AdaSAC, RandSAC, SAC, AdaTD3, RandTD3, TD3)
MODELS: dict[str, type[Model]] = {model.algo: model for model in _PUBLIC}


def model_class(algo: str) -> type[Model]:
    """The public class of an algorithm, or one made for an algorithm that has none."""
    return MODELS.get(algo) or type(algo, (Model,), {"algo": algo})


def open_run(
    path: Path,
    env: EnvironmentLike | EnvironmentOverride | None,
    output: Output,
    steps: int | None = None,
    stretch_schedules: bool = False,
    trust_env: bool = False,
) -> tuple[RunSession, Model]:
    """A run that exists, with its end or another one, and a fresh agent of its kind."""
    file = RunDirectory.open(path).config
    values, extends = read_config(file), False
    if not trust_env:
        require_trust(_named_by_file(values, env), str(file))  # before the shape of its observations is asked for
    shape = env.observation_space.shape if isinstance(env, gymnasium.Env) else None
    config = RunConfig.from_dict(values, str(file), shape)
    if steps is not None:
        config, extends = RunSession.new_end(path, config, steps, stretch_schedules)
    elif stretch_schedules:
        raise UserError("schedules can be stretched only to a new end: give its steps, too")
    model = Model.from_config(config, env)
    return RunSession.open(path, config, model.trainer, output, extends), model


def _named_by_file(values: Mapping[str, Any], env: EnvironmentLike | EnvironmentOverride | None) -> EnvironmentSource:
    """What a file, and not the user, says about the environment."""
    given = env if isinstance(env, EnvironmentOverride) else EnvironmentOverride(env)
    wrappers = values.get("wrappers") if given.wrappers is None else None
    identifier = values.get("env") if given.env is None else None
    return EnvironmentSource.of(
        identifier if isinstance(identifier, str) else "", None, wrappers, values.get("imports")
    )


def _leave_if_interrupted(trainer: Trainer) -> None:
    """Pass an interruption on to the program that called.

    Only now that the step is whole and the agent can be used: raised in the middle of a step, its memory, which goes
    from state to state, would be lost.
    """
    if trainer.interrupted:
        raise KeyboardInterrupt if trainer.stop_reason == "SIGINT" else SystemExit(128 + signal.SIGTERM)


def _without_environment(
    source: str,
    values: Mapping[str, Any],
    spaces: Any,
    nbytes: int,
    env: EnvironmentLike | EnvironmentOverride | None,
    trust_env: bool,
) -> Model:
    """The agent that a file describes, for the environment given, or for none before it is needed."""
    with reading_saved(source):
        observations, actions = gym_spaces_from(spaces, nbytes)
        config = RunConfig.from_dict(values, source, observations.shape)
        if env is not None and env != EnvironmentOverride():
            if not trust_env:
                require_trust(_named_by_file(values, env), source)
            model = Model.from_config(config, env)
            check_same_spaces(source, spaces, describe_spaces(model.observation_space, model.action_space))
            return model
        model = Model.from_config(config, EnvironmentOverride(SpacesOnly(observations, actions), wrappers=()))
        if config.env is not None:
            model._source = config.environment()
        model._n_envs = config.n_envs
        model._not_trusted = None if trust_env else source
        return model
