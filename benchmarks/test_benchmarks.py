"""The arithmetic of the benchmarks, on numbers worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path

import gymnasium as gym
import pytest

from benchmarks import comparison, summary
from benchmarks.contenders import Contender
from benchmarks.learning_curve import Curve, Episode, read_curve, write_curve
from benchmarks.stopwatch import Moment, Stopwatch


def curve(*episodes: tuple[int, float]) -> Curve:
    return Curve("ours", 0, 100, tuple(Episode(step, total, 1) for step, total in episodes))


def scores(*finals: float, auc: float = 0.0) -> list[comparison.Score]:
    return [comparison.Score(seed, final, auc) for seed, final in enumerate(finals)]


def test_final_return_is_the_mean_of_the_last_fifth_of_episodes() -> None:
    assert comparison.final_return(curve(*((step, float(step)) for step in range(1, 11)))) == 9.5
    # A fifth of six episodes is not whole: two count.
    assert comparison.final_return(curve(*((step, float(step)) for step in range(1, 7)))) == 5.5


def test_epochs_average_the_episodes_that_ended_in_them_and_carry_over_gaps() -> None:
    # 100 steps in 20 epochs of 5: steps 5 and 6 are on either side of a border, 100 is in the last.
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
    sb3 = scores(9.0, 11.0)
    assert comparison.verdict(scores(7.6, 9.6), sb3).final_holds  # 1.4 below, the deviation is 1.41
    assert not comparison.verdict(scores(7.5, 9.5), sb3).final_holds
    assert not comparison.verdict(scores(100.0), scores(0.0)).final_holds  # no deviation to speak of


@pytest.mark.parametrize(
    ("ours", "sb3", "holds"),
    [(90.0, 100.0, True), (89.0, 100.0, False), (-109.0, -100.0, True), (-111.0, -100.0, False)],
)
def test_auc_verdict_allows_a_tenth_on_either_side_of_zero(ours: float, sb3: float, holds: bool) -> None:
    assert comparison.verdict(scores(0.0, auc=ours), scores(0.0, auc=sb3)).auc_holds is holds


def test_a_curve_survives_its_file(tmp_path: Path) -> None:
    written = curve((10, -1.25), (20, 3.5))
    write_curve(tmp_path / "deep" / "run.json", written)
    assert read_curve(tmp_path / "deep" / "run.json") == written
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["run.json"]


def rounds(*speeds: float) -> list[dict[str, float]]:
    return [{"steps_per_second": speed, "cpu_share": 1 / speed, "peak_rss_mb": 10 * speed} for speed in speeds]


def test_ratios_compare_within_a_round() -> None:
    contenders = [Contender("sb3", "sb3", ((8,),)), Contender("adaqn-k1", "adaqn", ((8,),))]
    # The machine slows down fourfold; the ratios are 2, 3 and 2, that of the medians would be 1.5.
    found = summary.summarise(
        contenders, {"sb3": rounds(8.0, 4.0, 2.0), "adaqn-k1": rounds(16.0, 12.0, 4.0)}, {}, [5.0, 7.0, 6.0]
    )
    assert [row.ratio_to_sb3 for row in found.rates] == [1.0, 2.0]
    assert [row.steps_per_second for row in found.rates] == [4.0, 12.0]
    assert [row.peak_rss_mb for row in found.rates] == [40.0, 120.0]
    assert [row.lowest_cpu_share for row in found.rates] == [1 / 8, 1 / 16]
    assert found.environment_steps_per_second == 6.0


def test_share_of_a_further_member_is_of_the_step_with_one() -> None:
    speeds = {"adaqn-k1": [100.0], "adaqn-k2": [80.0], "adaqn-k3": [50.0], "adaqn-k5": [10.0]}
    # 10, 12.5 and 20 ms; without four members nothing can be said of the fifth.
    assert summary.further_member_share(speeds) == pytest.approx({"2": 0.25, "3": 0.75})


def test_latency_separates_cold_from_warm() -> None:
    def wait(seconds: float) -> dict[str, float]:
        return {"import_seconds": 1.0, "construct_seconds": 2.0, "first_update_seconds": seconds}

    (row,) = summary.summarise([], {}, {"sbx": ([wait(9.0), wait(7.0)], [wait(3.0), wait(1.0)])}, [1.0]).latencies
    assert row == summary.LatencyRow("sbx", 1.0, 2.0, 8.0, 2.0)


def test_stopwatch_notes_the_moment_before_the_next_step() -> None:
    with Stopwatch(gym.make("CartPole-v1"), 1, 3) as env:
        env.reset(seed=0)
        for _ in range(3):
            env.step(0)
        with pytest.raises(LookupError, match="3 steps were taken"):
            env.after(3)
        env.step(0)
        assert env.taken == 4
        assert env.after(3).wall > env.after(1).wall


def test_a_process_that_waits_for_its_core_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    assert Moment(wall=14.0, cpu=3.0).cpu_share_since(Moment(wall=10.0, cpu=2.0)) == 0.25
    contenders = [Contender("sb3", "sb3", ((8,),)), Contender("sbx", "sbx", ((8,),))]
    alone, crowded = ({"steps_per_second": 1.0, "cpu_share": share, "peak_rss_mb": 1.0} for share in (0.99, 0.6))
    summary.print_tables(summary.summarise(contenders, {"sb3": [alone, alone], "sbx": [alone, crowded]}, {}, [1.0]))
    assert "while sbx ran" in capsys.readouterr().out
