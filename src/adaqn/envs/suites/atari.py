"""Atari games as the paper plays them, which is Dopamine's way after Machado et al. (2018).

Each action is repeated for 4 frames, sticky with probability 0.25 in each; the maximum of the last two is made
gray and 84 x 84, and 4 of these are an observation. Episodes end when the game is over, not with a life, or after
27 000 steps; they begin without no-ops and without fire. Rewards are clipped to [-1, 1] for learning alone.

ale-py's vector environment does all this but for the steps, in C++; here is a single environment around it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from adaqn.checks import number
from adaqn.errors import UserError

if TYPE_CHECKING:
    from ale_py import ALEInterface

HORIZON = 27_000  # steps of the agent; `max_episode_steps` changes it
FRAME_SKIP = 4
FRAME_STACK = 4
SIDE = 84

# All that one can play alone.
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
    """Point from one of ale-py's own ids (`ALE/Pong-v5`, `PongNoFrameskip-v4`), with raw screens, to ours.

    Also where they are registered: ale-py does that when it is imported, and another environment may have done so.
    """
    match = re.fullmatch(r"(?:ALE/)?(\w+?)(?:NoFrameskip|Deterministic)?-v[045]", identifier)
    if match is None or f"Atari/{match[1]}" not in NAMES:
        return
    registered = gymnasium.registry.get(identifier)
    if registered is None or replaces(registered):
        raise UserError(
            f"environment {identifier!r} shows raw screens; 'Atari/{match[1]}' is the same game with the usual "
            f"preprocessing (and 'ale_py:ALE/{match[1]}-v5' the raw one, if that is meant)"
        )


def replaces(registered: EnvSpec) -> bool:
    """Whether this is one of ale-py's own environments."""
    return str(registered.entry_point).startswith("ale_py")


class AtariGame(gymnasium.Env[np.ndarray, Any]):
    """One game. Observations are [84, 84, 4] bytes, the newest frame last, and zeros before an episode's first.

    `clip_rewards=False` lets learning see the rewards as they are. Videos show the screen in its colours.
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
        # All but the name is given, because most of the defaults are those of another tradition.
        self._vector = AtariVectorEnv(
            rom,
            num_envs=1,
            batch_size=1,
            num_threads=1,
            thread_affinity_offset=-1,
            max_num_frames_per_episode=2**31 - 1,  # no limit here: it would cut the last step short
            repeat_action_probability=sticky,
            full_action_space=full_action_space,
            continuous=False,
            autoreset_mode="NextStep",  # never comes to it: `step` refuses to go on after an end
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
        """Load the game anew, which is what makes ale-py take a seed: it alone decides about the episode."""
        super().reset(seed=seed, options=options)
        seed = int(self.np_random.integers(2**31)) if seed is None else seed % 2**31  # more bits are refused
        frames, info = self._vector.reset(seed=np.array([seed]))
        if self._screen is not None:
            self._screen.reset(seed)
        self._over = False
        return _channels_last(frames), _of_one(info)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Take the action for 4 frames, or until the game is over."""
        if self._over:
            raise gymnasium.error.ResetNeeded("the episode has ended, or none has begun")
        if not 0 <= action < self._n_actions:  # ale-py would take it for a no-op
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
    """A second console, for the colours that the vector environment does not give.

    It has the same seed and gets the same actions, and so shows the same game; it would say so if it did not.
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
