"""Reading and writing files: untrusted text, YAML and JSON, atomic replacement, and checks before overwriting.

Files from users and other programs are parsed in bounded time, and each error in them is reported in one sentence.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from adaqn.base.errors import OutputFault, UserError

Json = dict[str, Any]  # a JSON object or YAML mapping with string keys

LONGEST_TEXT = 1_000_000  # characters of a YAML document; PyYAML parses about 100 000 per second
MOST_VALUES = 100_000  # in a YAML document, with aliases expanded
DEEPEST = 50  # nesting depth of lists and mappings
LONGEST_NUMBER = 400  # characters; the largest double has 309 digits


def read_text(path: Path) -> str:
    """The content of a UTF-8 file."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path} as text: {error}") from None


def read_yaml(path: Path) -> Any:
    """The parsed content of a YAML file."""
    return yaml_value(str(path), read_text(path))


def yaml_value(what: str, text: str) -> Any:
    """Parse YAML text into nulls, booleans, numbers, strings, and lists and mappings of these.

    Dates stay strings, because no setting is a date and JSON, the format of checkpoints, cannot represent them.
    """
    if len(text) > LONGEST_TEXT:
        raise UserError(f"{what} has {len(text):,} characters, but at most {LONGEST_TEXT:,} are read as YAML")
    try:
        return yaml.load(text, _PlainLoader)
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        # PyYAML's constructors convert values with an explicit tag (`!!int abc`) without checking them.
        reason = f"a value does not fit its tag ({' '.join(str(error).split())})"
    raise UserError(f"{what} is not valid YAML: {reason}")


def json_value(what: str, text: str | bytes) -> Any:
    """Parse JSON text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{what} is not valid JSON: {error}") from error


def yaml_text(values: object) -> str:
    """YAML of plain values: mappings keep their order, and lists of scalars stay on one line."""
    try:
        return yaml.safe_dump(values, sort_keys=False, default_flow_style=None, width=110)
    except yaml.representer.RepresenterError as error:
        raise UserError(f"only plain values can be written as YAML, but got {error.args[-1]!r}") from error


@contextlib.contextmanager
def writing(path: object) -> Iterator[None]:
    """Convert an OSError within this context into an OutputFault that names the file."""
    try:
        yield
    except OSError as error:
        raise OutputFault(f"cannot write {path}: {error.strerror or error}") from error


def write_all(file: BinaryIO, data: bytes) -> None:
    """Write all data to an unbuffered file, which may accept only part of it per call."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def make_parent(path: Path) -> None:
    """Create the directory that a file is about to be written to."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Replace `path` atomically: write a temporary file beside it, and rename that to `path` on success."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with writing(path):
            with beside.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
            _sync_directory(path.parent)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(beside)


def path_safe(text: str) -> str:
    """A label that can be the name of a directory: `ALE/Pong-v5` becomes `ALE-Pong-v5`."""
    return re.sub(r"[^A-Za-z0-9._=+-]+", "-", text).strip("-.") or "unnamed"


def require_free(path: Path, force: bool = False) -> None:
    """Raise if the path exists, unless `force` allows overwriting it."""
    if not force and os.path.lexists(path):
        raise UserError(f"{path} exists already; add --force to overwrite it, or name another file")


def require_ours(path: Path, what: str, is_ours: Callable[[Path], bool], remedy: str = "remove it") -> None:
    """Raise if the file exists and was not written by adaqn: files of other origin are never overwritten."""
    if os.path.lexists(path) and not is_ours(path):
        raise UserError(f"{path} exists, but is no {what}, so it is not overwritten: {remedy}, or choose another name")


def _sync_directory(directory: Path) -> None:
    """Make a rename durable; Windows has no equivalent and does not need it."""
    if os.name == "nt":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _PlainLoader(yaml.SafeLoader):
    """PyYAML's safe loader without dates, sets and binary data, and with limits on nesting and aliases."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._values = 0
        self._values_in: dict[int, int] = {}  # by the id of a composed node

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose one value; an alias counts as many values as the node it refers to."""
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

    def _count(self, values: int, mark: yaml.Mark) -> None:
        self._values += values
        if self._values > MOST_VALUES:
            raise yaml.MarkedYAMLError(problem=f"it has more than {MOST_VALUES:,} values", problem_mark=mark)

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        """Construct a number, unless it is so long that parsing would be slow."""
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
