"""The code blocks of a page, and a session that runs them one after the other in a temporary directory.

A block runs as it is written, unless a comment before it says otherwise. The comments are invisible on the rendered
page, and there are five of them:

    <!-- test: 1200 instead of 100000 -->   run it with another value, such as a shorter training; may be repeated
    <!-- test: skip, needs a Slurm cluster -->   do not run it, and why
    <!-- test: file run.yaml -->            write it to a file, which later blocks use
    <!-- test: fails -->                    it ends with a UserError, or with a status other than 0
    <!-- test: output -->                   a text block: what the block before printed; `...` stands for anything
"""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from adaqn.base.errors import UserError
from adaqn.cli import main

RUN = ("python", "bash")
WRITTEN = ("yaml", "toml")  # these must be files of another block, or be skipped
SHOWN = ("text", "csv")
_MARK = re.compile(r"<!-- test: (.+?) -->\s*$")
_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[^`]*)$")


class Block(NamedTuple):
    """A fenced block with the marks before it."""

    page: str
    line: int
    language: str
    text: str
    marks: tuple[str, ...]

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str | None:
        """The file that it is written to."""
        return next((mark.removeprefix("file ") for mark in self.marks if mark.startswith("file ")), None)

    @property
    def skipped(self) -> bool:
        """Whether it says that it does not run, and why."""
        return any(re.match(r"skip, \w", mark) for mark in self.marks)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to run or to write."""
        return self.skipped or self.language not in (*RUN, *WRITTEN)

    @property
    def runnable(self) -> str:
        """The text with the values that the marks put in place of others."""
        text = self.text
        for mark in self.marks:
            new, instead, old = mark.partition(" instead of ")
            if instead:
                assert old in text, f"{self.place}: the block has no {old!r} to replace by {new!r}"
                text = text.replace(old, new)
        return text

    def fault(self) -> str | None:
        """Why the block would not be tested, or None."""
        kinds = ("skip, ", "file ", "fails", "output")
        for mark in self.marks:
            if not mark.startswith(kinds) and " instead of " not in mark:
                return f"{self.place}: unknown mark {mark!r}"
        if self.language.startswith("{"):
            return None  # a directive of Sphinx
        if self.language not in (*RUN, *WRITTEN, *SHOWN):
            return f"{self.place}: the language must be one of {RUN + WRITTEN + SHOWN}, but it is {self.language!r}"
        if self.language in WRITTEN and not self.skipped and self.file is None:
            return f"{self.place}: no block uses this one; mark it `file NAME`, or `skip, REASON`"
        return None


def blocks_of(page: str, text: str) -> list[Block]:
    """All fenced blocks of a page."""
    found: list[Block] = []
    marks: list[str] = []
    lines = enumerate(text.splitlines(), start=1)
    for number, line in lines:
        if mark := _MARK.match(line.strip()):
            marks.append(mark[1])
        elif opened := _FENCE.match(line):
            indent, fence = opened["indent"], opened["fence"]
            content: list[str] = []
            for _, inner in lines:
                if inner.strip() == fence:
                    break
                content.append(inner.removeprefix(indent))
            found.append(Block(page, number, opened["language"].strip(), "\n".join(content) + "\n", tuple(marks)))
            marks = []
        elif line.strip():
            assert not marks, f"{page}:{number}: the mark {marks[-1]!r} must be directly before a block"
    return found


class Session:
    """Runs the blocks of one page in the working directory; Python blocks share their names."""

    def __init__(self, printed: Callable[[], str]) -> None:
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._printed = printed  # everything that was printed since the last call
        self._output = ""

    def run(self, block: Block) -> None:
        """Run a block, or write it to its file, or compare it with what was printed."""
        if block.skipped:
            return
        if block.file is not None:
            Path(block.file).parent.mkdir(parents=True, exist_ok=True)
            Path(block.file).write_text(block.runnable)
        elif "output" in block.marks:
            assert matches(block.runnable, self._output), f"{block.place}: this was printed instead:\n{self._output}"
        elif block.language in RUN:
            run = self._python if block.language == "python" else self._bash
            message = run(block)
            assert bool(message) == ("fails" in block.marks), f"{block.place}: {message or 'it did not fail'}"
            self._output = self._printed() + message

    def _python(self, block: Block) -> str:
        """Run Python code; returns the message of a UserError."""
        code = compile("\n" * block.line + block.runnable, block.page, "exec")
        try:
            exec(code, self._names)
        except UserError as error:
            return str(error)
        return ""

    def _bash(self, block: Block) -> str:
        """Run commands one by one, in this process; returns which of them failed."""
        for line in block.runnable.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if not words:
                continue
            if words[0] == "adaqn":
                if status := main(words[1:]):
                    return f"`{line.strip()}` ended with status {status}\n"
            elif words[0] == "python" and words[1].endswith(".py"):
                _run_script(words[1:])
            else:
                raise AssertionError(f"{block.place}: tests run only `adaqn` and `python FILE`, not {words[0]!r}")
        return ""


def _run_script(words: list[str]) -> None:
    given, sys.argv = sys.argv, words
    try:
        runpy.run_path(words[0], run_name="__main__")
    finally:
        sys.argv = given


def matches(expected: str, printed: str) -> bool:
    """Whether the text was printed, up to spaces at the ends of lines and `...` for anything."""

    def lines(text: str) -> str:
        return "\n".join(line.rstrip() for line in text.splitlines())

    pattern = re.escape(lines(expected).strip()).replace(r"\.\.\.", r"[\s\S]*?")
    return re.search(pattern, lines(printed)) is not None
