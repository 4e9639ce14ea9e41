"""What all members of AdaDQN share, and what a DQN needs of it."""

from __future__ import annotations

from dataclasses import dataclass

from adaqn.agents.core.settings import SelectionSettings, Settings, setting
from adaqn.checks import at_least, between, flag


@dataclass(frozen=True, kw_only=True)
class PlainDQNSettings(Settings):
    """What a DQN with one member needs."""

    gradient_steps: int = setting(1, "updates made each time", at_least(1))
    target_update_interval: int = setting(
        200, "steps between target updates, when the target member is chosen", at_least(1)
    )
    exploration_initial_eps: float = setting(1.0, "probability of a random action at the start", between(0.0, 1.0))
    exploration_final_eps: float = setting(0.01, "probability of a random action in the end", between(0.0, 1.0))
    exploration_steps: int = setting(5_000, "steps over which exploration_eps decays", at_least(0))
    double_q: bool = setting(
        False, "let the target member's online network choose the action whose target value is used", flag
    )


@dataclass(frozen=True, kw_only=True)
class DQNSettings(PlainDQNSettings, SelectionSettings):
    """What all members share, and how they are chosen."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_used_temperature()
