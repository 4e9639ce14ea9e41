"""summary.json: the results of a run, written when it is finished."""

from __future__ import annotations

import datetime
import json
import platform
import statistics
from importlib import metadata

import numpy as np

import adaqn
from adaqn.base.files import Json, replacing
from adaqn.runs.directory import RunDirectory
from adaqn.runs.reading import Episodes, read_episodes
from adaqn.runs.recorders.progress import Stopwatch
from adaqn.training.observers import Observer, RunView

FINAL_EPISODES = 100
PARTS = 100
PACKAGES = ("jax", "numpy", "gymnasium")


class SummaryWriter(Observer[RunView]):
    """Summarizes the files of the run, which are complete even if it was resumed."""

    def __init__(self, directory: RunDirectory, stopwatch: Stopwatch) -> None:
        self._directory = directory
        self._stopwatch = stopwatch

    def on_finish(self, trainer: RunView) -> None:
        """Write the file."""
        text = json.dumps(self._summary(trainer), indent=2, sort_keys=True) + "\n"
        with replacing(self._directory.summary) as file:
            file.write(text.encode())

    def _summary(self, trainer: RunView) -> Json:
        episodes = read_episodes(self._directory.episodes)
        report = trainer.report().members
        return {
            "steps": trainer.clock.step,
            "episodes": trainer.episodes,
            "updates": trainer.updates,
            "final_return": final_return(episodes),
            "auc_return": auc_return(episodes, trainer.clock.step),
            "selections": [member.selections for member in report],
            "diverged": [k for k, member in enumerate(report) if member.diverged],
            # An interruption after the last step did not stop the run.
            "stopped": None if trainer.interrupted else trainer.stop_reason,
            "versions": _versions(),
            "time": {
                "elapsed": round(self._stopwatch.elapsed, 3),
                "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            },
        }


def final_return(episodes: Episodes) -> float | None:
    """The mean return of the last 100 episodes."""
    last = episodes.total[-FINAL_EPISODES:].tolist()
    return statistics.fmean(last) if last else None


def auc_return(episodes: Episodes, steps: int) -> float | None:
    """Area under the learning curve: split the run into 100 equal parts, and average the mean returns of the parts.

    An episode belongs to the part in which it ends; parts without episodes are left out.
    """
    # Steps count from 1, so the last step of a part belongs to it.
    part = (episodes.step - 1) * PARTS // steps
    means = [statistics.fmean(episodes.total[part == index].tolist()) for index in np.unique(part)]
    return statistics.fmean(means) if means else None


def _versions() -> dict[str, str]:
    own = {"adaqn": adaqn.__version__, "python": platform.python_version()}
    return own | {name: metadata.version(name) for name in PACKAGES}
