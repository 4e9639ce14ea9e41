"""How JAX is set up for the whole suite; it must happen before anything imports jax."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ["JAX_PLATFORMS"] = "cpu"
# pytest -n runs a process per core, so more threads in each would only get in each other's way.
os.environ["PJRT_NPROC"] = "1"
# (B,) - (B, 1) broadcasts to (B, B) silently; here it is an error.
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
# The programs that one run of the suite compiled are there for the next.
os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
os.environ["ADAQN_CACHE_DIR"] = str(Path(__file__).resolve().parent.parent / ".pytest_cache" / "xla")
# No window, no sound device, no matter which test renders or plots.
os.environ["SDL_VIDEODRIVER"] = "dummy"
os.environ["MPLBACKEND"] = "Agg"


@pytest.fixture(scope="session", autouse=True)
def prepared_jax() -> None:
    """JAX is set up as the public classes set it up, compilation cache included."""
    from adaqn.compilation import prepare_jax

    prepare_jax()
