"""The flags that say what an environment needs beside its id; apart from the commands, so that `--help` is quick."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any


def add_environment_flags(group: Any) -> None:
    """The flags of every command that makes an environment."""
    group.add_argument(
        "--env-kwargs",
        metavar="YAML",
        default=argparse.SUPPRESS,
        help="arguments of the environment, as YAML: '{continuous: false}'",
    )
    group.add_argument(
        "--wrappers",
        nargs="+",
        metavar="MODULE:NAME",
        default=argparse.SUPPRESS,
        help="wrappers around the environment, the innermost first: gymnasium.wrappers:FlattenObservation",
    )
    group.add_argument(
        "--import",
        action="append",
        dest="imports",
        metavar="MODULE",
        default=argparse.SUPPRESS,
        help="a module that registers the environment's id, as gymnasium_robotics does; may be repeated",
    )


def add_flags_for_a_run(parser: argparse.ArgumentParser) -> None:
    """The flags of every command that goes on with a run, which may not have recorded its environment."""
    group = parser.add_argument_group("the environment, where the run does not say it")
    group.add_argument(
        "--env",
        metavar="NAME",
        default=argparse.SUPPRESS,
        help="the environment's Gymnasium id, for a run that was made with an environment object",
    )
    add_environment_flags(group)


@contextlib.contextmanager
def modules_found_here() -> Iterator[None]:
    """Find modules in the working directory too, as `python -m` does: there the user's own environments lie."""
    try:
        here = os.getcwd()
    except OSError:  # it was removed
        here = ""
    added = here not in sys.path and here != ""
    if added:
        sys.path.append(here)
    try:
        yield
    finally:
        if added and here in sys.path:
            sys.path.remove(here)
