"""What a run trains: its members, with an optional search space or a schedule of hyperparameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from adaqn.agents.settings import EVOLUTION_NAMES
from adaqn.base.errors import UserError
from adaqn.members.hyperparameters import Convolution, Hyperparameters
from adaqn.members.space import SearchSpace


class Scheduled(NamedTuple):
    """Hyperparameters that take effect at a step of the run."""

    step: int
    hyperparameters: Hyperparameters


class Population(NamedTuple):
    """The members to train, and how they may change."""

    members: tuple[Hyperparameters, ...] = ()
    space: SearchSpace | None = None  # if given, members are sampled from it and mutate within it
    schedule: tuple[Scheduled, ...] = ()  # if given, the single member follows it; steps ascend


def require_room(
    space: SearchSpace, members: tuple[Hyperparameters, ...], observation_shape: Callable[[], tuple[int, ...]]
) -> None:
    """Raise if the space has a single point, or if it contains networks that are impossible for the observations."""
    if space.dimensions == 0:
        raise UserError("the space has only one value for every hyperparameter, so there is nothing to search")
    valid = "valid" in (space.fixed.padding, *(member.padding for member in members))
    if (bounds := space.convolutions) is None or not valid or len(shape := observation_shape()) != 3:
        return
    layer = Convolution(bounds.channels[0], bounds.kernel[1], bounds.stride[1])
    smallest = space.fixed.replace(convolutions=(layer,) * bounds.layers[1], padding="valid")
    # Imported here because it imports JAX, which listing the algorithms does not need.
    from adaqn.networks.network import Network

    try:
        Network(smallest.architecture, shape, 1)
    except UserError as error:
        raise UserError(
            f"the space has convolutions that are impossible for these observations, such as {bounds.layers[1]} with "
            f"the largest kernel and stride: {error}; narrow the space, or use padding 'same'"
        ) from error


def refuse_idle_evolution(settings: Any, scheduled: bool) -> None:
    """Raise if a setting of generations was changed without a search space, where it has no effect."""
    fields = {f.name: f.default for f in dataclasses.fields(settings)}
    for name in EVOLUTION_NAMES:
        if name == "reset_weights" and scheduled:
            continue
        if name in fields and getattr(settings, name) != fields[name]:
            raise UserError(f"{name} has an effect only with a search space: give one, such as space=vectors")
