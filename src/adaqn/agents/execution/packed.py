"""Compiled transitions whose calls cost little: one array from the host, and no array that did not change.

Every input or output array of a program costs one to three microseconds on the host, and a step of a small ensemble
has dozens. So all numeric arguments are passed as one vector of words, and leaves of the state that the function
returns unchanged are inputs only: they are neither outputs nor donated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend import core

from adaqn.networks.xla.compilation import jit_step
from adaqn.replay.rows import WORD

Kinds = tuple[tuple[tuple[int, ...], np.dtype], ...]  # shape and dtype of each array


class _Compiled(NamedTuple):
    """The program for arrays of certain shapes."""

    changed: tuple[int, ...]  # leaves of the state that it returns
    kept: tuple[int, ...]  # leaves that it only reads
    program: Any  # (changing leaves, kept leaves, words, other arrays) -> (changed leaves, result)


class PackedStep:
    """A function (state, *arguments) -> (state, result), compiled for each set of shapes of the arguments.

    Arguments are trees of NumPy arrays, and the state always has the same structure. The state that is passed in must
    not be used again: its leaves that change are donated.
    """

    def __init__(self, function: Callable[..., tuple[Any, Any]]) -> None:
        self._function = function
        self._compiled: dict[Kinds, _Compiled] = {}

    def __call__(self, state: Any, *arguments: Any) -> tuple[Any, Any]:
        leaves, structure = jax.tree.flatten(state)
        compiled, given = self._prepared(state, leaves, arguments)
        changed, result = compiled.program(*given)
        for index, leaf in zip(compiled.changed, changed, strict=True):
            leaves[index] = leaf
        return jax.tree.unflatten(structure, leaves), result

    def lower(self, state: Any, *arguments: Any) -> Any:
        """The program for these arguments before it is compiled, as `jax.jit(...).lower` gives it."""
        compiled, given = self._prepared(state, jax.tree.leaves(state), arguments)
        return compiled.program.lower(*given)

    def _prepared(self, state: Any, leaves: list[Array], arguments: Any) -> tuple[_Compiled, tuple[Any, ...]]:
        """The program for these arguments, and what it is called with."""
        arrays = [np.asarray(array) for array in jax.tree.leaves(arguments)]
        kinds = tuple([(array.shape, array.dtype) for array in arrays])
        compiled = self._compiled.get(kinds)
        if compiled is None:
            compiled = self._compiled[kinds] = self._compile(state, arguments, kinds)
        changing = [leaves[index] for index in compiled.changed]
        kept = [leaves[index] for index in compiled.kept]
        return compiled, (changing, kept, *pack(arrays))

    def _cache_size(self) -> int:
        """Number of compiled programs, as JAX counts those of a jitted function."""
        return sum(compiled.program._cache_size() for compiled in self._compiled.values())

    def _compile(self, state: Any, arguments: Any, kinds: Kinds) -> _Compiled:
        shape_of = jax.tree.structure(arguments)

        def with_words(state: Any, words: Array, others: Sequence[Array]) -> tuple[Any, Any]:
            return self._function(state, *jax.tree.unflatten(shape_of, unpack(words, others, kinds)))

        arrays = [np.zeros(shape, dtype) for shape, dtype in kinds]
        closed, shapes = jax.make_jaxpr(with_words, return_shape=True)(state, *pack(arrays))
        _, result_shapes = shapes
        size, result = len(jax.tree.leaves(state)), jax.tree.structure(result_shapes)
        changed = changed_leaves(closed, size)
        kept = tuple(index for index in range(size) if index not in changed)
        run = core.jaxpr_as_fun(closed)

        def program(changing: list[Array], unchanged: list[Array], words: Array, others: list[Array]) -> Any:
            given = dict(zip((*changed, *kept), (*changing, *unchanged), strict=True))
            found = run(*(given[index] for index in range(size)), words, *others)
            return [found[index] for index in changed], jax.tree.unflatten(result, found[size:])

        program.__name__ = getattr(self._function, "__name__", program.__name__)  # as profiles and logs show it
        return _Compiled(changed, kept, jit_step(program))


def pack(arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """All arrays of 4-byte numbers as one vector, and the others, which are bytes of images and booleans."""
    words = [array.reshape(-1).view(WORD) for array in arrays if array.dtype.itemsize == WORD.itemsize]
    others = [array for array in arrays if array.dtype.itemsize != WORD.itemsize]
    return np.concatenate(words) if words else np.zeros(0, WORD), others


def unpack(words: Array, others: Sequence[Array], kinds: Kinds) -> list[Array]:
    """The inverse of `pack`, inside a compiled function."""
    arrays, start, left = [], 0, iter(others)
    for shape, dtype in kinds:
        if dtype.itemsize != WORD.itemsize:
            arrays.append(next(left))
            continue
        end = start + int(np.prod(shape, dtype=np.int64))
        arrays.append(jax.lax.bitcast_convert_type(words[start:end], dtype).reshape(shape))
        start = end
    return arrays


def changed_leaves(closed: Any, size: int) -> tuple[int, ...]:
    """Indices of the first outputs of a traced function that differ from the argument at the same position."""
    program = closed.jaxpr
    pairs = zip(program.invars[:size], program.outvars[:size], strict=True)
    return tuple(index for index, (given, returned) in enumerate(pairs) if given is not returned)


def repeated(function: Callable[[Any, Any], Any], state: Any, inputs: Any, count: Array) -> Any:
    """function(... function(function(state, inputs[0]), inputs[1]) ..., inputs[count - 1]) in one loop.

    The count is traced: one program makes any number of iterations up to the length of the inputs, and the result is
    the same to the bit however iterations are divided among calls. Unchanged leaves are not carried by the loop.
    """

    def given(number: Any) -> Any:
        return jax.tree.map(lambda array: jax.lax.dynamic_index_in_dim(array, number, keepdims=False), inputs)

    leaves, structure = jax.tree.flatten(state)
    changed = changed_leaves(jax.make_jaxpr(function)(state, given(0)), len(leaves))

    def merged(changing: Sequence[Array]) -> Any:
        every = list(leaves)
        for index, leaf in zip(changed, changing, strict=True):
            every[index] = leaf
        return jax.tree.unflatten(structure, every)

    def iteration(number: Array, changing: list[Array]) -> list[Array]:
        after = jax.tree.leaves(function(merged(changing), given(number)))
        return [after[index] for index in changed]

    return merged(jax.lax.fori_loop(0, jnp.asarray(count), iteration, [leaves[index] for index in changed]))
