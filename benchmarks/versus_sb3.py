"""Our DQN against Stable-Baselines3's on Lunar Lander: same network, loss, optimizer, schedules and budget.

Every (side, seed) is a process of its own on one core and leaves one file; what exists is not run again.
SB3's uniform actions until learning starts are replaced by the schedule of epsilon that ours follows. One difference
remains: each initialises its weights as its own library does.
"""

from __future__ import annotations

import argparse
import queue
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.comparison import EPOCHS, Score, epoch_returns, score, verdict
from benchmarks.contenders import ENVIRONMENT
from benchmarks.isolation import ROOT, cores, run_module
from benchmarks.learning_curve import SIDES, Curve, Side, curve_path, read_curve

LABELS: dict[Side, str] = {"ours": "adaqn DQN", "sb3": "SB3 DQN"}


def main() -> None:
    """Run what is missing, then compare."""
    given = _arguments()
    runs = [(side, seed) for side in given.sides for seed in range(given.seeds)]
    missing = [run for run in runs if not curve_path(given.out, *run).exists()]
    run_all(missing, given.steps, given.jobs, given.out)

    curves: dict[Side, list[Curve]] = {side: _curves(given.out, side, given.seeds, given.steps) for side in SIDES}
    for side, found in curves.items():
        _print_scores(side, [score(curve) for curve in found])
    absent = [side for side, found in curves.items() if len(found) < given.seeds]
    if absent:
        print(f"No verdict yet: runs of {' and '.join(absent)} are missing in {given.out}.")
        return
    _print_verdict([score(c) for c in curves["ours"]], [score(c) for c in curves["sb3"]])
    figure = given.out / "curves.png"
    plot(curves, given.steps, figure)
    print(f"curves: {figure}")


def run_all(runs: Sequence[tuple[Side, int]], steps: int, jobs: int, out: Path) -> None:
    """Train all of these, so many at a time, each on a core that no other of them uses."""
    free: queue.SimpleQueue[int] = queue.SimpleQueue()
    for core in cores()[-jobs:]:
        free.put(core)

    def run(side: Side, seed: int) -> None:
        core = free.get()
        print(f"training {LABELS[side]}, seed {seed}, {steps} steps, core {core}", flush=True)
        try:
            arguments = ["--side", side, "--seed", str(seed), "--steps", str(steps)]
            run_module("benchmarks.learning_curve", [*arguments, "--core", str(core), "--out", str(out)])
        finally:
            free.put(core)

    with ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(run, side, seed) for side, seed in runs]:
            done.result()


def plot(curves: dict[Side, list[Curve]], steps: int, figure: Path) -> None:
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
        axes.plot(at, returns.mean(axis=0), color=colour, linewidth=2, label=f"{LABELS[side]}, {len(runs)} seeds")
    axes.set(xlabel="environment steps", ylabel="training return per epoch", title=ENVIRONMENT)
    axes.legend()
    canvas.tight_layout()
    canvas.savefig(figure, dpi=150)
    plt.close(canvas)


def _curves(out: Path, side: Side, seeds: int, steps: int) -> list[Curve]:
    paths = [curve_path(out, side, seed) for seed in range(seeds)]
    curves = [read_curve(path) for path in paths if path.exists()]
    for curve in curves:
        if curve.steps != steps:
            sys.exit(
                f"{curve_path(out, side, curve.seed)} holds a run of {curve.steps} steps, not of {steps}; "
                "give --steps to match, or another --out."
            )
        if not curve.episodes:
            sys.exit(f"{curve_path(out, side, curve.seed)} holds no finished episode; give more --steps.")
    return curves


def _print_scores(side: Side, scores: Sequence[Score]) -> None:
    for run in scores:
        print(f"{LABELS[side]:<10} seed {run.seed}: last 20 % of episodes {run.final:8.1f}   AUC {run.auc:8.1f}")


def _print_verdict(ours: Sequence[Score], sb3: Sequence[Score]) -> None:
    found = verdict(ours, sb3)
    print(f"final: ours {found.ours_final:.1f}, SB3 {found.sb3_final:.1f}, pooled sd {found.pooled_sd:.1f}")
    print(f"  ours >= SB3 - 1 pooled sd: {_yes(found.final_holds)}")
    print(f"AUC: ours {found.ours_auc:.1f}, SB3 {found.sb3_auc:.1f}")
    print(f"  ours >= SB3 - 10 % of |SB3| (0.9 of SB3's where that is positive): {_yes(found.auc_holds)}")


def _yes(holds: bool) -> str:
    return "yes" if holds else "NO"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES), help="which sides to train")
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0..N-1 (default 3)")
    parser.add_argument("--steps", type=int, default=100_000, help="environment steps of each run")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time, each on its own core")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "versus_sb3")
    given = parser.parse_args()
    given.out = given.out.resolve()
    for name in ("seeds", "steps", "jobs"):
        if getattr(given, name) < 1:
            parser.error(f"--{name} is {getattr(given, name)}, but must be at least 1.")
    if given.jobs > len(cores()):
        parser.error(f"--jobs is {given.jobs}, but only {len(cores())} cores may be used.")
    return given


if __name__ == "__main__":
    main()
