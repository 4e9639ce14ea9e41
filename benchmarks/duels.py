"""The comparisons of `versus`: three tasks, each with our algorithm and a peer's implementation of the same one."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from benchmarks.contenders import Contender, Layers, Library, SACSettings, Settings, TD3Settings
from benchmarks.tasks import LUNAR_LANDER

Side = Literal["ours", "sb3", "sbx"]


@dataclass(frozen=True, kw_only=True)
class Duel:
    """An environment, a peer, and the settings that both learn with."""

    name: str
    environment: str
    algorithm: str
    peer: Literal["sb3", "sbx"]
    settings: Settings
    critics: tuple[Layers, ...]
    steps: int  # default length of a run

    @property
    def sides(self) -> tuple[Side, Side]:
        """The two sides, ours first."""
        return "ours", self.peer

    def contender(self, side: Side) -> Contender:
        """The contender of a side, as an argument of `build`."""
        library: Library = "adaqn" if side == "ours" else side
        return Contender(side, library, self.critics)

    def label(self, side: Side) -> str:
        """The name of a side in tables and figures."""
        return f"{'adaqn' if side == 'ours' else side.upper()} {self.algorithm}"


DUELS: dict[str, Duel] = {
    duel.name: duel
    for duel in (
        Duel(
            name="lunar-lander",
            environment=LUNAR_LANDER.environment,
            algorithm="DQN",
            peer="sb3",
            # SB3 uses the Huber loss. It always clips gradients, ours never; clipping at this norm has no effect.
            settings=dataclasses.replace(LUNAR_LANDER.settings, loss="huber", max_grad_norm=1e9),
            critics=((200, 200),),
            steps=100_000,
        ),
        Duel(
            name="hopper",
            environment="Hopper-v5",
            algorithm="SAC",
            peer="sbx",
            settings=SACSettings(learning_rate=3e-4, batch_size=256, buffer_size=1_000_000, learning_starts=1_000),
            critics=((256, 256), (256, 256)),
            steps=30_000,
        ),
        Duel(
            name="pendulum-td3",
            environment="Pendulum-v1",
            algorithm="TD3",
            peer="sb3",
            settings=TD3Settings(learning_rate=1e-3, batch_size=256, buffer_size=1_000_000, learning_starts=1_000),
            critics=((256, 256), (256, 256)),
            steps=10_000,
        ),
    )
}
