"""State that some environments keep across seeded resets, and that must be cleared to make episodes repeatable."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium


def clear_leftovers(env: gymnasium.Env) -> None:
    """Clear state that a known environment keeps from its last episode, so that only the seed determines the next."""
    # BipedalWalker builds each episode in the same Box2D world, whose solver then visits contacts in another
    # order than in a new world: the same seed and actions diverge after some dozens of steps. (LunarLander
    # makes a new world itself.) If the module is not imported, the environment cannot be a BipedalWalker;
    # importing it here would load Box2D for everyone.
    module = sys.modules.get("gymnasium.envs.box2d.bipedal_walker")
    inner: Any = env.unwrapped
    if module is not None and isinstance(inner, module.BipedalWalker):
        inner._destroy()  # removes the bodies from the old world; the call in `reset` then finds none
        inner.world = type(inner.world)(gravity=inner.world.gravity)
    # MinAtar's own environments (ours do this themselves): the sticky last action survives a reset.
    module = sys.modules.get("minatar.gym")
    if module is not None and isinstance(inner, module.BaseEnv):
        inner.game.last_action = 0
