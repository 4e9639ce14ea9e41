"""Everything that a space can contain trains in an ensemble, and a diverging member does not affect the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from adaqn.agents.dqn import DQNAgent, State
from adaqn.agents.protocol import Clock, Operation, TargetUpdate
from adaqn.cli import main
from adaqn.members.hyperparameters import ACTIVATIONS, LOSSES, OPTIMIZERS, Hyperparameters
from adaqn.members.space import SearchSpace
from adaqn.replay.protocol import Batch
from adaqn.runs.reading import member_of, read_run
from tests.agents.generation_cases import agent_of, batch_for, bytes_of, online_of
from tests.agents.outcomes import acted

BOX = spaces.Box(-9.0, 9.0, (2,))
IMAGE = spaces.Box(0, 255, (8, 8, 2), np.uint8)
# The spaces for vectors and images, with layers that compile and run quickly.
SMALL = SearchSpace.from_dict({"base": "vectors", "hidden": {"layers": [1, 3], "neurons": [2, 6]}})
SMALL_IMAGES = SearchSpace.from_dict(
    {
        "base": "images",
        "hidden": {"layers": [0, 2], "neurons": [2, 6]},
        "convolutions": {"layers": [1, 2], "channels": [2, 4], "kernel": [2, 4], "stride": [1, 3]},
    }
)
SOUND = Hyperparameters(hidden=(4,), activation="tanh", learning_rate=1e-3)


def parts(members: Sequence[Hyperparameters], size: int) -> list[tuple[Hyperparameters, ...]]:
    return [tuple(members[first : first + size]) for first in range(0, len(members), size)]


def some_batch(rng: np.random.Generator) -> Batch[np.ndarray]:
    """An environment whose reward is the observation's first number for action 0, its second for action 1."""
    x, following = rng.standard_normal((2, 8, 2)).astype(np.float32)
    action = rng.integers(2, size=8).astype(np.int32)
    rewards = x[np.arange(8), action][:, None]
    return Batch(x, action, rewards, following, (rng.random(8) < 0.3).astype(np.float32), np.ones(8, np.int32))


def lived(members: tuple[Hyperparameters, ...]) -> tuple[DQNAgent, State, list[TargetUpdate]]:
    """A run of 30 updates with a target update after every sixth, on images if there are convolutions."""
    of_images = any(member.convolutions for member in members)
    agent = agent_of(members, IMAGE, SMALL_IMAGES, gamma=0.9) if of_images else agent_of(members, BOX, SMALL, gamma=0.9)
    run, rng = agent.init(0), np.random.default_rng(1)
    events: list[Any] = []
    for step in range(1, 31):
        clock, batch = Clock(step, step - 1, 30), batch_for(IMAGE, rng) if of_images else some_batch(rng)
        run, actions = acted(agent.update(run, Operation.UPDATE, batch, clock, rng, batch.observation[:1]))
        assert actions.tolist() in ([0], [1])
        if step % 6 == 0:
            run, told = agent.perform(run, Operation.TARGET_UPDATE, clock, rng)
            events += told
    return agent, run, events


def assert_handled(members: tuple[Hyperparameters, ...]) -> np.ndarray:
    """Check that members have learned unless diverged, and that diverged ones are not used; returns `diverged`. [K]"""
    agent, run, events = lived(members)
    diverged = np.asarray(run.learning.record.diverged)
    before = online_of(agent.init(0))
    found: set[int] = set()
    for event in events:
        assert not found & set(event.newly_diverged), "a divergence was reported twice"
        assert not any(event.acted[k] for k in found)
        found |= set(event.newly_diverged)
        assert event.target not in found
        assert {k for k, loss in enumerate(event.cumulated_loss) if not np.isfinite(loss)} == found
    assert found == set(np.flatnonzero(diverged).tolist())
    for k, (parameters, began) in enumerate(zip(online_of(run), before, strict=True)):
        if not diverged[k]:
            assert np.isfinite(parameters).all(), members[k]
            # The gradient reached the first layer through all later ones.
            first = math.prod(agent.ensemble_of(members).network(k).shapes[0])
            assert not np.array_equal(parameters[:first], began[:first]), members[k]
            assert np.isfinite(run.learning.record.last_loss[k]), members[k]
    assert agent.diverged(run).tolist() == diverged.tolist()
    # Saving preserves everything, whatever the state of the optimizer.
    restored = agent.from_arrays(*agent.to_arrays(run))
    assert bytes_of(restored.learning) == bytes_of(run.learning)
    return diverged


