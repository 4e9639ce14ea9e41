"""Our algorithm against a peer's: same networks, losses, optimizers, schedules and budget.

Every (side, seed) is a process of its own on one core and leaves one file; what exists is not run again.

lunar-lander: our DQN and Stable-Baselines3's. SB3's uniform actions until learning starts are replaced by the schedule
of ε that ours follows. Both have Adam with β 0.9 and 0.999 and ε 1e-8. Differences that remain: weights begin as
PyTorch's defaults there (uniform, biases too) and LeCun normal with zero biases here; the target is copied before the
update of its step there and after it here, as in Algorithm 1; and the very first action there is greedy.

hopper: our SAC and SBX's. Both begin with LeCun normal weights and zero biases, have optax's Adam (β 0.9 and 0.999,
ε 1e-8) for actor, critics and the logarithm of the entropy coefficient, act uniformly for the first 1,000 steps, make
the first update after step 1,001, and in each update move the critics, their targets, the actor and the coefficient in
this order; an end by time does not cut the bootstrap. Differences that remain: numbers are drawn by other generators
(noise by NumPy here, by JAX there), each side seeds its episodes in its own way, and an update here goes without
effect should its values not be finite.

pendulum-td3: our TD3 and Stable-Baselines3's. Both have Adam (β 0.9 and 0.999, ε 1e-8), make the first update after
step 1,001, and after every second update of the critics move the actor up the value of the first critic and then all
three targets; an end by time does not cut the bootstrap. Differences that remain: weights begin as PyTorch's defaults
there and LeCun normal with zero biases here; critics descend the squared error there and half of it here, which Adam
evens out but for its ε; and the uniform actions of the first 1,000 steps have exploration noise there and none here,
as in Fujimoto's code.
"""

from __future__ import annotations

import argparse
import queue
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

from benchmarks.comparison import EPOCHS, Score, epoch_returns, score, verdict
from benchmarks.duels import DUELS, Duel, Side
from benchmarks.isolation import ROOT, cores, run_module
from benchmarks.learning_curve import Curve, curve_path, read_curve


def main() -> None:
    """Run what is missing, then compare."""
    given = _arguments()
    duel: Duel = given.duel
    runs = [(side, seed) for side in given.sides for seed in range(given.seeds)]
    missing = [run for run in runs if not curve_path(given.out, *run).exists()]

    def read() -> dict[Side, list[Curve]]:
        return {side: _curves(given.out, duel, side, given.seeds, given.steps) for side in duel.sides}

    read()  # what does not belong here is told before anything is run
    run_all(duel, missing, given.steps, given.jobs, given.out)
    curves = read()
    for side, found in curves.items():
        _print_scores(duel.label(side), [score(curve) for curve in found])
    absent = [duel.label(side) for side, found in curves.items() if len(found) < given.seeds]
    if absent:
        print(f"No verdict yet: runs of {' and '.join(absent)} are missing in {given.out}.")
        return
    ours, peer = ([score(curve) for curve in curves[side]] for side in duel.sides)
    _print_verdict(duel.peer.upper(), ours, peer)
    figure = given.out / "curves.png"
    plot(duel, curves, given.steps, figure)
    print(f"curves: {figure}")


def run_all(duel: Duel, runs: Sequence[tuple[Side, int]], steps: int, jobs: int, out: Path) -> None:
    """Train all of these, so many at a time, each on a core that no other of them uses."""
    free: queue.SimpleQueue[int] = queue.SimpleQueue()
    for core in cores()[-jobs:]:
        free.put(core)

    def run(side: Side, seed: int) -> None:
        core = free.get()
        print(f"training {duel.label(side)}, seed {seed}, {steps} steps, core {core}", flush=True)
        try:
            arguments = ["--task", duel.name, "--side", side, "--seed", str(seed), "--steps", str(steps)]
            run_module("benchmarks.learning_curve", [*arguments, "--core", str(core), "--out", str(out)])
        finally:
            free.put(core)

    with ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(run, side, seed) for side, seed in runs]:
            done.result()


