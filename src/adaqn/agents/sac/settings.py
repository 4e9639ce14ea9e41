"""What all members of AdaSAC share, and the actor."""

from __future__ import annotations

from dataclasses import dataclass

from adaqn.agents.core.actor_settings import ActorSettings, PairSettings
from adaqn.agents.core.settings import setting
from adaqn.checks import auto_or, between, number

AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class PlainSACSettings(ActorSettings):
    """What a SAC with two equal critics needs."""

    ent_coef: str | float = setting(
        AUTO, "entropy coefficient, a number, or auto to learn it from 1 on", auto_or(between(0.0))
    )
    target_entropy: str | float = setting(
        AUTO, "entropy that auto aims at, a number, or auto for minus the dimension", auto_or(number)
    )

    def target_entropy_of(self, actions: int) -> float:
        """The entropy that a learned coefficient aims at, for so many dimensions of the actions."""
        return -float(actions) if self.target_entropy == AUTO else float(self.target_entropy)


@dataclass(frozen=True, kw_only=True)
class SACSettings(PlainSACSettings, PairSettings):
    """What all members share, and how pairs of them are chosen."""
