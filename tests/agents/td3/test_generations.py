"""AdaTD3 in a search space: a child has its parent's loss, weights and Polyak target; the actors do not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from adaqn import AdaTD3
from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Generation, Operation
from adaqn.agents.registry import algorithm
from adaqn.agents.td3 import TD3Agent, TD3Settings
from adaqn.members.evolution import Descendant
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.members.space import SearchSpace
from adaqn.networks.inheritance import inherit
from tests.agents.generation_cases import Chosen, bytes_of, online_of, targets_of
from tests.agents.outcomes import learned
from tests.agents.td3.cases import State, random_batch

ADAM = Hyperparameters(hidden=(3,), activation="tanh", learning_rate=0.01)
MEMBERS = (ADAM, Hyperparameters(hidden=(4,), optimizer="rmsprop", learning_rate=0.02), ADAM.replace(discount=0.25))
SPACE = SearchSpace.from_dict({"base": "vectors", "hidden": {"layers": [1, 2], "neurons": [2, 6]}})


def agent_of(**settings: Any) -> TD3Agent:
    values: dict[str, Any] = {"gamma": 0.5, "tau": 0.25, "actor_hidden": "3", "generation_interval": 15, **settings}
    box = spaces.Box(-9.0, 9.0, (2,)), spaces.Box(-1.0, 1.0, (1,))
    return TD3Agent(TD3Settings(**values), Population(MEMBERS, SPACE), *box)


def trained(agent: TD3Agent, run: State, updates: int) -> State:
    rng = np.random.default_rng(0)
    for step in range(updates):
        batch = random_batch(rng, observations=2)
        run = learned(agent.update(run, Operation.ACTOR_UPDATE, batch, Clock(step, step, 100), rng))
    return run


def test_a_child_has_its_parents_loss_weights_and_polyak_target() -> None:
    agent = agent_of()
    child = ADAM.replace(hidden=(5,), discount=0.75)
    agent.evolution = Chosen(
        (Descendant(MEMBERS[0], 0, None), Descendant(child, 2, "architecture"), Descendant(MEMBERS[2], 2, None))
    )
    run = trained(agent, agent.init(0), updates=5)
    online, targets, losses = online_of(run), targets_of(run), np.array(run.learning.record.loss)
    actors = bytes_of((run.learning.actor, run.learning.target_actor))
    assert len(set(losses.tolist())) == 3 and (losses > 0.0).all()
    assert np.abs(targets[2] - online[2]).max() > 1e-4  # the average lags behind
    old = agent.ensemble_of(run.members).network(2)
    run, (event,) = agent.perform(run, Operation.GENERATION, Clock(step=15), np.random.default_rng(0))
    assert isinstance(event, Generation) and (event.step, event.number) == (15, 1)
    assert run.members == (MEMBERS[0], child, MEMBERS[2])
    np.testing.assert_array_equal(run.learning.record.loss, losses[[0, 2, 2]])
    np.testing.assert_array_equal(run.learning.discount, np.array([0.5, 0.75, 0.25]))
    assert bytes_of((run.learning.actor, run.learning.target_actor)) == actors
    for slot in (0, 2):
        assert online_of(run)[slot].tobytes() == online[slot].tobytes()
        assert targets_of(run)[slot].tobytes() == targets[slot].tobytes()
    # Weights and target overlap with those of the parent in the same places.
    new = agent.ensemble_of(run.members).network(1)
    marked = inherit(old, np.full(old.size, np.nan, np.float32), new, np.zeros(new.size, np.float32))
    assert 0 < np.isnan(marked).sum() < new.size
    for of_child, of_parent in ((online_of(run)[1], online[2]), (targets_of(run)[1], targets[2])):
        np.testing.assert_array_equal(of_child, inherit(old, of_parent, new, of_child))
    after = trained(agent, run, updates=2)  # the next members learn, and so do the actors
    assert bytes_of((after.learning.actor, after.learning.target_actor)) != actors


def test_members_are_drawn_from_the_space_and_train_the_actor_by_their_losses() -> None:
    found = algorithm("adatd3")
    settings = found.configure({"population": 3})
    drawn = found.population(Population(space=SPACE), settings, 0, lambda: (2,))
    assert len(drawn.members) == 3 and all(SPACE.contains(member) for member in drawn.members)
    assert agent_of().settings.behaviour == "inverse_loss"
    assert agent_of(behaviour="epsilon").settings.behaviour == "epsilon"


@pytest.mark.thorough
def test_a_run_in_a_space_has_generations() -> None:
    model = AdaTD3(
        "Pendulum-v1", space=SPACE, population=3, generation_interval=60, learning_starts=50, batch_size=4,
        actor_hidden="4", selection="softmax",
    )  # fmt: skip
    before = [member.hyperparameters for member in model.members]
    model.learn(130)
    report = model.trainer.agent.report(model.trainer.state, model.trainer.clock)
    assert report.generation == 2
    assert [member.hyperparameters for member in model.members] != before
    assert all(SPACE.contains(member.hyperparameters) for member in model.members)
