"""What is done differently where JAX computes on a GPU: compiler options, and transfers to its memory.

None of it has been run on a GPU: docs/gpu.md says what was tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

# Without it, XLA's reductions and convolutions on a GPU may differ in the last bits from run to run.
OPTIONS = {"xla_gpu_deterministic_ops": True}


def backend() -> str:
    """The kind of device that JAX computes on: cpu or gpu. Starts JAX, so it is not called on import."""
    return jax.default_backend()


def on_cpu() -> bool:
    """Whether JAX computes on the CPU."""
    return backend() == "cpu"


def transition_on_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a state transition for a GPU; its first argument, the state, is donated to the new state.

    The state stays on the device. The other arguments, such as the arrays of a batch, come from NumPy and are
    transferred in a single call, instead of one for each array; byte images become floats only on the device.
    """
    compiled: Any = jax.jit(function, donate_argnums=0, compiler_options=OPTIONS)

    def transferring(state: Any, *arguments: Any) -> Any:
        return compiled(state, *jax.device_put(arguments))

    program: Any = transferring
    program.lower, program._cache_size = compiled.lower, compiled._cache_size  # as callers know a jitted function
    return program
