"""The matrix product of a dense layer, with a gradient of its input that is fast on a CPU.

The gradient of the input is G Wᵀ. If W is larger than the batch, Eigen spends most of its time on rearranging Wᵀ:
behind Atari's convolutions (3136 x 512, batch 32) it takes 12.3 ms, while (W Gᵀ)ᵀ, which is equal up to the order of
summation, takes 1.5 ms. With 200 x 200 units it is 62 against 53 µs; a product of 256 x 256 x 256 is faster as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from adaqn.members.hyperparameters import PaddingName
from adaqn.networks.xla.compilation import on_cpu


def product(x: Array, kernel: Array) -> Array:
    """Multiply a batch with the kernel of a dense layer. [B, D], [D, U] -> [B, U]"""
    return _product(x, kernel)  # type: ignore[return-value] (jax does not type it)


@jax.custom_vjp
def _product(x: Array, kernel: Array) -> Array:
    return x @ kernel


def _product_forwards(x: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    return x @ kernel, (x, kernel)


def _product_backwards(operands: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    x, kernel = operands
    if kernel.shape[0] <= x.shape[0]:
        return gradient @ kernel.T, x.T @ gradient
    # The barriers keep XLA from turning this into the product above.
    turned = jax.lax.optimization_barrier(kernel @ jax.lax.optimization_barrier(gradient.T))
    return turned.T, x.T @ gradient


_product.defvjp(_product_forwards, _product_backwards)


def output_size(size: int, kernel: int, stride: int, padding: PaddingName) -> int:
    """The output height (or width) of a convolution for an input of this size; 0 if the kernel does not fit."""
    if padding == "same":
        return -(-size // stride)
    return max(0, (size - kernel) // stride + 1)


def convolve(x: Array, kernel: Array, stride: int, padding: PaddingName) -> Array:
    """Convolve images with a kernel. [B, H, W, C], [k, k, C, D] -> [B, H', W', D]"""
    if not on_cpu():  # XLA's own backward pass is fast there
        return _by_xla(x, kernel, stride, padding)
    if _is_dense(x.shape[1:3], kernel.shape[0], stride, padding):
        return _as_dense_layer(x, kernel, stride, padding)
    return _convolve(x, kernel, stride, padding)  # type: ignore[return-value] (jax does not type it)


def _is_dense(image: Sequence[int], side: int, stride: int, padding: PaddingName) -> bool:
    """Whether a convolution is faster as a dense layer: the kernel covers the image, and has few positions.

    The matrix of the dense layer has a copy of the kernel for each position. With 3 x 3 positions it is as fast or
    faster, with 4 x 4 it is slower.
    """
    return all(size <= side and output_size(size, side, stride, padding) <= 3 for size in image)


def _as_dense_layer(x: Array, kernel: Array, stride: int, padding: PaddingName) -> Array:
    """`convolve` as the product of flat images [B, H * W * C] and a matrix [H * W * C, H' * W' * D].

    The columns of an output pixel are the part of the kernel that lies on the image, wherever the kernel is placed.
    """
    batch, height, width, channels = x.shape
    side, _, _, units = kernel.shape
    starts, margins = zip(*(_placements(size, side, stride, padding) for size in (height, width)), strict=True)
    kernel = jnp.pad(kernel, (*margins, (0, 0), (0, 0)))
    columns = [
        kernel[top : top + height, left : left + width].reshape(height * width * channels, units)
        for top in starts[0]
        for left in starts[1]
    ]
    flat = product(x.reshape(batch, -1), jnp.concatenate(columns, axis=1))
    return flat.reshape(batch, len(starts[0]), len(starts[1]), units)


def _placements(size: int, side: int, stride: int, padding: PaddingName) -> tuple[list[int], tuple[int, int]]:
    """For every position of the kernel, its first row (or column) on the image; and the zeros needed around it."""
    count = output_size(size, side, stride, padding)
    before = _padding_before(size, count, side, stride, padding)
    first = [before - position * stride for position in range(count)]
    low, high = max(0, -first[-1]), max(0, first[0] + size - side)
    return [row + low for row in first], (low, high)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _convolve(x: Array, kernel: Array, stride: int, padding: PaddingName) -> Array:
    return _by_xla(x, kernel, stride, padding)


def _by_xla(x: Array, kernel: Array, stride: int, padding: PaddingName) -> Array:
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), padding.upper(), dimension_numbers=layout)


def _forwards(x: Array, kernel: Array, stride: int, padding: PaddingName) -> tuple[Array, tuple[Array, Array]]:
    return convolve(x, kernel, stride, padding), (x, kernel)


def _backwards(
    stride: int, padding: PaddingName, operands: tuple[Array, Array], gradient: Array
) -> tuple[Array, Array]:
    # XLA removes unused results from the compiled program: the value, and the gradient of the observation.
    _, pull_back = jax.vjp(partial(_by_product, stride=stride, padding=padding), *operands)
    of_image, of_kernel = pull_back(gradient)
    image, kernel = operands
    if kernel.shape[0] <= min(gradient.shape[1:3]):
        (of_kernel,) = jax.vjp(lambda k: _by_xla(image, k, stride, padding), kernel)[1](gradient)
    return of_image, of_kernel


_convolve.defvjp(_forwards, _backwards)


def _by_product(x: Array, kernel: Array, stride: int, padding: PaddingName) -> Array:
    """`convolve` as one matrix product.

    The image is cut into blocks of stride x stride pixels, so that a window is q x q whole blocks (a kernel whose size
    is not a multiple of the stride is padded with zeros). q horizontally adjacent blocks of a window form one row of
    the left matrix, and its products with the q rows of the kernel are added at the heights of these rows.
    """
    side, _, channels, units = kernel.shape
    batch, height, width, _ = x.shape
    rows, columns = (output_size(size, side, stride, padding) for size in (height, width))
    q = -(-side // stride)
    used = min(side, stride)  # pixels of a block that a window covers, in each direction
    features = used * used * channels

    tall, wide = rows + q - 1, columns + q - 1
    to_blocks = [
        (0, 0, 0),
        _zeros(height, rows, side, stride, padding, tall),
        _zeros(width, columns, side, stride, padding, wide),
        (0, 0, 0),
    ]
    x = jax.lax.pad(x, jnp.zeros((), x.dtype), to_blocks)
    x = x.reshape(batch, tall, stride, wide, stride, channels)[:, :, :used, :, :used]
    x = x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, tall, wide, features)
    x = jnp.concatenate([x[:, :, j : j + columns] for j in range(q)], axis=3)

    end = q * used - side
    kernel = jnp.pad(kernel, ((0, end), (0, end), (0, 0), (0, 0))).reshape(q, used, q, used, channels, units)
    kernel = kernel.transpose(2, 1, 3, 4, 0, 5).reshape(q * features, q * units)

    product = (x.reshape(-1, q * features) @ kernel).reshape(batch, tall, columns, q * units)
    first, *others = (part[:, i : i + rows] for i, part in enumerate(jax.lax.split(product, [units] * q, axis=3)))
    return sum(others, start=first)


def _zeros(size: int, count: int, side: int, stride: int, padding: PaddingName, blocks: int) -> tuple[int, int, int]:
    """Padding (low, high, interior) to whole blocks; negative padding crops pixels."""
    before = _padding_before(size, count, side, stride, padding)
    return before, blocks * stride - size - before, 0


def _padding_before(size: int, count: int, side: int, stride: int, padding: PaddingName) -> int:
    """Zeros above (or left of) the image."""
    return max((count - 1) * stride + side - size, 0) // 2 if padding == "same" else 0
