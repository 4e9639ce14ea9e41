"""`adaqn ...`: the only reader of argv. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from adaqn.environment_flags import add_flags_for_a_run, modules_found_here
from adaqn.errors import UserError, nearest
from adaqn.printing import complain, occupy_closed_streams, settle_output


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, with the nearest name where a flag or command is unknown."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see `{self.prog} --help`)")

    def parse_strictly(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Like `parse_args`, with a suggestion for an unknown flag."""
        parsed, unknown = self.parse_known_args(arguments)
        if unknown:
            known = [flag for action in self._actions for flag in action.option_strings]
            given = unknown[0].split("=")[0]
            self.error(f"unknown argument {given!r}{nearest(given, known)}")
        return parsed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0, 1 after a user's mistake, 130 or 143 after an interruption."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    occupy_closed_streams()
    status, lost = _guarded(arguments), settle_output()
    # Training does not depend on who reads of it, but what other commands print is all they do.
    if lost is None or status != 0 or arguments[:1] in (["train"], ["resume"]):
        return status
    complain(f"adaqn: standard output: {lost.strerror or lost}")
    return 128 + signal.SIGPIPE if isinstance(lost, BrokenPipeError) else 1


def _guarded(arguments: list[str]) -> int:
    """The exit status of a command; every mistake and every fault of the system is one sentence."""
    try:
        with warnings.catch_warnings(), modules_found_here():
            warnings.showwarning = _show_warning
            return _dispatch(arguments)
    except UserError as error:
        complain(f"adaqn: {error}")
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        return 128 + signal.SIGPIPE  # the reader of our output went away; there is nobody left to tell
    except OSError as error:
        complain(f"adaqn: the system refused to write or read: {error}")
        return 1
    except MemoryError as error:
        complain(f"adaqn: there is not enough memory{f': {error}' if str(error) else ''}")
        return 1


_COMMANDS = {
    "train": "train an agent that tunes itself",
    "resume": "continue a run that was interrupted, or extend a finished one",
    "evaluate": "evaluate a trained agent, and record a video if asked to",
    "schedule": "turn the history of a run's target member into a schedule of hyperparameters",
    "picture": "plot a run: learning curve, losses, and which member was the target when",
    "export": "write the policy to a file that needs only NumPy to run",
}


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())
        return 0
    if arguments[0] == "--version":
        from adaqn import __version__

        print(f"adaqn {__version__}")
        return 0
    command, rest = arguments[0], arguments[1:]
    if command not in _COMMANDS:
        raise UserError(f"unknown command {command!r}{nearest(command, _COMMANDS)} (commands: {', '.join(_COMMANDS)})")
    run = {
        "train": _train,
        "resume": _resume,
        "evaluate": _evaluate,
        "export": _export,
        "schedule": _schedule,
        "picture": _picture,
    }
    return run[command](rest)


def _overview() -> str:
    commands = "\n".join(f"  {name:10} {text}" for name, text in _COMMANDS.items())
    return f"""usage: adaqn COMMAND ...

Reinforcement learning that tunes itself: several critics with different hyperparameters learn in one run.

commands:
{commands}

`adaqn COMMAND --help` explains a command. A first run:
  adaqn train --env CartPole-v1 --steps 50000 --run-dir runs/cartpole"""


def _train(arguments: list[str]) -> int:
    _use_one_thread()
    from adaqn import commands

    peek = _Parser(prog="adaqn train", add_help=False)
    peek.add_argument("--config")
    peek.add_argument("--algo")
    peek.add_argument("--base")
    early, _ = peek.parse_known_args(arguments)
    base = commands.base_values(early.config, early.algo, early.base)

    parser = _Parser(
        prog="adaqn train",
        description="Train an agent. All options can also be set in a YAML file (--config); those given here take "
        f"precedence. The settings below are those of {base['algo']}: `adaqn train --algo NAME --help` shows those of "
        "another algorithm.",
        allow_abbrev=False,
    )
    run = parser.add_argument_group("the run")
    run.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="YAML file, or name of a preset")
    commands.add_run_flags(run, base)
    members = parser.add_argument_group("the members")
    members.add_argument(
        "--grid",
        nargs="+",
        metavar="NAME=V,V",
        default=argparse.SUPPRESS,
        help="values of hyperparameters; the members are all their combinations, "
        "for example: hidden=100x100,200x200 learning_rate=3e-4,1e-3 optimizer.eps=1e-8,1e-4 or, for images, "
        "convolutions=32k8s4+64k4s2+64k3s1,16k3s1 (channels, kernel, stride of each layer)",
    )
    commands.add_member_flags(members)
    commands.add_settings_flags(parser.add_argument_group(f"settings of {base['algo']}"), base)
    output = parser.add_argument_group("output")
    output.add_argument(
        "--run-dir", metavar="DIR", default=None, help="directory of the run (default: nothing is saved)"
    )
    output.add_argument("--force", action="store_true", help="overwrite an existing run in DIR")
    output.add_argument("--quiet", action="store_true", help="print nothing but errors")
    return commands.train(base, parser.parse_strictly(arguments))


