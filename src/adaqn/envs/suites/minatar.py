"""MinAtar (Young and Tian, 2019): five Atari games on a 10 x 10 grid, with one channel per kind of object.

The games have their package's defaults: sticky actions with probability 0.1, and difficulty ramping. They have no step
limit (Freeway terminates after 2 500 steps), so we truncate after 5 000; `max_episode_steps` overrides it.
"""

from __future__ import annotations

import colorsys
import warnings
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from adaqn.base.checks import number

HORIZON = 5_000
CELL = 24  # pixels in a video
BACKGROUND = (20, 20, 28)

_GAMES = {
    "MinAtar/Asterix": "asterix",
    "MinAtar/Breakout": "breakout",
    "MinAtar/Freeway": "freeway",
    "MinAtar/Seaquest": "seaquest",
    "MinAtar/SpaceInvaders": "space_invaders",
}
NAMES = tuple(_GAMES)


def spec(name: str) -> EnvSpec:
    """How to make the game with this id."""
    return EnvSpec(
        name,
        entry_point=f"{__name__}:MinAtarGame",
        max_episode_steps=HORIZON,
        disable_env_checker=True,
        kwargs={"game": _GAMES[name]},
    )


class MinAtarGame(gymnasium.Env[np.ndarray, Any]):
    """One game. Observations are [10, 10, channels] of zeros and ones, as bytes.

    The actions are the game's minimal set, or all six with `minimal_actions=False`.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012
    frame_stack: ClassVar[int] = 1
    learning_reward_bound: ClassVar[float | None] = None

    def __init__(
        self,
        game: str,
        minimal_actions: bool = True,
        sticky_action_prob: float = 0.1,
        difficulty_ramping: bool = True,
        render_mode: str | None = None,
    ) -> None:
        sticky = number("sticky_action_prob", sticky_action_prob, low=0.0, high=1.0)
        self._game = _environment_class()(game, sticky_action_prob=sticky, difficulty_ramping=difficulty_ramping)
        actions = self._game.minimal_action_set() if minimal_actions else range(self._game.num_actions())
        self._actions = tuple(actions)
        self.observation_space = spaces.Box(0, 1, tuple(self._game.state_shape()), np.uint8)
        self.action_space = spaces.Discrete(len(self._actions))
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode that the seed alone determines."""
        super().reset(seed=seed, options=options)
        if seed is None:
            seed = int(self.np_random.integers(2**32))
        self._game.seed(seed % 2**32)  # MinAtar takes 32 bits
        self._game.last_action = 0  # else the last action of the previous episode may be repeated
        self._game.reset()
        return self._observe(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Take an action for one frame."""
        if not 0 <= action < len(self._actions):
            raise gymnasium.error.InvalidAction(f"the action must be from 0 to {len(self._actions) - 1}: {action}")
        reward, terminated = self._game.act(self._actions[action])
        return self._observe(), float(reward), bool(terminated), False, {}

    def render(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The grid of cells with a colour per channel. [240, 240, 3]"""
        return picture(self._observe()) if self.render_mode == "rgb_array" else None

    def _observe(self) -> np.ndarray:
        return self._game.state().view(np.uint8)  # from booleans, which are one byte each


def picture(observation: np.ndarray) -> np.ndarray:
    """An observation [height, width, channels] as an image; where channels overlap, the first (the player) is shown."""
    channels = observation.shape[-1]
    hues = [colorsys.hsv_to_rgb(index / channels, 0.75, 1.0) for index in range(channels)]
    palette = np.array([BACKGROUND, *(np.multiply(255, hue) for hue in hues)], np.uint8)
    seen = np.where(observation.any(axis=-1), observation.argmax(axis=-1) + 1, 0)
    image = palette[seen].repeat(CELL, axis=0).repeat(CELL, axis=1)
    image[::CELL] = image[:, ::CELL] = 0
    return image


def _environment_class() -> Any:
    try:
        with warnings.catch_warnings():
            # minatar imports plotting packages; their warnings as errors would make it log that it runs without them.
            warnings.simplefilter("ignore")
            from minatar import Environment
    except ImportError as error:
        raise gymnasium.error.DependencyNotInstalled(
            'minatar is not installed; `pip install "adaqn[minatar]"` installs it'
        ) from error
    return Environment
