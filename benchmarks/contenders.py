"""Who is compared: DQN of three libraries with the paper's Lunar Lander settings, behind one interface.

Libraries are imported where they are built, so that a process loads only the one it measures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import gymnasium as gym

Library = Literal["sb3", "sbx", "adaqn"]
Layers = tuple[int, ...]

ENVIRONMENT = "LunarLander-v3"


@dataclass(frozen=True)
class Settings:
    """The paper's settings for Lunar Lander, the same for every contender."""

    learning_rate: float = 3e-4
    gamma: float = 0.99
    batch_size: int = 32
    buffer_size: int = 10_000
    learning_starts: int = 1_000
    train_freq: int = 1
    target_update_interval: int = 200
    exploration_initial_eps: float = 1.0
    exploration_final_eps: float = 0.01
    exploration_steps: int = 1_000
    max_grad_norm: float = 10.0  # SB3 alone clips gradients; this is its default


@dataclass(frozen=True)
class Contender:
    """One row of the comparison."""

    name: str
    library: Library
    members: tuple[Layers, ...]  # the peers have exactly one


class Learner(Protocol):
    """What all three libraries share."""

    def learn(self, total_timesteps: int, /) -> object: ...


EQUAL: Layers = (200, 200)
PAPER: tuple[Layers, ...] = ((25, 25), (50, 50), (100, 100), (200, 200))

CONTENDERS: tuple[Contender, ...] = (
    Contender("sb3", "sb3", (EQUAL,)),
    Contender("sbx", "sbx", (EQUAL,)),
    *(Contender(f"adaqn-k{count}", "adaqn", (EQUAL,) * count) for count in range(1, 6)),
    Contender("adaqn-paper", "adaqn", PAPER),
)


def build(contender: Contender, env: gym.Env[Any, Any], settings: Settings, steps: int, seed: int) -> Learner:
    """The contender, ready to learn for that many steps."""
    if contender.library == "adaqn":
        return _adaqn(contender.members, env, settings, seed)
    return _peer(contender.library, contender.members[0], env, settings, steps, seed)


def _adaqn(members: tuple[Layers, ...], env: gym.Env[Any, Any], settings: Settings, seed: int) -> Learner:
    from adaqn import AdaDQN, Hyperparameters

    return AdaDQN(
        env,
        members=[
            Hyperparameters(hidden=hidden, optimizer="adam", learning_rate=settings.learning_rate) for hidden in members
        ],
        seed=seed,
        gamma=settings.gamma,
        learning_starts=settings.learning_starts,
        buffer_size=settings.buffer_size,
        batch_size=settings.batch_size,
        train_freq=settings.train_freq,
        target_update_interval=settings.target_update_interval,
        exploration_initial_eps=settings.exploration_initial_eps,
        exploration_final_eps=settings.exploration_final_eps,
        exploration_steps=settings.exploration_steps,
    )


def _peer(
    library: Literal["sb3", "sbx"],
    hidden: Layers,
    env: gym.Env[Any, Any],
    settings: Settings,
    steps: int,
    seed: int,
) -> Learner:
    import torch  # pyright: ignore[reportMissingImports]

    # SBX samples its batches through torch too.
    torch.set_num_threads(1)
    shared: dict[str, Any] = {
        "learning_rate": settings.learning_rate,
        "gamma": settings.gamma,
        "batch_size": settings.batch_size,
        "buffer_size": settings.buffer_size,
        "learning_starts": settings.learning_starts,
        "train_freq": settings.train_freq,
        "target_update_interval": settings.target_update_interval,
        "exploration_initial_eps": settings.exploration_initial_eps,
        "exploration_final_eps": settings.exploration_final_eps,
        "exploration_fraction": settings.exploration_steps / steps,
        "policy_kwargs": {"net_arch": list(hidden)},
        "seed": seed,
        "device": "cpu",
    }
    if library == "sbx":
        from sbx import DQN  # pyright: ignore[reportMissingImports]

        return DQN("MlpPolicy", env, **shared)
    from stable_baselines3 import DQN  # pyright: ignore[reportMissingImports]

    return DQN("MlpPolicy", env, max_grad_norm=settings.max_grad_norm, **shared)
