"""Progress of a SEARL generation: the member under evaluation, and the results of each member so far."""

from __future__ import annotations

from typing import Any, NamedTuple

from adaqn.agents.events import MemberEvaluation
from adaqn.agents.protocol import Json


class Evaluation(NamedTuple):
    """The progress of a generation of K members."""

    member: int  # the member under evaluation
    steps: tuple[int, ...]  # [K] actions chosen by each
    total: tuple[float, ...]  # [K] sum of the returns of its episodes
    episodes: tuple[int, ...]  # [K] number of its episodes
    unreported: tuple[MemberEvaluation, ...] = ()  # episodes that have not been reported yet
    last_returns: tuple[float, ...] = ()  # mean returns in the previous generation, of members that finished an episode
    elite_return: float | None = None  # mean return of the elite in the previous generation

    @classmethod
    def begin(cls, size: int, last_returns: tuple[float, ...] = (), elite_return: float | None = None) -> Evaluation:
        """The start of a generation, with the first member."""
        return cls(0, (0,) * size, (0.0,) * size, (0,) * size, (), last_returns, elite_return)

    def with_step(self, member: int) -> Evaluation:
        """Count an action of a member."""
        return self._replace(steps=_plus(self.steps, member, 1))

    def with_episode(self, episode: MemberEvaluation) -> Evaluation:
        """Add an episode that a member finished."""
        return self._replace(
            total=_plus(self.total, episode.member, episode.total),
            episodes=_plus(self.episodes, episode.member, 1),
            unreported=(*self.unreported, episode),
        )

    @property
    def returns(self) -> tuple[float | None, ...]:
        """The mean return of each member, None if it finished no episode. [K]"""
        return tuple(total / n if n else None for total, n in zip(self.total, self.episodes, strict=True))

    @classmethod
    def from_json(cls, saved: Json) -> Evaluation:
        """Restore an evaluation from its `_asdict` saved as JSON."""
        values: dict[str, Any] = dict(saved)
        for name in ("steps", "total", "episodes", "last_returns"):
            values[name] = tuple(values[name])
        values["unreported"] = tuple(MemberEvaluation(*episode) for episode in values["unreported"])
        return cls(**values)


def _plus(values: tuple[Any, ...], place: int, amount: float) -> tuple[Any, ...]:
    return (*values[:place], values[place] + amount, *values[place + 1 :])
