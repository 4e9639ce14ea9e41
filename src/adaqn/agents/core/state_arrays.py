"""Conversion of a state pytree to named arrays and back; the names are the paths in the tree."""

from __future__ import annotations

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from adaqn.base.errors import CheckpointError
from adaqn.networks.ensemble import own_array

State = TypeVar("State")


def state_to_arrays(state: Any) -> dict[str, np.ndarray]:
    """Copy all arrays of the tree into a dictionary by path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path): np.array(_raw(leaf)) for path, leaf in leaves}


def state_from_arrays(like: State, arrays: dict[str, np.ndarray]) -> State:
    """Build a tree with the structure of `like` from these arrays; raise if one is missing or does not match."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    loaded = []
    for path, leaf in leaves:
        name = jax.tree_util.keystr(path)
        if name not in arrays:
            raise CheckpointError(f"the saved state has no array {name}, so it belongs to another kind of run")
        given, expected = arrays[name], np.asarray(_raw(leaf))
        if given.shape != expected.shape or given.dtype != expected.dtype:
            raise CheckpointError(
                f"the saved array {name} has shape {given.shape} and type {given.dtype}, "
                f"but this run needs {expected.shape} and {expected.dtype}"
            )
        # A copy that JAX owns: an aliased NumPy buffer must not be donated.
        array = own_array(given)
        loaded.append(jax.random.wrap_key_data(array) if _is_key(leaf) else array)
    return jax.tree_util.tree_unflatten(structure, loaded)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _raw(leaf: Any) -> Any:
    """The raw data of a typed random key, which NumPy cannot represent, or the array itself."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf
