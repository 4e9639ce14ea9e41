"""The net under a refactoring: what tiny runs of every algorithm write, hold and compile, as hashes in one JSON file.

    python -m tests.exactness.fingerprint OUT.json [--threads N] [--compare OLD.json]

It runs every case of the contract suite, with a checkpoint at its end, and records the sha256 of each exact file, of
each array of the checkpoint, and of the StableHLO of each compiled program. With `--compare`, it lists what differs
and exits with 1 if anything does. Hashes of files and arrays hold only for one kind of processor.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from adaqn.networks.xla.threads import Resumed, Threads
from tests.agents.contract.cases import STEPS, Case, cases, variants

NAMES = re.compile(r"module @\S+")  # after the Python function, which may be renamed
PLACES = re.compile(r"loc\([^)]*\)|#loc.*")


def main() -> None:
    """Record the fingerprint, and compare it if requested."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--threads", type=int, default=1, help="lanes that divide an update")
    parser.add_argument("--compare", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="adaqn-fingerprint-") as name:
        folder = Path(name)
        programs = folder / "programs"
        programs.mkdir()
        jax.config.update("jax_dump_ir_to", str(programs))
        jax.config.update("jax_enable_compilation_cache", False)
        found: dict[str, Any] = {"runs": {}, "checkpoints": {}}
        for case in (*cases(), *variants()):
            _run(case, folder / str(case), given.threads, found)
            print(case, file=sys.stderr, flush=True)
        texts = {_plain(file.read_text()) for file in programs.rglob("*.mlir")}
        found["programs"] = sorted(map(_hash, (text.encode() for text in texts)))
    given.out.write_text(json.dumps(found, indent=1))
    if given.compare is not None:
        sys.exit(_differences(json.loads(given.compare.read_text()), found))


def _run(case: Case, directory: Path, threads: int, found: dict[str, Any]) -> None:
    # Lanes take turns on XLA's one thread, which changes nothing of what they compute.
    model = case.model(seed=0, threads=Resumed(Threads(1, threads))) if threads > 1 else case.model(seed=0)
    model.learn(STEPS, run_dir=directory)
    files = [file for file in sorted(directory.iterdir()) if file.suffix in (".csv", ".jsonl", ".yaml")]
    kept = {file.name: _hash(file.read_bytes()) for file in files if file.name != "progress.csv"}
    found["runs"][str(case)] = kept
    arrays, meta = model._trainer.agent.to_arrays(model._trainer.state)
    of_state = {name: _hash(np.asarray(array).tobytes()) for name, array in arrays.items()}
    found["checkpoints"][str(case)] = {
        **of_state,
        "meta": _hash(json.dumps(meta, sort_keys=True, default=str).encode()),
    }


def _plain(text: str) -> str:
    return NAMES.sub("module @program", PLACES.sub("", text))


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _differences(old: dict[str, Any], new: dict[str, Any]) -> int:
    """Print what differs; 1 if anything does."""
    lines = []
    for kind in ("runs", "checkpoints"):
        for case in sorted({*old[kind], *new[kind]}):
            before, after = old[kind].get(case, {}), new[kind].get(case, {})
            other = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
            lines += [f"{kind} {case}: {', '.join(other)}"] if other else []
    gone, come = {*old["programs"]} - {*new["programs"]}, {*new["programs"]} - {*old["programs"]}
    if gone or come:
        lines.append(f"programs: {len(gone)} of {len(old['programs'])} are gone, {len(come)} have come")
    print("\n".join(lines) or "no difference")
    return 1 if lines else 0


if __name__ == "__main__":
    main()
