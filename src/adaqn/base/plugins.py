"""Lookup by name: plug-in modules in a folder or from entry points, presets, and packages of optional extras.

A third-party package adds a plug-in in its `pyproject.toml`; the entry point refers to a module or object with the
same interface as a built-in plug-in module:

    [project.entry-points."adaqn.selection"]
    median = "their_package.median"
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
from dataclasses import dataclass
from functools import cache
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from adaqn.base.errors import UserError, unknown_name
from adaqn.base.files import read_yaml, yaml_value


@dataclass(frozen=True)
class PluginFolder:
    """The plug-ins of one kind."""

    kind: str  # user-facing name, for error messages
    package: str  # package that contains the built-in plug-in modules
    entry_points: str  # entry-point group of third-party plug-ins

    def names(self) -> list[str]:
        """All names, sorted, without importing any plug-in."""
        return sorted({*_modules(self.package), *_added(self.entry_points)})

    def require(self, name: object) -> str:
        """The name, if a plug-in has it."""
        if name not in self.names():
            raise unknown_name(self.kind, name, self.names())
        return str(name)

    def load(self, name: str) -> Any:
        """The plug-in with this name: a module, or the object that its entry point refers to."""
        self.require(name)
        if name in _modules(self.package):
            return importlib.import_module(f"{self.package}.{name}")
        return _load(self.kind, self.entry_points, name)


@dataclass(frozen=True)
class PresetFolder:
    """The YAML presets of one kind that ship with the package. Users' own files are given by path instead."""

    kind: str  # user-facing name, for error messages
    path: tuple[str, ...]  # within the package

    def names(self) -> list[str]:
        """All names, sorted."""
        files = [entry.name for entry in self._folder().iterdir()]
        return sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml"))

    def read(self, name: str) -> Any:
        """The content of the preset with this name."""
        if name not in self.names():
            raise unknown_name(self.kind, name, self.names())
        return yaml_value(f"the {self.kind} {name}", (self._folder() / f"{name}.yaml").read_text(encoding="utf-8"))

    def read_given(self, name_or_path: str | Path) -> Any:
        """The content of the file at this path or, if there is none, of the preset with this name."""
        path = Path(name_or_path)
        if os.path.isfile(path):  # `Path.is_file` raises for a name that is too long
            return read_yaml(path)
        if str(name_or_path) in self.names():
            return self.read(str(name_or_path))
        if path.suffix in (".yaml", ".yml"):
            raise UserError(f"there is no file {path}")
        raise unknown_name(f"{self.kind} (and there is no such file)", str(name_or_path), self.names())

    def _folder(self) -> Traversable:
        return resources.files("adaqn").joinpath(*self.path)


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
    """Clear the caches, so that packages installed in the running process are found."""
    _modules.cache_clear()
    _added.cache_clear()
    _load.cache_clear()


def require_extra(what: str, module: str, extra: str) -> Any:
    """Import a module, or raise one sentence that says what needs it and which extra installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name != package:  # it is installed, but something that it needs is not
            raise
        raise UserError(
            f'{what} needs the package {package}, which is not installed: `pip install "adaqn[{extra}]"`'
        ) from error
