"""Configuration of JAX for the whole suite, before anything imports it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ["JAX_PLATFORMS"] = "cpu"
# pytest -n runs a process per core, so more threads in each would only compete.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
# (B,) - (B, 1) broadcasts to (B, B) silently; here it is an error.
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
# Compiled programs are cached for the next run of the suite.
os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
os.environ["ADAQN_CACHE_DIR"] = str(Path(__file__).resolve().parent.parent / ".pytest_cache" / "xla")
# Tests that render or plot open no window and no sound device.
os.environ["SDL_VIDEODRIVER"] = "dummy"
os.environ["MPLBACKEND"] = "Agg"


@pytest.fixture(scope="session", autouse=True)
def prepared_jax() -> None:
    """Configure JAX as the public classes do, including the compilation cache."""
    from adaqn.compilation import prepare_jax

    prepare_jax()
