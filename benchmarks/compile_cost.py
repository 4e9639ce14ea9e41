"""What compiling costs a run in an infinite space: the same run with an empty compilation cache and with a full one.

Lunar Lander, five members, a generation every 10,000 steps. The two runs must agree to the byte.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

from benchmarks.isolation import cores
from benchmarks.training import train

EXACT = ("episodes.csv", "selection.csv", "members.jsonl")


def main() -> None:
    """Run cold, then warm, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--core", type=int, default=cores()[-1])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        arguments = ["--config", "lunar-lander-infinite", "--steps", str(given.steps), "--seed", str(given.seed)]
        seconds, compiling = {}, {}
        for name in ("cold", "warm"):
            train(folder / name, arguments, given.core, {"ADAQN_CACHE_DIR": str(folder / "cache")})
            summary = json.loads((folder / name / "summary.json").read_text())
            seconds[name] = summary["time"]["elapsed"]
            header, *rows = (folder / name / "progress.csv").read_text().splitlines()
            compiling[name] = float(rows[-1].split(",")[header.split(",").index("time/compile_seconds")])
            print(
                f"{name}: {seconds[name]:.1f} s, of which {compiling[name]:.1f} s on getting programs ready", flush=True
            )
        same = all((folder / "cold" / file).read_bytes() == (folder / "warm" / file).read_bytes() for file in EXACT)
        print(f"cold / warm: {seconds['cold'] / seconds['warm']:.3f}")
        # A machine's speed drifts from one run to the next by more than this; what both runs do besides is the same.
        extra = (compiling["cold"] - compiling["warm"]) / seconds["warm"]
        print(f"getting programs ready took {extra:.1%} of the warm run more when cold")
        print(f"{', '.join(EXACT)} equal to the byte: {'yes' if same else 'NO'}")
        shutil.rmtree(folder / "cache", ignore_errors=True)


if __name__ == "__main__":
    main()
