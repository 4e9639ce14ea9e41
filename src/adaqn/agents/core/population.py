"""What a run trains: members, the space that they may move through, or a schedule that one of them follows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from adaqn.agents.core.settings import EVOLUTION_NAMES
from adaqn.errors import UserError
from adaqn.hyperparameters import Convolution, Hyperparameters
from adaqn.space import SearchSpace


class Scheduled(NamedTuple):
    """The hyperparameters that a run has from some step on."""

    step: int
    hyperparameters: Hyperparameters


class Population(NamedTuple):
    """What is trained: members, and what they may become."""

    members: tuple[Hyperparameters, ...] = ()
    space: SearchSpace | None = None  # where given, members move through it, or are drawn from it
    schedule: tuple[Scheduled, ...] = ()  # where given, the one member follows it; steps ascend


def require_room(
    space: SearchSpace, members: tuple[Hyperparameters, ...], observation_shape: Callable[[], tuple[int, ...]]
) -> None:
    """Raise if there is nowhere to go in the space, or if a run could come to a network that is not possible."""
    if space.dimensions == 0:
        raise UserError("the space of hyperparameters has one value only for everything, so there is nothing to search")
    valid = "valid" in (space.fixed.padding, *(member.padding for member in members))
    if (bounds := space.convolutions) is None or not valid or len(shape := observation_shape()) != 3:
        return
    layer = Convolution(bounds.channels[0], bounds.kernel[1], bounds.stride[1])
    smallest = space.fixed.replace(convolutions=(layer,) * bounds.layers[1], padding="valid")
    # Imported here, because it imports JAX, which the names of the algorithms do not need.
    from adaqn.networks.network import Network

    try:
        Network(smallest.architecture, shape, 1)
    except UserError as error:
        raise UserError(
            f"the space has convolutions that are not possible for these observations, such as {bounds.layers[1]} of "
            f"the largest kernel and stride: {error}; narrow the space, or take padding 'same'"
        ) from error


def refuse_idle_evolution(settings: Any, scheduled: bool) -> None:
    """Raise if something was said about generations, of which there are none without a space."""
    fields = {f.name: f.default for f in dataclasses.fields(settings)}
    for name in EVOLUTION_NAMES:
        if name == "reset_weights" and scheduled:
            continue
        if name in fields and getattr(settings, name) != fields[name]:
            raise UserError(
                f"{name} is about generations, which there are only in a space: give one, such as space=vectors"
            )
