"""The convolution and its gradient against XLA's."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import Array

from adaqn.members.hyperparameters import PaddingName
from adaqn.networks.convolution import convolve, output_size


def reference(x: Array, kernel: Array, stride: int, padding: PaddingName) -> Array:
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), padding.upper(), dimension_numbers=layout)


def operands(shape: tuple[int, ...], side: int, units: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    kernel = rng.standard_normal((side, side, shape[-1], units), np.float32)
    return jnp.asarray(rng.standard_normal(shape, np.float32)), jnp.asarray(kernel)


def test_by_hand() -> None:
    x = jnp.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])[None, :, :, None]
    kernel = jnp.asarray([[1.0, 10.0], [100.0, 1000.0]])[:, :, None, None]
    assert convolve(x, kernel, 1, "valid")[0, :, :, 0].tolist() == [[5421.0, 6532.0], [8754.0, 9865.0]]
    assert convolve(x, kernel, 2, "valid")[0, :, :, 0].tolist() == [[5421.0]]
    # Zeros beyond the last row and column.
    assert convolve(x, kernel, 2, "same")[0, :, :, 0].tolist() == [[5421.0, 603.0], [87.0, 9.0]]


def test_gradient_by_hand() -> None:
    x = jnp.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])[None, :, :, None]
    kernel = jnp.asarray([[1.0, 10.0], [100.0, 1000.0]])[:, :, None, None]
    # With respect to a weight, the sum of what it is multiplied with; to a pixel, that of the weights it meets.
    to_x, to_kernel = jax.grad(lambda x, k: convolve(x, k, 2, "same").sum(), argnums=(0, 1))(x, kernel)
    assert to_kernel[:, :, 0, 0].tolist() == [[20.0, 10.0], [10.0, 5.0]]
    assert to_x[0, :, :, 0].tolist() == [[1.0, 10.0, 1.0], [100.0, 1000.0, 100.0], [1.0, 10.0, 1.0]]


def test_a_kernel_that_covers_the_image_by_hand() -> None:
    x = jnp.asarray([[1.0, 2.0], [3.0, 4.0]])[None, :, :, None]
    kernel = jnp.asarray([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0], [100.0, 200.0, 300.0]])[:, :, None, None]
    # One position: the upper left part of the kernel lies on the image.
    assert convolve(x, kernel, 2, "same")[0, :, :, 0].tolist() == [[1.0 + 4.0 + 30.0 + 80.0]]
    # Four positions, each with another part of the kernel on the image.
    expected = [[20.0 + 60.0 + 600.0 + 1200.0, 10.0 + 40.0 + 300.0 + 800.0], [2.0 + 6.0 + 60.0 + 120.0, 115.0]]
    assert convolve(x, kernel, 1, "same")[0, :, :, 0].tolist() == expected
    to_kernel = jax.grad(lambda k: convolve(x, k, 1, "same").sum())(kernel)
    assert to_kernel[:, :, 0, 0].tolist() == [[1.0, 3.0, 2.0], [4.0, 10.0, 6.0], [3.0, 7.0, 4.0]]


@pytest.mark.parametrize(
    ("size", "side", "stride", "convolutions"),
    [
        (4, 8, 3, 0),  # 2 x 2 positions
        (5, 5, 2, 0),  # 3 x 3
        (8, 8, 2, 1),  # 4 x 4, where a matrix with a copy of the kernel for each is slower
        (5, 3, 2, 1),  # most of the matrix would be zeros
    ],
)
def test_small_images_need_no_convolution(size: int, side: int, stride: int, convolutions: int) -> None:
    x, kernel = operands((2, size, size, 3), side, 4)
    program = str(jax.make_jaxpr(lambda x, k: convolve(x, k, stride, "same"))(x, kernel))
    assert program.count("conv_general_dilated[") == convolutions


# Every shape is a separate program that runs once.
QUICKLY: Any = {"xla_backend_optimization_level": 0}


@settings(max_examples=25, deadline=None)
@given(
    height=st.integers(1, 13),
    width=st.integers(1, 13),
    channels=st.integers(1, 4),
    side=st.integers(1, 8),
    stride=st.integers(1, 5),
    units=st.integers(1, 4),
    padding=st.sampled_from(["same", "valid"]),
)
def test_value_and_gradient_are_those_of_xla(
    height: int, width: int, channels: int, side: int, stride: int, units: int, padding: PaddingName
) -> None:
    if padding == "valid":
        height, width = max(height, side), max(width, side)
    x, kernel = operands((2, height, width, channels), side, units)
    rows, columns = (output_size(size, side, stride, padding) for size in (height, width))
    gradient = np.random.default_rng(1).standard_normal((2, rows, columns, units), np.float32)

    @partial(jax.jit, compiler_options=QUICKLY)
    def values_and_gradients(x: Array, kernel: Array, gradient: Array) -> list[tuple[Array, Array, Array]]:
        found = []
        for function in (convolve, reference):
            value, pull_back = jax.vjp(lambda x, k, f=function: f(x, k, stride, padding), x, kernel)
            found.append((value, *pull_back(gradient)))
        return found

    for one, other in zip(*values_and_gradients(x, kernel, jnp.asarray(gradient)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize(("size", "channels", "side", "stride", "units"), [(84, 4, 8, 4, 32), (20, 32, 4, 2, 64)])
def test_layers_of_the_network_for_atari(
    size: int, channels: int, side: int, stride: int, units: int, padding: PaddingName
) -> None:
    x, kernel = operands((2, size, size, channels), side, units)
    losses = [lambda x, k, f=f: jnp.square(f(x, k, stride, padding)).mean() for f in (convolve, reference)]
    (value, gradients), (expected, expected_gradients) = (
        jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(x, kernel) for loss in losses
    )
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    for one, other in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())


def test_members_in_a_batch_are_the_members_one_by_one() -> None:
    x, kernel = operands((3, 2, 7, 6, 2), 3, 4)
    kernels = jnp.stack([kernel, 2.0 * kernel, kernel - 1.0])
    gradient = jax.grad(lambda x, k: jnp.square(convolve(x, k, 2, "same")).sum(), argnums=(0, 1))
    together = jax.vmap(gradient)(x, kernels)
    for member in range(3):
        for one, other in zip(together, gradient(x[member], kernels[member]), strict=True):
            np.testing.assert_allclose(one[member], other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "expected"),
    [
        (84, 8, 4, "valid", 20),
        (84, 8, 4, "same", 21),
        (3, 4, 1, "valid", 0),
        (4, 4, 9, "valid", 1),
        (1, 8, 5, "same", 1),
    ],
)
def test_output_sizes(size: int, kernel: int, stride: int, padding: PaddingName, expected: int) -> None:
    assert output_size(size, kernel, stride, padding) == expected
