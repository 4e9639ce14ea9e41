"""The algorithms compared: DQN, SAC and TD3 of three libraries with the same settings, behind one interface.

Libraries are imported on construction, so that a process loads only the one it measures.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import gymnasium as gym

Library = Literal["sb3", "sbx", "adaqn"]
Layers = tuple[int, ...]
Convolutions = tuple[tuple[int, int, int], ...]  # channels, kernel and stride of each

GENERATION = 1_000  # steps between generations in a space: short, so that a measurement contains several

# Import time is measured up to the algorithm's class, not just the package: ours imports nothing heavy until a class
# is accessed.
MODULES: dict[Library, str] = {"sb3": "stable_baselines3", "sbx": "sbx", "adaqn": "adaqn"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings shared by every contender, under the names that all three libraries use."""

    learning_rate: float
    gamma: float = 0.99
    batch_size: int
    buffer_size: int
    learning_starts: int
    train_freq: int = 1


@dataclass(frozen=True, kw_only=True)
class DQNSettings(Settings):
    """DQN settings shared by all contenders, except for the last two."""

    target_update_interval: int
    exploration_initial_eps: float = 1.0
    exploration_final_eps: float = 0.01
    exploration_steps: int
    convolutions: Convolutions = ()  # in front of the hidden layers, without padding
    max_grad_norm: float = 10.0  # only SB3 clips gradients; this is its default
    loss: str = "l2"  # of ours and SBX; SB3 always uses Huber


@dataclass(frozen=True, kw_only=True)
class SACSettings(Settings):
    """SAC settings shared by all contenders, with a learned entropy coefficient that starts at 1."""

    tau: float = 0.005
    actor_hidden: Layers = (256, 256)


@dataclass(frozen=True, kw_only=True)
class TD3Settings(Settings):
    """TD3 settings shared by all contenders; the target policy noise is everyone's default, 0.2 clipped at 0.5."""

    tau: float = 0.005
    actor_hidden: Layers = (256, 256)
    policy_delay: int = 2
    action_noise: float = 0.1


@dataclass(frozen=True)
class Contender:
    """One row of the comparison."""

    name: str
    library: Library
    members: tuple[Layers, ...]  # hidden layers of every critic; peers have one for DQN, two equal ones for SAC and TD3
    preset: str | None = None  # adaqn's preset, if members differ in more than their layers
    n_envs: int = 1  # adaqn's environments that are stepped in parallel
    space: str | None = None  # adaqn's search space; then only the number of `members` counts


class Learner(Protocol):
    """The interface that all three libraries share."""

    def learn(self, total_timesteps: int, /) -> object: ...


def algorithm(library: Library, settings: Settings) -> str:
    """The name of the library's class."""
    if isinstance(settings, TD3Settings):
        return "TD3"
    name = "SAC" if isinstance(settings, SACSettings) else "DQN"
    # Our DQN and SAC are AdaDQN with one member and AdaSAC with two equal members.
    return f"Ada{name}" if library == "adaqn" else name


def build(
    contender: Contender,
    make_env: Callable[[], gym.Env[Any, Any]],
    settings: Settings,
    steps: int,
    seed: int,
    one_thread: bool = True,
) -> Learner:
    """Create the contender, ready to learn for `steps` steps; without `one_thread`, each library uses its default."""
    if contender.library == "adaqn":
        return _adaqn(contender, make_env, settings, seed)
    return _peer(contender, make_env(), settings, steps, seed, one_thread)


def _adaqn(contender: Contender, make_env: Callable[[], gym.Env[Any, Any]], settings: Settings, seed: int) -> Learner:
    import adaqn

    shared = dataclasses.asdict(settings)
    learning_rate = shared.pop("learning_rate")
    own: dict[str, Any] = {}
    if isinstance(settings, DQNSettings):
        del shared["max_grad_norm"]
        layers = [adaqn.Convolution(*layer) for layer in shared.pop("convolutions")]
        own = {"loss": shared.pop("loss"), "convolutions": layers, "padding": "valid"}
    else:
        shared["actor_learning_rate"] = learning_rate
    members: Any = [
        adaqn.Hyperparameters(hidden=hidden, optimizer="adam", learning_rate=learning_rate, **own)
        for hidden in contender.members
    ]
    if contender.preset is not None:
        from adaqn.runs.config import read_config

        members = adaqn.grid(**read_config(contender.preset)["grid"])
    if contender.space is not None:
        members = None
        shared |= {"space": contender.space, "population": len(contender.members), "generation_interval": GENERATION}
    env: Any = make_env() if contender.n_envs == 1 else make_env
    make = getattr(adaqn, algorithm("adaqn", settings))
    # As on the command line: the number of threads is fitted to the update, unless the process was given one.
    return make(env, members=members, seed=seed, n_envs=contender.n_envs, threads="auto", **shared)


def _peer(
    contender: Contender, env: gym.Env[Any, Any], settings: Settings, steps: int, seed: int, one_thread: bool
) -> Learner:
    import importlib

    import torch  # pyright: ignore[reportMissingImports]

    if one_thread:
        torch.set_num_threads(1)  # SBX samples its batches through torch too
    shared = dataclasses.asdict(settings)
    hidden, policy = list(contender.members[0]), "MlpPolicy"
    if isinstance(settings, SACSettings | TD3Settings):
        actor = shared.pop("actor_hidden")
        shared["policy_kwargs"] = {"net_arch": {"pi": list(actor), "qf": hidden}}
        if isinstance(settings, TD3Settings):
            shared["action_noise"] = _normal_noise(env, settings.action_noise)
    else:
        del shared["loss"]
        shared["exploration_fraction"] = shared.pop("exploration_steps") / steps
        shared["policy_kwargs"] = {"net_arch": hidden}
        if shared.pop("convolutions"):
            policy = "CnnPolicy"
            # SB3's convolutions equal those of our settings; its features extractor includes the first dense layer.
            shared["policy_kwargs"] = {"net_arch": hidden[1:], "features_extractor_kwargs": {"features_dim": hidden[0]}}
            # Store each observation once, as ours; SB3 supports that only if truncation is treated as termination.
            shared |= {
                "optimize_memory_usage": True,
                "replay_buffer_kwargs": {"handle_timeout_termination": False},
            }
        if contender.library == "sbx":
            del shared["max_grad_norm"]
    module = importlib.import_module(MODULES[contender.library])
    make = getattr(module, algorithm(contender.library, settings))
    return make(policy, env, seed=seed, device="cpu", **shared)


def _normal_noise(env: gym.Env[Any, Any], deviation: float) -> Any:
    """The exploration noise of SB3 and SBX, on actions in [-1, 1]."""
    import numpy as np
    from stable_baselines3.common.noise import NormalActionNoise  # pyright: ignore[reportMissingImports]

    assert isinstance(env.action_space, gym.spaces.Box)
    shape = env.action_space.shape
    return NormalActionNoise(mean=np.zeros(shape), sigma=np.full(shape, deviation))
