"""Permuting the members changes nothing for any of them; and what a report says about them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from adaqn.agents.protocol import Clock, Operation, TargetUpdate, TrialStart
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.replay.protocol import Batch
from tests.agents.contract.cases import ACTIVATION, SMALL, STEPS, WIDTHS, Case, every
from tests.agents.contract.inside import ensemble_part
from tests.agents.contract.runs import WholeRun

Whole = Callable[[Case], WholeRun]
CLOCK = Clock(STEPS, STEPS, STEPS)


def some_batch(case: Case, rng: np.random.Generator) -> Batch[np.ndarray]:
    size = SMALL["batch_size"]
    x, following = rng.uniform(-1.0, 1.0, (2, size, 1)).astype(np.float32)
    actions = rng.uniform(-1.0, 1.0, (size, 1)).astype(np.float32) if case.continuous else rng.integers(2, size=size)
    rewards = rng.standard_normal((size, 1), np.float32)
    action = actions if case.continuous else actions.astype(np.int32)
    return Batch(x, action, rewards, following, np.zeros(size, np.float32), np.ones(size, np.int32))


def members_of(case: Case) -> tuple[Hyperparameters, ...]:
    """Pairwise different members."""
    like = Hyperparameters(hidden=WIDTHS[:1], activation=ACTIVATION)
    given = case.members() or (like,) * case.size
    rates = [1e-2, 3e-3, 1e-3, 3e-4]
    return tuple(m.replace(learning_rate=rates[k % 4], discount=0.5 + 0.1 * k) for k, m in enumerate(given))


class Ordered:
    """An agent with the permuted members of another, with the same weights and the same target."""

    def __init__(self, case: Case, order: list[int], seed: int = 4) -> None:
        self.case, self.order = case, order
        members = members_of(case)
        original, model = (
            case.model(members=[members[k] for k in of], space=case.space(), seed=seed).trainer
            for of in (range(len(members)), order)
        )
        self.agent, self.state = model.agent, model.state
        source, state = ensemble_part(original.agent, original.state)
        mine, own = ensemble_part(self.agent, self.state)
        old, new = source.ensemble_of(state.members), mine.ensemble_of(own.members)
        weights, learning = old.split(state.learning.ensemble), own.learning
        place = {k: slot for slot, k in enumerate(order)}
        # Not the first members, so that a target that is not permuted is detected.
        targets = [place[len(members) - 1 - k] for k in range(len(np.asarray(learning.selected.members)))]
        self.selected = learning.selected._replace(members=jnp.asarray(targets, jnp.int32))
        target = [np.asarray(old.member(state.learning.target, k)) for k in order]
        self.learning = {
            "ensemble": new.join([weights[k] for k in order]),
            "target": tuple(jnp.asarray(np.stack([target[k] for k in group])) for group in new.groups),
            **({"actor": state.learning.actor} if hasattr(learning, "actor") else {}),
        }

    def losses(self) -> list[list[float]]:
        """The losses of two updates, in the original order; the second depends on what the first one learned."""
        agent, state = self.agent, self.with_learning(self.state, **self.learning)
        losses = []
        for number in range(2):
            # Chosen again, because some rules choose by draws for each place.
            state = self.with_learning(state, selected=jax.tree.map(jnp.copy, self.selected))
            batch, rng = some_batch(self.case, np.random.default_rng(number)), np.random.default_rng(number)
            state, _ = agent.update(state, Operation.UPDATE, batch, CLOCK, rng)
            of_slots = np.asarray(ensemble_part(agent, state)[1].learning.record.last_loss).tolist()
            losses.append([of_slots[self.order.index(k)] for k in range(len(self.order))])
        return losses

    def with_learning(self, state: Any, **changes: Any) -> Any:
        """The state with its ensemble's arrays replaced, at any depth."""
        _, part = ensemble_part(self.agent, state)
        changed = part._replace(learning=part.learning._replace(**changes))
        if state is part:
            return changed
        return type(state)(*(changed if field is part else field for field in state))


@pytest.mark.parametrize("case", [p for p in every() if p.values[0].ensemble])
def test_the_order_of_the_members_changes_nothing_for_any_of_them(case: Case) -> None:
    size = case.size
    expected = Ordered(case, list(range(size))).losses()
    shifted = Ordered(case, [*range(1, size), 0]).losses()
    np.testing.assert_allclose(shifted, expected, rtol=1e-4)
    # All of them differ, so that none can be taken for another.
    for losses in expected:
        assert min(abs(a - b) / max(a, b) for a, b in itertools.combinations(losses, 2)) > 1e-3


@pytest.mark.parametrize("case", every())
def test_a_report_is_of_finite_numbers(case: Case, whole: Whole) -> None:
    report = whole(case).model.trainer.report()
    assert {"train/loss", "train/learning_rate"} <= report.metrics.keys()
    for tag, value in report.metrics.items():
        assert type(value) is float and math.isfinite(value), tag
        assert len(tag.split("/")) == 2, tag
    assert report.metrics["train/loss"] > 0.0
    assert len(set(report.targets)) == len(report.targets) > 0
    assert all(0 <= target < len(report.members) for target in report.targets)
    assert report.metrics["ada/target_member"] == report.target
    assert report.generation >= 0
    if not case.in_space:
        assert [member.hyperparameters for member in report.members] == list(case.members())
    elif not case.tries:
        assert len(report.members) == case.size


@pytest.mark.parametrize("case", every())
def test_shares_are_those_of_the_target_updates(case: Case, whole: Whole) -> None:
    run = whole(case)
    report, summed_up = run.model.trainer.report(), case.entry.traits.sums_up_selections
    for member in report.members:
        assert 0.0 <= member.selected <= 1.0 and member.selections >= 0
        assert math.isfinite(member.cumulated_loss) and not member.diverged
    events = run.diary.events
    begun = max((number for number, event in enumerate(events) if isinstance(event, TrialStart)), default=-1)
    updates = [event for event in events[begun + 1 :] if isinstance(event, TargetUpdate)]
    shares = sum(member.selected for member in report.members)
    if not summed_up and not case.in_space:
        chosen = [sum(event.target == k for event in updates) for k in range(len(report.members))]
        assert [member.selections for member in report.members] == chosen
        assert [member.selected for member in report.members] == [count / len(updates) for count in chosen]
    if updates and not case.in_space:
        assert shares == pytest.approx(len(report.targets))
    if case.in_space:  # a new member begins with no selections
        assert shares <= len(report.targets) + 1e-9


@pytest.mark.parametrize("case", every())
def test_rows_summarize_the_updates_since_the_last_one(case: Case, whole: Whole) -> None:
    run, since, rows = whole(case), 0, 0
    for event in run.diary.events:
        if isinstance(event, TrialStart):
            since = event.step
        if not isinstance(event, TargetUpdate):
            continue
        rows += 1
        size = len(event.cumulated_loss)
        assert len(event.acted) == size and 0 <= event.target < size
        assert all(loss >= 0.0 and math.isfinite(loss) for loss in event.cumulated_loss)
        if case.entry.traits.sums_up_selections:
            assert event.selected is not None and all(0.0 <= share <= 1.0 for share in (*event.selected, *event.acted))
            assert sum(event.selected) == pytest.approx(2.0)
            assert min(abs(sum(event.acted) - whole) for whole in (1, 2)) < 1e-5
        else:
            assert event.selected is None
            assert sum(event.acted) == event.step - since
        since = event.step
    assert rows == run.files["selection.csv"].count(b"\n") - 1 > 1
