"""Atari games with the paper's preprocessing, which is Dopamine's and follows Machado et al. (2018).

Each action is repeated for 4 frames, with sticky actions of probability 0.25 in each frame. The maximum of the last
two frames is converted to 84 x 84 grayscale, and 4 of these are stacked to an observation. Episodes end at game over
(not when a life is lost) or after 27 000 steps, and begin without no-ops or fire. Rewards are clipped to [-1, 1] for
learning only.

ale-py's vector environment does all of this in C++ except the step limit; this is a single environment around it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from adaqn.base.checks import number
from adaqn.base.errors import UserError

if TYPE_CHECKING:
    from ale_py import ALEInterface

HORIZON = 27_000  # agent steps per episode; `max_episode_steps` overrides it
FRAME_SKIP = 4
FRAME_STACK = 4
SIDE = 84

# All single-player games.
_GAMES = """
    Adventure AirRaid Alien Amidar Assault Asterix Asteroids Atlantis Atlantis2 Backgammon BankHeist BasicMath
    BattleZone BeamRider Berzerk Blackjack Bowling Boxing Breakout Carnival Casino Centipede ChopperCommand
    CrazyClimber Crossbow Darkchambers Defender DemonAttack DonkeyKong DoubleDunk Earthworld ElevatorAction Enduro
    Entombed Et FishingDerby FlagCapture Freeway Frogger Frostbite Galaxian Gopher Gravitar Hangman HauntedHouse
    Hero HumanCannonball IceHockey Jamesbond JourneyEscape Kaboom Kangaroo KeystoneKapers KingKong Klax Koolaid
    Krull KungFuMaster LaserGates LostLuggage MarioBros MiniatureGolf MontezumaRevenge MrDo MsPacman NameThisGame
    Othello Pacman Phoenix Pitfall Pitfall2 Pong Pooyan PrivateEye Qbert Riverraid RoadRunner Robotank Seaquest
    SirLancelot Skiing Solaris SpaceInvaders SpaceWar StarGunner Superman Surround Tennis Tetris TicTacToe3D
    TimePilot Trondead Turmoil Tutankham UpNDown Venture VideoCheckers VideoChess VideoCube VideoPinball WizardOfWor
    WordZapper YarsRevenge Zaxxon
"""
NAMES = tuple(f"Atari/{game}" for game in _GAMES.split())


def spec(name: str) -> EnvSpec:
    """How to make the game with this id."""
    return EnvSpec(
        name,
        entry_point=f"{__name__}:AtariGame",
        max_episode_steps=HORIZON,
        disable_env_checker=True,
        kwargs={"game": name.removeprefix("Atari/")},
    )


def refuse_replaced(identifier: str) -> None:
    """Raise for one of ale-py's own ids (`ALE/Pong-v5`, `PongNoFrameskip-v4`), which show raw screens, naming ours.

    Also if the id is registered: importing ale-py registers its ids, and another environment may have imported it.
    """
    match = re.fullmatch(r"(?:ALE/)?(\w+?)(?:NoFrameskip|Deterministic)?-v[045]", identifier)
    if match is None or f"Atari/{match[1]}" not in NAMES:
        return
    registered = gymnasium.registry.get(identifier)
    if registered is None or replaces(registered):
        raise UserError(
            f"environment {identifier!r} shows raw screens; 'Atari/{match[1]}' is the same game with the usual "
            f"preprocessing (use 'ale_py:ALE/{match[1]}-v5' if you want raw screens)"
        )


def replaces(registered: EnvSpec) -> bool:
    """Whether this is one of ale-py's own environments."""
    return str(registered.entry_point).startswith("ale_py")


