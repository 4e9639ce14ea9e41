"""What is found by its name: modules in a folder of this package, and what other packages add by entry points.

A package of somebody else adds a plug-in in its `pyproject.toml`, with the module or object that a file of ours
would be:

    [project.entry-points."adaqn.selection"]
    median = "their_package.median"
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any

from adaqn.errors import UserError, unknown_name


@dataclass(frozen=True)
class PluginFolder:
    """The plug-ins of one kind."""

    kind: str  # what a user calls them, for the error message
    package: str  # the package whose modules they are
    entry_points: str  # the group of entry points that adds to them

    def names(self) -> list[str]:
        """All names, sorted; nothing is imported for them."""
        return sorted({*_modules(self.package), *_added(self.entry_points)})

    def require(self, name: object) -> str:
        """The name, if there is a plug-in of it."""
        if name not in self.names():
            raise unknown_name(self.kind, name, self.names())
        return str(name)

    def load(self, name: str) -> Any:
        """The plug-in with this name: a module, or what the entry point refers to."""
        self.require(name)
        if name in _modules(self.package):
            return importlib.import_module(f"{self.package}.{name}")
        return _load(self.kind, self.entry_points, name)


@cache
def _modules(package: str) -> tuple[str, ...]:
    spec = importlib.util.find_spec(package)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    return tuple(sorted(module.name for module in pkgutil.iter_modules(folders)))


@cache
def _added(group: str) -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=group)}


@cache
def _load(kind: str, group: str, name: str) -> Any:
    point = _added(group)[name]
    try:
        return point.load()
    except Exception as error:  # whatever a foreign module raises while it is imported
        raise UserError(f"the {kind} {name!r} could not be loaded from {point.value}: {error!r}") from error


def forget_plugins() -> None:
    """Look for plug-ins again, after a package was installed in the running process."""
    _modules.cache_clear()
    _added.cache_clear()
    _load.cache_clear()
