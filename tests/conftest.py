"""Configuration of JAX for the whole suite, before anything imports it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ["JAX_PLATFORMS"] = "cpu"
# pytest -n runs a process per core, so more threads in each would only get in each other's way.
os.environ["PJRT_NPROC"] = "1"
# (B,) - (B, 1) broadcasts to (B, B) silently; here it is an error.
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
# Compiled programs are cached for the next run of the suite.
os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
os.environ["ADAQN_CACHE_DIR"] = str(Path(__file__).resolve().parent.parent / ".pytest_cache" / "xla")
# Tests that render or plot open no window and no sound device.
os.environ["SDL_VIDEODRIVER"] = "dummy"
os.environ["MPLBACKEND"] = "Agg"

# Most of the time of the tests went into compiling; without optimizations it takes a quarter of that. The programs are
# the same, only their machine code is slower. Processes that are killed and resumed, and all tests of `make test-all`,
# run the code that users run.
QUICKLY_COMPILED = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)


def pytest_configure(config: pytest.Config) -> None:
    """Choose how programs are compiled, here and in the processes that tests start."""
    quickly = config.getoption("markexpr") in ("not slow and not thorough", "thorough")
    os.environ["XLA_FLAGS"] = QUICKLY_COMPILED if quickly else ""


@pytest.fixture(scope="session", autouse=True)
def prepared_jax() -> None:
    """Configure JAX as the public classes do, including the compilation cache."""
    from adaqn.networks.xla.compilation import prepare_jax

    prepare_jax()
