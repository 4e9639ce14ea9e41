"""Videos of a policy: MP4, which needs ffmpeg, or GIF, which needs no extra package."""

from __future__ import annotations

import importlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import gymnasium
import numpy as np
from PIL import Image

from adaqn.base.checks import count, number
from adaqn.base.errors import UserError, unknown_name
from adaqn.base.files import make_parent
from adaqn.training.evaluation import EvaluationResult, Policy, evaluate_policy

DEFAULT_FPS = 30.0


class _Film(Protocol):
    def add(self, frame: np.ndarray) -> None: ...

    def finish(self) -> None: ...

    def abandon(self) -> None: ...


def checked_video_path(path: str | os.PathLike[str]) -> Path:
    """The path, if its suffix is a supported video format."""
    path = Path(path)
    if path.suffix.lower() not in _FILMS:
        raise unknown_name("suffix of a video", path.suffix, _FILMS)
    return path


def record_video(
    model: Policy,
    env: gymnasium.Env,
    path: str | os.PathLike[str],
    episodes: int = 1,
    seed: int = 0,
    fps: float | None = None,
) -> EvaluationResult:
    """Record consecutive episodes of the policy to an `.mp4` or `.gif` file, and return their results.

    The environment must be made with `render_mode="rgb_array"`. `fps` defaults to the environment's `render_fps`.
    """
    path = checked_video_path(path)
    count("episodes", episodes, low=1)
    if env.render_mode != "rgb_array":
        raise UserError(
            "a video needs an environment made with render_mode='rgb_array', "
            f"but its render_mode is {env.render_mode!r}"
        )
    speed = number("fps", env.metadata.get("render_fps", DEFAULT_FPS) if fps is None else fps, low=1.0)
    make_parent(path)
    beside = path.with_name(f".{os.getpid()}.{path.name}")  # a failure leaves no incomplete video at `path`
    film = _FILMS[path.suffix.lower()](beside, speed)
    try:
        result = evaluate_policy(model, env, episodes, seed=seed, on_frame=film.add)
        film.finish()
        beside.replace(path)
    except gymnasium.error.DependencyNotInstalled as error:
        raise UserError(f"this environment cannot render here: {error}") from error
    finally:
        film.abandon()
        beside.unlink(missing_ok=True)
    return result


class _Mp4:
    """Pipes each frame to an ffmpeg process.

    The process is started here and not by imageio, which forks; JAX warns about that.
    """

    def __init__(self, path: Path, fps: float) -> None:
        try:
            self._executable: str = importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
        except (ImportError, RuntimeError) as error:
            raise UserError(
                'an .mp4 file needs ffmpeg, which is not installed; `pip install "adaqn[video]"` installs it, '
                "and a .gif file works without it"
            ) from error
        self._path = path
        self._fps = fps
        self._process: subprocess.Popen[bytes] | None = None

    def add(self, frame: np.ndarray) -> None:
        # MP4's usual pixel format (yuv420p) needs an even height and width, so an odd side gets one row or column more.
        height, width = frame.shape[:2]
        frame = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        if self._process is None:
            self._process = self._start(frame.shape[1], frame.shape[0])
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(frame.tobytes())
        except BrokenPipeError:
            self.finish()  # raises with ffmpeg's own message
            raise

    def _start(self, width: int, height: int) -> subprocess.Popen[bytes]:
        source = f"-f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {self._fps:g} -i -"
        target = "-an -c:v libx264 -pix_fmt yuv420p -movflags +faststart"
        command = [
            self._executable,
            "-y",
            "-loglevel",
            "error",
            *source.split(),
            *target.split(),
            str(self._path),
        ]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self) -> None:
        assert self._process is not None
        process, self._process = self._process, None
        _, complaint = process.communicate()
        if process.returncode != 0:
            raise UserError(f"ffmpeg could not write the video: {complaint.decode(errors='replace').strip()}")

    def abandon(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


class _Gif:
    """Keeps frames in memory, with 256 colours each, until the video is finished."""

    def __init__(self, path: Path, fps: float) -> None:
        self._path = path
        self._milliseconds = max(20, round(100 / fps) * 10)  # GIF has units of 10 ms; viewers slow down below 20 ms
        self._frames: list[Image.Image] = []

    def add(self, frame: np.ndarray) -> None:
        self._frames.append(Image.fromarray(frame).quantize(256))

    def finish(self) -> None:
        first, *others = self._frames
        first.save(self._path, save_all=True, append_images=others, duration=self._milliseconds, loop=0)

    def abandon(self) -> None:
        self._frames.clear()


_FILMS: dict[str, Callable[[Path, float], _Film]] = {".mp4": _Mp4, ".gif": _Gif}
