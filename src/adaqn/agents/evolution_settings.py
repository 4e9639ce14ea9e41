"""What an algorithm needs to know to let its members move through a space of hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass

from adaqn.agents.catalogue import setting
from adaqn.errors import UserError, count
from adaqn.evolution import exploit_rule, exploit_rules
from adaqn.limits import most


@dataclass(frozen=True, kw_only=True)
class EvolutionSettings:
    """Without a space these have no use: members then stay what they are."""

    population: int = setting(5, "members drawn from the space, where a space is given and no members are")
    generation_interval: int = setting(10_000, "steps between generations, where a space is given")
    exploit: str = setting("tournament", "rule for who survives a generation", exploit_rules)
    reset_weights: bool = setting(False, "let mutated members start with fresh weights instead of their parent's")

    def __post_init__(self) -> None:
        for name in ("population", "generation_interval"):
            object.__setattr__(self, name, count(name, getattr(self, name), low=1, high=most(name)))
        exploit_rule(self.exploit)
        if not isinstance(self.reset_weights, bool):
            raise UserError(f"reset_weights must be true or false, but got {self.reset_weights!r}")
