"""The arguments of each public class with their types, defaults and meanings, for `help`, editors and type checkers.

`inspect.signature` and `help` get them from the settings classes at run time; editors read `api.pyi`, which
`.ci/stubs.py` writes from the same source.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import NamedTuple

from adaqn.agents.registry import Algorithm


class Argument(NamedTuple):
    """An argument of a public class as users see it."""

    type: str
    meaning: str


# Those of every class besides settings, in the order of `Model.__init__`.
RUN_ARGUMENTS = {
    "env": Argument("EnvironmentLike", "environment: an id, a function that returns one, or an object"),
    "members": Argument("Members", "hyperparameters to choose from, such as grid(hidden=[(64, 64), (256, 256)])"),
    "space": Argument(
        "SearchSpace | str | Mapping[str, object] | None",
        "search space that members are sampled from and evolve within: a name, a mapping or an object",
    ),
    "schedule": Argument(
        "Sequence[Scheduled | Mapping[str, object]] | str | Path | None",
        "hyperparameters of the single member of a DQN over time",
    ),
    "base": Argument("str | None", "algorithm that RandomSearch and DEHB tune (default: dqn)"),
    "seed": Argument("int", "seed of everything random"),
    "n_envs": Argument("int", "number of environments, stepped one after the other"),
    "threads": Argument(
        "int | Literal['auto'] | None", "threads of an update; auto: as many as help, None: left to JAX"
    ),
    "env_kwargs": Argument("Mapping[str, object] | None", "arguments of the environment's constructor"),
    "wrappers": Argument("Sequence[object]", "wrappers of the environment, the innermost first"),
    "imports": Argument("Sequence[str]", "modules that register the environment's id"),
}
# Further ones of the classes whose members are all equal, under Stable-Baselines3's names.
ONE_KIND_ARGUMENTS = {
    "learning_rate": Argument("float | None", "learning rate of the members"),
    "policy_kwargs": Argument("Mapping[str, object] | None", "net_arch, activation_fn and optimizer_kwargs"),
}


def other_arguments(algorithm: Algorithm) -> tuple[str, ...]:
    """The names of the arguments of an algorithm's class that are not settings, without the environment."""
    one_kind = () if algorithm.copies is None else tuple(ONE_KIND_ARGUMENTS)
    return (*(name for name in RUN_ARGUMENTS if name != "env"), *one_kind)


def meanings_of(algorithm: Algorithm) -> dict[str, str]:
    """What each argument of an algorithm's class means."""
    others = {name: {**RUN_ARGUMENTS, **ONE_KIND_ARGUMENTS}[name].meaning for name in other_arguments(algorithm)}
    settings = {item.name: item.metadata["help"] for item in dataclasses.fields(algorithm.settings)}
    return {"env": RUN_ARGUMENTS["env"].meaning, **others, **settings}


def documentation_of(algorithm: Algorithm) -> str:
    """The documentation of a class: what it is, and every argument."""
    listed = "\n".join(f"    {name}: {meaning}" for name, meaning in meanings_of(algorithm).items())
    return f"{algorithm.about}\n\nArgs:\n{listed}\n"


def signature_of(init: Callable[..., object], algorithm: Algorithm) -> inspect.Signature:
    """The signature of a class: `Model.__init__` with the algorithm's settings in place of `**settings`."""
    own = [  # without self; with the types for users, where adaqn itself may pass others
        p.replace(annotation=RUN_ARGUMENTS[p.name].type if p.name in RUN_ARGUMENTS else p.annotation)
        for p in list(inspect.signature(init).parameters.values())[1:]
        if p.kind is not p.VAR_KEYWORD
    ]
    settings = [
        inspect.Parameter(
            f.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=algorithm.overrides.get(f.name, f.default),
            annotation=f.type,
        )
        for f in dataclasses.fields(algorithm.settings)
    ]
    if algorithm.copies is not None:
        settings += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=argument.type)
            for name, argument in ONE_KIND_ARGUMENTS.items()
        ]
    return inspect.Signature([*own, *settings])
