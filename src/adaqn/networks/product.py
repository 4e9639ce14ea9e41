"""The matrix product of a dense layer, with a gradient of its input that is fast on a CPU.

The gradient of the input is G Wᵀ. If W is larger than the batch, Eigen spends most of its time on rearranging Wᵀ:
behind Atari's convolutions (3136 x 512, batch 32) it takes 12.3 ms, while (W Gᵀ)ᵀ, which is equal up to the order of
summation, takes 1.5 ms. With 200 x 200 units it is 62 against 53 µs; a product of 256 x 256 x 256 is faster as it is.
"""

from __future__ import annotations

import jax
from jax import Array


def product(x: Array, kernel: Array) -> Array:
    """Multiply a batch with the kernel of a dense layer. [B, D], [D, U] -> [B, U]"""
    return _product(x, kernel)  # type: ignore[return-value] (jax does not type it)


@jax.custom_vjp
def _product(x: Array, kernel: Array) -> Array:
    return x @ kernel


def _forwards(x: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    return x @ kernel, (x, kernel)


def _backwards(operands: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    x, kernel = operands
    if kernel.shape[0] <= x.shape[0]:
        return gradient @ kernel.T, x.T @ gradient
    # The barriers keep XLA from turning this into the product above.
    turned = jax.lax.optimization_barrier(kernel @ jax.lax.optimization_barrier(gradient.T))
    return turned.T, x.T @ gradient


_product.defvjp(_forwards, _backwards)
