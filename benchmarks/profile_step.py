"""Profile of a training step, measured inside the real loop: `python -m benchmarks.profile_step`.

A step in the loop takes longer than the same program called repeatedly, because the interpreter and the environment
evict its data and code from the CPU caches; so the parts are timed in the loop. The rate of the compiled update is
compared with the best rate of a 256 x 256 x 256 matrix product in the same process, on one thread.
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

# The disjoint parts of a step; the rest is Python.
ENVIRONMENT, SAMPLE, UPDATE, STORE = "environment", "sample a batch", "compiled update and act", "store"

Times = dict[str, list[float]]  # seconds of every call, by label


def main() -> None:
    """Train, then print the time of each part."""
    given = _arguments()
    pin(given.core)
    os.environ.update(ONE_THREAD)  # before JAX is imported
    if given.kernels:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_enable_xprof_traceme=true"
    task: Task = given.chosen
    contender: Contender = given.profiled
    with tempfile.TemporaryDirectory() as elsewhere, contextlib.chdir(elsewhere):  # MuJoCo writes a log file
        env = task.make()
    work = update_flops(task.settings, contender, env)
    model: Any = build(contender, lambda: env, task.settings, task.warmup + given.steps, seed=0)
    limit = product_rate()  # only after adaqn has configured JAX
    model.learn(task.warmup)
    times = watch(model.trainer)
    begun = time.perf_counter()
    model.learn(given.steps, reset_num_timesteps=False)
    seconds = time.perf_counter() - begun
    limit = max(limit, product_rate())  # the better of before and after: other processes can only slow it down

    print(f"{task.name}, {len(contender.members)} members: {given.steps / seconds:.0f} steps/s, ", end="")
    print(f"{1e6 * seconds / given.steps:.0f} us per step\n\n   median   calls    share")
    for label, taken in sorted(times.items(), key=lambda item: -sum(item[1])):
        if taken:
            print(f"{1e6 * statistics.median(taken):6.0f} us{len(taken):8}{sum(taken) / seconds:9.1%}  {label}")
    rest = 1.0 - sum(sum(times[part]) for part in (ENVIRONMENT, SAMPLE, UPDATE, STORE)) / seconds
    print(f"{'':17}{rest:9.1%}  Python between environment, sample, update and store")

    rate = work / statistics.median(times[UPDATE])
    print(f"\nan update is {work / 1e6:.1f} MFLOP, done at {rate / 1e9:.1f} GFLOP/s: ", end="")
    print(f"{rate / limit:.0%} of the {limit / 1e9:.1f} GFLOP/s of a {SIDE} x {SIDE} x {SIDE} product")
    if given.kernels:
        print_kernels(kernel_seconds(lambda: model.learn(given.kernels, reset_num_timesteps=False), given.kernels))


def watch(trainer: Any) -> Times:
    """Time the parts of every step from now on."""
    import jax

    times: Times = {}
    programs = trainer.agent.programs(trainer.state)
    update = programs.update_and_act
    if isinstance(update, dict):  # SAC has a program with the actor's update and one without it
        timed: Any = {
            operation: _timed(times, UPDATE, update[operation], jax.block_until_ready) for operation in update
        }
    else:
        timed = _timed(times, UPDATE, update, jax.block_until_ready)
    watched = programs._replace(update_and_act=timed)
    trainer.agent.programs = lambda state: watched
    for owner, method, label in (
        (trainer, "_settle", "everything between two environment steps"),
        (trainer.replay, "sample_rows" if hasattr(trainer.replay, "sample_rows") else "sample", SAMPLE),
        (trainer.agent, "plan", "plan"),
        (trainer, "_step", "environment, storing and observers"),
        (trainer.environments, "step", ENVIRONMENT),
        (trainer.replay, "add", STORE),
    ):
        setattr(owner, method, _timed(times, label, getattr(owner, method)))
    return times


def update_flops(settings: Settings, contender: Contender, env: gym.Env[Any, Any]) -> float:
    """Operations of one update, without acting."""
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
    """Operations per second of the fastest of many matrix products."""
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
    parser.add_argument("--contender", help="one of ours (default adaqn-k1, or adaqn-k2 for SAC)")
    parser.add_argument("--hidden", nargs="+", help="layers of each member instead, such as 25x25 200x200")
    parser.add_argument("--steps", type=int, help="steps to measure (default: as in `throughput`)")
    parser.add_argument("--kernels", type=int, default=0, metavar="N", help="also profile the kernels of N more steps")
    parser.add_argument("--core", type=int, default=cores()[-1], help="the core to measure on")
    given = parser.parse_args()
    task = given.chosen = TASKS[given.task]
    given.steps = task.steps if given.steps is None else given.steps
    ours = {contender.name: contender for contender in task.contenders if contender.library == "adaqn"}
    name = given.contender or f"adaqn-k{task.base}"
    if name not in ours:
        parser.error(f"--contender must be one of {', '.join(ours)} in {task.name}, but got {name}.")
    given.profiled = ours[name]
    if given.hidden:
        members = tuple(tuple(map(int, layers.split("x"))) for layers in given.hidden)
        given.profiled = Contender("profiled", "adaqn", members)
    return given


if __name__ == "__main__":
    main()
