"""Time per kernel of the compiled programs, as measured by XLA's profiler."""

from __future__ import annotations

import collections
import glob
import re
import statistics
import tempfile
from collections.abc import Callable, Mapping

# The profiler names kernels as the compiled program does, in lower case; names of all other events have capitals.
_KERNEL = re.compile(r"[a-z][a-z0-9_\-]*(\.\d+)*")
_PRODUCT = re.compile(r"(dot|ynn|conv)")

SHOWN = 12


def kernel_seconds(run: Callable[[], None], steps: int) -> dict[str, float]:
    """Seconds per step of every kernel in the steps that `run` takes; medians, which are robust on a busy machine."""
    import jax

    options = jax.profiler.ProfileOptions()
    options.host_tracer_level, options.python_tracer_level = 3, 0
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            run()
        (path,) = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
        recorded = jax.profiler.ProfileData.from_file(path)
        durations = collections.defaultdict[str, list[float]](list)
        for plane in recorded.planes:
            for line in plane.lines:
                for event in line.events:
                    if _KERNEL.fullmatch(event.name):
                        durations[event.name].append(1e-9 * event.duration_ns)
    return {name: statistics.median(taken) * len(taken) / steps for name, taken in durations.items()}


def print_kernels(seconds: Mapping[str, float]) -> None:
    """Print the slowest kernels and the total of matrix products."""
    total = sum(seconds.values())
    products = sum(taken for name, taken in seconds.items() if _PRODUCT.match(name))
    print(
        f"\n{len(seconds)} kernels take {1e6 * total:.0f} us per step, products (dot, ynn) {1e6 * products:.0f} of it:"
    )
    for name, taken in sorted(seconds.items(), key=lambda item: -item[1])[:SHOWN]:
        print(f"{1e6 * taken:6.0f} us  {name}")
