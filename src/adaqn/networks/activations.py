"""The activation functions of the paper's search space, by their names in `jax.nn`.

Activations that normalize (such as softmax) do so over the last axis.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
from jax import Array

from adaqn.hyperparameters import ACTIVATIONS

ACTIVATION_FUNCTIONS: dict[str, Callable[[Array], Array]] = {name: getattr(jax.nn, name) for name in ACTIVATIONS}