def plot(duel: Duel, curves: dict[Side, list[Curve]], steps: int, figure: Path) -> None:
    """Both sides' return per epoch: each seed thin, their mean thick."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    canvas, axes = plt.subplots(figsize=(7, 4))
    at = (np.arange(EPOCHS) + 1) * steps / EPOCHS
    for colour, (side, runs) in zip(("tab:blue", "tab:orange"), curves.items(), strict=True):
        returns = np.stack([epoch_returns(curve) for curve in runs])
        axes.plot(at, returns.T, color=colour, alpha=0.3, linewidth=1)
        axes.plot(at, returns.mean(axis=0), color=colour, linewidth=2, label=f"{duel.label(side)}, {len(runs)} seeds")
    axes.set(xlabel="environment steps", ylabel="training return per epoch", title=duel.environment)
    axes.legend()
    canvas.tight_layout()
    canvas.savefig(figure, dpi=150)
    plt.close(canvas)


def _curves(out: Path, duel: Duel, side: Side, seeds: int, steps: int) -> list[Curve]:
    paths = [curve_path(out, side, seed) for seed in range(seeds)]
    curves = [read_curve(path) for path in paths if path.exists()]
    for curve in curves:
        path = curve_path(out, side, curve.seed)
        if curve.task != duel.name:
            sys.exit(f"{path} holds a run of {curve.task}, not of {duel.name}; give another --out.")
        if curve.steps != steps:
            sys.exit(
                f"{path} holds a run of {curve.steps} steps, not of {steps}; give --steps to match, or another --out."
            )
        if not curve.episodes:
            sys.exit(f"{path} holds no finished episode; remove it, and give more --steps.")
    return curves


def _print_scores(label: str, scores: Sequence[Score]) -> None:
    for run in scores:
        print(f"{label:<10} seed {run.seed}: last 20 % of episodes {run.final:8.1f}   AUC {run.auc:8.1f}")


def _print_verdict(name: str, ours: Sequence[Score], peer: Sequence[Score]) -> None:
    found = verdict(ours, peer)
    print(f"final: ours {found.ours_final:.1f}, {name} {found.peer_final:.1f}, pooled sd {found.pooled_sd:.1f}")
    print(f"  difference {found.ours_final - found.peer_final:.1f}, its standard error {found.final_error:.1f}")
    print(f"  ours >= {name} - 1 pooled sd: {_yes(found.final_holds)}")
    print(f"AUC: ours {found.ours_auc:.1f}, {name} {found.peer_auc:.1f}")
    print(f"  difference {found.ours_auc - found.peer_auc:.1f}, its standard error {found.auc_error:.1f}")
    print(f"  ours >= {name} - 10 % of |{name}| (0.9 of {name}'s where that is positive): {_yes(found.auc_holds)}")


def _yes(holds: bool) -> str:
    return "yes" if holds else "NO"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = ", ".join(f"{duel.steps} for {duel.name}" for duel in DUELS.values())
    parser.add_argument("--task", choices=DUELS, default="lunar-lander", help="what to learn (default lunar-lander)")
    parser.add_argument("--sides", nargs="+", choices=get_args(Side), help="which sides to train (default both)")
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0..N-1 (default 3)")
    parser.add_argument("--steps", type=int, help=f"environment steps of each run (default {steps})")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time, each on its own core")
    parser.add_argument("--out", type=Path, help="where runs are kept (default benchmarks/results/versus-TASK)")
    given = parser.parse_args()
    duel = given.duel = DUELS[given.task]
    given.sides = given.sides or list(duel.sides)
    given.steps = duel.steps if given.steps is None else given.steps
    given.out = (given.out or ROOT / "benchmarks" / "results" / f"versus-{duel.name}").resolve()
    for side in given.sides:
        if side not in duel.sides:
            parser.error(f"--sides has {side}, but in {duel.name} there are {' and '.join(duel.sides)}.")
    if given.steps <= duel.settings.learning_starts:
        parser.error(f"--steps is {given.steps}, but learning starts at {duel.settings.learning_starts}; give more.")
    for name in ("seeds", "steps", "jobs"):
        if getattr(given, name) < 1:
            parser.error(f"--{name} is {getattr(given, name)}, but must be at least 1.")
    if given.jobs > len(cores()):
        parser.error(f"--jobs is {given.jobs}, but only {len(cores())} cores may be used.")
    return given


if __name__ == "__main__":
    main()
