"""The command line `adaqn`, the only reader of argv. Heavy imports wait until a command needs them."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

from adaqn.base.errors import UserError, nearest
from adaqn.base.output import occupy_closed_streams, print_error, print_line, settle_output
from adaqn.cli import flags
from adaqn.cli.flags import Flag, Group
from adaqn.networks.xla.threads import use_one_thread

_Number = TypeVar("_Number", int, float)


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
    """Run a command and return its exit status: 0, 1 after a user's mistake, 130 or 143 after an interruption."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    occupy_closed_streams()
    status, lost = _guarded(arguments), settle_output()
    # Training succeeds even if its output is lost, but the output of other commands is their result.
    if lost is None or status != 0 or arguments[:1] in (["train"], ["resume"], ["study"], ["work"]):
        return status
    print_error(f"adaqn: standard output: {lost.strerror or lost}")
    return 128 + signal.SIGPIPE if isinstance(lost, BrokenPipeError) else 1


def _guarded(arguments: list[str]) -> int:
    """The exit status of a command; user mistakes and system errors are reported in one sentence."""
    try:
        with warnings.catch_warnings(), _modules_found_here():
            warnings.showwarning = _show_warning
            return _dispatch(arguments)
    except UserError as error:
        print_error(f"adaqn: {error}")
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        return 128 + signal.SIGPIPE  # the reader of our output has gone, so no message is printed
    except OSError as error:
        print_error(f"adaqn: the system refused to write or read: {error}")
        return 1
    except MemoryError as error:
        print_error(f"adaqn: there is not enough memory{f': {error}' if str(error) else ''}")
        return 1


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())
        return 0
    if arguments[0] == "--version":
        from adaqn import __version__

        print(f"adaqn {__version__}")
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in _COMMANDS:
        raise UserError(f"unknown command {name!r}{nearest(name, _COMMANDS)} (commands: {', '.join(_COMMANDS)})")
    # An abbreviation of one algorithm's flag may be a flag of another, so train takes only full names.
    parser = _Parser(prog=f"adaqn {name}", allow_abbrev=name != "train")
    _COMMANDS[name].build(parser, rest)
    return _COMMANDS[name].run(parser.parse_strictly(rest))


def _overview() -> str:
    commands = "\n".join(f"  {name:10} {command.help}" for name, command in _COMMANDS.items())
    return f"""usage: adaqn COMMAND ...

Reinforcement learning that tunes itself: several critics with different hyperparameters learn in one run.

commands:
{commands}

`adaqn COMMAND --help` explains a command. A first run:
  adaqn train --env CartPole-v1 --steps 50000 --run-dir runs/cartpole"""


def _build_train(parser: _Parser, arguments: list[str]) -> None:
    """Declare the settings of the algorithm that a file or a flag names, with the file's values as defaults."""
    from adaqn.cli import commands

    peek = _Parser(prog=parser.prog, add_help=False)
    for name in ("--config", "--algo", "--base"):
        peek.add_argument(name)
    early, _ = peek.parse_known_args(arguments)
    base = commands.base_values(early.config, early.algo, early.base)
    parser.description = (
        "Train an agent. All options can also be set in a YAML file (--config); those given here take precedence. The "
        f"settings below are those of {base['algo']}: `adaqn train --algo NAME --help` shows those of another "
        "algorithm."
    )
    parser.set_defaults(base_values=base)
    _declare_all(parser, flags.train(base))


def _train(given: argparse.Namespace) -> int:
    from adaqn.cli import commands

    entries = vars(given)
    base, run_dir, force, quiet = (entries.pop(name) for name in ("base_values", "run_dir", "force", "quiet"))
    config = entries.pop("config", None)
    values = commands.with_flags(base, entries)
    if not quiet and (note := commands.left_out(config, values)) is not None:
        print_line(note)
    return commands.train(values, config or "the command line", run_dir=run_dir, force=force, quiet=quiet)


def _resume(given: argparse.Namespace) -> int:
    from adaqn.cli import commands

    return commands.resume(
        given.run_dir,
        threads=given.threads,
        steps=given.steps,
        stretch_schedules=given.stretch_schedules,
        quiet=given.quiet,
        **_environment(given),
    )


