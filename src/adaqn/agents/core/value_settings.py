"""Settings of DQN with one member, shared by the families that learn Q-functions of discrete actions step by step."""

from __future__ import annotations

from dataclasses import dataclass

from adaqn.agents.core.settings import ImageSettings, setting
from adaqn.base.checks import at_least, between, flag


@dataclass(frozen=True, kw_only=True)
class PlainDQNSettings(ImageSettings):
    """Settings of DQN with one member."""

    gradient_steps: int = setting(1, "updates per training step", at_least(1))
    target_update_interval: int = setting(
        200, "steps between target updates, at which the target member is chosen", at_least(1)
    )
    exploration_initial_eps: float = setting(1.0, "initial probability of a random action", between(0.0, 1.0))
    exploration_final_eps: float = setting(0.01, "final probability of a random action", between(0.0, 1.0))
    exploration_steps: int = setting(5_000, "steps over which the probability of a random action decays", at_least(0))
    double_q: bool = setting(
        False, "double Q-learning: the target member's online network chooses the next action", flag
    )
