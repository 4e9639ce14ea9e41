"""Given critics that learn and one that cannot, each selection rule chooses the right pair."""

from __future__ import annotations

import numpy as np
import pytest

from adaqn.agents.protocol import Clock, Operation
from tests.agents.outcomes import learned
from tests.agents.sac.cases import STILL, agent_of, batch_of, started, summed_up

CANNOT = 1
MEMBERS = [STILL.replace(learning_rate=rate) for rate in (0.05, 0.0, 0.03, 0.02)]
# Nothing to see, a reward of 1 for ever whatever is done: values grow from 0 to 1 / (1 - ½) = 2.
FOR_EVER = batch_of((0.0, 0.5, [1.0], 0.0, False), (0.0, -0.5, [1.0], 0.0, False))


@pytest.mark.parametrize(("selection", "low", "high"), [("lowest", 0.0, 0.1), ("highest", 0.9, 1.0)])
def test_share_of_the_critic_that_cannot_learn(selection: str, low: float, high: float) -> None:
    agent, rng = agent_of(MEMBERS, selection=selection), np.random.default_rng(0)
    run = started(agent, [[0.0, 0.0, 0.0]] * 4)
    shares = []
    for _ in range(10):
        for _ in range(20):
            run = learned(agent.update(run, Operation.UPDATE, FOR_EVER, Clock(), rng))
        run, event = summed_up(agent, run)
        shares.append(event.selected)
    np.testing.assert_allclose(np.sum(shares, axis=1), 2.0, rtol=1e-6)
    # Once it is under way: at first, all are equally wrong.
    assert low <= np.mean(shares[1:], axis=0)[CANNOT] <= high
    reported = [member.selected for member in agent.report(run, Clock()).members]
    np.testing.assert_allclose(reported, np.mean(shares, axis=0), atol=1e-6)
    if selection == "lowest":
        # Those that are chosen have learned what they should; the other has not moved.
        values = np.asarray(run.learning.ensemble[0].parameters)[:, 2]
        assert values[CANNOT] == 0.0 and values[0] == pytest.approx(2.0, abs=0.1)
