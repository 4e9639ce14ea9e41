"""Our algorithm against a peer's: same networks, losses, optimizers, schedules and budget.

Every (side, seed) runs in a separate process on one core and writes one file; existing files are not run again.

lunar-lander: our DQN and Stable-Baselines3's. SB3's uniform actions before learning starts are replaced by our ε
schedule. Both use Adam with β 0.9 and 0.999 and ε 1e-8. Remaining differences: SB3 initializes weights and biases with
PyTorch's uniform defaults, ours with LeCun normal weights and zero biases; SB3 copies the target network before the
update of that step, ours after it, as in Algorithm 1; and SB3's very first action is greedy.

hopper: our SAC and SBX's. Both initialize with LeCun normal weights and zero biases, use optax's Adam (β 0.9 and 0.999,
ε 1e-8) for the actor, the critics and the log of the entropy coefficient, act uniformly for the first 1,000 steps, make
the first update after step 1,001, and in each update change the critics, their targets, the actor and the coefficient
in this order; both bootstrap at truncation. Remaining differences: random numbers come from other generators (our noise
from NumPy, SBX's from JAX), each side seeds its episodes in its own way, and ours skips an update with non-finite
values.

pendulum-td3: our TD3 and Stable-Baselines3's. Both use Adam (β 0.9 and 0.999, ε 1e-8), make the first update after step
1,001, and after every second update of the critics train the actor on the first critic and then update all three
targets; both bootstrap at truncation. Remaining differences: SB3 initializes with PyTorch's defaults, ours with LeCun
normal weights and zero biases; SB3's critics minimize the squared error, ours half of it, which Adam compensates except
for its ε; and SB3 adds exploration noise to the uniform actions of the first 1,000 steps, while ours does not, as in
Fujimoto's code.
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
    """Train the missing runs, then compare."""
    given = _arguments()
    duel: Duel = given.duel
    runs = [(side, seed) for side in given.sides for seed in range(given.seeds)]
    missing = [run for run in runs if not curve_path(given.out, *run).exists()]

    def read() -> dict[Side, list[Curve]]:
        return {side: _curves(given.out, duel, side, given.seeds, given.steps) for side in duel.sides}

    read()  # refuses files of other experiments before training starts
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
    """Train all runs, `jobs` at a time, each on a separate core."""
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
    """Plot both sides' return per epoch: seeds as thin lines, their mean as a thick one."""
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
    print(f"  ours >= {name} - 10 % of |{name}| (0.9 of {name}'s if that is positive): {_yes(found.auc_holds)}")


def _yes(holds: bool) -> str:
    return "yes" if holds else "NO"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = ", ".join(f"{duel.steps} for {duel.name}" for duel in DUELS.values())
    parser.add_argument("--task", choices=DUELS, default="lunar-lander", help="the comparison (default lunar-lander)")
    parser.add_argument("--sides", nargs="+", choices=get_args(Side), help="which sides to train (default both)")
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0..N-1 (default 3)")
    parser.add_argument("--steps", type=int, help=f"environment steps of each run (default {steps})")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time, each on its own core")
    parser.add_argument("--out", type=Path, help="directory of the runs (default benchmarks/results/versus-TASK)")
    given = parser.parse_args()
    duel = given.duel = DUELS[given.task]
    given.sides = given.sides or list(duel.sides)
    given.steps = duel.steps if given.steps is None else given.steps
    given.out = (given.out or ROOT / "benchmarks" / "results" / f"versus-{duel.name}").resolve()
    for side in given.sides:
        if side not in duel.sides:
            parser.error(f"--sides must be among {' and '.join(duel.sides)} in {duel.name}, but got {side}.")
    if given.steps <= duel.settings.learning_starts:
        parser.error(f"--steps must exceed {duel.settings.learning_starts} (learning_starts), but got {given.steps}.")
    for name in ("seeds", "steps", "jobs"):
        if getattr(given, name) < 1:
            parser.error(f"--{name} must be at least 1, but got {getattr(given, name)}.")
    if given.jobs > len(cores()):
        parser.error(f"--jobs must be at most {len(cores())}, the number of usable cores, but got {given.jobs}.")
    return given


if __name__ == "__main__":
    main()
