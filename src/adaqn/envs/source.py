"""The source of a run's environments: an id, a function that makes one, or an environment object; with wrappers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import gymnasium

from adaqn.base.errors import EnvironmentFault, UserError
from adaqn.envs.making import make_environment
from adaqn.envs.wrapping import Wrapping, import_module, modules_from, wrappings_from

EnvironmentLike = str | gymnasium.Env | Callable[..., gymnasium.Env]


@dataclass(frozen=True)
class EnvironmentSource:
    """Everything needed to make an environment once or several times."""

    env: EnvironmentLike
    kwargs: Mapping[str, Any]
    wrappers: tuple[Wrapping, ...]  # innermost first
    imports: tuple[str, ...]  # modules that register the id

    @classmethod
    def of(
        cls, env: Any, kwargs: Mapping[str, Any] | None = None, wrappers: Any = None, imports: Any = None
    ) -> EnvironmentSource:
        """A source from user input, validated as far as possible without making an environment."""
        kwargs = dict(kwargs or {})
        refuse_vector_environment(env)
        if isinstance(env, gymnasium.Env):
            if kwargs:
                raise UserError(f"env_kwargs go with an id, but {kwargs} was given with an environment object")
        elif not isinstance(env, str) and not callable(env):
            raise UserError(
                f"env must be an id, a gymnasium.Env or a function that makes one, but it is a {type(env).__name__}"
            )
        return cls(cast(EnvironmentLike, env), kwargs, wrappings_from(wrappers), modules_from(imports))

    @property
    def id(self) -> str | None:
        """The environment id, which can be written to a file; None for a function or an object."""
        return self.env if isinstance(self.env, str) else None

    @property
    def foreign_modules(self) -> tuple[str, ...]:
        """Third-party modules, named by the configuration, that making an environment imports."""
        module, colon, _ = (self.id or "").rpartition(":")
        named = [*self.imports, *([module] if colon else [])]
        foreign = [name for name in named if name.split(".")[0] not in ("gymnasium", "adaqn")]
        # A wrapper is called with arguments from the configuration. Gymnasium's own wrappers are harmless with any
        # arguments, except RecordVideo, which writes files to any path.
        foreign += [
            wrapping.module
            for wrapping in self.wrappers
            if not f"{wrapping.module}.".startswith("gymnasium.wrappers.") or wrapping.name.endswith(":RecordVideo")
        ]
        return tuple(dict.fromkeys(foreign))

    @property
    def repeatable(self) -> bool:
        """Whether several environments can be made: an environment object is only one."""
        return not isinstance(self.env, gymnasium.Env)

    def make(self, **kwargs: Any) -> gymnasium.Env:
        """Make one environment with its wrappers; keyword arguments go to the innermost environment."""
        for name in self.imports:
            import_module(name)
        env = self._make_inner({**self.kwargs, **kwargs})
        try:
            for wrapping in self.wrappers:
                env = wrapping.around(env)
        except UserError:
            if self.repeatable:
                env.close()
            raise
        return env

    def make_several(self, count: int) -> list[gymnasium.Env]:
        """Make `count` environments; if one fails, those already made are closed."""
        if count != 1 and not self.repeatable:
            raise UserError(
                f"n_envs must be 1 for an environment object, but it is {count} "
                "(an id or a function that makes one allows more)"
            )
        envs: list[gymnasium.Env] = []
        try:
            for _ in range(count):
                envs.append(self.make())
                self.require_new(envs[-1], envs[:-1])
        except UserError:
            if self.repeatable:
                for made in envs:
                    made.close()
            raise
        return envs

    def require_new(self, env: gymnasium.Env, others: Sequence[gymnasium.Env]) -> gymnasium.Env:
        """The environment; raises if a function returned one that is already in use."""
        if any(env.unwrapped is other.unwrapped for other in others):
            raise UserError(f"{_name(self.env)} must make a new environment each time it is called")
        return env

    def observation_shape(self) -> tuple[int, ...]:
        """The shape of observations; this makes an environment."""
        env = self.make()
        shape = tuple(env.observation_space.shape or ())
        if self.repeatable:
            env.close()
        return shape

    def _make_inner(self, kwargs: Mapping[str, Any]) -> gymnasium.Env:
        if isinstance(self.env, str):
            return make_environment(self.env, kwargs)
        if isinstance(self.env, gymnasium.Env):
            if kwargs:
                raise UserError(
                    f"this agent was made with an environment object, which cannot be made again with {dict(kwargs)}"
                )
            return self.env
        try:
            env = self.env(**kwargs)
        except UserError:
            raise
        except Exception as error:
            given = f" with {dict(kwargs)}" if kwargs else ""
            raise EnvironmentFault(f"{_name(self.env)} raised {error!r} when it was called{given}") from error
        refuse_vector_environment(env)
        if not isinstance(env, gymnasium.Env):
            raise UserError(f"{_name(self.env)} must return a gymnasium.Env, but it returned a {type(env).__name__}")
        return env


class EnvironmentOverride(NamedTuple):
    """Changes to the environment of an existing run; None keeps what the run recorded."""

    env: EnvironmentLike | None = None
    kwargs: Mapping[str, Any] | None = None
    wrappers: Sequence[object] | None = None
    imports: Sequence[str] = ()


def refuse_vector_environment(env: object) -> None:
    """Raise for a vector environment of Gymnasium or Stable-Baselines3, with a hint to use `n_envs`."""
    if isinstance(env, str | type | gymnasium.Env) or not (hasattr(env, "num_envs") and hasattr(env, "step")):
        return
    number = env.num_envs  # type: ignore[attr-defined]
    raise UserError(
        f"env is a vector environment ({type(env).__name__}), but adaqn steps several environments itself: "
        f"pass the id, or a function that makes one environment, and n_envs={number}"
    )


def _name(env: object) -> str:
    return f"environment function {getattr(env, '__name__', type(env).__name__)!r}"
