"""The hyperparameters of one critic (ζ in the paper), and grids of them."""

from __future__ import annotations

from adaqn.hyperparameters.grids import grid, members_from
from adaqn.hyperparameters.member import Architecture, Convolution, Hyperparameters, Support, unknown_option
from adaqn.hyperparameters.names import (
    ACTIVATIONS,
    BLOCKS,
    HEADS,
    LOSSES,
    NORMALIZATIONS,
    OPTIMIZERS,
    PADDINGS,
    WITH_WEIGHT_DECAY,
    PaddingName,
)
from adaqn.hyperparameters.text import convolutions_from_text, layers_from_text, range_from_text

__all__ = [
    "ACTIVATIONS",
    "BLOCKS",
    "HEADS",
    "LOSSES",
    "NORMALIZATIONS",
    "OPTIMIZERS",
    "PADDINGS",
    "WITH_WEIGHT_DECAY",
    "Architecture",
    "Convolution",
    "Hyperparameters",
    "PaddingName",
    "Support",
    "convolutions_from_text",
    "grid",
    "layers_from_text",
    "members_from",
    "range_from_text",
    "unknown_option",
]
