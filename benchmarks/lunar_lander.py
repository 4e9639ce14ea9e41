"""`python -m benchmarks.lunar_lander`: docs/results/lunar_lander.md and its figures, from the runs in results/."""

from __future__ import annotations

import sys

from benchmarks.study_pages import main

if __name__ == "__main__":
    raise SystemExit(main(["lunar-lander", *sys.argv[1:]]))
