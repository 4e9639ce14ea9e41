"""Why AdaQN compares members by their approximation error: Farahmand's bound, computed exactly on finite MDPs.

The theorem bounds the performance loss ||Q* - Q^π|| of approximate value iteration by a term that grows with the sum of
the approximation errors ||Γ*Q_{i-1} - Q_i||² over all target updates. Here both are exact: three linear critics with
different features and learning rates, on random MDPs, as fixed critics, with a random target member (RandQN), with the
worst one (AdaQN-max), and with AdaQN's choice. AdaQN comes close to the best fixed critic without knowing which it is;
choosing the smallest error at every update need not give the smallest sum, so it may end slightly above it.

    python examples/theory.py [-o theory.png]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from adaqn.tabular import FiniteMDP, Iterations, Member, Rule, adaptive_value_iteration, random_mdp

STATES, ACTIONS, ITERATIONS, GRADIENT_STEPS = 30, 3, 40, 10
METHODS: dict[str, Rule | int] = {
    "coarse, fast": 0,
    "medium": 1,
    "table, slow": 2,
    "RandQN": "random",
    "AdaQN-max": "highest",
    "AdaQN": "lowest",
}
COLOURS = ["#56B4E9", "#009E73", "#E69F00", "#999999", "#D55E00", "#0072B2"]  # Okabe and Ito
MARKERS = ["s", "^", "D", "x", "v", "o"]


def members(rng: np.random.Generator) -> list[Member]:
    """Three critics: states in 5 groups, in 12 groups, and each state separately with the smallest learning rate."""
    pairs = STATES * ACTIONS
    chosen = []
    for groups, learning_rate in ((5, 6.0), (12, 5.0), (STATES, 1.5)):
        group = np.concatenate([np.arange(groups), rng.integers(groups, size=STATES - groups)])
        features = np.zeros((STATES, ACTIONS, groups, ACTIONS))
        for state in range(STATES):
            features[state, :, group[state], :] = np.eye(ACTIONS)
        chosen.append(Member(features.reshape(pairs, -1), learning_rate))
    return chosen


def run(mdp: FiniteMDP, seed: int) -> dict[str, Iterations]:
    """All methods on one MDP with the same members."""
    critics = members(np.random.default_rng(seed))
    return {
        name: adaptive_value_iteration(mdp, critics, ITERATIONS, GRADIENT_STEPS, np.random.default_rng(seed), rule=rule)
        for name, rule in METHODS.items()
    }


def draw(runs: list[dict[str, Iterations]], path: Path) -> None:
    """Plot every MDP and method as a dot (left), and the performance loss over the target updates (right)."""
    figure, (dots, curves) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for name, colour, marker in zip(METHODS, COLOURS, MARKERS, strict=True):
        found = [run[name] for run in runs]
        total = np.array([np.sqrt(one.error.sum()) for one in found])
        loss = np.array([one.performance_loss for one in found])  # [MDPs, N]
        dots.scatter(total, loss[:, -1], color=colour, marker=marker, s=18, alpha=0.35, linewidths=1)
        dots.scatter(total.mean(), loss[:, -1].mean(), color=colour, marker=marker, s=120, linewidths=2, label=name)
        updates = np.arange(1, ITERATIONS + 1)
        curves.plot(updates, loss.mean(axis=0), color=colour, linewidth=2, marker=marker, markevery=6, label=name)
        error = 1.96 * loss.std(axis=0, ddof=1) / np.sqrt(len(runs))
        curves.fill_between(updates, loss.mean(axis=0) - error, loss.mean(axis=0) + error, color=colour, alpha=0.15)
    dots.set(xlabel="square root of the summed approximation errors", ylabel="performance loss of the last policy")
    dots.set_title("Smaller errors, better policies (large: mean over MDPs)", fontsize=10)
    curves.set(xlabel="target updates", ylabel="performance loss of the greedy policy")
    curves.set_title(f"Mean over {len(runs)} random MDPs, 95 % interval", fontsize=10)
    figure.legend(*curves.get_legend_handles_labels(), loc="outside lower center", ncols=len(METHODS), frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Run all methods on random MDPs, print the means and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path("theory.png"))
    parser.add_argument("--mdps", type=int, default=30)
    given = parser.parse_args()
    runs = [run(random_mdp(STATES, ACTIONS, 0.9, np.random.default_rng(seed)), seed) for seed in range(given.mdps)]
    print(f"{'method':<14}{'sum of errors':>16}{'performance loss':>20}")
    for name in METHODS:
        errors = np.mean([run[name].error.sum() for run in runs])
        print(f"{name:<14}{errors:>16.2f}{np.mean([run[name].performance_loss[-1] for run in runs]):>20.4f}")
    draw(runs, given.output)
    print(f"figure: {given.output}")


if __name__ == "__main__":
    main()
