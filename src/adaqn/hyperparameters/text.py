"""Hyperparameters that are not single words or numbers, as the command line writes them."""

from __future__ import annotations

import re

from adaqn.checks import number
from adaqn.errors import UserError
from adaqn.hyperparameters.member import Convolution


def layers_from_text(text: str) -> tuple[int, ...]:
    """Parse hidden layers written as 256x256, or linear for none."""
    try:
        return tuple(int(width) for width in text.split("x")) if text != "linear" else ()
    except ValueError:
        raise UserError(f"hidden layers must be widths joined by x, such as 25x25, but got {text!r}") from None


def convolutions_from_text(text: str) -> tuple[Convolution, ...]:
    """Parse convolutions written as 32k8s4+64k4s2 (channels, kernel, stride), or none."""
    layers = [re.fullmatch(r"(\d+)k(\d+)s(\d+)", word) for word in text.split("+")] if text != "none" else []
    if not all(layers):
        raise UserError(
            "convolutions must be channels, k and kernel, s and stride, joined by +, such as "
            f"32k8s4+64k4s2+64k3s1, or none, but got {text!r}"
        )
    return tuple(Convolution(*map(int, layer.groups())) for layer in layers if layer)


def range_from_text(text: str) -> tuple[float, float]:
    """Parse a range of values written as -100:100."""
    low, colon, high = text.partition(":")
    if not colon:
        raise UserError(f"value_range must be two numbers joined by a colon, such as -100:100, but got {text!r}")
    return number("value_range", low), number("value_range", high)
