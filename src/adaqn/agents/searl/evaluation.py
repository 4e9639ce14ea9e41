"""How far a generation of SEARL is: whose turn it is, and how each member did so far."""

from __future__ import annotations

from typing import Any, NamedTuple

from adaqn.agents.events import MemberEvaluation
from adaqn.agents.protocol import Json


class Evaluation(NamedTuple):
    """The progress of a generation of K members."""

    member: int  # whose turn it is
    steps: tuple[int, ...]  # [K] actions chosen by each
    total: tuple[float, ...]  # [K] sum of the returns of its episodes
    episodes: tuple[int, ...]  # [K] number of these
    unreported: tuple[MemberEvaluation, ...] = ()  # episodes that have not been reported yet
    last_returns: tuple[float, ...] = ()  # mean returns in the previous generation, of those who had any
    elite_return: float | None = None  # mean return of the elite in the previous generation

    @classmethod
    def begin(cls, size: int, last_returns: tuple[float, ...] = (), elite_return: float | None = None) -> Evaluation:
        """The beginning of a generation, with the first member's turn."""
        return cls(0, (0,) * size, (0.0,) * size, (0,) * size, (), last_returns, elite_return)

    def with_step(self, member: int) -> Evaluation:
        """After a member chose an action."""
        return self._replace(steps=_plus(self.steps, member, 1))

    def with_episode(self, episode: MemberEvaluation) -> Evaluation:
        """After a member finished an episode."""
        return self._replace(
            total=_plus(self.total, episode.member, episode.total),
            episodes=_plus(self.episodes, episode.member, 1),
            unreported=(*self.unreported, episode),
        )

    @property
    def returns(self) -> tuple[float | None, ...]:
        """The mean return of each member, None where it finished no episode. [K]"""
        return tuple(total / n if n else None for total, n in zip(self.total, self.episodes, strict=True))

    @classmethod
    def from_json(cls, saved: Json) -> Evaluation:
        """The inverse of `_asdict` by way of JSON."""
        values: dict[str, Any] = dict(saved)
        for name in ("steps", "total", "episodes", "last_returns"):
            values[name] = tuple(values[name])
        values["unreported"] = tuple(MemberEvaluation(*episode) for episode in values["unreported"])
        return cls(**values)


def _plus(values: tuple[Any, ...], place: int, amount: float) -> tuple[Any, ...]:
    return (*values[:place], values[place] + amount, *values[place + 1 :])
