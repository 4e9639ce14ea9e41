"""A search space as a unit cube: ConfigSpace's view of it, and the member at a point."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adaqn.files import Json
from adaqn.hyperparameters import WITH_WEIGHT_DECAY, Convolution, Hyperparameters
from adaqn.space.clipping import clip_number, with_weight_decay
from adaqn.space.entries import plain

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from adaqn.space.search_space import SearchSpace

LEAST_DIFFERENCE = 1e-12  # of two bounds; ConfigSpace rounds them to 13 places
# The numbers that a space may vary, in the order of the cube, and whether they are sampled log-uniformly.
_NUMBERS = {"learning_rate": True, "discount": False, "max_grad_norm": True, "weight_decay": True}


def configuration_space(space: SearchSpace) -> ConfigurationSpace:
    """The space for ConfigSpace and tools built on it, without hyperparameters that have a single value."""
    import ConfigSpace as package  # here, because it imports SciPy, which takes more than a second

    result = package.ConfigurationSpace()
    for name, values in space.categories.items():
        if len(values) > 1:
            result.add(package.CategoricalHyperparameter(name, values))
    for name, log in _NUMBERS.items():
        bounds = getattr(space, name)
        if bounds is not None and bounds[1] - bounds[0] > LEAST_DIFFERENCE:
            result.add(package.UniformFloatHyperparameter(name, *bounds, log=log))
    without = [name for name in space.optimizer if name not in WITH_WEIGHT_DECAY]
    if "weight_decay" in result and without:
        having = [name for name in space.optimizer if name in WITH_WEIGHT_DECAY]
        result.add(package.InCondition(result["weight_decay"], result["optimizer"], having))
    if "loss" in result and "head" in result:
        result.add(package.EqualsCondition(result["loss"], result["head"], "scalar"))
    for section in ("hidden", "convolutions"):
        of_layers = getattr(space, section)
        if of_layers is None or of_layers.layers[1] == 0:
            continue
        for name, (low, high) in plain(of_layers).items():
            if low < high:
                result.add(package.UniformIntegerHyperparameter(f"{section}.{name}", low, high))
                if name != "layers" and of_layers.layers[0] == 0:
                    layers, of_layer = result[f"{section}.layers"], result[f"{section}.{name}"]
                    result.add(package.GreaterThanCondition(of_layer, layers, 0))
    return result


def member_at(space: SearchSpace, point: np.ndarray) -> Hyperparameters:
    """The member at a point of the unit cube, with coordinates in the order of `configuration_space`. [D]

    The interval of a discrete coordinate is divided into equal parts, one per value: ConfigSpace itself rounds, so
    the lowest and the highest value would get only half a part each. If a member has no layers, the coordinates of
    its layers' properties have no effect.
    """
    point = np.asarray(point, np.float64)
    if point.shape != (space.dimensions,) or not ((point >= 0.0) & (point <= 1.0)).all():
        raise ValueError(f"a point of this space is {space.dimensions} numbers between 0 and 1, but got {point!r}")
    values: Json = {}
    for hyperparameter, coordinate in zip(space.configuration_space.values(), point.tolist(), strict=True):
        if math.isfinite(hyperparameter.size):
            parts = int(hyperparameter.size)
            part = min(int(coordinate * parts), parts - 1)
            # In ConfigSpace's vectors a categorical is an index into its list, and numbers are scaled to [0, 1].
            coordinate = float(part) if hyperparameter.name in space.categories else part / (parts - 1)
        values[hyperparameter.name] = hyperparameter.to_value(coordinate)
    return _member(space, values)


def loss_of(head: str, of_scalar: str) -> str:
    """The loss of a member with this head: a categorical one is trained by cross-entropy."""
    return of_scalar if head == "scalar" else Hyperparameters.loss


def _member(space: SearchSpace, values: Mapping[str, Any]) -> Hyperparameters:
    """The member with these values by ConfigSpace's names; those with a single possible value may be missing."""

    def value(name: str, allowed: Sequence[Any]) -> Any:
        return values.get(name, allowed[0])

    def number(name: str) -> Any:
        """A number within its bounds, which rounding could leave; that of `fixed` if the space does not vary it."""
        bounds = getattr(space, name)
        return getattr(space.fixed, name) if bounds is None else clip_number(value(name, bounds), bounds)

    convolutions: tuple[Convolution, ...] = ()
    if (of := space.convolutions) is not None:
        shape = [value(f"convolutions.{name}", getattr(of, name)) for name in ("channels", "kernel", "stride")]
        convolutions = (Convolution(*shape),) * value("convolutions.layers", of.layers)
    head = str(value("head", space.heads))
    member = space.fixed.replace(
        activation=str(value("activation", space.activation)),
        optimizer=str(value("optimizer", space.optimizer)),
        head=head,
        loss=loss_of(head, str(value("loss", space.loss))),
        learning_rate=number("learning_rate"),
        hidden=(value("hidden.neurons", space.hidden.neurons),) * value("hidden.layers", space.hidden.layers),
        convolutions=convolutions,
        discount=number("discount"),
        normalization=str(value("normalization", space.normalization or (space.fixed.normalization,))),
        block=str(value("block", space.block or (space.fixed.block,))),
        max_grad_norm=number("max_grad_norm"),
    )
    decay = 0.0 if space.weight_decay is None else value("weight_decay", space.weight_decay)
    return with_weight_decay(member, decay, space.weight_decay)
