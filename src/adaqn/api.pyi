"""The public classes. Written by .ci/stubs.py from the table of algorithms: do not edit."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from adaqn.agents.population import Scheduled
from adaqn.agents.protocol import TrialEnd
from adaqn.envs.source import EnvironmentLike
from adaqn.members.space import SearchSpace
from adaqn.model.model import MODELS as MODELS, Members, Model as Model, model_class as model_class

class SearchModel(Model):
    @property
    def best_trial(self) -> TrialEnd | None: ...

class AdaDQN(Model):
    """The Adaptive Deep Q-Network (Algorithm 1): the member with the smallest cumulated loss becomes the target.

    Args:
        env: environment: an id, a function that returns one, or an object
        members: hyperparameters to choose from, such as grid(hidden=[(64, 64), (256, 256)])
        space: search space that members are sampled from and evolve within: a name, a mapping or an object
        schedule: hyperparameters of the single member of a DQN over time
        base: algorithm that RandomSearch and DEHB tune (default: dqn)
        seed: seed of everything random
        n_envs: number of environments, stepped one after the other
        threads: threads of an update; auto: as many as help, None: left to JAX
        env_kwargs: arguments of the environment's constructor
        wrappers: wrappers of the environment, the innermost first
        imports: modules that register the environment's id
        population: number of members sampled from the space, if none are given
        generation_interval: steps between generations, if a space is given
        exploit: rule that chooses the survivors of a generation
        mutations: mutations to choose from, all equally likely; by default also those of layer kinds, gradient clipping and weight decay, where the space varies them
        reset_weights: initialize the weights of mutated members instead of inheriting them
        behaviour_initial_eps: initial probability that a random member acts instead of the target member
        behaviour_final_eps: final probability that a random member acts
        behaviour_steps: steps over which behaviour_eps decays (default: until the end of the run)
        selection: rule for the target member
        selection_temperature: temperature of the softmax rule, relative to the mean loss
        behaviour: rule for the behaviour member (default: epsilon, or inverse_loss with a space)
        gamma: discount factor that members are compared with, and their default for learning
        learning_starts: steps before the first update
        buffer_size: capacity of the replay buffer in transitions
        batch_size: transitions per update
        train_freq: steps between updates
        n_steps: length of n-step returns
        normalize_observations: normalize vector observations by their running mean and variance
        image_scale: factor that byte images are multiplied by (default: 1 / the highest value of the observation space)
        gradient_steps: updates per training step
        target_update_interval: steps between target updates, at which the target member is chosen
        exploration_initial_eps: initial probability of a random action
        exploration_final_eps: final probability of a random action
        exploration_steps: steps over which the probability of a random action decays
        double_q: double Q-learning: the target member's online network chooses the next action
    """

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
        threads: int | Literal['auto'] | None = 'auto',
        env_kwargs: Mapping[str, object] | None = None,
        wrappers: Sequence[object] = (),
        imports: Sequence[str] = (),
        population: int = 5,
        generation_interval: int = 10000,
        exploit: str = 'tournament',
        mutations: tuple[str, ...] = ('activation', 'architecture', 'learning_rate', 'loss', 'optimizer'),
        reset_weights: bool = False,
        behaviour_initial_eps: float = 1.0,
        behaviour_final_eps: float = 0.01,
        behaviour_steps: int | None = None,
        selection: str = 'lowest',
        selection_temperature: float = 1.0,
        behaviour: str | None = None,
        gamma: float = 0.99,
        learning_starts: int = 1000,
        buffer_size: int = 100000,
        batch_size: int = 64,
        train_freq: int = 1,
        n_steps: int = 1,
        normalize_observations: bool = False,
        image_scale: float | None = None,
        gradient_steps: int = 1,
        target_update_interval: int = 200,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.01,
        exploration_steps: int = 5000,
        double_q: bool = False,
    ) -> None: ...

class RandDQN(Model):
    """AdaDQN with a random target member, one of the paper's ablations.

    Args:
        env: environment: an id, a function that returns one, or an object
        members: hyperparameters to choose from, such as grid(hidden=[(64, 64), (256, 256)])
        space: search space that members are sampled from and evolve within: a name, a mapping or an object
        schedule: hyperparameters of the single member of a DQN over time
        base: algorithm that RandomSearch and DEHB tune (default: dqn)
        seed: seed of everything random
        n_envs: number of environments, stepped one after the other
        threads: threads of an update; auto: as many as help, None: left to JAX
        env_kwargs: arguments of the environment's constructor
        wrappers: wrappers of the environment, the innermost first
        imports: modules that register the environment's id
        population: number of members sampled from the space, if none are given
        generation_interval: steps between generations, if a space is given
        exploit: rule that chooses the survivors of a generation
        mutations: mutations to choose from, all equally likely; by default also those of layer kinds, gradient clipping and weight decay, where the space varies them
        reset_weights: initialize the weights of mutated members instead of inheriting them
        behaviour_initial_eps: initial probability that a random member acts instead of the target member
        behaviour_final_eps: final probability that a random member acts
        behaviour_steps: steps over which behaviour_eps decays (default: until the end of the run)
        selection: rule for the target member
        selection_temperature: temperature of the softmax rule, relative to the mean loss
        behaviour: rule for the behaviour member (default: epsilon, or inverse_loss with a space)
        gamma: discount factor that members are compared with, and their default for learning
        learning_starts: steps before the first update
        buffer_size: capacity of the replay buffer in transitions
        batch_size: transitions per update
        train_freq: steps between updates
        n_steps: length of n-step returns
        normalize_observations: normalize vector observations by their running mean and variance
        image_scale: factor that byte images are multiplied by (default: 1 / the highest value of the observation space)
        gradient_steps: updates per training step
        target_update_interval: steps between target updates, at which the target member is chosen
        exploration_initial_eps: initial probability of a random action
        exploration_final_eps: final probability of a random action
        exploration_steps: steps over which the probability of a random action decays
        double_q: double Q-learning: the target member's online network chooses the next action
    """

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
        threads: int | Literal['auto'] | None = 'auto',
        env_kwargs: Mapping[str, object] | None = None,
        wrappers: Sequence[object] = (),
        imports: Sequence[str] = (),
        population: int = 5,
        generation_interval: int = 10000,
        exploit: str = 'tournament',
        mutations: tuple[str, ...] = ('activation', 'architecture', 'learning_rate', 'loss', 'optimizer'),
        reset_weights: bool = False,
        behaviour_initial_eps: float = 1.0,
        behaviour_final_eps: float = 0.01,
        behaviour_steps: int | None = None,
        selection: str = 'random',
        selection_temperature: float = 1.0,
        behaviour: str | None = None,
        gamma: float = 0.99,
        learning_starts: int = 1000,
        buffer_size: int = 100000,
        batch_size: int = 64,
        train_freq: int = 1,
        n_steps: int = 1,
        normalize_observations: bool = False,
        image_scale: float | None = None,
        gradient_steps: int = 1,
        target_update_interval: int = 200,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.01,
        exploration_steps: int = 5000,
        double_q: bool = False,
    ) -> None: ...

class AdaDQNMax(Model):
    """AdaDQN with the member with the largest cumulated loss as target, one of the paper's ablations.

    Args:
        env: environment: an id, a function that returns one, or an object
        members: hyperparameters to choose from, such as grid(hidden=[(64, 64), (256, 256)])
        space: search space that members are sampled from and evolve within: a name, a mapping or an object
        schedule: hyperparameters of the single member of a DQN over time
        base: algorithm that RandomSearch and DEHB tune (default: dqn)
        seed: seed of everything random
        n_envs: number of environments, stepped one after the other
        threads: threads of an update; auto: as many as help, None: left to JAX
        env_kwargs: arguments of the environment's constructor
        wrappers: wrappers of the environment, the innermost first
        imports: modules that register the environment's id
        population: number of members sampled from the space, if none are given
        generation_interval: steps between generations, if a space is given
        exploit: rule that chooses the survivors of a generation
        mutations: mutations to choose from, all equally likely; by default also those of layer kinds, gradient clipping and weight decay, where the space varies them
        reset_weights: initialize the weights of mutated members instead of inheriting them
        behaviour_initial_eps: initial probability that a random member acts instead of the target member
        behaviour_final_eps: final probability that a random member acts
        behaviour_steps: steps over which behaviour_eps decays (default: until the end of the run)
        selection: rule for the target member
        selection_temperature: temperature of the softmax rule, relative to the mean loss
        behaviour: rule for the behaviour member (default: epsilon, or inverse_loss with a space)
        gamma: discount factor that members are compared with, and their default for learning
        learning_starts: steps before the first update
        buffer_size: capacity of the replay buffer in transitions
        batch_size: transitions per update
        train_freq: steps between updates
        n_steps: length of n-step returns
        normalize_observations: normalize vector observations by their running mean and variance
        image_scale: factor that byte images are multiplied by (default: 1 / the highest value of the observation space)
        gradient_steps: updates per training step
        target_update_interval: steps between target updates, at which the target member is chosen
        exploration_initial_eps: initial probability of a random action
        exploration_final_eps: final probability of a random action
        exploration_steps: steps over which the probability of a random action decays
        double_q: double Q-learning: the target member's online network chooses the next action
    """

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
        threads: int | Literal['auto'] | None = 'auto',
        env_kwargs: Mapping[str, object] | None = None,
        wrappers: Sequence[object] = (),
        imports: Sequence[str] = (),
        population: int = 5,
        generation_interval: int = 10000,
        exploit: str = 'tournament',
        mutations: tuple[str, ...] = ('activation', 'architecture', 'learning_rate', 'loss', 'optimizer'),
        reset_weights: bool = False,
        behaviour_initial_eps: float = 1.0,
        behaviour_final_eps: float = 0.01,
        behaviour_steps: int | None = None,
        selection: str = 'highest',
        selection_temperature: float = 1.0,
        behaviour: str | None = None,
        gamma: float = 0.99,
        learning_starts: int = 1000,
        buffer_size: int = 100000,
        batch_size: int = 64,
        train_freq: int = 1,
        n_steps: int = 1,
        normalize_observations: bool = False,
        image_scale: float | None = None,
        gradient_steps: int = 1,
        target_update_interval: int = 200,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.01,
        exploration_steps: int = 5000,
        double_q: bool = False,
    ) -> None: ...

class DQN(Model):
    """The Deep Q-Network: AdaDQN with one member.

    Args:
        env: environment: an id, a function that returns one, or an object
        members: hyperparameters to choose from, such as grid(hidden=[(64, 64), (256, 256)])
        space: search space that members are sampled from and evolve within: a name, a mapping or an object
        schedule: hyperparameters of the single member of a DQN over time
        base: algorithm that RandomSearch and DEHB tune (default: dqn)
        seed: seed of everything random
        n_envs: number of environments, stepped one after the other
        threads: threads of an update; auto: as many as help, None: left to JAX
        env_kwargs: arguments of the environment's constructor
        wrappers: wrappers of the environment, the innermost first
        imports: modules that register the environment's id
        learning_rate: learning rate of the members
        policy_kwargs: net_arch, activation_fn and optimizer_kwargs
        population: number of members sampled from the space, if none are given
        generation_interval: steps between generations, if a space is given
        exploit: rule that chooses the survivors of a generation
        mutations: mutations to choose from, all equally likely; by default also those of layer kinds, gradient clipping and weight decay, where the space varies them
        reset_weights: initialize the weights of mutated members instead of inheriting them
        behaviour_initial_eps: initial probability that a random member acts instead of the target member
        behaviour_final_eps: final probability that a random member acts
        behaviour_steps: steps over which behaviour_eps decays (default: until the end of the run)
        selection: rule for the target member
        selection_temperature: temperature of the softmax rule, relative to the mean loss
        behaviour: rule for the behaviour member (default: epsilon, or inverse_loss with a space)
        gamma: discount factor that members are compared with, and their default for learning
        learning_starts: steps before the first update
        buffer_size: capacity of the replay buffer in transitions
        batch_size: transitions per update
        train_freq: steps between updates
        n_steps: length of n-step returns
        normalize_observations: normalize vector observations by their running mean and variance
        image_scale: factor that byte images are multiplied by (default: 1 / the highest value of the observation space)
        gradient_steps: updates per training step
        target_update_interval: steps between target updates, at which the target member is chosen
        exploration_initial_eps: initial probability of a random action
        exploration_final_eps: final probability of a random action
        exploration_steps: steps over which the probability of a random action decays
        double_q: double Q-learning: the target member's online network chooses the next action
    """

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
        threads: int | Literal['auto'] | None = 'auto',
        env_kwargs: Mapping[str, object] | None = None,
        wrappers: Sequence[object] = (),
        imports: Sequence[str] = (),
        population: int = 5,
        generation_interval: int = 10000,
        exploit: str = 'tournament',
        mutations: tuple[str, ...] = ('activation', 'architecture', 'learning_rate', 'loss', 'optimizer'),
        reset_weights: bool = False,
        behaviour_initial_eps: float = 1.0,
        behaviour_final_eps: float = 0.01,
        behaviour_steps: int | None = None,
        selection: str = 'lowest',
        selection_temperature: float = 1.0,
        behaviour: str | None = None,
        gamma: float = 0.99,
        learning_starts: int = 1000,
        buffer_size: int = 100000,
        batch_size: int = 64,
        train_freq: int = 1,
        n_steps: int = 1,
        normalize_observations: bool = False,
        image_scale: float | None = None,
        gradient_steps: int = 1,
        target_update_interval: int = 200,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.01,
        exploration_steps: int = 5000,
        double_q: bool = False,
        learning_rate: float | None = None,
        policy_kwargs: Mapping[str, object] | None = None,
    ) -> None: ...

class MetaGradientDQN(Model):
    """DQN that learns its discount by a meta-gradient (Xu et al., 2018), cross-validated with `gamma`.

    The discount starts at the member's `discount`, by default at `gamma`. Each update samples two batches.

    Args:
        env: environment: an id, a function that returns one, or an object
        members: hyperparameters to choose from, such as grid(hidden=[(64, 64), (256, 256)])
        space: search space that members are sampled from and evolve within: a name, a mapping or an object
        schedule: hyperparameters of the single member of a DQN over time
        base: algorithm that RandomSearch and DEHB tune (default: dqn)
        seed: seed of everything random
        n_envs: number of environments, stepped one after the other
        threads: threads of an update; auto: as many as help, None: left to JAX
        env_kwargs: arguments of the environment's constructor
        wrappers: wrappers of the environment, the innermost first
        imports: modules that register the environment's id
        learning_rate: learning rate of the members
        policy_kwargs: net_arch, activation_fn and optimizer_kwargs
        gamma: discount factor that members are compared with, and their default for learning
        learning_starts: steps before the first update
        buffer_size: capacity of the replay buffer in transitions
        batch_size: transitions per update
        train_freq: steps between updates
        n_steps: length of n-step returns
        normalize_observations: normalize vector observations by their running mean and variance
        image_scale: factor that byte images are multiplied by (default: 1 / the highest value of the observation space)
        gradient_steps: updates per training step
        target_update_interval: steps between target updates, at which the target member is chosen
        exploration_initial_eps: initial probability of a random action
        exploration_final_eps: final probability of a random action
        exploration_steps: steps over which the probability of a random action decays
        double_q: double Q-learning: the target member's online network chooses the next action
        meta_learning_rate: learning rate of the discount's logit, with Adam
    """

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
        threads: int | Literal['auto'] | None = 'auto',
        env_kwargs: Mapping[str, object] | None = None,
        wrappers: Sequence[object] = (),
        imports: Sequence[str] = (),
        gamma: float = 0.99,
        learning_starts: int = 1000,
        buffer_size: int = 100000,
        batch_size: int = 64,
        train_freq: int = 1,
        n_steps: int = 1,
        normalize_observations: bool = False,
        image_scale: float | None = None,
        gradient_steps: int = 1,
        target_update_interval: int = 200,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.01,
        exploration_steps: int = 5000,
        double_q: bool = False,
        meta_learning_rate: float = 0.001,
        learning_rate: float | None = None,
        policy_kwargs: Mapping[str, object] | None = None,
    ) -> None: ...

class SEARL(Model):
    """Evolution of members by the returns they achieve when acting alone; the best member acts in `predict`.

    Needs a search space and a single environment whose episodes end: the next member, and learning, wait for the end of
    the current episode.

    Args:
        env: environment: an id, a function that returns one, or an object
        members: hyperparameters to choose from, such as grid(hidden=[(64, 64), (256, 256)])
        space: search space that members are sampled from and evolve within: a name, a mapping or an object
        schedule: hyperparameters of the single member of a DQN over time
        base: algorithm that RandomSearch and DEHB tune (default: dqn)
        seed: seed of everything random
        n_envs: number of environments, stepped one after the other
        threads: threads of an update; auto: as many as help, None: left to JAX
        env_kwargs: arguments of the environment's constructor
        wrappers: wrappers of the environment, the innermost first
        imports: modules that register the environment's id
        population: number of members sampled from the space, if none are given
        generation_interval: steps between generations, if a space is given
        exploit: rule that chooses the survivors of a generation
        mutations: mutations to choose from, all equally likely; by default also those of layer kinds, gradient clipping and weight decay, where the space varies them
        reset_weights: initialize the weights of mutated members instead of inheriting them
        gamma: default discount factor of the members
        learning_starts: steps before the first update; earlier generations only compare members
        buffer_size: capacity of the replay buffer in transitions
        batch_size: transitions per update
        train_freq: samples per update at the end of a generation
        n_steps: length of n-step returns
        normalize_observations: normalize vector observations by their running mean and variance
        image_scale: factor that byte images are multiplied by (default: 1 / the highest value of the observation space)
        target_update_interval: environment steps between updates of each member's target, counted during the burst of updates
    """

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
        threads: int | Literal['auto'] | None = 'auto',
        env_kwargs: Mapping[str, object] | None = None,
        wrappers: Sequence[object] = (),
        imports: Sequence[str] = (),
        population: int = 5,
        generation_interval: int = 10000,
        exploit: str = 'tournament',
        mutations: tuple[str, ...] = ('activation', 'architecture', 'learning_rate', 'loss', 'optimizer'),
        reset_weights: bool = False,
        gamma: float = 0.99,
        learning_starts: int = 0,
        buffer_size: int = 100000,
        batch_size: int = 64,
        train_freq: int = 1,
        n_steps: int = 1,
        normalize_observations: bool = False,
        image_scale: float | None = None,
        target_update_interval: int = 200,
    ) -> None: ...

class AdaSAC(Model):
    """The Adaptive Soft Actor-Critic (Algorithm 2): the two members with the smallest losses form the target.

    Args:
        env: environment: an id, a function that returns one, or an object
        members: hyperparameters to choose from, such as grid(hidden=[(64, 64), (256, 256)])
        space: search space that members are sampled from and evolve within: a name, a mapping or an object
        schedule: hyperparameters of the single member of a DQN over time
        base: algorithm that RandomSearch and DEHB tune (default: dqn)
        seed: seed of everything random
        n_envs: number of environments, stepped one after the other
        threads: threads of an update; auto: as many as help, None: left to JAX
        env_kwargs: arguments of the environment's constructor
        wrappers: wrappers of the environment, the innermost first
        imports: modules that register the environment's id
        population: number of members sampled from the space, if none are given
        generation_interval: steps between generations, if a space is given
        exploit: rule that chooses the survivors of a generation
        mutations: mutations to choose from, all equally likely; by default also those of layer kinds, gradient clipping and weight decay, where the space varies them
        reset_weights: initialize the weights of mutated members instead of inheriting them
        behaviour_initial_eps: initial probability that a random member acts instead of the target member
        behaviour_final_eps: final probability that a random member acts
        behaviour_steps: steps over which behaviour_eps decays (default: until the end of the run)
        selection: rule for the target member
        selection_temperature: temperature of the softmax rule, relative to the mean loss
        behaviour: rule for the behaviour member (default: epsilon, or inverse_loss with a space)
        gamma: discount factor that members are compared with, and their default for learning
        learning_starts: steps before the first update, with uniformly random actions
        buffer_size: capacity of the replay buffer in transitions
        batch_size: transitions per update
        train_freq: steps between updates
        n_steps: length of n-step returns
        normalize_observations: normalize vector observations by their running mean and variance
        gradient_steps: critic updates per training step (UTD); the last one is followed by the actor's
        policy_delay: training steps between updates of the actor
        tau: rate of the Polyak averages of target critics and cumulated losses
        actor_hidden: hidden layers of the actor
        actor_activation: activation of the actor
        actor_normalization: normalization of the actor's hidden layers
        actor_block: kind of the actor's hidden layers
        actor_optimizer: optimizer of the actor
        actor_learning_rate: learning rate of the actor
        selection_interval: steps summarized by one row of selection.csv
        ent_coef: entropy coefficient: a number, or auto to learn it, starting at 1
        target_entropy: target entropy for ent_coef=auto: a number, or auto for minus the action dimension
    """

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
        threads: int | Literal['auto'] | None = 'auto',
        env_kwargs: Mapping[str, object] | None = None,
        wrappers: Sequence[object] = (),
        imports: Sequence[str] = (),
        population: int = 5,
        generation_interval: int = 10000,
        exploit: str = 'tournament',
        mutations: tuple[str, ...] = ('activation', 'architecture', 'learning_rate', 'loss', 'optimizer'),
        reset_weights: bool = False,
        behaviour_initial_eps: float = 1.0,
        behaviour_final_eps: float = 0.01,
        behaviour_steps: int | None = None,
        selection: str = 'lowest',
        selection_temperature: float = 1.0,
        behaviour: str | None = None,
        gamma: float = 0.99,
        learning_starts: int = 1000,
        buffer_size: int = 1000000,
        batch_size: int = 256,
        train_freq: int = 1,
        n_steps: int = 1,
        normalize_observations: bool = False,
        gradient_steps: int = 1,
        policy_delay: int = 1,
        tau: float = 0.005,
        actor_hidden: str = '256x256',
        actor_activation: str = 'relu',
        actor_normalization: str = 'none',
        actor_block: str = 'plain',
        actor_optimizer: str = 'adam',
        actor_learning_rate: float = 0.001,
        selection_interval: int = 1000,
        ent_coef: str | float = 'auto',
        target_entropy: str | float = 'auto',
    ) -> None: ...

class RandSAC(Model):
    """AdaSAC with a random pair of members as target, one of the paper's ablations.

    Args:
        env: environment: an id, a function that returns one, or an object
        members: hyperparameters to choose from, such as grid(hidden=[(64, 64), (256, 256)])
        space: search space that members are sampled from and evolve within: a name, a mapping or an object
        schedule: hyperparameters of the single member of a DQN over time
        base: algorithm that RandomSearch and DEHB tune (default: dqn)
        seed: seed of everything random
        n_envs: number of environments, stepped one after the other
        threads: threads of an update; auto: as many as help, None: left to JAX
        env_kwargs: arguments of the environment's constructor
        wrappers: wrappers of the environment, the innermost first
        imports: modules that register the environment's id
        population: number of members sampled from the space, if none are given
        generation_interval: steps between generations, if a space is given
        exploit: rule that chooses the survivors of a generation
        mutations: mutations to choose from, all equally likely; by default also those of layer kinds, gradient clipping and weight decay, where the space varies them
        reset_weights: initialize the weights of mutated members instead of inheriting them
        behaviour_initial_eps: initial probability that a random member acts instead of the target member
        behaviour_final_eps: final probability that a random member acts
        behaviour_steps: steps over which behaviour_eps decays (default: until the end of the run)
        selection: rule for the target member
        selection_temperature: temperature of the softmax rule, relative to the mean loss
        behaviour: rule for the behaviour member (default: epsilon, or inverse_loss with a space)
        gamma: discount factor that members are compared with, and their default for learning
        learning_starts: steps before the first update, with uniformly random actions
        buffer_size: capacity of the replay buffer in transitions
        batch_size: transitions per update
        train_freq: steps between updates
        n_steps: length of n-step returns
        normalize_observations: normalize vector observations by their running mean and variance
        gradient_steps: critic updates per training step (UTD); the last one is followed by the actor's
        policy_delay: training steps between updates of the actor
        tau: rate of the Polyak averages of target critics and cumulated losses
        actor_hidden: hidden layers of the actor
        actor_activation: activation of the actor
        actor_normalization: normalization of the actor's hidden layers
        actor_block: kind of the actor's hidden layers
        actor_optimizer: optimizer of the actor
        actor_learning_rate: learning rate of the actor
        selection_interval: steps summarized by one row of selection.csv
        ent_coef: entropy coefficient: a number, or auto to learn it, starting at 1
        target_entropy: target entropy for ent_coef=auto: a number, or auto for minus the action dimension
    """

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
        threads: int | Literal['auto'] | None = 'auto',
        env_kwargs: Mapping[str, object] | None = None,
        wrappers: Sequence[object] = (),
        imports: Sequence[str] = (),
        population: int = 5,
        generation_interval: int = 10000,
        exploit: str = 'tournament',
        mutations: tuple[str, ...] = ('activation', 'architecture', 'learning_rate', 'loss', 'optimizer'),
        reset_weights: bool = False,
        behaviour_initial_eps: float = 1.0,
        behaviour_final_eps: float = 0.01,
        behaviour_steps: int | None = None,
        selection: str = 'random',
        selection_temperature: float = 1.0,
        behaviour: str | None = None,
        gamma: float = 0.99,
        learning_starts: int = 1000,
        buffer_size: int = 1000000,
        batch_size: int = 256,
        train_freq: int = 1,
        n_steps: int = 1,
        normalize_observations: bool = False,
        gradient_steps: int = 1,
        policy_delay: int = 1,
        tau: float = 0.005,
        actor_hidden: str = '256x256',
        actor_activation: str = 'relu',
        actor_normalization: str = 'none',
        actor_block: str = 'plain',
        actor_optimizer: str = 'adam',
        actor_learning_rate: float = 0.001,
        selection_interval: int = 1000,
        ent_coef: str | float = 'auto',
        target_entropy: str | float = 'auto',
    ) -> None: ...

class SAC(Model):
    """Soft Actor-Critic: AdaSAC with two equal members; a single given member is used twice.

    Args:
        env: environment: an id, a function that returns one, or an object
        members: hyperparameters to choose from, such as grid(hidden=[(64, 64), (256, 256)])
        space: search space that members are sampled from and evolve within: a name, a mapping or an object
        schedule: hyperparameters of the single member of a DQN over time
        base: algorithm that RandomSearch and DEHB tune (default: dqn)
        seed: seed of everything random
        n_envs: number of environments, stepped one after the other
        threads: threads of an update; auto: as many as help, None: left to JAX
        env_kwargs: arguments of the environment's constructor
        wrappers: wrappers of the environment, the innermost first
        imports: modules that register the environment's id
        learning_rate: learning rate of the members
        policy_kwargs: net_arch, activation_fn and optimizer_kwargs
        population: number of members sampled from the space, if none are given
        generation_interval: steps between generations, if a space is given
        exploit: rule that chooses the survivors of a generation
        mutations: mutations to choose from, all equally likely; by default also those of layer kinds, gradient clipping and weight decay, where the space varies them
        reset_weights: initialize the weights of mutated members instead of inheriting them
        behaviour_initial_eps: initial probability that a random member acts instead of the target member
        behaviour_final_eps: final probability that a random member acts
        behaviour_steps: steps over which behaviour_eps decays (default: until the end of the run)
        selection: rule for the target member
        selection_temperature: temperature of the softmax rule, relative to the mean loss
        behaviour: rule for the behaviour member (default: epsilon, or inverse_loss with a space)
        gamma: discount factor that members are compared with, and their default for learning
        learning_starts: steps before the first update, with uniformly random actions
        buffer_size: capacity of the replay buffer in transitions
        batch_size: transitions per update
        train_freq: steps between updates
        n_steps: length of n-step returns
        normalize_observations: normalize vector observations by their running mean and variance
        gradient_steps: critic updates per training step (UTD); the last one is followed by the actor's
        policy_delay: training steps between updates of the actor
        tau: rate of the Polyak averages of target critics and cumulated losses
        actor_hidden: hidden layers of the actor
        actor_activation: activation of the actor
        actor_normalization: normalization of the actor's hidden layers
        actor_block: kind of the actor's hidden layers
        actor_optimizer: optimizer of the actor
        actor_learning_rate: learning rate of the actor
        selection_interval: steps summarized by one row of selection.csv
        ent_coef: entropy coefficient: a number, or auto to learn it, starting at 1
        target_entropy: target entropy for ent_coef=auto: a number, or auto for minus the action dimension
    """

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
        threads: int | Literal['auto'] | None = 'auto',
        env_kwargs: Mapping[str, object] | None = None,
        wrappers: Sequence[object] = (),
        imports: Sequence[str] = (),
        population: int = 5,
        generation_interval: int = 10000,
        exploit: str = 'tournament',
        mutations: tuple[str, ...] = ('activation', 'architecture', 'learning_rate', 'loss', 'optimizer'),
        reset_weights: bool = False,
        behaviour_initial_eps: float = 1.0,
        behaviour_final_eps: float = 0.01,
        behaviour_steps: int | None = None,
        selection: str = 'lowest',
        selection_temperature: float = 1.0,
        behaviour: str | None = None,
        gamma: float = 0.99,
        learning_starts: int = 1000,
        buffer_size: int = 1000000,
        batch_size: int = 256,
        train_freq: int = 1,
        n_steps: int = 1,
        normalize_observations: bool = False,
        gradient_steps: int = 1,
        policy_delay: int = 1,
        tau: float = 0.005,
        actor_hidden: str = '256x256',
        actor_activation: str = 'relu',
        actor_normalization: str = 'none',
        actor_block: str = 'plain',
        actor_optimizer: str = 'adam',
        actor_learning_rate: float = 0.001,
        selection_interval: int = 1000,
        ent_coef: str | float = 'auto',
        target_entropy: str | float = 'auto',
        learning_rate: float | None = None,
        policy_kwargs: Mapping[str, object] | None = None,
    ) -> None: ...

class AdaTD3(Model):
    """TD3 with an ensemble of critics: the two members with the smallest losses form the target.

    Args:
        env: environment: an id, a function that returns one, or an object
        members: hyperparameters to choose from, such as grid(hidden=[(64, 64), (256, 256)])
        space: search space that members are sampled from and evolve within: a name, a mapping or an object
        schedule: hyperparameters of the single member of a DQN over time
        base: algorithm that RandomSearch and DEHB tune (default: dqn)
        seed: seed of everything random
        n_envs: number of environments, stepped one after the other
        threads: threads of an update; auto: as many as help, None: left to JAX
        env_kwargs: arguments of the environment's constructor
        wrappers: wrappers of the environment, the innermost first
        imports: modules that register the environment's id
        population: number of members sampled from the space, if none are given
        generation_interval: steps between generations, if a space is given
        exploit: rule that chooses the survivors of a generation
        mutations: mutations to choose from, all equally likely; by default also those of layer kinds, gradient clipping and weight decay, where the space varies them
        reset_weights: initialize the weights of mutated members instead of inheriting them
        behaviour_initial_eps: initial probability that a random member acts instead of the target member
        behaviour_final_eps: final probability that a random member acts
        behaviour_steps: steps over which behaviour_eps decays (default: until the end of the run)
        selection: rule for the target member
        selection_temperature: temperature of the softmax rule, relative to the mean loss
        behaviour: rule for the behaviour member (default: epsilon, or inverse_loss with a space)
        gamma: discount factor that members are compared with, and their default for learning
        learning_starts: steps before the first update, with uniformly random actions
        buffer_size: capacity of the replay buffer in transitions
        batch_size: transitions per update
        train_freq: steps between updates
        n_steps: length of n-step returns
        normalize_observations: normalize vector observations by their running mean and variance
        gradient_steps: critic updates per training step (UTD)
        policy_delay: critic updates per update of the actor and of all target networks
        tau: rate of the Polyak averages of target critics and cumulated losses
        actor_hidden: hidden layers of the actor
        actor_activation: activation of the actor
        actor_normalization: normalization of the actor's hidden layers
        actor_block: kind of the actor's hidden layers
        actor_optimizer: optimizer of the actor
        actor_learning_rate: learning rate of the actor
        selection_interval: steps summarized by one row of selection.csv
        action_noise: standard deviation of the exploration noise, for actions in [-1, 1]
        target_policy_noise: standard deviation of the noise on the target actions
        target_noise_clip: clipping range of the noise on the target actions
    """

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
        threads: int | Literal['auto'] | None = 'auto',
        env_kwargs: Mapping[str, object] | None = None,
        wrappers: Sequence[object] = (),
        imports: Sequence[str] = (),
        population: int = 5,
        generation_interval: int = 10000,
        exploit: str = 'tournament',
        mutations: tuple[str, ...] = ('activation', 'architecture', 'learning_rate', 'loss', 'optimizer'),
        reset_weights: bool = False,
        behaviour_initial_eps: float = 1.0,
        behaviour_final_eps: float = 0.01,
        behaviour_steps: int | None = None,
        selection: str = 'lowest',
        selection_temperature: float = 1.0,
        behaviour: str | None = None,
        gamma: float = 0.99,
        learning_starts: int = 1000,
        buffer_size: int = 1000000,
        batch_size: int = 256,
        train_freq: int = 1,
        n_steps: int = 1,
        normalize_observations: bool = False,
        gradient_steps: int = 1,
        policy_delay: int = 2,
        tau: float = 0.005,
        actor_hidden: str = '256x256',
        actor_activation: str = 'relu',
        actor_normalization: str = 'none',
        actor_block: str = 'plain',
        actor_optimizer: str = 'adam',
        actor_learning_rate: float = 0.001,
        selection_interval: int = 1000,
        action_noise: float = 0.1,
        target_policy_noise: float = 0.2,
        target_noise_clip: float = 0.5,
    ) -> None: ...

class RandTD3(Model):
    """AdaTD3 with a random pair of members as target.

    Args:
        env: environment: an id, a function that returns one, or an object
        members: hyperparameters to choose from, such as grid(hidden=[(64, 64), (256, 256)])
        space: search space that members are sampled from and evolve within: a name, a mapping or an object
        schedule: hyperparameters of the single member of a DQN over time
        base: algorithm that RandomSearch and DEHB tune (default: dqn)
        seed: seed of everything random
        n_envs: number of environments, stepped one after the other
        threads: threads of an update; auto: as many as help, None: left to JAX
        env_kwargs: arguments of the environment's constructor
        wrappers: wrappers of the environment, the innermost first
        imports: modules that register the environment's id
        population: number of members sampled from the space, if none are given
        generation_interval: steps between generations, if a space is given
        exploit: rule that chooses the survivors of a generation
        mutations: mutations to choose from, all equally likely; by default also those of layer kinds, gradient clipping and weight decay, where the space varies them
        reset_weights: initialize the weights of mutated members instead of inheriting them
        behaviour_initial_eps: initial probability that a random member acts instead of the target member
        behaviour_final_eps: final probability that a random member acts
        behaviour_steps: steps over which behaviour_eps decays (default: until the end of the run)
        selection: rule for the target member
        selection_temperature: temperature of the softmax rule, relative to the mean loss
        behaviour: rule for the behaviour member (default: epsilon, or inverse_loss with a space)
        gamma: discount factor that members are compared with, and their default for learning
        learning_starts: steps before the first update, with uniformly random actions
        buffer_size: capacity of the replay buffer in transitions
        batch_size: transitions per update
        train_freq: steps between updates
        n_steps: length of n-step returns
        normalize_observations: normalize vector observations by their running mean and variance
        gradient_steps: critic updates per training step (UTD)
        policy_delay: critic updates per update of the actor and of all target networks
        tau: rate of the Polyak averages of target critics and cumulated losses
        actor_hidden: hidden layers of the actor
        actor_activation: activation of the actor
        actor_normalization: normalization of the actor's hidden layers
        actor_block: kind of the actor's hidden layers
        actor_optimizer: optimizer of the actor
        actor_learning_rate: learning rate of the actor
        selection_interval: steps summarized by one row of selection.csv
        action_noise: standard deviation of the exploration noise, for actions in [-1, 1]
        target_policy_noise: standard deviation of the noise on the target actions
        target_noise_clip: clipping range of the noise on the target actions
    """

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
        threads: int | Literal['auto'] | None = 'auto',
        env_kwargs: Mapping[str, object] | None = None,
        wrappers: Sequence[object] = (),
        imports: Sequence[str] = (),
        population: int = 5,
        generation_interval: int = 10000,
        exploit: str = 'tournament',
        mutations: tuple[str, ...] = ('activation', 'architecture', 'learning_rate', 'loss', 'optimizer'),
        reset_weights: bool = False,
        behaviour_initial_eps: float = 1.0,
        behaviour_final_eps: float = 0.01,
        behaviour_steps: int | None = None,
        selection: str = 'random',
        selection_temperature: float = 1.0,
        behaviour: str | None = None,
        gamma: float = 0.99,
        learning_starts: int = 1000,
        buffer_size: int = 1000000,
        batch_size: int = 256,
        train_freq: int = 1,
        n_steps: int = 1,
        normalize_observations: bool = False,
        gradient_steps: int = 1,
        policy_delay: int = 2,
        tau: float = 0.005,
        actor_hidden: str = '256x256',
        actor_activation: str = 'relu',
        actor_normalization: str = 'none',
        actor_block: str = 'plain',
        actor_optimizer: str = 'adam',
        actor_learning_rate: float = 0.001,
        selection_interval: int = 1000,
        action_noise: float = 0.1,
        target_policy_noise: float = 0.2,
        target_noise_clip: float = 0.5,
    ) -> None: ...

class TD3(Model):
    """Twin Delayed DDPG: AdaTD3 with two equal members; a single given member is used twice.

    Args:
        env: environment: an id, a function that returns one, or an object
        members: hyperparameters to choose from, such as grid(hidden=[(64, 64), (256, 256)])
        space: search space that members are sampled from and evolve within: a name, a mapping or an object
        schedule: hyperparameters of the single member of a DQN over time
        base: algorithm that RandomSearch and DEHB tune (default: dqn)
        seed: seed of everything random
        n_envs: number of environments, stepped one after the other
        threads: threads of an update; auto: as many as help, None: left to JAX
        env_kwargs: arguments of the environment's constructor
        wrappers: wrappers of the environment, the innermost first
        imports: modules that register the environment's id
        learning_rate: learning rate of the members
        policy_kwargs: net_arch, activation_fn and optimizer_kwargs
        population: number of members sampled from the space, if none are given
        generation_interval: steps between generations, if a space is given
        exploit: rule that chooses the survivors of a generation
        mutations: mutations to choose from, all equally likely; by default also those of layer kinds, gradient clipping and weight decay, where the space varies them
        reset_weights: initialize the weights of mutated members instead of inheriting them
        behaviour_initial_eps: initial probability that a random member acts instead of the target member
        behaviour_final_eps: final probability that a random member acts
        behaviour_steps: steps over which behaviour_eps decays (default: until the end of the run)
        selection: rule for the target member
        selection_temperature: temperature of the softmax rule, relative to the mean loss
        behaviour: rule for the behaviour member (default: epsilon, or inverse_loss with a space)
        gamma: discount factor that members are compared with, and their default for learning
        learning_starts: steps before the first update, with uniformly random actions
        buffer_size: capacity of the replay buffer in transitions
        batch_size: transitions per update
        train_freq: steps between updates
        n_steps: length of n-step returns
        normalize_observations: normalize vector observations by their running mean and variance
        gradient_steps: critic updates per training step (UTD)
        policy_delay: critic updates per update of the actor and of all target networks
        tau: rate of the Polyak averages of target critics and cumulated losses
        actor_hidden: hidden layers of the actor
        actor_activation: activation of the actor
        actor_normalization: normalization of the actor's hidden layers
        actor_block: kind of the actor's hidden layers
        actor_optimizer: optimizer of the actor
        actor_learning_rate: learning rate of the actor
        selection_interval: steps summarized by one row of selection.csv
        action_noise: standard deviation of the exploration noise, for actions in [-1, 1]
        target_policy_noise: standard deviation of the noise on the target actions
        target_noise_clip: clipping range of the noise on the target actions
    """

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
        threads: int | Literal['auto'] | None = 'auto',
        env_kwargs: Mapping[str, object] | None = None,
        wrappers: Sequence[object] = (),
        imports: Sequence[str] = (),
        population: int = 5,
        generation_interval: int = 10000,
        exploit: str = 'tournament',
        mutations: tuple[str, ...] = ('activation', 'architecture', 'learning_rate', 'loss', 'optimizer'),
        reset_weights: bool = False,
        behaviour_initial_eps: float = 1.0,
        behaviour_final_eps: float = 0.01,
        behaviour_steps: int | None = None,
        selection: str = 'lowest',
        selection_temperature: float = 1.0,
        behaviour: str | None = 'first',
        gamma: float = 0.99,
        learning_starts: int = 1000,
        buffer_size: int = 1000000,
        batch_size: int = 256,
        train_freq: int = 1,
        n_steps: int = 1,
        normalize_observations: bool = False,
        gradient_steps: int = 1,
        policy_delay: int = 2,
        tau: float = 0.005,
        actor_hidden: str = '256x256',
        actor_activation: str = 'relu',
        actor_normalization: str = 'none',
        actor_block: str = 'plain',
        actor_optimizer: str = 'adam',
        actor_learning_rate: float = 0.001,
        selection_interval: int = 1000,
        action_noise: float = 0.1,
        target_policy_noise: float = 0.2,
        target_noise_clip: float = 0.5,
        learning_rate: float | None = None,
        policy_kwargs: Mapping[str, object] | None = None,
    ) -> None: ...

class RandomSearch(SearchModel):
    """Trials with hyperparameters drawn at random, each for `trial_steps` steps.

    Sequential trials in one run, each a fresh agent (`base`, by default DQN) with hyperparameters from a space.
    `predict`, `export` and evaluations use the best of the finished trials with the most steps; `members` describes the
    current trial.

    Args:
        env: environment: an id, a function that returns one, or an object
        members: hyperparameters to choose from, such as grid(hidden=[(64, 64), (256, 256)])
        space: search space that members are sampled from and evolve within: a name, a mapping or an object
        schedule: hyperparameters of the single member of a DQN over time
        base: algorithm that RandomSearch and DEHB tune (default: dqn)
        seed: seed of everything random
        n_envs: number of environments, stepped one after the other
        threads: threads of an update; auto: as many as help, None: left to JAX
        env_kwargs: arguments of the environment's constructor
        wrappers: wrappers of the environment, the innermost first
        imports: modules that register the environment's id
        gamma: discount factor that members are compared with, and their default for learning
        learning_starts: steps before the first update
        buffer_size: capacity of the replay buffer in transitions
        batch_size: transitions per update
        train_freq: steps between updates
        n_steps: length of n-step returns
        normalize_observations: normalize vector observations by their running mean and variance
        image_scale: factor that byte images are multiplied by (default: 1 / the highest value of the observation space)
        gradient_steps: updates per training step
        target_update_interval: steps between target updates, at which the target member is chosen
        exploration_initial_eps: initial probability of a random action
        exploration_final_eps: final probability of a random action
        exploration_steps: steps over which the probability of a random action decays
        double_q: double Q-learning: the target member's online network chooses the next action
        epoch_steps: steps at the end of a trial over which its returns are averaged
        keep_replay: keep the replay buffer between trials
        trial_steps: steps of a trial
    """

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
        threads: int | Literal['auto'] | None = 'auto',
        env_kwargs: Mapping[str, object] | None = None,
        wrappers: Sequence[object] = (),
        imports: Sequence[str] = (),
        gamma: float = 0.99,
        learning_starts: int = 1000,
        buffer_size: int = 100000,
        batch_size: int = 64,
        train_freq: int = 1,
        n_steps: int = 1,
        normalize_observations: bool = False,
        image_scale: float | None = None,
        gradient_steps: int = 1,
        target_update_interval: int = 200,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.01,
        exploration_steps: int = 5000,
        double_q: bool = False,
        epoch_steps: int = 10000,
        keep_replay: bool = True,
        trial_steps: int = 50000,
    ) -> None: ...

class DEHB(SearchModel):
    """Differential evolution with Hyperband's brackets: promising hyperparameters are trained for more steps.

    Sequential trials in one run, each a fresh agent (`base`, by default DQN) with hyperparameters from a space.
    `predict`, `export` and evaluations use the best of the finished trials with the most steps; `members` describes the
    current trial.

    Args:
        env: environment: an id, a function that returns one, or an object
        members: hyperparameters to choose from, such as grid(hidden=[(64, 64), (256, 256)])
        space: search space that members are sampled from and evolve within: a name, a mapping or an object
        schedule: hyperparameters of the single member of a DQN over time
        base: algorithm that RandomSearch and DEHB tune (default: dqn)
        seed: seed of everything random
        n_envs: number of environments, stepped one after the other
        threads: threads of an update; auto: as many as help, None: left to JAX
        env_kwargs: arguments of the environment's constructor
        wrappers: wrappers of the environment, the innermost first
        imports: modules that register the environment's id
        gamma: discount factor that members are compared with, and their default for learning
        learning_starts: steps before the first update
        buffer_size: capacity of the replay buffer in transitions
        batch_size: transitions per update
        train_freq: steps between updates
        n_steps: length of n-step returns
        normalize_observations: normalize vector observations by their running mean and variance
        image_scale: factor that byte images are multiplied by (default: 1 / the highest value of the observation space)
        gradient_steps: updates per training step
        target_update_interval: steps between target updates, at which the target member is chosen
        exploration_initial_eps: initial probability of a random action
        exploration_final_eps: final probability of a random action
        exploration_steps: steps over which the probability of a random action decays
        double_q: double Q-learning: the target member's online network chooses the next action
        epoch_steps: steps at the end of a trial over which its returns are averaged
        keep_replay: keep the replay buffer between trials
        min_trial_steps: smallest budget of a trial in steps
        max_trial_steps: largest budget of a trial in steps
        eta: factor by which the steps grow and the trials get fewer from rung to rung
    """

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
        threads: int | Literal['auto'] | None = 'auto',
        env_kwargs: Mapping[str, object] | None = None,
        wrappers: Sequence[object] = (),
        imports: Sequence[str] = (),
        gamma: float = 0.99,
        learning_starts: int = 1000,
        buffer_size: int = 100000,
        batch_size: int = 64,
        train_freq: int = 1,
        n_steps: int = 1,
        normalize_observations: bool = False,
        image_scale: float | None = None,
        gradient_steps: int = 1,
        target_update_interval: int = 200,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.01,
        exploration_steps: int = 5000,
        double_q: bool = False,
        epoch_steps: int = 10000,
        keep_replay: bool = True,
        min_trial_steps: int = 10000,
        max_trial_steps: int = 90000,
        eta: int = 3,
    ) -> None: ...
