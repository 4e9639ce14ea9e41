"""Where the time of one training step goes, measured inside the real loop: `python -m benchmarks.profile_step`.

In the loop a step takes longer than the same program called again and again, because the interpreter and the
environment push its data and code out of the caches; so parts are timed where they run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks.contenders import Settings


def main() -> None:
    """Train for a while, then print the median time of each part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hidden", nargs="+", default=["25x25", "50x50", "100x100", "200x200"])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--core", type=int, default=0)
    given = parser.parse_args()
    os.sched_setaffinity(0, {given.core})
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    from adaqn import AdaDQN, grid

    widths = [tuple(map(int, layers.split("x"))) for layers in given.hidden]
    common = Settings()
    model = AdaDQN(
        "LunarLander-v3",
        grid(hidden=widths, learning_rate=[common.learning_rate]),
        learning_starts=common.learning_starts,
        buffer_size=common.buffer_size,
        batch_size=common.batch_size,
        train_freq=common.train_freq,
        target_update_interval=common.target_update_interval,
        exploration_steps=common.exploration_steps,
    )
    trainer = model.trainer
    model.learn(common.learning_starts + 2 * common.target_update_interval)
    times: dict[str, list[float]] = {}
    programs = trainer.state.programs
    timed = programs._replace(update_and_act=_timed(times, "compiled update and act", programs.update_and_act))
    trainer.state = trainer.state._replace(programs=timed)
    for owner, method, label in (
        (trainer, "_settle", "all between two steps of the environment"),
        (trainer.replay, "sample", "sample a batch"),
        (trainer.agent, "plan", "plan"),
        (trainer, "_step", "environment, storing and observers"),
        (trainer.environments, "step", "environment"),
        (trainer.replay, "add", "store"),
    ):
        setattr(owner, method, _timed(times, label, getattr(owner, method)))
    begun = time.perf_counter()
    model.learn(given.steps, reset_num_timesteps=False)
    seconds = time.perf_counter() - begun
    print(f"{given.steps / seconds:.0f} steps/s, {1e6 * seconds / given.steps:.0f} us a step; medians:")
    for label, values in sorted(times.items(), key=lambda item: -statistics.median(item[1])):
        print(f"  {1e6 * statistics.median(values):6.0f} us  {label}")


def _timed(times: dict[str, list[float]], label: str, function: Callable[..., Any]) -> Callable[..., Any]:
    taken = times.setdefault(label, [])

    def timed(*arguments: Any, **keywords: Any) -> Any:
        begun = time.perf_counter()
        result = function(*arguments, **keywords)
        taken.append(time.perf_counter() - begun)
        return result

    return timed


if __name__ == "__main__":
    main()