NAMED = [
    *(SOUND.replace(activation=name) for name in ACTIVATIONS),
    *(SOUND.replace(optimizer=name) for name in OPTIMIZERS),
    *(SOUND.replace(loss=name) for name in LOSSES),
]


@pytest.mark.thorough
@pytest.mark.parametrize("members", parts(NAMED, 8))
def test_each_of_the_46_names_trains(members: tuple[Hyperparameters, ...]) -> None:
    assert len(NAMED) == 46
    assert not assert_handled(members).any()


@pytest.mark.thorough
@pytest.mark.parametrize("optimizers", [OPTIMIZERS[:8], OPTIMIZERS[8:16], OPTIMIZERS[16:]])
def test_optimizers_that_are_driven_to_infinity_take_nobody_along(optimizers: tuple[str, ...]) -> None:
    wild = tuple(SOUND.replace(optimizer=name, learning_rate=1e30) for name in optimizers)
    diverged = assert_handled((SOUND, *wild))
    assert not diverged[0]
    assert diverged.any()


def combinations() -> list[Hyperparameters]:
    rng = np.random.default_rng(0)
    return [SMALL.sample(rng) for _ in range(100)]


@pytest.mark.thorough
def test_half_a_dozen_combinations_train() -> None:
    assert_handled(tuple(combinations()[:6]))


@pytest.mark.slow
@pytest.mark.parametrize("members", parts(combinations(), 10))
def test_a_hundred_combinations_train(members: tuple[Hyperparameters, ...]) -> None:
    assert_handled(members)


def test_the_hundred_are_of_many_kinds() -> None:
    members = combinations()
    assert len(set(members)) == 100
    assert {member.activation for member in members} == set(ACTIVATIONS)
    assert {member.loss for member in members} == set(LOSSES)
    assert len({member.optimizer for member in members}) >= 20
    assert {len(member.hidden) for member in members} == {1, 2, 3}


def combinations_for_images() -> list[Hyperparameters]:
    rng = np.random.default_rng(3)
    return [SMALL_IMAGES.sample(rng) for _ in range(20)]


@pytest.mark.slow
@pytest.mark.parametrize("members", parts(combinations_for_images(), 5))
def test_twenty_combinations_for_images_train(members: tuple[Hyperparameters, ...]) -> None:
    assert_handled(members)


def test_the_twenty_are_of_many_kinds() -> None:
    members = combinations_for_images()
    assert len(set(members)) == 20
    assert {member.loss for member in members} == set(LOSSES)
    assert len({member.activation for member in members}) >= 10
    assert len({member.optimizer for member in members}) >= 10
    assert {len(member.convolutions) for member in members} == {1, 2}
    assert {len(member.hidden) for member in members} == {0, 1, 2}
    assert {member.convolutions[0].stride for member in members} == {1, 2, 3}


@pytest.mark.thorough
def test_a_run_in_the_modern_space_evolves_its_layers_and_heads(tmp_path: Path) -> None:
    space, run_dir = tmp_path / "space.yaml", tmp_path / "run"
    space.write_text(
        "base: modern\nactivation: tanh\noptimizer: [adam, adamw]\nhidden: {layers: 1, neurons: [4, 8]}\n"
        "head: [scalar, categorical]\nfixed: {value_range: [-20, 120], bins: 9}\n"
    )
    flags = "--target-update-interval 20 --generation-interval 40 --learning-starts 20 --batch-size 8 --steps 170"
    chosen = (
        "--mutations block,normalization,max_grad_norm,weight_decay,head --normalize-observations true --population 4"
    )
    given = f"train --quiet --algo adadqn --env CartPole-v1 --space {space} {flags} {chosen} --run-dir {run_dir}"
    assert main(given.split()) == 0
    run = read_run(run_dir)
    assert len(run.members) == 5  # the first ones, and four generations
    children = [child for line in run.members for child in line["members"]]
    members = [member_of(child) for child in children]
    assert len({(member.block, member.normalization) for member in members}) >= 2
    assert len({member.max_grad_norm for member in members}) > 3
    assert {member.optimizer for member in members if member.weight_decay} <= {"adamw"}
    mutations = {child["mutation"] for child in children}
    assert mutations <= {None, "block", "normalization", "max_grad_norm", "weight_decay", "head"}
    assert len(mutations) >= 3 and "head" in mutations
    assert {(member.head, member.loss) for member in members} >= {("categorical", "l2"), ("scalar", "huber")}
    assert np.isfinite(run.selection.loss).any(axis=1).all()