def _evaluate(given: argparse.Namespace) -> int:
    use_one_thread()  # there are no batches to divide
    from adaqn.cli import commands

    return commands.evaluate(
        given.source,
        best=given.best,
        episodes=given.episodes,
        seed=given.seed,
        video=given.video,
        force=given.force,
        **_environment(given),
    )


def _export(given: argparse.Namespace) -> int:
    use_one_thread()
    from adaqn.cli import commands

    return commands.export(
        given.source,
        best=given.best,
        format=given.format,
        output=given.output,
        force=given.force,
        **_environment(given),
    )


def _push(given: argparse.Namespace) -> int:
    use_one_thread()
    from adaqn.cli import commands

    return commands.push(
        given.run_dir,
        given.repo,
        to=given.to,
        best=given.best,
        episodes=given.episodes,
        seed=given.seed,
        private=given.private,
        force=given.force,
        **_environment(given),
    )


def _environment(given: argparse.Namespace) -> dict[str, Any]:
    """The environment given on the command line for an existing run."""
    from adaqn.cli.commands import environment_override

    values = vars(given)
    names = ("env", "env_kwargs", "wrappers", "imports")
    override = environment_override(**{name: values[name] for name in names if name in values})
    return {"environment": override, "trust_env": values.get("trust_env", False)}


def _schedule(given: argparse.Namespace) -> int:
    from adaqn.analysis.schedule import write_schedule

    print(write_schedule(given.run_dir, given.output, given.force))
    return 0


def _picture(given: argparse.Namespace) -> int:
    from adaqn.analysis.picture import draw_run

    print(draw_run(given.run_dir, given.output, given.force))
    return 0


def _figures(given: argparse.Namespace) -> int:
    from adaqn.analysis.drawing import draw_figures

    return draw_figures(given.study, given.output, given.epoch, given.force)


def _report(given: argparse.Namespace) -> int:
    from adaqn.analysis.report.command import report

    return report(given.paths, given.output, given.epoch, given.force, given.live, given.port)


def _build_study(parser: _Parser, arguments: list[str]) -> None:
    """Declare the flags of a study and list the preset studies."""
    from adaqn.studies.command import presets

    del arguments
    listed = "\n".join(f"  {name:24} {about}" for name, about in presets().items())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (
        "Run a study: arms x environments x seeds. Finished runs are skipped, interrupted ones resumed, failed ones\n"
        "retried; the same command continues where it stopped, even while another one uses the same directory."
    )
    parser.epilog = f"presets:\n{listed}"
    _declare_all(parser, flags.STUDY)


def _study(given: argparse.Namespace) -> int:
    from adaqn.studies.command import Request, run_study

    return run_study(Request(**{**vars(given), "resources": given.resources or ()}))


def _work(given: argparse.Namespace) -> int:
    use_one_thread()  # unless the study says otherwise: there is a process for every core
    from adaqn.studies.study import RunKey
    from adaqn.studies.work import end_with_parent, perform

    if given.tied:
        end_with_parent()
    return perform(given.study_dir, RunKey.parse(given.run))


class Command(NamedTuple):
    """A subcommand of `adaqn`."""

    help: str  # shown in the overview
    build: Callable[[_Parser, list[str]], None]  # describes the command and declares its flags
    run: Callable[[argparse.Namespace], int]


def _plain(description: str, groups: Sequence[Group]) -> Callable[[_Parser, list[str]], None]:
    """Build a command with fixed flags."""

    def build(parser: _Parser, arguments: list[str]) -> None:
        del arguments
        parser.description = description
        _declare_all(parser, groups)

    return build


