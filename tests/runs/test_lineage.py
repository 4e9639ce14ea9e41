"""members.jsonl of a run in a space: the descent of members can be followed, and selection.csv agrees."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from adaqn.api import AdaDQN
from adaqn.members.evolution import mutation_names
from adaqn.runs.reading import RunData, member_of, read_run

SPACE = {
    "activation": ["relu", "tanh"], "optimizer": ["sgd", "adam"], "loss": ["l2", "huber"],
    "learning_rate": [1e-4, 1e-1], "hidden": {"layers": [0, 1], "neurons": [2, 4]},
}  # fmt: skip
CHANGED = {
    "activation": {"activation"},
    "architecture": {"hidden"},
    "learning_rate": {"learning_rate"},
    "loss": {"loss"},
    "optimizer": {"optimizer"},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    path: Path = tmp_path_factory.mktemp("lineage") / "run"
    agent = AdaDQN(
        "Probe/DelayedReward-v0", space=SPACE, population=3, seed=4, learning_starts=10, batch_size=4,
        target_update_interval=5, generation_interval=10, exploration_steps=50,
    )  # fmt: skip
    agent.learn(100, run_dir=path)
    # The public view is that of the last generation.
    assert [report.hyperparameters for report in agent.members] == [
        member_of(values) for values in read_run(path).members[-1]["members"]
    ]
    return read_run(path)


def test_a_line_for_each_generation(run: RunData) -> None:
    assert [line["step"] for line in run.members] == [0, *range(20, 101, 10)]
    assert [line["generation"] for line in run.members] == list(range(10))
    assert run.selection.step.tolist() == list(range(15, 101, 5))
    assert [(m["parent"], m["mutation"]) for m in run.members[0]["members"]] == [(None, None)] * 3


def test_every_member_is_its_parent_or_differs_from_it_in_what_its_mutation_says(run: RunData) -> None:
    mutated, changes = [], 0
    for before, after in zip(run.members, run.members[1:], strict=False):
        for slot, values in enumerate(after["members"]):
            member, parent = member_of(values), member_of(before["members"][values["parent"]])
            if values["mutation"] is None:
                assert (values["parent"], member) == (slot, parent)
                continue
            mutated.append(values["mutation"])
            fields = [field.name for field in dataclasses.fields(member)]
            different = {name for name in fields if getattr(member, name) != getattr(parent, name)}
            assert different <= CHANGED[values["mutation"]]
            changes += bool(different)  # a learning rate at a border of the space can stay as it is
    assert set(mutated) <= set(mutation_names()) and len(set(mutated)) > 2
    assert changes > 0.7 * len(mutated)


def test_the_losses_of_the_same_step_say_who_had_children(run: RunData) -> None:
    rows = {int(step): index for index, step in enumerate(run.selection.step)}
    for line in run.members[1:]:
        row = rows[line["step"]]
        # With three members every tournament contains all, so the best is the parent of all and the next target.
        best = int(run.selection.loss[row].argmin())
        assert [member["parent"] for member in line["members"]] == [best] * 3
        assert line["members"][best]["mutation"] is None
        assert run.selection.target[row] == best


def test_a_member_can_be_followed_to_the_first_generation(run: RunData) -> None:
    for slot in range(3):
        for line in reversed(run.members[1:]):
            slot = line["members"][slot]["parent"]
        assert run.members[0]["members"][slot]["parent"] is None
        # With three members, everybody descends from the best of the first generation.
        assert slot == run.members[1]["members"][0]["parent"]


def test_actions_are_counted_from_one_target_update_to_the_next(run: RunData) -> None:
    assert (run.selection.acted.sum(axis=1) == [15, *[5] * 17]).all()
