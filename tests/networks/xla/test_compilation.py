from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from adaqn import AdaDQN, AdaSAC, Hyperparameters
from adaqn.agents.dqn import DQNAgent
from adaqn.agents.execution.value import FusedPrograms
from adaqn.agents.protocol import Clock, Operation
from adaqn.agents.sac import SACAgent
from adaqn.networks.xla import compilation
from adaqn.networks.xla.compilation import compile_seconds

SMALL = [Hyperparameters(hidden=(4,)), Hyperparameters(hidden=(8,))]


def test_no_program_is_compiled_a_second_time_because_a_type_changed_on_the_way() -> None:
    before = compile_seconds()
    model = AdaDQN("CartPole-v1", SMALL, learning_starts=20, batch_size=4, target_update_interval=40)
    model.learn(200)
    assert compile_seconds() > before
    agent = model.trainer.agent
    assert isinstance(agent, DQNAgent)
    programs = agent.programs(model.trainer.state)
    assert isinstance(programs, FusedPrograms)
    assert {name: program._cache_size() for name, program in programs._asdict().items()} == {
        "act": 1,
        "update": 1,
        "update_and_act": 1,
        "updates": 0,
        "updates_and_act": 0,
        "update_target": 1,
        "greedy": 0,
    }


def test_the_same_for_an_actor() -> None:
    settings: dict[str, Any] = {"batch_size": 4, "learning_starts": 20, "selection_interval": 40, "actor_hidden": "4"}
    model = AdaSAC("Pendulum-v1", SMALL, **settings).learn(200)
    agent = model.trainer.agent
    assert isinstance(agent, SACAgent)
    programs = agent.programs(model.trainer.state)
    # No action follows the last update, nor those before a report.
    sizes = {operation.name: program._cache_size() for operation, program in programs.update.items()}
    assert sizes == {"UPDATE": 0, "ACTOR_UPDATE": 1}
    sizes = {operation.name: program._cache_size() for operation, program in programs.update_and_act.items()}
    assert sizes == {"UPDATE": 0, "ACTOR_UPDATE": 1}
    assert programs.report_interval._cache_size() == 1


@pytest.mark.thorough
def test_in_a_space_an_update_is_one_program_with_and_without_an_action() -> None:
    settings: dict[str, Any] = {"batch_size": 4, "learning_starts": 20, "actor_hidden": "4", "seed": 0}
    trainer = AdaSAC("Pendulum-v1", space="vectors", population=2, **settings).trainer
    trainer.run(20)
    agent, state, rng = trainer.agent, trainer.state, np.random.default_rng(0)
    assert isinstance(agent, SACAgent)
    for observations in (np.zeros((1, 3), np.float32), None):
        batch = trainer.replay.sample(rng, 4)
        state, _ = agent.update(state, Operation.ACTOR_UPDATE, batch, Clock(21, 20, 100), rng, observations)
    programs = agent.programs(state)
    large = (*programs.update.values(), *programs.update_and_act.values())
    assert sum(program._cache_size() for program in large) == 1, "every generation compiles each of them again"


def test_compilations_at_the_same_time_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "_compiling", [])
    # Two threads compile in [0, 3] and [1, 4], a short trace comes in between, and then a separate compilation.
    for end, duration in ((2.0, 0.5), (3.0, 3.0), (4.0, 3.0), (9.0, 1.5)):
        monkeypatch.setattr(compilation.time, "monotonic", lambda end=end: end)
        compilation._note_duration("/jax/core/compile/backend_compile_duration", duration)
    compilation._note_duration("/jax/checkpoint/write", 5.0)
    assert compile_seconds() == 4.0 + 1.5
