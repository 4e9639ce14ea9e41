"""What environments keep from one episode to the next in spite of a seed, and must forget to be repeated."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium


def clear_leftovers(env: gymnasium.Env) -> None:
    """Make a known environment forget its last episode, so that the seed alone decides about the next one."""
    # BipedalWalker builds each episode in the same physical world, whose solver then visits contacts in
    # another order than in a new one: the same seed and actions lead elsewhere after some dozens of steps.
    # (LunarLander makes a new world by itself.) Where the module was not imported there is none of these,
    # and importing it here would load Box2D for all.
    module = sys.modules.get("gymnasium.envs.box2d.bipedal_walker")
    inner: Any = env.unwrapped
    if module is not None and isinstance(inner, module.BipedalWalker):
        inner._destroy()  # takes the bodies out of the old world; the reset's own call then finds none
        inner.world = type(inner.world)(gravity=inner.world.gravity)
    # MinAtar's own environments (ours do this themselves): the last action may stick in the next episode.
    module = sys.modules.get("minatar.gym")
    if module is not None and isinstance(inner, module.BaseEnv):
        inner.game.last_action = 0
