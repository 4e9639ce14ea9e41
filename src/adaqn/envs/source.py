"""Where the environments of a run come from: an id, a function that makes one, or an object; and their wrappers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import gymnasium

from adaqn.envs.making import make_environment
from adaqn.envs.wrapping import Wrapping, import_module, modules_from, wrappings_from
from adaqn.errors import EnvironmentFault, UserError

EnvironmentLike = str | gymnasium.Env | Callable[..., gymnasium.Env]


@dataclass(frozen=True)
class EnvironmentSource:
    """All that it takes to make an environment, once or several times."""

    env: EnvironmentLike
    kwargs: Mapping[str, Any]
    wrappers: tuple[Wrapping, ...]  # the innermost first
    imports: tuple[str, ...]  # modules that register the id

    @classmethod
    def of(
        cls, env: Any, kwargs: Mapping[str, Any] | None = None, wrappers: Any = None, imports: Any = None
    ) -> EnvironmentSource:
        """A source of what a user gave, which is checked as far as that goes without making an environment."""
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
        """The id, by which a file can name the environment."""
        return self.env if isinstance(self.env, str) else None

    @property
    def foreign_modules(self) -> tuple[str, ...]:
        """The modules that making an environment imports because a configuration names them."""
        module, colon, _ = (self.id or "").rpartition(":")
        named = [*self.imports, *([module] if colon else [])]
        foreign = [name for name in named if name.split(".")[0] not in ("gymnasium", "adaqn")]
        # A wrapper is called with arguments that the configuration gives. Gymnasium's own do no harm with them, except
        # the one that writes files wherever it is told to.
        foreign += [
            wrapping.module
            for wrapping in self.wrappers
            if not f"{wrapping.module}.".startswith("gymnasium.wrappers.") or wrapping.name.endswith(":RecordVideo")
        ]
        return tuple(dict.fromkeys(foreign))

    @property
    def repeatable(self) -> bool:
        """Whether more than one environment can be made."""
        return not isinstance(self.env, gymnasium.Env)

    def make(self, **kwargs: Any) -> gymnasium.Env:
        """One environment in its wrappers; further arguments go to the environment itself."""
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
        """So many environments, or none if one of them cannot be made."""
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
        """The environment, unless a function returned one that is in use already."""
        if any(env.unwrapped is other.unwrapped for other in others):
            raise UserError(f"{_name(self.env)} must make a new environment each time it is called")
        return env

    def observation_shape(self) -> tuple[int, ...]:
        """The shape of what an environment shows, which takes making one."""
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
    """What is said about the environment of an existing run; None stands for what the run recorded."""

    env: EnvironmentLike | None = None
    kwargs: Mapping[str, Any] | None = None
    wrappers: Sequence[object] | None = None
    imports: Sequence[str] = ()


def refuse_vector_environment(env: object) -> None:
    """Point from a vector environment of Gymnasium or Stable-Baselines3 to `n_envs`."""
    if isinstance(env, str | type | gymnasium.Env) or not (hasattr(env, "num_envs") and hasattr(env, "step")):
        return
    number = env.num_envs  # type: ignore[attr-defined]
    raise UserError(
        f"env is a vector environment ({type(env).__name__}), but adaqn steps several environments by itself: "
        f"pass the id, or a function that makes one environment, and n_envs={number}"
    )


def _name(env: object) -> str:
    return f"environment function {getattr(env, '__name__', type(env).__name__)!r}"
