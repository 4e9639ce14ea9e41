"""Schedules: values that depend on the step of a run."""

from __future__ import annotations


def linear(initial: float, final: float, duration: int, step: int) -> float:
    """From `initial` at step 0 to `final` at `duration`, and `final` from then on."""
    if step >= duration:
        return final
    return initial + (final - initial) * (step / duration)