class AtariGame(gymnasium.Env[np.ndarray, Any]):
    """One game. Observations are [84, 84, 4] bytes, newest frame last, with zeros before an episode's first frame.

    `clip_rewards=False` disables reward clipping for learning. Videos show the screen in colour.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 60 // FRAME_SKIP}  # noqa: RUF012
    frame_stack: ClassVar[int] = FRAME_STACK

    def __init__(
        self,
        game: str,
        clip_rewards: bool = True,
        repeat_action_probability: float = 0.25,
        full_action_space: bool = False,
        render_mode: str | None = None,
    ) -> None:
        try:
            from ale_py import roms
            from ale_py.vector_env import AtariVectorEnv
        except ImportError as error:
            raise gymnasium.error.DependencyNotInstalled(
                'ale-py is not installed; `pip install "adaqn[atari]"` installs it'
            ) from error
        rom = {rom.title().replace("_", ""): rom for rom in roms.get_all_rom_ids()}[game]
        sticky = number("repeat_action_probability", repeat_action_probability, low=0.0, high=1.0)
        # Every argument is given, because most defaults follow a different protocol.
        self._vector = AtariVectorEnv(
            rom,
            num_envs=1,
            batch_size=1,
            num_threads=1,
            thread_affinity_offset=-1,
            max_num_frames_per_episode=2**31 - 1,  # unlimited: a limit in frames would cut the last step short
            repeat_action_probability=sticky,
            full_action_space=full_action_space,
            continuous=False,
            autoreset_mode="NextStep",  # never happens: `step` raises after the end of an episode
            img_height=SIDE,
            img_width=SIDE,
            grayscale=True,
            stack_num=FRAME_STACK,
            frameskip=FRAME_SKIP,
            maxpool=True,
            noop_max=0,
            episodic_life=False,
            life_loss_info=False,
            reward_clipping=False,
            use_fire_reset=False,
        )
        actions = self._vector.ale.get_action_set()
        self.observation_space = spaces.Box(0, 255, (SIDE, SIDE, FRAME_STACK), np.uint8)
        self._n_actions = len(actions)
        self.action_space = spaces.Discrete(self._n_actions)
        self.learning_reward_bound: float | None = 1.0 if clip_rewards else None
        self.render_mode = render_mode
        self._screen = _Screen(rom, sticky, actions) if render_mode == "rgb_array" else None
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Reload the game, because ale-py takes a new seed only then; the seed alone determines the episode."""
        super().reset(seed=seed, options=options)
        seed = int(self.np_random.integers(2**31)) if seed is None else seed % 2**31  # ale-py takes 31 bits
        frames, info = self._vector.reset(seed=np.array([seed]))
        if self._screen is not None:
            self._screen.reset(seed)
        self._over = False
        return _channels_last(frames), _of_one(info)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Take the action for 4 frames, or until the game is over."""
        if self._over:
            raise gymnasium.error.ResetNeeded("the episode has ended, or none has begun")
        if not 0 <= action < self._n_actions:  # ale-py would treat it as a no-op
            raise gymnasium.error.InvalidAction(f"the action must be from 0 to {self._n_actions - 1}: {action}")
        frames, rewards, terminated, truncated, info = self._vector.step(np.array([action], np.int64))
        reward, self._over = float(rewards[0]), bool(terminated[0])
        if self._screen is not None:
            self._screen.follow(int(action), reward, self._over)
        return _channels_last(frames), reward, self._over, bool(truncated[0]), _of_one(info)

    def render(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The screen. [210, 160, 3]"""
        return None if self._screen is None else self._screen.colours()

    def close(self) -> None:
        self._vector.close()


class _Screen:
    """A second emulator for rendering in colour, which the vector environment does not support.

    It has the same seed and takes the same actions, so it plays the same game; it raises if that is not so.
    """

    def __init__(self, rom: str, sticky: float, actions: list[Any]) -> None:
        from ale_py import ALEInterface, LoggerMode, roms

        ALEInterface.setLoggerMode(LoggerMode.Error)
        self._console: ALEInterface = ALEInterface()
        self._console.setFloat("repeat_action_probability", sticky)
        self._path = roms.get_rom_path(rom)
        self._actions = actions

    def reset(self, seed: int) -> None:
        assert self._path is not None
        self._console.setInt("random_seed", seed)
        self._console.loadROM(self._path)
        self._console.reset_game()

    def follow(self, action: int, reward: float, over: bool) -> None:
        total = 0
        for _ in range(FRAME_SKIP):
            total += self._console.act(self._actions[action])
            if self._console.game_over():
                break
        if total != reward or self._console.game_over() != over:
            raise RuntimeError("the console that is rendered no longer plays the same game")

    def colours(self) -> np.ndarray:
        return self._console.getScreenRGB()


def _channels_last(frames: np.ndarray) -> np.ndarray:
    """[1, stack, height, width] to [height, width, stack]."""
    stacked = np.empty((SIDE, SIDE, FRAME_STACK), np.uint8)
    for index in range(FRAME_STACK):  # a third of the time of a transposed copy
        stacked[..., index] = frames[0, index]
    return stacked


def _of_one(info: dict[str, Any]) -> dict[str, Any]:
    return {key: int(info[key][0]) for key in ("lives", "episode_frame_number")}
