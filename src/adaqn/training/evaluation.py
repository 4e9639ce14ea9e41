"""Playing whole episodes with a trained policy, apart from training and repeatable from a seed."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, overload

import gymnasium
import numpy as np

from adaqn.errors import EnvironmentFault, UserError, count

EVALUATION_COLUMNS = ("step", "generation", "member", "return", "length")


class Policy(Protocol):
    """What evaluation needs of a model."""

    def predict(self, observation: np.ndarray, *, deterministic: bool = True) -> tuple[Any, Any]:
        """The action for one observation, and nothing (Stable-Baselines3's hidden state)."""
        ...


@dataclass(frozen=True)
class EvaluationResult:
    """The episodes of one evaluation, in the order in which they were played."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]

    def __iter__(self) -> Iterator[float]:
        """Mean and standard deviation, as Stable-Baselines3's function returns them."""
        return iter((self.mean, self.std))

    def __len__(self) -> int:
        return 2

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[float, ...]: ...
    def __getitem__(self, index: int | slice) -> float | tuple[float, ...]:
        return (self.mean, self.std)[index]

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Standard deviation of the returns, of these episodes and not of a population they stand for."""
        return float(np.std(self.returns))


@overload
def evaluate_policy(
    model: Policy,
    env: gymnasium.Env[Any, Any],
    n_eval_episodes: int = 10,
    deterministic: bool = True,
    seed: int = 0,
    on_frame: Callable[[np.ndarray], None] | None = None,
    *,
    return_episode_rewards: Literal[False] = False,
) -> EvaluationResult: ...
@overload
def evaluate_policy(
    model: Policy,
    env: gymnasium.Env[Any, Any],
    n_eval_episodes: int = 10,
    deterministic: bool = True,
    seed: int = 0,
    on_frame: Callable[[np.ndarray], None] | None = None,
    *,
    return_episode_rewards: Literal[True],
) -> tuple[list[float], list[int]]: ...
def evaluate_policy(
    model: Policy,
    env: gymnasium.Env[Any, Any],
    n_eval_episodes: int = 10,
    deterministic: bool = True,
    seed: int = 0,
    on_frame: Callable[[np.ndarray], None] | None = None,
    *,
    return_episode_rewards: bool = False,
) -> EvaluationResult | tuple[list[float], list[int]]:
    """Play episodes with the policy; the same call gives the same episodes, if the policy is deterministic.

    The result has `returns`, `lengths`, `mean` and `std`, and can be unpacked as (mean, std); with
    `return_episode_rewards` it is the returns and the lengths as two lists.

    `on_frame` is given what the environment renders after every reset and every step: one frame more than the
    episode has steps. The environment must then render RGB arrays.
    """
    if not isinstance(env, gymnasium.Env):
        raise UserError(
            f"evaluation plays in a single gymnasium.Env, but got {type(env).__name__}; "
            "vector environments are not supported here"
        )
    n_eval_episodes = count("n_eval_episodes", n_eval_episodes, low=1)
    returns: list[float] = []
    lengths: list[int] = []
    for index in range(n_eval_episodes):
        total, length = _play_episode(model, env, deterministic, episode_seed(seed, index), on_frame)
        returns.append(total)
        lengths.append(length)
    return (returns, lengths) if return_episode_rewards else EvaluationResult(tuple(returns), tuple(lengths))


def episode_seed(seed: int, *indices: int) -> int:
    """A seed for `env.reset`, unrelated to that of any other (seed, indices)."""
    return int(np.random.SeedSequence(count("seed", seed), spawn_key=indices).generate_state(1)[0])


class EvaluationLog:
    """A file with a row per evaluation episode."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opened = False

    def open(self, step: int) -> list[float]:
        """Go on at this step: drop later rows, and give the mean return of each earlier evaluation.

        Later rows are those of a run that was killed, and that has now been resumed from before them. When
        the same log is opened again, for a further call of `learn`, all it has stays.
        """
        if self._opened:
            return []
        self._opened = True
        kept = [row for row in self._read() if int(row[0]) <= step] if self.path.exists() else []
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_name(self.path.name + ".new")
        with beside.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([EVALUATION_COLUMNS, *kept])
        beside.replace(self.path)
        returns: dict[str, list[float]] = {}
        for row in kept:
            returns.setdefault(row[0], []).append(float(row[3]))
        return [float(np.mean(values)) for values in returns.values()]

    def append(self, step: int, generation: int, member: int, result: EvaluationResult) -> None:
        """Add the episodes of one evaluation."""
        episodes = zip(result.returns, result.lengths, strict=True)
        rows = [(step, generation, member, *episode) for episode in episodes]
        with self.path.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)

    def _read(self) -> list[list[str]]:
        with self.path.open(newline="") as file:
            header, *rows = list(csv.reader(file)) or [[]]
        if tuple(header) != EVALUATION_COLUMNS:
            raise UserError(f"{self.path} must begin with {','.join(EVALUATION_COLUMNS)}, but got {','.join(header)}")
        # A killed process can leave a torn last row; it is later than any checkpoint and will be made again.
        return [row for row in rows if len(row) == len(EVALUATION_COLUMNS)]


def _play_episode(
    model: Policy,
    env: gymnasium.Env[Any, Any],
    deterministic: bool,
    seed: int,
    on_frame: Callable[[np.ndarray], None] | None,
) -> tuple[float, int]:
    # A Discrete action goes in as a plain int: environments use it as a key, which an array cannot be.
    as_action = int if isinstance(env.action_space, gymnasium.spaces.Discrete) else np.asarray
    where = f"the evaluation environment {type(env.unwrapped).__name__}"
    try:
        observation, _ = env.reset(seed=seed)
    except Exception as error:
        raise EnvironmentFault(f"{where} raised {error!r} in its reset with seed {seed}") from error
    if on_frame is not None:
        on_frame(_render(env))
    total, length, ended = 0.0, 0, False
    while not ended:
        action, _ = model.predict(observation, deterministic=deterministic)
        try:
            observation, reward, terminated, truncated, _ = env.step(as_action(action))
        except Exception as error:
            raise EnvironmentFault(f"{where} raised {error!r} in step {length + 1} of an episode") from error
        total += float(reward)
        length += 1
        if not math.isfinite(total):
            raise EnvironmentFault(f"{where} returned the reward {reward} in step {length} of an episode")
        ended = terminated or truncated
        if on_frame is not None:
            on_frame(_render(env))
    return total, length


def _render(env: gymnasium.Env[Any, Any]) -> np.ndarray:
    frame = env.render()
    if not (isinstance(frame, np.ndarray) and frame.ndim == 3 and frame.shape[-1] == 3):
        raise UserError(
            "frames need an environment that renders RGB arrays, made with render_mode='rgb_array', "
            f"but its render_mode is {env.render_mode!r} and it rendered {type(frame).__name__}"
        )
    return frame
