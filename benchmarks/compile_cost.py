"""The cost of compilation in an infinite space: the same run with an empty and with a filled compilation cache.

Lunar Lander, five members, a generation every 10,000 steps. The results of the two runs must be byte-identical.
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
            print(f"{name}: {seconds[name]:.1f} s, of which {compiling[name]:.1f} s compiling or loading", flush=True)
        same = all((folder / "cold" / file).read_bytes() == (folder / "warm" / file).read_bytes() for file in EXACT)
        print(f"cold / warm: {seconds['cold'] / seconds['warm']:.3f}")
        # The machine's speed drifts between runs by more than this cost, so only the compilation times are compared.
        extra = (compiling["cold"] - compiling["warm"]) / seconds["warm"]
        print(f"compilation costs {extra:.1%} of the warm run's time")
        print(f"{', '.join(EXACT)} byte-identical: {'yes' if same else 'NO'}")
        shutil.rmtree(folder / "cache", ignore_errors=True)


if __name__ == "__main__":
    main()
