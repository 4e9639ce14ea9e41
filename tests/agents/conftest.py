"""JAX is set up for these tests as the public classes set it up."""

from __future__ import annotations

import pytest

from adaqn.compilation import prepare_jax


@pytest.fixture(scope="session", autouse=True)
def prepared_jax() -> None:
    prepare_jax()
