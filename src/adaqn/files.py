"""Text, YAML and JSON that users and other programs wrote: read in bounded time, and each mistake is one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from adaqn.errors import UserError

LONGEST_TEXT = 1_000_000  # characters of a YAML document; PyYAML reads about 100 000 per second
MOST_VALUES = 100_000  # in a YAML document, those counted that an alias stands for
DEEPEST = 50  # lists and mappings within one another
LONGEST_NUMBER = 400  # characters; the largest double has 309 digits


def read_text(path: Path) -> str:
    """The content of a UTF-8 file."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path} as text: {error}") from None


def read_yaml(path: Path) -> Any:
    """The value that a YAML file holds."""
    return yaml_value(str(path), read_text(path))


def yaml_value(what: str, text: str) -> Any:
    """The value of a YAML text: nulls, truth values, numbers, text, and lists and mappings of these.

    Dates stay text, because no setting is one and JSON, which checkpoints are written in, cannot hold them.
    """
    if len(text) > LONGEST_TEXT:
        raise UserError(f"{what} has {len(text):,} characters, but at most {LONGEST_TEXT:,} are read as YAML")
    try:
        return yaml.load(text, _PlainLoader)
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        # PyYAML's constructors convert what stands behind an explicit tag (`!!int abc`) without a check.
        reason = f"a value does not fit its tag ({' '.join(str(error).split())})"
    raise UserError(f"{what} is not valid YAML: {reason}")


def json_value(what: str, text: str | bytes) -> Any:
    """The value of a JSON text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{what} is not valid JSON: {error}") from error


class _PlainLoader(yaml.SafeLoader):
    """PyYAML's safe loader without dates, sets and binary data, and with limits to nesting and aliases."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._values = 0
        self._values_in: dict[int, int] = {}  # by the id of a composed node

    def compose_node(self, parent: Any, index: Any) -> Any:
        """One value; an alias counts as much as what it stands for."""
        mark = self.peek_event().start_mark  # pyright: ignore[reportOptionalMemberAccess]
        if self.check_event(yaml.AliasEvent):
            node = super().compose_node(parent, index)
            if id(node) not in self._values_in:
                raise yaml.MarkedYAMLError(problem="a value contains itself", problem_mark=mark)
            self._count(self._values_in[id(node)], mark)
            return node
        if self._depth == DEEPEST:
            raise yaml.MarkedYAMLError(problem=f"more than {DEEPEST} lists or mappings are nested", problem_mark=mark)
        before = self._values
        self._count(1, mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        self._values_in[id(node)] = self._values - before
        return node

    def _count(self, values: int, mark: Any) -> None:
        self._values += values
        if self._values > MOST_VALUES:
            raise yaml.MarkedYAMLError(problem=f"it has more than {MOST_VALUES:,} values", problem_mark=mark)

    def construct_number(self, node: Any) -> int | float:
        """A number, if it is not so long that reading it takes time."""
        if len(str(node.value)) > LONGEST_NUMBER:
            raise yaml.MarkedYAMLError(
                problem=f"a number has more than {LONGEST_NUMBER} characters", problem_mark=node.start_mark
            )
        is_float = node.tag == "tag:yaml.org,2002:float"
        return self.construct_yaml_float(node) if is_float else self.construct_yaml_int(node)


_PLAIN = ("null", "bool", "str", "seq", "map")
_PlainLoader.yaml_constructors = {
    tag: constructor
    for tag, constructor in yaml.SafeLoader.yaml_constructors.items()
    if tag is None or tag.rpartition(":")[2] in _PLAIN
}
for _tag in ("int", "float"):
    _PlainLoader.add_constructor(f"tag:yaml.org,2002:{_tag}", _PlainLoader.construct_number)
_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
