"""The price of members that can be replaced: `python -m benchmarks.space_speed`.

In a search space each member has programs of its own, so that a generation compiles only new architectures; fixed
members are one program. Both train the same members of the space `vectors` on Lunar Lander, in turns, on one core with
one thread. Each population is drawn with another seed. Compilation is not counted here: `compile_cost` measures it.
"""

from __future__ import annotations

import argparse
import os
import time
from statistics import median
from typing import Any

from benchmarks.isolation import ONE_THREAD, cores, pin
from benchmarks.tasks import LUNAR_LANDER

POPULATION, TURN = 5, 500


def main() -> None:
    """Measure a few populations, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    pin(cores()[-1])
    os.environ.update(ONE_THREAD)  # before JAX is imported
    ratios = [share_of_fused_speed(seed, given.rounds) for seed in range(given.seeds)]
    print(f"median of {given.seeds} populations: {median(ratios):.2f} of the speed of fixed members")


def share_of_fused_speed(seed: int, rounds: int) -> float:
    """The speed of members in a space, as a share of the speed of the same members when they are fixed."""
    import adaqn

    settings: dict[str, Any] = {
        "learning_starts": 1_000,
        "buffer_size": LUNAR_LANDER.settings.buffer_size,
        "batch_size": LUNAR_LANDER.settings.batch_size,
        "train_freq": 1,
        "target_update_interval": 200,
        "seed": seed,
    }
    # No generation within the measurement: the members stay those that are compared.
    space = {"space": "vectors", "population": POPULATION, "generation_interval": 10_000_000}
    in_space = adaqn.AdaDQN("LunarLander-v3", **settings, **space)
    members = [report.hyperparameters for report in in_space.members]
    fixed = adaqn.AdaDQN("LunarLander-v3", members, **settings)
    for model in (in_space, fixed):
        model.learn(2_000)
    found = []
    for _ in range(rounds):
        own, theirs = (_steps_per_second(model) for model in (in_space, fixed))
        found.append((own, theirs))
    ratio = median(own / theirs for own, theirs in found)
    speeds = [median(rates) for rates in zip(*found, strict=True)]
    shapes = " ".join("x".join(map(str, member.hidden)) for member in members)
    print(f"{shapes}: {speeds[0]:.0f} steps/s in the space, {speeds[1]:.0f} fixed, {ratio:.2f}", flush=True)
    return ratio


def _steps_per_second(model: Any) -> float:
    begun = time.perf_counter()
    model.learn(TURN, reset_num_timesteps=False)
    return TURN / (time.perf_counter() - begun)


if __name__ == "__main__":
    main()
