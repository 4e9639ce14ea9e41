"""Members within the bounds of a search space."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from adaqn.hyperparameters import WITH_WEIGHT_DECAY, Convolution, Hyperparameters
from adaqn.space.entries import ConvolutionLayers, FloatBounds, IntegerBounds, Number

if TYPE_CHECKING:
    from adaqn.space.search_space import SearchSpace

Layer = TypeVar("Layer")


def clipped(space: SearchSpace, member: Hyperparameters) -> Hyperparameters:
    """The member with its numbers clipped to their bounds.

    Surplus layers are removed from the end; missing ones are copies of the last layer, or the smallest possible if
    there is none. If the space has them, a member without a discount or a weight decay of its own gets the least,
    and one without a max_grad_norm the largest.
    """
    hidden = _clip_layers(member.hidden, space.hidden.layers, space.hidden.neurons[0])
    discount, max_grad_norm = member.discount, member.max_grad_norm
    if space.discount is not None:
        discount = clip_number(discount or 0.0, space.discount)
    if space.max_grad_norm is not None:
        max_grad_norm = clip_number(max_grad_norm or math.inf, space.max_grad_norm)
    member = member.replace(
        learning_rate=clip_number(member.learning_rate, space.learning_rate),
        hidden=tuple(clip_number(width, space.hidden.neurons) for width in hidden),
        convolutions=_clip_convolutions(member.convolutions, space.convolutions),
        discount=discount,
        max_grad_norm=max_grad_norm,
    )
    return with_weight_decay(member, member.weight_decay or 0.0, space.weight_decay)


def clip_number(value: Number, bounds: tuple[Number, Number]) -> Number:
    """The nearest number within the bounds."""
    return min(max(value, bounds[0]), bounds[1])


def with_weight_decay(member: Hyperparameters, decay: float, bounds: FloatBounds | None) -> Hyperparameters:
    """The member with this weight decay, clipped, if the space varies it and the member's optimizer has it."""
    if bounds is None or member.optimizer not in WITH_WEIGHT_DECAY:
        return member
    options = {**dict(member.optimizer_options), "weight_decay": clip_number(decay, bounds)}
    return member.replace(optimizer_options=tuple(options.items()))


def _clip_convolutions(layers: tuple[Convolution, ...], bounds: ConvolutionLayers | None) -> tuple[Convolution, ...]:
    if bounds is None:
        return ()
    channels, kernel, stride = bounds.channels, bounds.kernel, bounds.stride
    return tuple(
        Convolution(
            clip_number(layer.channels, channels), clip_number(layer.kernel, kernel), clip_number(layer.stride, stride)
        )
        for layer in _clip_layers(layers, bounds.layers, Convolution(channels[0], kernel[0], stride[0]))
    )


def _clip_layers(layers: tuple[Layer, ...], bounds: IntegerBounds, smallest: Layer) -> tuple[Layer, ...]:
    kept = layers[: bounds[1]]
    return kept + (kept[-1] if kept else smallest,) * (bounds[0] - len(kept))
