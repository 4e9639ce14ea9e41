"""The machine and package versions of a measurement, without a date, so that a rerun changes only numbers."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = (
    "adaqn",
    "ale-py",
    "gymnasium",
    "jax",
    "jaxlib",
    "mujoco",
    "numpy",
    "optax",
    "optuna",
    "sbx-rl",
    "stable-baselines3",
    "torch",
)


def machine() -> dict[str, str | int]:
    """Processor and operating system."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.machine()}",
    }


def versions() -> dict[str, str]:
    """Versions of Python and of the installed packages that the numbers depend on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