def _resume(arguments: list[str]) -> int:
    parser = _Parser(
        prog="adaqn resume",
        description="Continue a run that was interrupted, exactly where it stopped, or give a run another end.",
    )
    parser.add_argument("run_dir", metavar="DIR", type=Path, help="the run's directory")
    parser.add_argument(
        "--steps",
        type=int,
        metavar="N",
        help="train until N environment steps have been taken, also if the run is finished (default: as it was begun); "
        "schedules that last until the end of the run keep the end they had",
    )
    parser.add_argument(
        "--stretch-schedules", action="store_true", help="with --steps: from here on, they refer to the new end"
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    add_flags_for_a_run(parser)
    _add_trust_flag(parser)
    parsed = parser.parse_strictly(arguments)
    _use_one_thread()
    from adaqn import commands

    return commands.resume(
        parsed.run_dir,
        quiet=parsed.quiet,
        steps=parsed.steps,
        stretch_schedules=parsed.stretch_schedules,
        environment=commands.environment_of(parsed),
        trust_env=parsed.trust_env,
    )


def _evaluate(arguments: list[str]) -> int:
    parser = _Parser(prog="adaqn evaluate", description="Evaluate a trained agent.")
    parser.add_argument("source", metavar="DIR|FILE", type=Path, help="a run's directory, or a saved agent")
    _add_best(parser)
    parser.add_argument("--episodes", type=int, default=10, help="number of episodes (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="random seed of the episodes (default: 0)")
    parser.add_argument(
        "--video",
        nargs="?",
        type=Path,
        const=Path(""),
        metavar="FILE",
        help="record the first episode to FILE, .mp4 or .gif (default: video.mp4 in the run's directory, "
        "best_video.mp4 with --best)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite FILE if it exists")
    add_flags_for_a_run(parser)
    _add_trust_flag(parser)
    parsed = parser.parse_strictly(arguments)
    _use_one_thread()
    from adaqn import commands

    return commands.evaluate(parsed)


def _add_trust_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust-env", action="store_true", help="import the module that the run names in its environment's id"
    )


def _picture(arguments: list[str]) -> int:
    parser = _Parser(prog="adaqn picture", description="Plot a run to an image file.")
    parser.add_argument("run_dir", metavar="DIR", type=Path, help="the run's directory")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: picture.png in DIR, which is replaced"
    )
    parser.add_argument("--force", action="store_true", help="overwrite FILE if it exists")
    parsed = parser.parse_strictly(arguments)
    from adaqn.analysis.picture import draw_run

    print(draw_run(parsed.run_dir, parsed.output, parsed.force))
    return 0


def _export(arguments: list[str]) -> int:
    parser = _Parser(prog="adaqn export", description="Write the learned policy to a file that needs only NumPy.")
    parser.add_argument("source", metavar="DIR|FILE", type=Path, help="a run's directory, or a saved agent")
    _add_best(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="default: policy.npz in the directory, best_policy.npz with --best",
    )
    parser.add_argument("--force", action="store_true", help="overwrite FILE if it exists")
    add_flags_for_a_run(parser)
    parsed = parser.parse_strictly(arguments)
    _use_one_thread()
    from adaqn import commands

    return commands.export(parsed)


def _add_best(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--best",
        action="store_true",
        help="use the run's best model: the one with the highest return in an evaluation or, without evaluations, in "
        "the last 10 training episodes (default: the last model)",
    )


def _schedule(arguments: list[str]) -> int:
    parser = _Parser(
        prog="adaqn schedule",
        description="Write which hyperparameters the target member had when. "
        "`adaqn train --algo dqn --schedule FILE` follows them with one member.",
    )
    parser.add_argument("run_dir", metavar="DIR", type=Path, help="the run's directory")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: schedule.yaml in the directory")
    parser.add_argument("--force", action="store_true", help="overwrite FILE if it exists")
    parsed = parser.parse_strictly(arguments)
    from adaqn.analysis.schedule import write_schedule

    print(write_schedule(parsed.run_dir, parsed.output, parsed.force))
    return 0


def _use_one_thread() -> None:
    """Let XLA use one thread, before JAX is imported: networks of this size are slower with more."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    complain(f"adaqn: warning: {message}")


if __name__ == "__main__":
    sys.exit(main())
