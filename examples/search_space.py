"""Evolve members in a search space, and print the family tree of the one that is the target in the end.

python examples/search_space.py [--steps 20000] [--run-dir runs/search_space]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from adaqn import AdaDQN, SearchSpace

SPACE = SearchSpace.from_dict(
    {
        "activation": ["relu", "tanh", "silu"],
        "optimizer": ["adam", "rmsprop"],
        "loss": ["l2", "huber"],
        "learning_rate": [1e-4, 1e-2],
        "hidden": {"layers": [1, 2], "neurons": [16, 64]},
    }
)


def ancestors(generations: list[dict], slot: int) -> list[tuple[int, dict]]:
    """The member in this slot of the last generation and all it descends from, oldest first, as (step, member)."""
    line = []
    for generation in reversed(generations):
        member = generation["members"][slot]
        if not line or member != line[-1][1]:
            line.append((generation["step"], member))
        slot = slot if member["parent"] is None else member["parent"]
    return line[::-1]


def main() -> None:
    """Train with the run recorded, then read its members.jsonl."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--run-dir", type=Path, default=Path("runs/search_space"))
    given = parser.parse_args()
    agent = AdaDQN(
        "CartPole-v1",
        space=SPACE,
        population=4,
        generation_interval=1_000,
        target_update_interval=100,
        learning_starts=500,
    )
    agent.learn(given.steps, run_dir=given.run_dir)
    generations = [json.loads(line) for line in (given.run_dir / "members.jsonl").read_text().splitlines()]
    target = agent.trainer.report().target
    print(f"{len(generations) - 1} generations; the target is in slot {target}, and came to be like this:")
    for step, member in ancestors(generations, target):
        what = {name: value for name, value in member.items() if name not in ("parent", "mutation")}
        print(f"step {step:>6,} {member['mutation'] or 'as it was':<14} {what}")


if __name__ == "__main__":
    main()
