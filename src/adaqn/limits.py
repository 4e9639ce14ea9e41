"""The most that a setting may be where time sets the limit, not memory: beyond it a run would never get anywhere.

They are far above what anybody uses, so that only a slip (a zero too many, two settings mixed up) meets one of them.
"""

from __future__ import annotations

# Every member is a network of its own, and most are a part of their own in the compiled program: sixteen take 10 s to
# compile and a hundred take minutes.
MEMBERS = 1_000

# Environments are stepped one after the other in this process, and all wait for the slowest; each is an object with
# memory that nobody can tell before it is made.
ENVIRONMENTS = 1_024

# Updates between two steps of the environment. They are planned as one list, and an interruption waits for one of
# them only; but a step of a million updates takes minutes even with the smallest networks.
GRADIENT_STEPS = 100_000

# A return is summed over so many rewards, which are gathered for every transition of a batch. The longest episodes
# of the usual benchmarks, Atari's, have 27,000 steps.
N_STEPS = 100_000

# Trials that one bracket of a search begins with: each is a whole training.
TRIALS = 100_000

# Threads that XLA computes with; one process has no use for more cores than the largest machines have.
THREADS = 1_024

_BY_SETTING = {
    "population": MEMBERS,
    "n_envs": ENVIRONMENTS,
    "gradient_steps": GRADIENT_STEPS,
    "n_steps": N_STEPS,
}


def most(setting: str) -> int | None:
    """The most that a setting may be, or None where only memory limits it, or nothing."""
    return _BY_SETTING.get(setting)
