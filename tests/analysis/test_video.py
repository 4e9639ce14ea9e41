"""Videos: they contain every frame of the episodes, and errors explain what cannot be recorded."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
from PIL import Image

from adaqn.analysis.video import record_video
from adaqn.base.errors import EnvironmentFault, UserError
from adaqn.training.evaluation import episode_seed, evaluate_policy

imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")


class RandomPolicy:
    """Random actions, but the same ones every time."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def predict(self, observation: np.ndarray, *, deterministic: bool = True) -> tuple[Any, None]:
        return self.rng.integers(2), None


class Flag(gymnasium.Env[np.ndarray, Any]):
    """Three steps, each of another colour, in frames with odd sides; `break_at` is a step that fails."""

    def __init__(self, break_at: int | None = None, shape: tuple[int, ...] = (31, 45, 3)) -> None:
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
        self.render_mode = "rgb_array"
        self.observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.break_at = break_at
        self.shape = shape

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.taken = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        self.taken += 1
        if self.taken == self.break_at:
            raise RuntimeError("broken")
        return np.zeros(1, np.float32), 1.0, self.taken == 3, False, {}

    def render(self) -> Any:
        return np.full(self.shape, 60 * self.taken, np.uint8)


class Film(NamedTuple):
    size: tuple[int, int]  # width, height
    fps: float
    frames: np.ndarray  # [n, height, width, 3]


def read_mp4(path: Path) -> Film:
    """Decoded by ffmpeg itself, since imageio's reader leaves files open."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    done = subprocess.run(command, capture_output=True, check=True)
    described = re.search(r"Video: h264.* (\d+)x(\d+).* ([\d.]+) fps", done.stderr.decode())
    assert described is not None
    width, height = int(described[1]), int(described[2])
    frames = np.frombuffer(done.stdout, np.uint8).reshape(-1, height, width, 3)
    return Film((width, height), float(described[3]), frames)


@pytest.fixture
def cart_pole() -> Any:
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    yield env
    env.close()


def test_an_mp4_has_a_frame_for_every_step_and_one_for_every_start(cart_pole: Any, tmp_path: Path) -> None:
    path = tmp_path / "films" / "cart.mp4"
    result = record_video(RandomPolicy(), cart_pole, path, episodes=2, seed=4)
    film = read_mp4(path)
    assert len(film.frames) == sum(result.lengths) + 2
    assert film.size == (600, 400)
    assert film.fps == 50.0
    assert result == evaluate_policy(RandomPolicy(), cart_pole, 2, seed=4)
    cart_pole.reset(seed=episode_seed(4, 0))
    assert np.abs(film.frames[0].astype(int) - cart_pole.render()).mean() < 1.0, "up to compression"
    assert list(path.parent.iterdir()) == [path]


def test_a_gif_lasts_as_long_as_the_episode(cart_pole: Any, tmp_path: Path) -> None:
    path = tmp_path / "cart.gif"
    result = record_video(RandomPolicy(), cart_pole, path, fps=25)
    with Image.open(path) as film:
        assert film.format == "GIF"
        assert film.size == (600, 400)
        milliseconds = 0
        for index in range(film.n_frames):  # pyright: ignore[reportAttributeAccessIssue]
            film.seek(index)
            milliseconds += film.info["duration"]
    # Equal neighbours are one frame that is shown longer.
    assert milliseconds == (result.lengths[0] + 1) * 40


def test_odd_sides_and_the_order_of_frames(tmp_path: Path) -> None:
    record_video(RandomPolicy(), Flag(), tmp_path / "flag.mp4", fps=5)
    shown = read_mp4(tmp_path / "flag.mp4")
    assert shown.size == (46, 32)
    assert shown.fps == 5.0
    assert [float(frame.mean()) for frame in shown.frames] == pytest.approx([0, 60, 120, 180], abs=4)
    record_video(RandomPolicy(), Flag(), tmp_path / "flag.gif")
    with Image.open(tmp_path / "flag.gif") as film:
        assert film.n_frames == 4  # pyright: ignore[reportAttributeAccessIssue]
        assert film.info["duration"] == 100
        colours = []
        for index in range(4):
            film.seek(index)
            colours.append(film.convert("RGB").getpixel((0, 0)))
    assert colours == [(0, 0, 0), (60, 60, 60), (120, 120, 120), (180, 180, 180)]


@pytest.mark.parametrize("name", ["flag.mp4", "flag.gif"])
def test_a_film_that_breaks_off_leaves_the_former_one(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"former")
    with pytest.raises(EnvironmentFault, match="broken"):
        record_video(RandomPolicy(), Flag(break_at=2), path)
    assert path.read_bytes() == b"former"
    assert list(tmp_path.iterdir()) == [path]


def test_an_ffmpeg_that_fails_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "ffmpeg"
    script.write_text("#!/bin/sh\ncat > /dev/null\necho no space left >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: str(script))
    with pytest.raises(UserError, match="ffmpeg could not write the video: no space left"):
        record_video(RandomPolicy(), Flag(), tmp_path / "x.mp4")
    script.write_text("#!/bin/sh\necho unknown codec >&2\nexit 1\n")
    with pytest.raises(UserError, match="ffmpeg could not write the video: unknown codec"):
        record_video(RandomPolicy(), Flag(shape=(900, 900, 3)), tmp_path / "x.mp4")
    assert list(tmp_path.iterdir()) == [script]


def test_what_cannot_be_filmed_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = RandomPolicy()
    with pytest.raises(UserError, match="render_mode='rgb_array', but its render_mode is None"):
        record_video(policy, gymnasium.make("CartPole-v1"), tmp_path / "x.mp4")
    with pytest.raises(UserError, match=r"unknown suffix of a video '\.avi'.*allowed: \.gif, \.mp4"):
        record_video(policy, Flag(), tmp_path / "x.avi")
    with pytest.raises(UserError, match=r"episodes must be .* but got 0"):
        record_video(policy, Flag(), tmp_path / "x.gif", episodes=0)
    with pytest.raises(UserError, match=r"fps must be .* but got 0"):
        record_video(policy, Flag(), tmp_path / "x.gif", fps=0)
    with pytest.raises(UserError, match="renders RGB arrays"):
        record_video(policy, Flag(shape=(8, 8)), tmp_path / "x.gif")
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(UserError, match=r'pip install "adaqn\[video\]".*\.gif file works'):
        record_video(policy, Flag(), tmp_path / "x.mp4")
    assert list(tmp_path.iterdir()) == []


def test_a_renderer_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(UserError, match="cannot render here: pygame is not installed"):
        record_video(RandomPolicy(), env, tmp_path / "x.gif")
