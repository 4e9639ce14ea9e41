"""The three tasks of `throughput` and the contenders in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from benchmarks.contenders import Contender, DQNSettings, Layers, SACSettings, Settings


@dataclass(frozen=True, kw_only=True)
class Task:
    """An environment with the settings, contenders and lengths of its measurements."""

    name: str
    environment: str
    settings: Settings
    contenders: tuple[Contender, ...]
    base: int  # number of equal members relative to whose step the cost of further members is given
    timed_first: tuple[str, ...]  # contenders whose time to the first update is measured
    rounds: int = 6
    warmup: int  # steps before timing starts; learning starts within them
    steps: int  # timed steps in a round
    environment_steps: int  # timed steps of the environment alone

    def make(self) -> gym.Env[Any, Any]:
        """A new environment, the same for every library."""
        if self.environment.startswith("Atari/"):
            from adaqn.envs.making import make_environment

            return make_environment(self.environment, {})
        return gym.make(self.environment)

    def contender(self, name: str) -> Contender:
        """The contender with this name."""
        return next(contender for contender in self.contenders if contender.name == name)


def peers(layers: Layers, critics: int) -> tuple[Contender, ...]:
    """Both peers with the same networks."""
    return Contender("sb3", "sb3", (layers,) * critics), Contender("sbx", "sbx", (layers,) * critics)


def equal(layers: Layers, *counts: int) -> tuple[Contender, ...]:
    """Ours with each of these numbers of equal members."""
    return tuple(Contender(f"adaqn-k{count}", "adaqn", (layers,) * count) for count in counts)


PAPER: tuple[Layers, ...] = ((25, 25), (50, 50), (100, 100), (200, 200))

LUNAR_LANDER = Task(
    name="lunar-lander",
    environment="LunarLander-v3",
    settings=DQNSettings(  # the paper's
        learning_rate=3e-4,
        batch_size=32,
        buffer_size=10_000,
        learning_starts=1_000,
        target_update_interval=200,
        exploration_steps=1_000,
    ),
    contenders=(
        *peers((200, 200), 1),
        *equal((200, 200), 1, 2, 4, 8, 16),
        Contender("adaqn-paper", "adaqn", PAPER),
        *(Contender(f"adaqn-paper-n{count}", "adaqn", PAPER, n_envs=count) for count in (4, 16)),
        Contender("adaqn-space", "adaqn", ((200, 200),) * 5, space="vectors"),
    ),
    base=1,
    timed_first=("sb3", "sbx", "adaqn-k1", "adaqn-paper"),
    warmup=1_500,
    steps=2_000,
    environment_steps=20_000,
)

HALF_CHEETAH = Task(
    name="half-cheetah",
    environment="HalfCheetah-v5",
    # The paper's, except that learning starts at once, which does not affect the speed afterwards.
    settings=SACSettings(learning_rate=1e-3, batch_size=256, buffer_size=1_000_000, learning_starts=100),
    contenders=(
        *peers((256, 256), 2),
        *equal((256, 256), 2, 4, 8),
        Contender("adaqn-paper", "adaqn", ((256, 256),) * 8 + ((512, 512),) * 8, preset="mujoco"),
    ),
    base=2,
    timed_first=("sb3", "sbx", "adaqn-k2", "adaqn-paper"),
    warmup=200,
    steps=200,
    environment_steps=20_000,
)

# Both sides use adaqn's `Atari/Pong`, in which ale-py skips, resizes and stacks frames. Ours takes observations as they
# are and stores every frame once; SB3 moves channels to the front (VecTransposeImage) and stores every stack once.
PONG = Task(
    name="pong",
    environment="Atari/Pong",
    settings=DQNSettings(
        learning_rate=1e-4,
        batch_size=32,
        buffer_size=5_000,
        learning_starts=200,
        train_freq=4,
        target_update_interval=100,  # short, so that the timed steps include some, and the warmup one
        exploration_steps=200,
        convolutions=((32, 8, 4), (64, 4, 2), (64, 3, 1)),
    ),
    contenders=(Contender("sb3", "sb3", ((512,),)), *equal((512,), 1, 3)),
    base=1,
    timed_first=("sb3", "adaqn-k1"),
    warmup=304,
    steps=200,
    environment_steps=4_000,
)

TASKS: dict[str, Task] = {task.name: task for task in (LUNAR_LANDER, HALF_CHEETAH, PONG)}