_COMMANDS = {
    "train": Command("train an agent that tunes itself", _build_train, _train),
    "resume": Command(
        "continue an interrupted run, or extend a finished one",
        _plain("Continue an interrupted run exactly where it stopped, or extend a run.", flags.RESUME),
        _resume,
    ),
    "evaluate": Command(
        "evaluate a trained agent, and optionally record a video",
        _plain("Evaluate a trained agent.", flags.EVALUATE),
        _evaluate,
    ),
    "schedule": Command(
        "turn the history of a run's target member into a schedule of hyperparameters",
        _plain(
            "Write the hyperparameters of the target member over time. `adaqn train --algo dqn --schedule FILE` trains "
            "one member that follows them.",
            flags.SCHEDULE,
        ),
        _schedule,
    ),
    "picture": Command(
        "plot a run: learning curve, losses, and the target member over time",
        _plain("Plot a run to an image file.", flags.PICTURE),
        _picture,
    ),
    "figures": Command(
        "draw the figures of a study, and write its table",
        _plain(
            "Draw every figure that the runs of a study allow, as PNG and PDF, and write its table as JSON and CSV.",
            flags.FIGURES,
        ),
        _figures,
    ),
    "report": Command(
        "write one HTML page about runs or a study, or serve it while they are in progress",
        _plain(
            "Write one self-contained HTML page about a run, several runs or a study, with interactive charts. It "
            "needs no network.",
            flags.REPORT,
        ),
        _report,
    ),
    "export": Command(
        "write the policy to a file that needs only NumPy to run, or to an ONNX model",
        _plain("Write the learned policy to a file that needs only NumPy, or to an ONNX model.", flags.EXPORT),
        _export,
    ),
    "push": Command(
        "publish a run on the Hugging Face Hub: agent, policy, configuration, film, picture and model card",
        _plain(
            "Evaluate a run's agent and upload it to the Hugging Face Hub, with its exported policy, configuration, "
            "picture, film (if `adaqn evaluate --video` recorded one) and a model card. AdaDQN.from_hub loads it. "
            "Needs a login: `hf auth login`.",
            flags.PUSH,
        ),
        _push,
    ),
    "study": Command("run a table of runs: arms x environments x seeds", _build_study, _study),
    "work": Command(
        "execute one run of a study, as the launchers do",
        _plain(
            "Execute one run of a study: start it, resume it, or skip it if it is finished. For schedulers without a "
            "launcher in adaqn; the exit status is 75 if another process is executing the run.",
            flags.WORK,
        ),
        _work,
    ),
}


def _declare_all(parser: _Parser, groups: Sequence[Group]) -> None:
    for title, entries in groups:
        group = parser if title is None else parser.add_argument_group(title)
        for flag in entries:
            _declare(group, flag)


def _declare(group: argparse._ActionsContainer, flag: Flag) -> None:
    """Add a flag to a parser or to one of its groups."""
    options: dict[str, Any] = {"help": flag.help.replace("%", "%%")}
    if flag.values == "none":
        group.add_argument(flag.name, action="store_true", **options)
        return
    usual = {int: "N", float: "X", str: "NAME", bool: "true|false"}
    options |= {"type": _READERS.get(flag.kind, flag.kind), "metavar": flag.metavar or usual[flag.kind]}
    if not flag.name.startswith("-"):
        several: dict[str, Any] = {"nargs": "+"} if flag.values == "several" else {}
        group.add_argument(flag.name, **options | several)
        return
    options["default"] = argparse.SUPPRESS if flag.default is flags.UNSET else flag.default
    if flag.dest is not None:
        options["dest"] = flag.dest
    if flag.values == "repeated":
        options["action"] = "append"
    elif flag.values == "several":
        options["nargs"] = "+"
    elif flag.values == "optional":
        options |= {"nargs": "?", "const": flag.when_bare}
    group.add_argument(*([] if flag.short is None else [flag.short]), flag.name, **options)


def _boolean(text: str) -> bool:
    values = {"true": True, "yes": True, "false": False, "no": False}
    if text.lower() not in values:
        raise argparse.ArgumentTypeError(f"must be true or false, but got {text!r}")
    return values[text.lower()]


def _whole_number(text: str) -> int:
    return _number(text, int, "a whole number")


def _any_number(text: str) -> float:
    return _number(text, float, "a number")


def _number(text: str, kind: type[_Number], what: str) -> _Number:
    try:
        return kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be {what}, but got {text!r}") from None


# Where argparse's own messages ("invalid int value") name a type of Python instead of what is allowed.
_READERS: dict[Any, Any] = {bool: _boolean, int: _whole_number, float: _any_number}


def _show_warning(message: object, *_: object, **__: object) -> None:
    print_error(f"adaqn: warning: {message}")


@contextlib.contextmanager
def _modules_found_here() -> Iterator[None]:
    """Also find modules in the working directory, as `python -m` does, for the user's own environments."""
    try:
        here = os.getcwd()
    except OSError:  # the working directory was removed
        here = ""
    added = here not in sys.path and here != ""
    if added:
        sys.path.append(here)
    try:
        yield
    finally:
        if added and here in sys.path:
            sys.path.remove(here)
