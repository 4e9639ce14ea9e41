"""A hint in the header of a run whose settings make it slow, naming faster ones."""

from __future__ import annotations

from typing import Any

from adaqn.agents.execution.work import worth_sharing
from adaqn.agents.population import Population

# An update of one member with Atari's convolutions takes as long as many steps of the game, and each further member
# nearly as long again.
MANY_WITH_CONVOLUTIONS = 3
USUAL_TRAIN_FREQ = 4  # of DQN on images

# With 200 x 200 units four updates of 32 transitions took 1.35 ms of processor time, one of 128 took 0.84; eight of 32
# took 2.7, one of 256 took 1.6.
MANY_UPDATES = 4
LARGEST_BATCH = 256


def speed_hint(
    population: Population,
    settings: Any,
    observation_shape: tuple[int, ...],
    *,
    threads: int,
    cores: int,
) -> str | None:
    """The most effective change of settings or threads for a slow run, as a sentence; None if there is none."""
    large = worth_sharing(population, settings, observation_shape)
    with_convolutions = sum(bool(member.convolutions) for member in population.members)
    updates = getattr(settings, "gradient_steps", 1)
    if with_convolutions >= MANY_WITH_CONVOLUTIONS and settings.train_freq < USUAL_TRAIN_FREQ:
        return (
            f"Hint: each of {with_convolutions} members with convolutions makes an update every "
            f"{_steps(settings.train_freq)}; --train-freq {USUAL_TRAIN_FREQ} is usual for images and faster."
        )
    if large and threads == 1 and cores > 1:
        return f"Hint: layers and batches of this size are computed faster with --threads {cores}."
    if not large and updates >= MANY_UPDATES and settings.batch_size * updates <= LARGEST_BATCH:
        return (
            f"Hint: {updates} updates of {settings.batch_size} transitions take longer than one of "
            f"{settings.batch_size * updates}; --gradient-steps 1 --batch-size {settings.batch_size * updates}"
            ", with fewer but larger updates, is faster."
        )
    return None


def _steps(count: int) -> str:
    return "step" if count == 1 else f"{count} steps"
