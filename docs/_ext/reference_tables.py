"""Directives that generate tables from the code, so that the reference cannot drift from it.

- `settings NAME`: the settings of an algorithm, with types and defaults.
- `fields MODULE:CLASS`: the fields of a dataclass, with types, defaults and the comments behind them.
- `flags COMMAND`: the flags of a command of the command line.
- `choices MODULE:NAME`: the names in a tuple, or those that a function returns.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from adaqn.agents.registry import Algorithm, algorithm
from adaqn.agents.settings import SelectionSettings
from adaqn.cli import flags
from adaqn.cli.flags import Flag, Group
from adaqn.runs.config import RunConfig

Rows = list[tuple[str, ...]]


class Table(SphinxDirective):
    """A directive whose argument names what is listed; `tables` returns titles, headings and rows of Markdown."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the tables as Markdown and parse that."""
        parts = []
        for title, headings, rows in self.tables(self.arguments[0]):
            parts += [f"**{title}**", ""] if title else []
            parts += [_line(headings), _line(["---"] * len(headings)), *map(_line, rows), ""]
        return self.parse_text_to_nodes("\n".join(parts))

    def tables(self, argument: str) -> Iterable[tuple[str | None, Sequence[str], Rows]]:
        """Title, headings and rows of each table."""
        raise NotImplementedError


class SettingsTable(Table):
    """The settings of an algorithm: those of its dataclass, with the values that the algorithm fixes."""

    def tables(self, argument: str) -> Iterable[tuple[str | None, Sequence[str], Rows]]:
        """One table of all settings."""
        yield None, ("setting", "type", "default", "meaning"), settings_rows(algorithm(argument))


class FieldsTable(Table):
    """The fields of a dataclass, explained by the comment at the end of each line."""

    def tables(self, argument: str) -> Iterable[tuple[str | None, Sequence[str], Rows]]:
        """One table of all fields."""
        yield None, ("field", "type", "default", "meaning"), field_rows(_object(argument))


class FlagsTable(Table):
    """The flags of a command, by group; of `train` only those that every algorithm has."""

    def tables(self, argument: str) -> Iterable[tuple[str | None, Sequence[str], Rows]]:
        """A table for each group."""
        for group in command_groups(argument):
            rows = [(_flag(flag), _escaped(flag.help)) for flag in group.flags]
            yield group.title, ("argument", "meaning"), rows


class Choices(SphinxDirective):
    """Names, separated by commas."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the names as Markdown and parse that."""
        found = _object(self.arguments[0])
        names = found() if callable(found) else found
        return self.parse_text_to_nodes(", ".join(f"`{name}`" for name in names))


def settings_rows(chosen: Algorithm) -> Rows:
    """A row for each setting of an algorithm."""
    rows = []
    late = {item.name for item in dataclasses.fields(SelectionSettings)}  # the algorithm's own settings come first
    for item in sorted(dataclasses.fields(chosen.settings), key=lambda item: item.name in late):
        value = chosen.overrides.get(item.name, item.default)
        names = item.metadata["choices"]
        text = item.metadata["help"] + (f": {', '.join(names())}" if names else "")
        default = f"{_code(value)}, fixed" if item.name in chosen.overrides else _code(value)
        rows.append((f"`{item.name}`", _code_text(str(item.type)), default, _escaped(text)))
    return rows


def field_rows(described: type) -> Rows:
    """A row for each field of a dataclass."""
    comments = trailing_comments(described)
    if described is RunConfig:  # most of its fields are flags, with a help text
        comments |= {
            flag.name[2:].replace("-", "_"): flag.help for group in command_groups("train") for flag in group.flags
        }
    rows = []
    for item in dataclasses.fields(described):
        if item.default is not dataclasses.MISSING:
            default = _code(item.default)
        elif item.default_factory is not dataclasses.MISSING:
            default = _code(item.default_factory())
        else:
            default = "required"
        text = item.metadata.get("help") or comments.get(item.name, "")
        rows.append((f"`{item.name}`", _code_text(str(item.type)), default, _escaped(text)))
    return rows


def trailing_comments(described: type) -> dict[str, str]:
    """The comment at the end of the line that defines each field."""
    source = inspect.getsource(described)
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    lines = source.splitlines()
    found = {}
    for statement in definition.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            match = re.search(r"  # (?!noqa|pyright)(.*)$", lines[(statement.end_lineno or statement.lineno) - 1])
            if match:
                found[statement.target.id] = match[1]
    return found


def command_groups(command: str) -> tuple[Group, ...]:
    """The flags of a command."""
    if command != "train":
        return getattr(flags, command.upper())
    return tuple(group for group in flags.train({"algo": "adadqn", "settings": {}}) if "settings of" not in group.title)


def _flag(flag: Flag) -> str:
    names = ", ".join(f"`{name}`" for name in (flag.short, flag.name) if name)
    if not flag.name.startswith("-"):
        return f"`{flag.metavar or flag.name}`"
    usual = {int: "N", float: "X", str: "NAME", bool: "true|false"}
    value = "" if flag.values == "none" else f" *{_escaped(flag.metavar or usual[flag.kind])}*"
    return names + value


def _object(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _code(value: object) -> str:
    shown = value.__name__ if isinstance(value, type) else repr(value)
    return _code_text(shown)


def _code_text(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`"


def _escaped(text: str) -> str:
    """Markdown that shows this text as it is."""
    return re.sub(r"([|<>*\[\]])", r"\\\1", text)


def _plain_docstring(app: Sphinx, what: str, name: str, found: object, options: object, lines: list[str]) -> None:
    """Escape signs that reStructuredText interprets; our docstrings have only code in single backquotes and lists.

    A field of a NamedTuple is explained by the comment behind it, instead of by its number.
    """
    del app, what, found, options
    if lines and lines[0].startswith("Alias for field number"):
        owner, _, field = name.rpartition(".")
        module, _, described = owner.rpartition(".")
        lines[:] = [trailing_comments(_object(f"{module}:{described}")).get(field, "")]
    for number, line in enumerate(lines):
        parts = line.split("`")
        parts[::2] = [re.sub(r"([|*]|(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
        lines[number] = "`".join(parts)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("settings", SettingsTable)
    app.add_directive("fields", FieldsTable)
    app.add_directive("flags", FlagsTable)
    app.add_directive("choices", Choices)
    app.connect("autodoc-process-docstring", _plain_docstring)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
