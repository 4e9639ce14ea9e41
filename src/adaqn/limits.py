"""Upper bounds of settings that are limited by time, not memory: beyond them a run would make no progress.

They are far above practical values, so that only a slip (a zero too many, two settings mixed up) exceeds them.
"""

from __future__ import annotations

# Every member is a separate network, and most are a separate part of the compiled program: sixteen take 10 s to
# compile, a hundred take minutes.
MEMBERS = 1_000

# Environments are stepped one after the other in this process, and all wait for the slowest; the memory of each is
# unknown before it is made.
ENVIRONMENTS = 1_024

# Updates between two environment steps. They are planned as one list, and an interruption waits for only one of them,
# but a million updates take minutes even with the smallest networks.
GRADIENT_STEPS = 100_000

# An n-step return sums n rewards, which are gathered for every transition of a batch. The longest episodes of common
# benchmarks, Atari's, have 27,000 steps.
N_STEPS = 100_000

# Trials in the first rung of a search's bracket; each trains an agent.
TRIALS = 100_000

# Threads of XLA; the largest machines have no more cores.
THREADS = 1_024

_BY_SETTING = {
    "population": MEMBERS,
    "n_envs": ENVIRONMENTS,
    "gradient_steps": GRADIENT_STEPS,
    "n_steps": N_STEPS,
}


def most(setting: str) -> int | None:
    """The upper bound of a setting, or None if it has none or is limited by memory only."""
    return _BY_SETTING.get(setting)
