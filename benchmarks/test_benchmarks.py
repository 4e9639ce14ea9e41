"""Tests of the benchmarks' arithmetic on numbers worked out by hand."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import time
from pathlib import Path

import gymnasium as gym
import pytest

from adaqn import AdaDQN, MetaGradientDQN, grid
from adaqn.members.hyperparameters import Convolution, Hyperparameters
from adaqn.runs.config import read_config
from adaqn.studies.definition import read_study
from adaqn.studies.study import RunKey
from benchmarks import comparison, flops, interval_coverage, metagradient, page, study_flops, summary
from benchmarks.contenders import Contender, DQNSettings, algorithm
from benchmarks.duels import DUELS, Duel
from benchmarks.learning_curve import Curve, Episode, EpisodeLog, read_curve, write_curve
from benchmarks.stopwatch import Moment, Stopwatch, Turns
from benchmarks.tasks import TASKS, Task
from benchmarks.xla_flops import counted_by_xla


def curve(*episodes: tuple[int, float]) -> Curve:
    return Curve("lunar-lander", "ours", 0, 100, tuple(Episode(step, total, 1) for step, total in episodes))


def scores(*finals: float, auc: float = 0.0) -> list[comparison.Score]:
    return [comparison.Score(seed, final, auc) for seed, final in enumerate(finals)]


def test_final_return_is_the_mean_of_the_last_fifth_of_episodes() -> None:
    assert comparison.final_return(curve(*((step, float(step)) for step in range(1, 11)))) == 9.5
    # A fifth of six episodes is rounded up to two.
    assert comparison.final_return(curve(*((step, float(step)) for step in range(1, 7)))) == 5.5


def test_epochs_average_the_episodes_that_ended_in_them_and_carry_over_gaps() -> None:
    # 100 steps in 20 epochs of 5: steps 5 and 6 are on either side of a boundary, 100 is in the last epoch.
    returns = comparison.epoch_returns(curve((2, 1.0), (5, 3.0), (6, 10.0), (100, 20.0)))
    assert returns.tolist() == [2.0] + [10.0] * 18 + [20.0]
    assert comparison.score(curve((2, 1.0), (5, 3.0), (6, 10.0), (100, 20.0))).auc == pytest.approx(202 / 20)


def test_before_the_first_episode_its_return_holds() -> None:
    assert comparison.epoch_returns(curve((11, -4.0), (99, 6.0))).tolist() == [-4.0] * 19 + [6.0]


def test_pooled_deviation_weighs_by_degrees_of_freedom() -> None:
    # Squares about the means: 2 + 0 of the first, 8 of the second; 3 + 2 - 2 degrees of freedom.
    assert comparison.pooled_deviation([0.0, 1.0, 2.0], [0.0, 4.0]) == pytest.approx(math.sqrt(10 / 3))
    assert math.isnan(comparison.pooled_deviation([1.0], [2.0]))


def test_final_verdict_allows_one_pooled_deviation() -> None:
    peer = scores(9.0, 11.0)
    assert comparison.verdict(scores(7.6, 9.6), peer).final_holds  # 1.4 below, the deviation is 1.41
    assert not comparison.verdict(scores(7.5, 9.5), peer).final_holds
    assert not comparison.verdict(scores(100.0), scores(0.0)).final_holds  # the deviation is undefined


@pytest.mark.parametrize(
    ("ours", "peer", "holds"),
    [(90.0, 100.0, True), (89.0, 100.0, False), (-109.0, -100.0, True), (-111.0, -100.0, False)],
)
def test_auc_verdict_allows_a_tenth_on_either_side_of_zero(ours: float, peer: float, holds: bool) -> None:
    assert comparison.verdict(scores(0.0, auc=ours), scores(0.0, auc=peer)).auc_holds is holds


def test_a_curve_survives_its_file(tmp_path: Path) -> None:
    written = curve((10, -1.25), (20, 3.5))
    write_curve(tmp_path / "deep" / "run.json", written)
    assert read_curve(tmp_path / "deep" / "run.json") == written
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["run.json"]


def test_a_curve_without_a_task_is_of_lunar_lander(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"side": "sb3", "seed": 4, "steps": 100, "episodes": [[7, 1.5, 7]]}')
    assert read_curve(tmp_path / "run.json") == Curve("lunar-lander", "sb3", 4, 100, (Episode(7, 1.5, 7),))


def test_episodes_are_logged_with_the_step_they_ended_at() -> None:
    with EpisodeLog(gym.make("CartPole-v1", max_episode_steps=3)) as env:
        for seed in range(2):
            env.reset(seed=seed)
            for action in (0, 1, 0):
                env.step(action)
        env.reset()
        env.step(0)
    assert env.finished == [Episode(3, 3.0, 3), Episode(6, 3.0, 3)]


@pytest.mark.parametrize("duel", DUELS.values(), ids=DUELS)
def test_both_sides_of_a_duel_have_the_same_critics(duel: Duel) -> None:
    ours, peer = (duel.contender(side) for side in duel.sides)
    assert (ours.library, peer.library) == ("adaqn", duel.peer)
    assert ours.members == peer.members
    assert duel.label("ours") == f"adaqn {duel.algorithm}" == f"adaqn {algorithm(peer.library, duel.settings)}"


def rounds(*speeds: float, cpu_share: float = 1.0) -> list[dict[str, float]]:
    return [{"steps_per_second": speed, "cpu_share": cpu_share, "peak_rss_mb": 10 * speed} for speed in speeds]


def test_ratios_compare_within_a_round() -> None:
    contenders = [Contender("sb3", "sb3", ((8,),)), Contender("adaqn-k1", "adaqn", ((8,),))]
    # The machine slows down fourfold; the ratios are 2, 3 and 2, but that of the medians is 3.
    found = summary.rate_table(
        contenders, {"sb3": rounds(8.0, 4.0, 2.0), "adaqn-k1": rounds(16.0, 12.0, 4.0, cpu_share=1.5)}
    )
    assert [row.ratio_to_sb3 for row in found.rates] == [1.0, 2.0]
    assert [row.ratio_to_sbx for row in found.rates] == [None, None]
    assert [row.steps_per_second for row in found.rates] == [4.0, 12.0]
    assert [row.peak_rss_mb for row in found.rates] == [40.0, 120.0]
    assert [row.lowest_cpu_share for row in found.rates] == [1.0, 1.5]
    assert [row.cpu_ms_per_step for row in found.rates] == [250.0, 125.0]  # one and a half cores for 1/12 s


def test_share_of_a_further_member_is_of_the_step_with_the_base() -> None:
    # 10, 12.5, 20 and 100 ms; K = 4 was not measured.
    speeds = {"sb3": [1.0], "adaqn-k5": [10.0], "adaqn-k1": [100.0], "adaqn-k2": [80.0], "adaqn-k3": [50.0]}
    assert summary.further_member_share(speeds, base=1) == pytest.approx({"2": 0.25, "3": 0.75, "4-5": 4.0})
    assert summary.further_member_share(speeds, base=2) == pytest.approx({"3": 0.6, "4-5": 3.2})
    assert summary.further_member_share(speeds, base=4) == {}


def test_a_table_shows_the_spread_and_what_the_members_are() -> None:
    contenders = [
        Contender("one", "sb3", ((8,),)),
        Contender("different", "adaqn", ((8, 8), (16,)), n_envs=4),
        Contender("mixed", "adaqn", ((8,), (8,), (16,))),
        Contender("moving", "adaqn", ((8,),) * 5, space="vectors"),
    ]
    table = summary.rate_table(contenders, {c.name: rounds(50.0, 150.0, 120.0) for c in contenders})
    rows = [line.strip("| ").split(" | ") for line in summary.rate_lines(table, "free")[2:]]
    assert [row[1] for row in rows] == ["1 of 8", "8x8 16, 4 environments", "2 of 8, 1 of 16", "5 in the space vectors"]
    assert rows[0] == ["one", "1 of 8", "120", "50.0 to 150", "", "", "8.33", "1200"]


def test_the_page_is_written_between_its_marks(tmp_path: Path) -> None:
    table = summary.rate_table([Contender("sb3", "sb3", ((8,),))], {"sb3": rounds(100.0)})
    wait = summary.LatencyRow("sb3", 1.0, 2.0, 8.0, 4.0)
    record = {
        "environment": "LunarLander-v3",
        "machine": {"cpu": "a processor", "cores": 2},
        "protocol": {"rounds": 1, "timed_steps": 7},
        "environment_steps_per_second": 20_000.4,
        "placements": {"pinned": dataclasses.asdict(table), "free": dataclasses.asdict(table)},
        "latencies": [dataclasses.asdict(wait)],
    }
    (tmp_path / "throughput-lunar-lander.json").write_text(json.dumps(record))
    file = tmp_path / "page.md"
    file.write_text(f"Above.\n{page.BEGIN}\nof before\n{page.END}\nBelow.\n")
    for _ in range(2):  # the same when it is written again
        page.write_page(file, tmp_path)
        text = file.read_text()
        assert text.startswith("Above.\n") and text.endswith("\nBelow.\n") and "of before" not in text
        assert "a processor, 2 cores; 1 rounds of 7 steps; the environment alone takes 20,000 steps/s." in text
        # What a user gets comes first.
        assert text.index("| free |") < text.index("| pinned |") < text.index("| sb3 | 1.00 | 2.00 | 8.00 | 4.00 |")
        assert text.count("| sb3 | 1 of 8 | 100 |") == 2


def test_the_page_in_the_documentation_is_that_of_the_results(tmp_path: Path) -> None:
    written = tmp_path / "benchmarks.md"
    written.write_text(page.PAGE.read_text())
    page.write_page(written)
    assert written.read_text() == page.PAGE.read_text()


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_task_is_complete(task: Task) -> None:
    names = [contender.name for contender in task.contenders]
    assert len(set(names)) == len(names)
    assert set(task.timed_first) <= set(names)
    base = task.contender(f"adaqn-k{task.base}")
    # The peers have the networks of our base, and timing starts after a target update.
    assert all(c.members == base.members for c in task.contenders if c.library != "adaqn")
    interval = task.settings.target_update_interval if isinstance(task.settings, DQNSettings) else 0
    assert task.settings.learning_starts + interval + task.settings.train_freq <= task.warmup


def test_the_papers_sixteen_critics_are_those_of_the_preset() -> None:
    contender = TASKS["half-cheetah"].contender("adaqn-paper")
    assert contender.preset is not None
    assert tuple(member.hidden for member in grid(**read_config(contender.preset)["grid"])) == contender.members


def test_flops_of_layers_worked_out_by_hand() -> None:
    # 3 x 4 and 4 x 2 weights: 2 operations each; learning takes three times that, minus the first layer's inputs.
    network = flops.perceptron(3, (4,), 2)
    assert flops.values(network) == 2 * 12 + 2 * 8
    assert flops.learning(network) == 3 * 40 - 24
    # A 5 x 5 image of 2 channels, kernel 3 and stride 2: 2 x 2 positions of 18 inputs; then 4 * 6 inputs for 7 units.
    layers = [*flops.convolutional(5, 2, ((6, 3, 2),), (7,), 1)]
    assert layers == [flops.Layer(4, 18, 6), flops.Layer(1, 24, 7), flops.Layer(1, 7, 1)]
    assert flops.values(layers) == 2 * (4 * 18 * 6 + 24 * 7 + 7)


def test_flops_of_updates_worked_out_by_hand() -> None:
    small, large, actor = flops.perceptron(1, (), 5), flops.perceptron(1, (10,), 1), flops.perceptron(1, (), 4)
    # The forward passes take 10, 40 and 8 operations, learning 20, 100 and 16.
    assert flops.dqn_update([small, large], batch=2) == 2 * (25 + 20 + 100)
    # Two targets of 40, two times learning of 100, and a backward pass of 60 for the derivative of the inner update.
    assert flops.metagradient_update(large, batch=2) == 2 * (2 * 40 + 2 * 100 + 60)
    # Target: actor 8 and a pair 50. Critics 120. Actor 16, and a pair forward and backward 100.
    assert flops.sac_update([small, large], actor, batch=3) == 3 * (8 + 50 + 120 + 16 + 100)


@pytest.mark.thorough
def test_counted_flops_are_those_that_xla_finds_in_the_update() -> None:
    from adaqn import DQN, SAC

    # XLA also counts elementwise work: with wide layers and large batches, that is a few percent.
    wide, batch = (131, 137), 512
    with counted_by_xla() as found:
        DQN("CartPole-v1", members=grid(hidden=[wide]), batch_size=batch, learning_starts=20, threads=1).learn(30)
    assert 1.0 <= max(found) / flops.dqn_update([flops.perceptron(4, wide, 2)], batch) < 1.05
    with counted_by_xla() as found:
        SAC("Pendulum-v1", members=grid(hidden=[wide]), actor_hidden="139x149", batch_size=batch, learning_starts=20,
            threads=1).learn(30)  # fmt: skip
    critic, actor = flops.perceptron(4, wide, 1), flops.perceptron(3, (139, 149), 2)
    assert 1.0 <= max(found) / flops.sac_update([critic, critic], actor, batch) < 1.05


def test_intervals_of_three_runs_are_too_narrow_and_those_of_twenty_hold() -> None:
    few, many = (interval_coverage.coverage("normal", runs, studies=500) for runs in (3, 20))
    # 500 studies: the standard deviation of a share of 0.95 is 0.01.
    assert few[0] < 0.82 and few[1] < 0.87
    assert all(0.9 < share < 0.98 for share in many)
    # All distributions have intervals around the true IQM, also the skewed one, whose mean is far from it.
    assert interval_coverage.coverage("exponential", 20, studies=500)[0] > 0.9
    row = interval_coverage.table([20], studies=50)[2]
    assert re.fullmatch(r"\| 20 \| \d+% to \d+% \| \d+% to \d+% \|", row)


def test_latency_separates_cold_from_warm() -> None:
    def wait(seconds: float) -> dict[str, float]:
        return {"import_seconds": 1.0, "construct_seconds": 2.0, "first_update_seconds": seconds}

    (row,) = summary.latency_rows({"sbx": ([wait(9.0), wait(7.0)], [wait(3.0), wait(1.0)])})
    assert row == summary.LatencyRow("sbx", 1.0, 2.0, 8.0, 2.0)


def test_stopwatch_notes_the_moment_before_the_next_step() -> None:
    with gym.make("CartPole-v1") as env:
        watch = Stopwatch(1, 3)
        watch.watch(env)
        env.reset(seed=0)
        for _ in range(3):
            env.step(0)
        with pytest.raises(LookupError, match="3 steps were taken"):
            watch.after(3)
        env.step(0)
        assert watch.taken == 4
        assert watch.after(3).wall > watch.after(1).wall


def test_a_stopwatch_counts_the_steps_of_all_its_environments() -> None:
    watch = Stopwatch(2)
    envs = [watch.watch(gym.make("CartPole-v1")) for _ in range(2)]
    for env in envs:
        env.reset(seed=0)
    for env in (*envs, envs[0]):
        env.step(0)
    assert watch.taken == 3
    assert watch.after(2).wall > 0.0


def test_turns_are_waited_for_and_timed_without_the_waiting() -> None:
    turns: list[tuple[Moment, Moment] | None] = []

    def wait(turn: tuple[Moment, Moment] | None) -> None:
        turns.append(turn)
        time.sleep(0.05)

    with gym.make("CartPole-v1") as env:
        Turns(2, 3, wait).watch(env)
        env.reset(seed=0)
        for taken in range(9):  # the ninth step is the first one after the second turn
            assert len(turns) == (0 if taken < 3 else 1 if taken < 6 else 2)
            env.step(taken % 2)
    first, *rest = turns
    assert first is None and len(rest) == 2
    assert all(turn is not None and 0.0 < turn[1].wall - turn[0].wall < 0.05 for turn in rest)


def test_a_process_that_waits_for_its_core_is_noticed() -> None:
    assert Moment(wall=14.0, cpu=3.0).cpu_share_since(Moment(wall=10.0, cpu=2.0)) == 0.25
    contenders = [Contender("sb3", "sb3", ((8,),)), Contender("sbx", "sbx", ((8,),))]
    crowded = [*rounds(1.0), *rounds(1.0, cpu_share=0.6)]
    table = summary.rate_table(contenders, {"sb3": rounds(1.0, 1.0, cpu_share=0.99), "sbx": crowded})
    assert "while sbx ran" in "\n".join(summary.rate_lines(table, "pinned"))
    assert "ran:" not in "\n".join(summary.rate_lines(table, "free"))  # which may well wait for something


def test_layers_of_a_member_are_counted_as_products() -> None:
    dense = Hyperparameters(hidden=(4,))
    assert study_flops.layers(dense, (3,), 2) == flops.perceptron(3, (4,), 2)
    # 10 x 10 pixels of 4 channels and a stride of 2: 16 kernels of 3 x 3 x 4 at 5 x 5 places, then 400 inputs.
    image = Hyperparameters(hidden=(7,), convolutions=(Convolution(16, 3, 2),))
    assert study_flops.layers(image, (10, 10, 4), 2) == [(25, 36, 16), (1, 400, 7), (1, 7, 2)]


def test_the_operations_of_a_run_follow_from_its_updates() -> None:
    study = read_study("lunar-lander", "laptop")
    box, discrete = gym.spaces.Box(-1.0, 1.0, (8,)), gym.spaces.Discrete(4)
    cost = study_flops.run_cost(study, RunKey("dqn-25x25", "LunarLander-v3", 0), (box, discrete))
    # 8 x 25 + 25 x 25 + 25 x 4 weights are 2 x 925 operations; learning takes three times that without the gradient of
    # the first layer's inputs, 2 x 200, and the target once; for 32 transitions, after 1000 of 200,000 steps.
    assert cost.flops == 199_000 * 32 * (1850 + 3 * 1850 - 400)
    assert cost.steps == 200_000
    assert cost.environment_seconds == pytest.approx(200_000 / 20_600)


def test_the_operations_of_a_meta_gradient_run_are_those_of_both_updates() -> None:
    study = read_study("discounts", "laptop")
    box, discrete = gym.spaces.Box(-1.0, 1.0, (8,)), gym.spaces.Discrete(4)
    meta, single = (
        study_flops.run_cost(study, RunKey(arm, "LunarLander-v3", 0), (box, discrete)).flops
        for arm in ("metagradient", "dqn-discount-0.9863")
    )
    # 8 x 100 + 100 x 100 + 100 x 4 weights: a forward pass of 22,400 operations, of which 1,600 are the first layer's.
    forward, learning = 22_400, 3 * 22_400 - 1_600
    assert single == 199_000 * 32 * (forward + learning)
    assert meta == 199_000 * 32 * (2 * forward + 2 * learning + learning - forward)


def test_meta_gradient_dqn_is_measured_beside_five_discounts_of_the_same_network() -> None:
    task = metagradient.TASKS["lunar-lander"]
    five, one = (metagradient.build(method, task.make(), task) for method in ("adadqn", "metagradient"))
    assert isinstance(five, AdaDQN) and isinstance(one, MetaGradientDQN)
    assert [member.hyperparameters.discount for member in five.members] == [0.985, 0.9875, 0.99, 0.9925, 0.995]
    (alone,) = one.members
    assert {member.hyperparameters.replace(discount=None) for member in five.members} == {alone.hyperparameters}
    assert (five.settings.batch_size, five.settings.target_update_interval) == (32, 200)
    assert (one.settings.batch_size, one.settings.target_update_interval) == (32, 200)
