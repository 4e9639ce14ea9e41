"""Guards against slow drift that times are too noisy for: what a step asks of the host and of the compiler, counted.

JAX's profiler records every program that is started and every array that is handed over, whoever asks for it. A number
here may fall; one that must rise deserves a reason in the commit.
"""

from __future__ import annotations

import glob
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from adaqn import AdaDQN, AdaSAC, Hyperparameters, grid
from adaqn.agents.dqn import DQNAgent
from adaqn.agents.execution.packed import PackedStep
from adaqn.agents.execution.value import FusedPrograms
from adaqn.members.evolution import Descendant
from adaqn.training.trainer import Trainer

STARTED = "ExecuteHelperOnSingleDevice"  # the end of the name: what is before depends on the version
HANDED_OVER = "DevicePut"

SETTINGS: dict[str, Any] = {"batch_size": 8, "learning_starts": 20, "seed": 0}


def counts(run: Callable[[], object]) -> tuple[int, int]:
    """Programs started and host arrays handed over in the meantime."""
    options = jax.profiler.ProfileOptions()
    options.host_tracer_level, options.python_tracer_level = 3, 0
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            run()
        (path,) = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
        recorded = jax.profiler.ProfileData.from_file(path)
        names = Counter(e.name for plane in recorded.planes for line in plane.lines for e in line.events)
    return sum(n for name, n in names.items() if name.endswith(STARTED)), names[HANDED_OVER]


def per_round(trainer: Trainer, rounds: int) -> tuple[float, float]:
    """The same for one step of all environments, with all that is due for it; nothing is compiled any more."""
    count = trainer.environments.count
    trainer.run(40 * count)
    started, given = counts(lambda: trainer.run((40 + rounds) * count))
    # At the end of a run come updates without an action.
    return started / (rounds + 1), given / (rounds + 1)


@pytest.mark.parametrize(("n_envs", "updates"), ((1, 1), (8, 1), (4, 3)))
def test_dqn_starts_one_program_with_one_array(n_envs: int, updates: int) -> None:
    model = AdaDQN(
        "CartPole-v1",
        grid(hidden=[(4,), (6,)]),
        n_envs=n_envs,
        gradient_steps=updates,
        target_update_interval=10_000,
        **SETTINGS,
    )
    assert per_round(model.trainer, 10) == (1.0, 1.0)
    assert model.trainer.updates == (50 * n_envs - 20) * updates


def test_a_member_of_a_space_starts_one_program_and_three_serve_all() -> None:
    model = AdaDQN(
        "CartPole-v1",
        space="vectors",
        population=3,
        target_update_interval=1_000,
        generation_interval=10_000,
        **SETTINGS,
    )
    started, given = per_round(model.trainer, 10)
    # The target's values, an update of each member, who acts, and the values to act by.
    assert 3 + 1 < started <= 3 + 3
    # For each member the batch with the target's values, and its discount; four for the choice of the action.
    assert given <= 2 * 3 + 4


@pytest.mark.thorough
def test_sac_starts_one_program() -> None:
    model = AdaSAC("Pendulum-v1", grid(hidden=[(4,), (6,)]), actor_hidden="4", selection_interval=10_000, **SETTINGS)
    started, given = per_round(model.trainer, 10)
    assert started == 1.0
    assert given <= 13


# With one member of two layers: 9 products, 3 passes over the parameters, and what is small between them.
@pytest.mark.parametrize(("members", "most"), (([(200, 200)], 62), ([(25, 25), (50, 50), (100, 100), (200, 200)], 140)))
def test_kernels_of_the_fused_program(members: list[tuple[int, ...]], most: int) -> None:
    model = AdaDQN("CartPole-v1", [Hyperparameters(hidden=hidden) for hidden in members], **SETTINGS)
    agent, state = model.trainer.agent, model.trainer.state
    assert isinstance(agent, DQNAgent) and agent.row_layout is not None
    programs = agent.programs(state)
    assert isinstance(programs, FusedPrograms) and isinstance(programs.update_and_act, PackedStep)
    given = (
        np.zeros((8, agent.row_layout.width), np.int32),
        np.zeros((1, 4), np.float32),
        np.zeros((1, 3 + len(members)), np.float32),
        np.zeros(2, np.float32),
    )
    text = programs.update_and_act.lower(state.learning, *given).compile().as_text()
    entry = text[text.index("ENTRY") :]
    kernels = Counter(re.findall(r" (fusion|dot|copy|custom-call|convolution)\(", entry))
    assert 10 < sum(kernels.values()) <= most, kernels
    large = re.findall(r"f32\[(?:1,)?(\d{3,})\]\S* copy\(", entry)
    assert large == [], "parameters or moments are copied"


def test_a_new_architecture_compiles_three_programs() -> None:
    compiled: list[str] = []

    def note(event: str, duration_secs: float, **_: str | int) -> None:
        del duration_secs
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    model = AdaDQN(
        "CartPole-v1",
        space="vectors",
        population=2,
        target_update_interval=10,
        generation_interval=1_000,
        **SETTINGS,
    )
    trainer = model.trainer
    trainer.run(60)
    agent, state = trainer.agent, trainer.state
    assert isinstance(agent, DQNAgent)
    stays, goes = state.members
    child = goes.replace(hidden=(27, 31), activation="selu")
    children = (Descendant(stays, 0, None), Descendant(child, 1, "architecture"))
    same = (Descendant(stays, 0, None), Descendant(goes, 1, "learning_rate"))
    state, _ = agent.replace_members(state, same, False, trainer.clock, np.random.default_rng(0))
    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        trainer.state, _ = agent.replace_members(state, children, False, trainer.clock, np.random.default_rng(0))
        trainer.run(120)
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    # Its optimizer's first state, its values, its update; what only counts is there already.
    assert 0 < len(compiled) <= 3, compiled
