"""Results of the members: shares of the target updates, and returns of the episodes in which each acted most."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adaqn.agents.protocol import Generation, MemberEvaluation, PolicyEvaluation, TargetUpdate
from adaqn.agents.registry import Traits
from adaqn.members.evolution import Descendant
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.runs.display.standings import (
    ActingReturn,
    History,
    HistoryRecorder,
    acting_returns,
    history_of,
    joined_steps,
    selected_shares,
    selection_weights,
)
from adaqn.runs.reading import Episodes, Evaluations, read_run
from adaqn.training.observers import Episode
from tests.fakes import fake_run

PLAIN = Hyperparameters()


def history(episodes: list[tuple[int, float, int]], rows: list[tuple[int, tuple[float, ...]]], **given: Any) -> History:
    """Episodes as (step, return, length), and the actions per member until each target update."""
    columns = np.array(episodes).reshape(-1, 3).T
    acted = np.array([row for _, row in rows], float)
    values: dict[str, Any] = {
        "joined": np.zeros(acted.shape[1], np.int64),
        "member_evaluations": None,
        "environments": 1,
        "learning_from": 0,
        "pair": False,
    }
    values |= given
    return History(
        Episodes(columns[0].astype(int), columns[1], columns[2].astype(int)),
        step=np.array([step for step, _ in rows]),
        acted=acted,
        **values,
    )


def test_an_episode_counts_for_the_member_that_acted_most_in_it() -> None:
    rows = [(100, (70.0, 30.0, 0.0)), (200, (10.0, 90.0, 0.0)), (300, (10.0, 30.0, 60.0))]
    # Within the first row; half in the first and half in the second: 40, 60, 0; mostly in the third: 11, 51, 48.
    episodes = [(50, 1.0, 50), (150, 2.0, 100), (280, 4.0, 110), (300, 8.0, 20)]
    assert acting_returns(history(episodes, rows)) == [
        ActingReturn(1.0, 1),
        ActingReturn(3.0, 2),
        ActingReturn(8.0, 1),
    ]


def test_what_is_not_known_to_be_acted_by_anybody_is_left_out() -> None:
    rows = [(100, (70.0, 30.0))]
    # Before anything was learned, and after the last target update.
    episodes = [(40, 5.0, 20), (60, 7.0, 20), (300, 9.0, 150)]
    assert acting_returns(history(episodes, rows, learning_from=30)) == [ActingReturn(7.0, 1), ActingReturn(None, 0)]
    assert acting_returns(history([], rows)) == [ActingReturn(None, 0)] * 2


def test_the_steps_of_several_environments_count_for_an_episode() -> None:
    rows = [(100, (100.0, 0.0)), (200, (0.0, 100.0))]
    # Thirty steps of each of four environments began at step 60, so that 40 were the first member's and 80 the other's.
    assert acting_returns(history([(180, 5.0, 30)], rows, environments=4)) == [
        ActingReturn(None, 0),
        ActingReturn(5.0, 1),
    ]
    assert acting_returns(history([(130, 5.0, 30)], rows, environments=4))[0] == ActingReturn(5.0, 1)


def test_a_member_is_not_credited_with_what_was_before_it() -> None:
    rows = [(100, (100.0, 0.0)), (200, (100.0, 0.0))]
    episodes = [(80, 1.0, 50), (120, 2.0, 40), (160, 4.0, 40)]
    late = history(episodes, rows, joined=np.array([100, 0]))
    assert acting_returns(late) == [ActingReturn(4.0, 1), ActingReturn(None, 0)]


def test_a_pair_shares_the_episodes_in_which_it_trained_the_actor() -> None:
    rows = [(200, (0.2, 0.9, 0.9)), (300, (1.0, 0.6, 0.4))]
    episodes = [(150, 1.0, 30), (300, 2.0, 100), (90, 7.0, 50)]
    # The first row covers the steps after learning started, at 100; the last episode was before.
    assert acting_returns(history(episodes, rows, pair=True, learning_from=100)) == [
        ActingReturn(2.0, 1),
        ActingReturn(1.5, 2),
        ActingReturn(1.0, 1),
    ]


def test_members_that_are_evaluated_one_by_one_have_their_own_episodes() -> None:
    columns = np.array([(10, 0, 0, 1.0, 10), (20, 0, 1, 2.0, 10), (30, 0, 1, 4.0, 10), (50, 1, 0, 8.0, 20)]).T
    evaluations = Evaluations(*(column.astype(float if n == 3 else int) for n, column in enumerate(columns)))
    known = history([], [(30, (9.0, 1.0))], member_evaluations=evaluations, joined=np.array([30, 0]))
    assert acting_returns(known) == [ActingReturn(8.0, 1), ActingReturn(3.0, 2)]


def test_when_members_joined() -> None:
    start = (0, [(None, None), (None, None)])
    mutated = (50, [(1, "loss"), (1, None)])
    trial = (70, [(None, None), (None, None)])
    for lineage, joined, began in (
        ([], [0, 0], 0),
        ([start], [0, 0], 0),
        ([start, mutated], [50, 0], 0),
        ([start, mutated, trial], [70, 70], 70),
    ):
        steps, start_step = joined_steps(lineage, 2)
        assert (steps.tolist(), start_step) == (joined, began)


def write(path: Path, config: dict[str, Any], tables: dict[str, str], lines: list[dict[str, Any]]) -> Path:
    path.mkdir()
    (path / "config.yaml").write_text(json.dumps(config))
    (path / "members.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name, text in tables.items():
        (path / name).write_text(text)
    return path


def line(step: int, generation: int, *mutations: str | None) -> dict[str, Any]:
    members = [
        PLAIN.to_dict() | {"parent": None if generation == 0 else 1, "mutation": mutation} for mutation in mutations
    ]
    return {"step": step, "generation": generation, "members": members}


SAC = {
    "algo": "adasac",
    "env": "Pendulum-v1",
    "settings": {"learning_starts": 700, "train_freq": 4, "gradient_steps": 2},
}
# The first row covers steps 701 to 1000, the others a thousand each.
SAC_ROWS = (
    "step,target,loss_0,loss_1,loss_2,acted_0,acted_1,acted_2,selected_0,selected_1,selected_2\n"
    "1000,0,1,1,1,1,1,0,1,1,0\n2000,1,1,1,1,0,1,1,0,1,1\n3000,1,1,1,1,0,1,1,0,1,1\n"
)


def test_rows_that_tell_of_more_updates_weigh_more(tmp_path: Path) -> None:
    run = read_run(write(tmp_path / "run", SAC, {"selection.csv": SAC_ROWS}, [line(0, 0, None, None, None)]))
    assert selection_weights(run).tolist() == [2 * 75, 2 * 250, 2 * 250]
    np.testing.assert_allclose(selected_shares(run), [75 / 575, 1.0, 500 / 575])
    assert selected_shares(run).sum() == pytest.approx(2.0)


def test_of_a_finished_pair_the_summary_has_the_updates_after_the_last_row(tmp_path: Path) -> None:
    path = write(tmp_path / "run", SAC, {"selection.csv": SAC_ROWS}, [line(0, 0, None, None, None)])
    (path / "summary.json").write_text(json.dumps({"selections": [150, 1200, 1050], "updates": 1200}))
    np.testing.assert_allclose(selected_shares(read_run(path)), [0.125, 1.0, 0.875])


def test_a_newcomer_has_only_the_selections_since_it_joined(tmp_path: Path) -> None:
    config = {"algo": "adadqn", "env": "CartPole-v1", "settings": {"learning_starts": 0}}
    rows = "step,target,loss_0,loss_1,acted_0,acted_1\n"
    rows += "".join(f"{step},{target},1,1,5,5\n" for step, target in ((10, 0), (20, 0), (30, 1), (40, 0)))
    lines = [line(0, 0, None, None), line(20, 1, "loss", None)]
    run = read_run(write(tmp_path / "run", config, {"selection.csv": rows}, lines))
    np.testing.assert_allclose(selected_shares(run), [1 / 4, 1 / 4])
    assert history_of(run).joined.tolist() == [20, 0]


def test_of_a_trial_only_its_own_target_updates_count(tmp_path: Path) -> None:
    config = {"algo": "random-search", "env": "CartPole-v1", "settings": {"learning_starts": 5}}
    rows = "step,target,loss_0,acted_0\n10,0,1,5\n20,0,1,5\n30,0,1,5\n"
    trial = line(20, 1, None)
    trial["members"][0]["parent"] = None
    run = read_run(write(tmp_path / "run", config, {"selection.csv": rows}, [line(0, 0, None), trial]))
    assert selected_shares(run).tolist() == [1.0]
    assert (history_of(run).joined.tolist(), history_of(run).learning_from) == ([20], 25)


@pytest.mark.parametrize("algo", ["adadqn", "adasac", "searl"])
@pytest.mark.parametrize("resumed_at", [0, 25])
def test_what_is_heard_is_what_is_read(algo: str, resumed_at: int, tmp_path: Path) -> None:
    """The console (an observer) and the picture (from files) agree, also after a resume."""
    pair, one_by_one = algo == "adasac", algo == "searl"
    episodes = [Episode(8, 1.0, 8), Episode(19, 2.0, 11), Episode(27, 4.0, 8), Episode(38, 8.0, 11)]
    acted = {10: (4.0, 6.0), 20: (9.0, 1.0), 30: (2.0, 8.0), 40: (5.0, 5.0)}
    played = [MemberEvaluation(e.step, e.step // 20, n % 2, e.total, e.length) for n, e in enumerate(episodes)]
    traits = Traits(tables=("evaluations",) if one_by_one else (), sums_up_selections=pair)
    trainer = fake_run(1, (PLAIN, PLAIN), start=resumed_at, traits=traits)
    names = ("loss", "acted", "selected") if pair else ("loss", "acted")
    header = ",".join(["step", "target", *(f"{name}_{k}" for name in names for k in range(2))])

    def tables(until: int) -> dict[str, str]:
        rows = [f"{s},0,1,1,{a},{b}" + (",1,1" if pair else "") for s, (a, b) in acted.items() if s <= until]
        plays = ["step,generation,member,return,length", *(f"{m[0]},{m[1]},{m[2]},{m[3]},{m[4]}" for m in played)]
        plays = [plays[0], *(row for row in plays[1:] if int(row.split(",")[0]) <= until)]
        policy = "step,generation,member,return,length\n20,0,0,1.0,3\n20,0,0,2.0,5\n"
        return {
            "selection.csv": "\n".join([header, *rows]) + "\n",
            "episodes.csv": "step,return,length\n"
            + "".join(f"{e.step},{e.total},{e.length}\n" for e in episodes if e.step <= until),
            "evaluations.csv": "\n".join(plays) + "\n" if one_by_one else policy,
            **({"policy_evaluations.csv": policy} if one_by_one else {}),
        }

    config = {"algo": algo, "env": "CartPole-v1", "n_envs": 1, "settings": {"learning_starts": 3}}
    generations = [line(0, 0, None, None), line(20, 1, "loss", None)]
    whole = write(tmp_path / "whole", config, tables(40), generations)
    half = write(tmp_path / "half", config, tables(resumed_at), [g for g in generations if g["step"] <= resumed_at])
    recorder = HistoryRecorder(half, learning_starts=3)
    recorder.on_start(trainer)
    for step in range(resumed_at + 1, 41):
        for episode in episodes:
            if episode.step == step:
                recorder.on_episode(trainer, episode)
        for evaluation in played if one_by_one else []:
            if evaluation.step == step:
                recorder.on_event(trainer, evaluation)
        if step in acted:
            recorder.on_event(trainer, TargetUpdate(step, 0, (1.0, 1.0), acted[step], ()))
        if step == 20:
            newcomers = (Descendant(PLAIN, 1, "loss"), Descendant(PLAIN, 1, None))
            recorder.on_event(trainer, Generation(20, 1, newcomers))
            recorder.on_event(trainer, PolicyEvaluation(20, (1.0, 2.0), (3, 5)))
    read = acting_returns(history_of(read_run(whole)))
    assert acting_returns(recorder.history(trainer)) == read
    assert sum(own.episodes for own in read) >= 2
    assert recorder.last_evaluation == PolicyEvaluation(20, (1.0, 2.0), (3, 5))
