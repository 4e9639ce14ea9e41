"""Where the time of one training step goes, measured inside the real loop: `python -m benchmarks.profile_step`.

In the loop a step takes longer than the same program called again and again, because the interpreter and the
environment push its data and code out of the caches; so parts are timed where they run.
How near the compiled update is to what this machine can do is told beside the best rate of a product of two matrices of
256 x 256 in the same process, on one thread.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from benchmarks import flops
from benchmarks.contenders import Contender, DQNSettings, SACSettings, Settings, build
from benchmarks.isolation import ONE_THREAD, cores, pin
from benchmarks.kernels import kernel_seconds, print_kernels
from benchmarks.tasks import TASKS, Task

SIDE = 256
PRODUCTS = 2_000

# The parts of a step that do not contain each other; what is left is Python's.
ENVIRONMENT, SAMPLE, UPDATE, STORE = "environment", "sample a batch", "compiled update and act", "store"

Times = dict[str, list[float]]  # seconds of every call, by what was called


def main() -> None:
    """Train for a while, then print the time of each part."""
    given = _arguments()
    pin(given.core)
    os.environ.update(ONE_THREAD)  # before JAX is imported
    if given.kernels:
        os.environ["XLA_FLAGS"] += " --xla_cpu_enable_xprof_traceme=true"
    task: Task = given.chosen
    contender: Contender = given.profiled
    with tempfile.TemporaryDirectory() as elsewhere, contextlib.chdir(elsewhere):  # MuJoCo leaves a file of warnings
        env = task.make()
    work = update_flops(task.settings, contender, env)
    model: Any = build(contender, env, task.settings, task.warmup + given.steps, seed=0)
    limit = product_rate()  # not before adaqn has set JAX up
    model.learn(task.warmup)
    times = watch(model.trainer)
    begun = time.perf_counter()
    model.learn(given.steps, reset_num_timesteps=False)
    seconds = time.perf_counter() - begun
    limit = max(limit, product_rate())  # the better of before and after: a neighbour can only slow it down

    print(f"{task.name}, {len(contender.members)} members: {given.steps / seconds:.0f} steps/s, ", end="")
    print(f"{1e6 * seconds / given.steps:.0f} us a step\n\n   median   calls    share")
    for label, taken in sorted(times.items(), key=lambda item: -sum(item[1])):
        if taken:
            print(f"{1e6 * statistics.median(taken):6.0f} us{len(taken):8}{sum(taken) / seconds:9.1%}  {label}")
    rest = 1.0 - sum(sum(times[part]) for part in (ENVIRONMENT, SAMPLE, UPDATE, STORE)) / seconds
    print(f"{'':17}{rest:9.1%}  Python between environment, sample, update and store")

    rate = work / statistics.median(times[UPDATE])
    print(f"\nan update is {work / 1e6:.1f} MFLOP, done at {rate / 1e9:.1f} GFLOP/s: ", end="")
    print(f"{rate / limit:.0%} of the {limit / 1e9:.1f} of a {SIDE} x {SIDE} x {SIDE} product")
    if given.kernels:
        print_kernels(kernel_seconds(lambda: model.learn(given.kernels, reset_num_timesteps=False), given.kernels))


def watch(trainer: Any) -> Times:
    """Time the parts of every step from now on."""
    import jax

    times: Times = {}
    programs = trainer.agent.programs(trainer.state)
    update = programs.update_and_act
    if isinstance(update, dict):  # SAC has one with the actor's update and one without
        timed: Any = {
            operation: _timed(times, UPDATE, update[operation], jax.block_until_ready) for operation in update
        }
    else:
        timed = _timed(times, UPDATE, update, jax.block_until_ready)
    watched = programs._replace(update_and_act=timed)
    trainer.agent.programs = lambda state: watched
    for owner, method, label in (
        (trainer, "_settle", "all between two steps of the environment"),
        (trainer.replay, "sample_rows" if hasattr(trainer.replay, "sample_rows") else "sample", SAMPLE),
        (trainer.agent, "plan", "plan"),
        (trainer, "_step", "environment, storing and observers"),
        (trainer.environments, "step", ENVIRONMENT),
        (trainer.replay, "add", STORE),
    ):
        setattr(owner, method, _timed(times, label, getattr(owner, method)))
    return times


def update_flops(settings: Settings, contender: Contender, env: gym.Env[Any, Any]) -> float:
    """The operations of one update; acting on one observation is left out."""
    seen, batch = tuple[int, ...](env.observation_space.shape or ()), settings.batch_size
    if isinstance(settings, SACSettings):
        observation, actions = math.prod(seen), math.prod(env.action_space.shape or ())
        critics = [flops.perceptron(observation + actions, hidden, 1) for hidden in contender.members]
        return flops.sac_update(critics, flops.perceptron(observation, settings.actor_hidden, 2 * actions), batch)
    assert isinstance(settings, DQNSettings)
    actions = int(getattr(env.action_space, "n"))  # noqa: B009 (Discrete's own)
    side, channels = (seen[0], seen[-1]) if settings.convolutions else (1, seen[0])
    return flops.dqn_update(
        [flops.convolutional(side, channels, settings.convolutions, hidden, actions) for hidden in contender.members],
        batch,
    )


def product_rate() -> float:
    """Operations per second of the fastest of many products."""
    import jax
    import jax.numpy as jnp

    product = jax.jit(jnp.matmul)
    factor = jnp.full((SIDE, SIDE), 0.5, jnp.float32)
    fastest = float("inf")
    jax.block_until_ready(product(factor, factor))
    for _ in range(PRODUCTS):
        begun = time.perf_counter()
        jax.block_until_ready(product(factor, factor))
        fastest = min(fastest, time.perf_counter() - begun)
    return 2 * SIDE**3 / fastest


def _timed(
    times: Times, label: str, function: Callable[..., Any], finish: Callable[[Any], Any] = lambda result: result
) -> Callable[..., Any]:
    taken = times.setdefault(label, [])

    def timed(*arguments: Any, **keywords: Any) -> Any:
        begun = time.perf_counter()
        result = finish(function(*arguments, **keywords))
        taken.append(time.perf_counter() - begun)
        return result

    return timed


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, default="lunar-lander", help="(default lunar-lander)")
    parser.add_argument("--contender", help="one of ours (default adaqn-k1, or adaqn-k2 where critics are a pair)")
    parser.add_argument("--hidden", nargs="+", help="members by their layers instead, as in 25x25 200x200")
    parser.add_argument("--steps", type=int, help="steps to measure (default: as many as `throughput` does)")
    parser.add_argument("--kernels", type=int, default=0, metavar="N", help="then record the kernels of N more steps")
    parser.add_argument("--core", type=int, default=cores()[-1], help="the core to measure on")
    given = parser.parse_args()
    task = given.chosen = TASKS[given.task]
    given.steps = task.steps if given.steps is None else given.steps
    ours = {contender.name: contender for contender in task.contenders if contender.library == "adaqn"}
    name = given.contender or f"adaqn-k{task.base}"
    if name not in ours:
        parser.error(f"--contender is {name}, but in {task.name} ours are {', '.join(ours)}.")
    given.profiled = ours[name]
    if given.hidden:
        members = tuple(tuple(map(int, layers.split("x"))) for layers in given.hidden)
        given.profiled = Contender("profiled", "adaqn", members)
    return given


if __name__ == "__main__":
    main()
