"""From what a user gives, an id or an environment, to Gymnasium environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium

from adaqn.errors import EnvironmentFault, UserError, nearest


def make_environment(identifier: str, env_kwargs: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    """One new environment of a registered id; all that can go wrong in it is told in one sentence."""
    # Our own checks of each step replace Gymnasium's checker, which is one wrapper more on the hot path.
    arguments = {"disable_env_checker": True, **env_kwargs}
    try:
        return gymnasium.make(identifier, **arguments)
    except gymnasium.error.NamespaceNotFound as error:
        # Suites beyond Gymnasium's own register themselves when their module is imported.
        hint = f"; install the package that brings it and give its module as well, as in '<module>:{identifier}'"
        similar = nearest(identifier, (known for known in gymnasium.registry if "/" in known))
        raise _unknown(identifier, similar or hint) from error
    except (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv) as error:
        raise _unknown(identifier, nearest(identifier, gymnasium.registry)) from error
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        raise UserError(f"environment {identifier!r} needs a package that is missing: {_one_line(error)}") from error
    except gymnasium.error.Error as error:
        raise UserError(f"environment {identifier!r} cannot be made: {_one_line(error)}") from error
    except Exception as error:
        raise EnvironmentFault(
            f"environment {identifier!r} raised {error!r} when it was made with {dict(env_kwargs)}"
        ) from error


def name_of(env: gymnasium.Env[Any, Any]) -> str:
    """What to call an environment: the id it was made by, or its class."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def _unknown(identifier: str, hint: str) -> UserError:
    # Unlike `unknown_name` this lists nothing: hundreds of ids are registered.
    return UserError(
        f"unknown environment {identifier!r}{hint} (allowed: an id registered with Gymnasium, or an environment object)"
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
