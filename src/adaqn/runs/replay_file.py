"""Saving and loading a replay buffer as one file, which is checked against the environment before it is used."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np

from adaqn.base.errors import CheckpointError
from adaqn.base.files import Json, make_parent
from adaqn.base.snapshot import Snapshot, read_snapshot, require_replaceable, write_snapshot
from adaqn.replay.protocol import Replay
from adaqn.runs.saved_spaces import check_same_spaces, describe_spaces
from adaqn.training.trainer import Trainer

KIND = "replay"


def write_replay(path: Path, trainer: Trainer) -> None:
    """Write the content of the buffer; an existing file of another kind is not overwritten."""
    require_replaceable(path, KIND, "replay buffer")
    make_parent(path)
    replay = trainer.replay
    rows = replay.rows(replay.oldest, replay.added)
    write_snapshot(path, Snapshot(rows, {"first": replay.oldest, **_facts(trainer)}), KIND)


def read_replay(path: Path, trainer: Trainer, empty: Replay) -> int:
    """Fill an empty buffer, which may be smaller or larger than the saved one.

    Returns the number of transitions in the file; a smaller buffer keeps only the newest of them.
    """
    rows, meta = read_snapshot(path, KIND)
    facts = _facts(trainer)
    check_same_spaces(str(path), meta.get("spaces"), facts["spaces"])
    for name in ("environments", "frame_stack"):
        if meta.get(name) != facts[name]:
            raise CheckpointError(
                f"{path} was saved with {name.replace('_', ' ')} = {meta.get(name)!r}, but here it is {facts[name]}"
            )
    first = meta.get("first")
    if not isinstance(first, int) or isinstance(first, bool) or not 0 <= first < 2**62:
        raise CheckpointError(f"{path} is damaged: its first row is {first!r}")
    _check_values(path, rows, trainer)
    empty.restore(first, rows)
    # The next transition belongs to a new episode, whether or not the last row ended one.
    empty.cut(range(trainer.environments.count))
    # The first frame of an episode is a row of its own, but no transition.
    return int(np.count_nonzero(rows["place"])) if "place" in rows else rows["reward"].size


def _facts(trainer: Trainer) -> Json:
    """The properties of the environments that determine the layout of rows."""
    environments = trainer.environments
    return {
        "spaces": describe_spaces(environments.observation_space, environments.action_space),
        "environments": environments.count,
        "frame_stack": environments.frame_stack,
    }


def _check_values(path: Path, rows: dict[str, np.ndarray], trainer: Trainer) -> None:
    """Raise for values that no environment with these spaces can produce."""
    actions = trainer.environments.action_space
    low, high = (0, int(actions.n) - 1) if isinstance(actions, gymnasium.spaces.Discrete) else (-1.0, 1.0)
    bounds: dict[str, tuple[float, float]] = {
        "action": (low, high),
        "environment": (0, trainer.environments.count - 1),
        "place": (0, trainer.environments.frame_stack + 1),
    }
    for name, array in rows.items():
        if array.dtype.kind not in "fiub":
            raise CheckpointError(f"{path} is damaged: {name} has dtype {array.dtype}, where numbers are expected")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise CheckpointError(f"{path} is damaged: {name} has non-finite values")
        if name in bounds and array.size and not (bounds[name][0] <= array.min() and array.max() <= bounds[name][1]):
            raise CheckpointError(
                f"{path} is damaged: {name} must be from {bounds[name][0]} to {bounds[name][1]}, "
                f"but it is from {array.min()} to {array.max()}"
            )
