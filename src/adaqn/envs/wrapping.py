"""Environment wrappers given by name, so that a configuration file can contain them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import gymnasium

from adaqn.base.errors import EnvironmentFault, UserError, nearest

_EXAMPLE = "gymnasium.wrappers:FlattenObservation"


@dataclass(frozen=True)
class Wrapping:
    """A wrapper as `module:Name`, and its keyword arguments besides the environment."""

    name: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def around(self, env: gymnasium.Env) -> gymnasium.Env:
        """The environment with this wrapper around it."""
        wrapper = _find(self.name)
        try:
            wrapped = wrapper(env, **self.kwargs)
        except Exception as error:
            given = f" with {dict(self.kwargs)}" if self.kwargs else ""
            raise EnvironmentFault(f"wrapper {self.name!r} raised {error!r} when it was made{given}") from error
        if not isinstance(wrapped, gymnasium.Env):
            raise UserError(
                f"{self.name!r} is not a wrapper: it returns a {type(wrapped).__name__}, "
                f"where a gymnasium.Env is expected"
            )
        return wrapped

    @property
    def module(self) -> str:
        """The module that defines it."""
        return self.name.partition(":")[0]

    def to_plain(self) -> str | dict[str, Any]:
        """Its value in a configuration file."""
        return {"name": self.name, "kwargs": dict(self.kwargs)} if self.kwargs else self.name


def wrappings_from(given: object) -> tuple[Wrapping, ...]:
    """Wrappers from user input, innermost first: names, mappings of name and kwargs, or classes."""
    if given is None:
        return ()
    if isinstance(given, str | Mapping | Wrapping) or not isinstance(given, Iterable):
        raise UserError(f"wrappers must be a list such as [{_EXAMPLE}], but got {given!r}")
    return tuple(_wrapping(one) for one in given)


def modules_from(given: object) -> tuple[str, ...]:
    """The names of modules to import before an environment is made, from user input."""
    if given is None:
        return ()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UserError(f"imports must be a list of modules such as [gymnasium_robotics], but got {given!r}")
    names = tuple(dict.fromkeys(given))
    for name in names:
        if not isinstance(name, str) or not _is_dotted(name):
            raise UserError(f"imports must name modules such as gymnasium_robotics, but got {name!r}")
    return names


def import_module(name: str) -> ModuleType:
    """Import a module named by the user; every failure is a one-sentence UserError."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UserError(
                f"there is no module {name!r}; install the package that has it, or add its directory to PYTHONPATH"
            ) from error
        raise UserError(f"module {name!r} cannot be imported: {error}") from error
    except Exception as error:
        raise UserError(f"module {name!r} cannot be imported: it raised {error!r}") from error


def _wrapping(given: object) -> Wrapping:
    if isinstance(given, Wrapping):
        return given
    if isinstance(given, str):
        return Wrapping(_checked_name(given))
    if isinstance(given, Mapping):
        if "name" not in given or not set(given) <= {"name", "kwargs"}:
            raise UserError(f"a wrapper has a name and optionally kwargs, but got {dict(given)!r}")
        kwargs = given.get("kwargs") or {}
        if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
            raise UserError(f"the kwargs of a wrapper must be a mapping of names to values, but got {kwargs!r}")
        return Wrapping(_checked_name(given["name"]), dict(kwargs))
    if callable(given):
        return Wrapping(_name_of(given))
    raise UserError(f"a wrapper is written as {_EXAMPLE}, but got {given!r}")


def _checked_name(given: object) -> str:
    name = given if isinstance(given, str) else ""
    module, colon, attribute = name.partition(":")
    if not (colon and _is_dotted(module) and _is_dotted(attribute)):
        raise UserError(f"a wrapper is written module:Name, such as {_EXAMPLE}, but got {given!r}")
    return name


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def _name_of(wrapper: Callable[..., Any]) -> str:
    """The `module:Name` of a class or function, by which another process finds it when the run is resumed."""
    module, name = getattr(wrapper, "__module__", ""), getattr(wrapper, "__qualname__", "")
    if "<" in name or not name or not module:
        raise UserError(
            f"wrapper {wrapper!r} cannot be found by a name when the run is resumed; define it in a module, "
            f"or pass env= a function that makes the environment with its wrappers"
        )
    return f"{module}:{name}"


def _find(name: str) -> Callable[..., Any]:
    module_name, _, attribute = name.partition(":")
    found = import_module(module_name)
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            names = [other for other in dir(found) if not other.startswith("_")]
            raise UserError(f"module {module_name!r} has no wrapper {part!r}{nearest(part, names)}") from error
        except Exception as error:
            # gymnasium.wrappers imports the dependencies of a wrapper lazily, at its first access.
            raise UserError(f"wrapper {name!r} cannot be imported: {' '.join(str(error).split())}") from error
    if not callable(found):
        raise UserError(f"{name!r} is not a wrapper, but a {type(found).__name__}")
    return found
