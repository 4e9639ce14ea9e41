"""Settings of AdaSAC and of plain SAC."""

from __future__ import annotations

from dataclasses import dataclass

from adaqn.agents.core.actor_settings import ActorSettings, PairSettings
from adaqn.agents.core.settings import setting
from adaqn.base.checks import auto_or, between, number

AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class PlainSACSettings(ActorSettings):
    """Settings of SAC with two equal critics."""

    ent_coef: str | float = setting(
        AUTO, "entropy coefficient: a number, or auto to learn it, starting at 1", auto_or(between(0.0))
    )
    target_entropy: str | float = setting(
        AUTO, "target entropy for ent_coef=auto: a number, or auto for minus the action dimension", auto_or(number)
    )

    def target_entropy_of(self, actions: int) -> float:
        """The target entropy for this number of action dimensions."""
        return -float(actions) if self.target_entropy == AUTO else float(self.target_entropy)


@dataclass(frozen=True, kw_only=True)
class SACSettings(PlainSACSettings, PairSettings):
    """Settings that all members share, and how pairs of them are chosen."""
