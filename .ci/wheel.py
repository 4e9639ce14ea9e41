"""Build the wheel, install it with nothing but its core dependencies into an empty environment, and use it there.

    python3 .ci/wheel.py [PYTHON]

PYTHON is the interpreter of that environment, by default the one that runs this script. Dependencies have the versions
of requirements/base.txt. Prints the size of the environment; exits with a message at the first thing that is wrong.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# What asks for each extra, once `run` is the directory of a trained run.
EXTRAS = {
    "atari": "train --env Atari/Pong --steps 200000 --buffer-size 1000 --learning-starts 100",
    "hub": "push run someone/cartpole",
    "minatar": "train --env MinAtar/Breakout --steps 2000",
    "mujoco": "train --env HalfCheetah-v5 --algo adasac --steps 2000",
    "onnx": "export run --format onnx",
    "ray": "study lunar-lander --scale laptop --dir study --no-calibration --launcher ray",
    "report": "report run",
    "slurm": "study lunar-lander --scale laptop --dir study --no-calibration --launcher slurm",
    "video": "evaluate run --episodes 1 --video film.mp4",
    "wandb": "train --env CartPole-v1 --steps 2000 --run-dir logged --wandb-project any",
}
TRAINING = "train --env CartPole-v1 --steps 400 --learning-starts 100 --run-dir run --quiet"
SPACE = "train --env CartPole-v1 --space vectors --population 2 --steps 400 --learning-starts 100 --quiet"

# Runs in the empty environment: one process, because every import of JAX takes seconds.
PROGRAM = """
import contextlib, io, json, sys
from adaqn.cli import main

def attempt(arguments):
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        status = main(arguments.split())
    return status, said.getvalue()

extras, trainings = json.loads(sys.argv[1])
for arguments in trainings:
    status, said = attempt(arguments)
    if status != 0:
        sys.exit(f"adaqn {arguments}: {said}")
    print(f"works: adaqn {arguments}")
for extra, arguments in extras.items():
    status, said = attempt(arguments)
    if status != 1 or said.strip().count("\\n") or f'pip install "adaqn[{extra}]"' not in said:
        sys.exit(f"adaqn {arguments}: no single sentence names the extra {extra}, but status {status}: {said!r}")
    print(f"without {extra}: {said.strip()}")
"""


def main() -> None:
    """Build, install, and try."""
    python = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    with tempfile.TemporaryDirectory(prefix="adaqn-wheel-") as name:
        folder = Path(name)
        _run(python, "-m", "venv", folder / "venv")
        own = folder / "venv" / "bin" / "python"
        pip = (own, "-m", "pip", "--quiet", "--disable-pip-version-check")
        _run(*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT)
        (wheel,) = folder.glob("adaqn-*.whl")
        _run(*pip, "install", "--no-compile", "--constraint", ROOT / "requirements" / "base.txt", wheel)
        installed = sum(file.stat().st_size for file in (folder / "venv" / "lib").rglob("*") if not file.is_symlink())
        version = subprocess.run([own, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        print(f"{wheel.name} and its dependencies on {version}: {installed / 1e6:,.0f} MB", flush=True)
        work = folder / "work"
        work.mkdir()
        trainings = [TRAINING, "evaluate run --episodes 1", "export run", "picture run", SPACE]
        _run(own, "-c", PROGRAM, json.dumps([EXTRAS, trainings]), cwd=work)


def _run(*command: object, cwd: Path | None = None) -> None:
    done = subprocess.run([str(part) for part in command], cwd=cwd)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(str(part) for part in command[:8])}")


if __name__ == "__main__":
    main()
