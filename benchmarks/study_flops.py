"""What the studies would take at the paper's scale: runs, environment steps, floating-point operations, storage.

    python -m benchmarks.study_flops [--scale laptop]

Operations are counted from the sizes of layers (see `flops`); members of an infinite space are counted as the mean of
200 draws. Hours of a GPU are a lower bound: the operations at the rate given by `--teraflops`, plus the environment's
own time at the steps per second below. No GPU was at hand to measure either.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import gymnasium
import numpy as np

from adaqn.agents.registry import algorithm
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.networks.layers import with_arrays
from adaqn.networks.network import Network
from adaqn.replay.making import make_replay
from adaqn.runs.config import RunConfig
from adaqn.studies.definition import STUDIES, read_study
from adaqn.studies.study import RunKey, Study
from benchmarks import flops

DRAWS = 200
# Steps per second of an environment alone, on one core of the machine of the benchmarks; the slowest of a kind.
ENVIRONMENT_SPEED = {"LunarLander": 20_600.0, "MinAtar": 33_000.0, "Atari": 2_800.0, "Humanoid": 1_700.0, "": 2_500.0}


class Cost(NamedTuple):
    """Of one run."""

    steps: int
    flops: float
    environment_seconds: float
    replay_bytes: int


def layers(member: Hyperparameters, shape: tuple[int, ...], outputs: int) -> flops.Network:
    """The products of a member's network."""
    network = Network(member.architecture, shape, outputs)
    found: list[flops.Layer] = []
    kernels = [layer.shapes[0] for layer in with_arrays(network.layers) if layer.kind != "layer_norm"]
    for index, (*inputs, units) in enumerate(kernels):
        positions = 1
        if index < len(network.architecture.convolutions):
            height, width, _ = network.images[index + 1]
            positions = height * width
        found.append(flops.Layer(positions, int(np.prod(inputs)), units))
    return found


def run_cost(study: Study, key: RunKey, spaces: tuple[gymnasium.spaces.Box, gymnasium.Space]) -> Cost:
    """What one run takes."""
    observations, actions = spaces
    config = RunConfig.from_dict(study.values(key), str(key), observations.shape)
    settings = config.settings
    update = update_flops(config, observations.shape, actions)
    times = (config.steps - settings.learning_starts) // settings.train_freq
    updates = max(0, times) * getattr(settings, "gradient_steps", 1)  # SEARL makes one each time, of all members
    family = next(name for name in ENVIRONMENT_SPEED if str(config.env).startswith(name))
    frame_stack = 4 if str(config.env).startswith("Atari") else 1
    replay = make_replay(settings.buffer_size, 1, observations, actions, settings.n_steps, frame_stack)
    filled = min(1.0, config.steps / settings.buffer_size)
    return Cost(config.steps, updates * update, config.steps / ENVIRONMENT_SPEED[family], int(replay.nbytes * filled))


def update_flops(config: RunConfig, shape: tuple[int, ...], actions: gymnasium.Space) -> float:
    """Of one update."""
    if isinstance(actions, gymnasium.spaces.Discrete):
        outputs = int(actions.n)
        if config.algo == "metagradient":
            return flops.metagradient_update(layers(config.members[0], shape, outputs), _batch(config))
        if config.space is None:
            return flops.dqn_update([layers(member, shape, outputs) for member in config.members], _batch(config))
        # Trials train one member at a time, and SEARL gives each member a target of its own.
        rng = np.random.default_rng(0)
        drawn = [layers(config.space.sample(rng), shape, outputs) for _ in range(DRAWS)]
        members = 1 if algorithm(config.algo, config.base).base is not None else config.settings.population
        targets = members if config.algo == "searl" else 1
        value, learning = (float(np.mean([count(each) for each in drawn])) for count in (flops.values, flops.learning))
        return _batch(config) * (targets * value + members * learning)
    size = int(np.prod(actions.shape or ()))
    critics = [layers(member, (shape[0] + size,), 1) for member in config.members]
    hidden = tuple(int(units) for units in config.settings.actor_hidden.split("x"))
    return flops.sac_update(critics, flops.perceptron(shape[0], hidden, 2 * size), _batch(config))


def _batch(config: RunConfig) -> int:
    return config.settings.batch_size


def study_cost(study: Study) -> list[Cost]:
    """Of all runs; the seeds of an arm are equal."""
    spaces = {}
    for label in study.environments:
        env = study.config(RunKey(next(iter(study.arms)), label, 0)).environment().make()
        spaces[label] = (env.observation_space, env.action_space)
        env.close()
    known: dict[tuple[str, str], Cost] = {}
    for key in study.runs():
        known.setdefault(key[:2], run_cost(study, key, spaces[key.environment]))
    return [known[key[:2]] for key in study.runs()]


def table(names: Sequence[str], scale: str, teraflops: float) -> list[str]:
    """A row of Markdown for each study."""
    rows = [
        "| study | runs | steps | PFLOP | PFLOP, longest run | GPU-hours | replay, largest run | replay, all runs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in names:
        costs = study_cost(read_study(name, scale))
        work = [cost.flops for cost in costs]
        hours = sum(cost.flops / (teraflops * 1e12) + cost.environment_seconds for cost in costs) / 3600
        replay = [cost.replay_bytes for cost in costs]
        steps = sum(cost.steps for cost in costs) / 1e6
        rows.append(
            f"| {name} | {len(costs):,} | {steps:,.0f} M | {_digits(sum(work) / 1e15)} | {_digits(max(work) / 1e15)} "
            f"| {hours:,.0f} | {_digits(max(replay) / 1e9)} GB | {_digits(sum(replay) / 1e9)} GB |"
        )
    return rows


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", default="paper")
    parser.add_argument("--teraflops", type=float, default=1.0, help="that a GPU is assumed to sustain (default: 1)")
    parser.add_argument("--studies", nargs="+", default=STUDIES.names())
    given = parser.parse_args()
    print(*table(given.studies, given.scale, given.teraflops), sep="\n")


if __name__ == "__main__":
    main()
