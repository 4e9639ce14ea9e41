"""Search spaces of hyperparameters: those that come with the package, and user-defined ones."""

from __future__ import annotations

from adaqn.space.entries import ConvolutionLayers, DenseLayers, IntegerBounds
from adaqn.space.named import default_space, named_spaces, space_from
from adaqn.space.search_space import SearchSpace

__all__ = [
    "ConvolutionLayers",
    "DenseLayers",
    "IntegerBounds",
    "SearchSpace",
    "default_space",
    "named_spaces",
    "space_from",
]
