"""The pages of studies follow from the runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from adaqn.analysis.scores import StudyScores
from adaqn.analysis.study import read_results
from adaqn.analysis.summary import summary_of
from adaqn.members.hyperparameters import grid
from adaqn.studies.definition import read_study
from benchmarks.claims import (
    BEST,
    EACH,
    NOT_BEST,
    NOT_WORST,
    WORST,
    Higher,
    Similar,
    sides,
)
from benchmarks.selection_claims import Ignores, MainlySelects, MoreDiverseBehaviour, RisingLearningRate
from benchmarks.study_page import page_text
from benchmarks.study_pages import PAGES, main
from tests.analysis.study_files import write_run

FOUR = grid(hidden=[(25, 25), (50, 50), (100, 100), (200, 200)])
LEVELS = (-200.0, -100.0, 0.0, 50.0)
DISCOUNTS = grid(discount=[0.986, 0.99])


def study(root: Path, seeds: int, adaptive: float = 150.0, worst: float = -199.0) -> StudyScores:
    for seed in range(seeds):
        write_run(root, "adadqn", "LunarLander-v3", seed, [adaptive + seed] * 4, members=FOUR)
        settings = {"selection": "highest"}
        write_run(
            root, "adadqn-max", "LunarLander-v3", seed, [worst] * 4, members=FOUR, algo="adadqn-max", settings=settings
        )
        for member, level in zip(FOUR, LEVELS, strict=True):
            name = f"dqn-{member.hidden[0]}x{member.hidden[1]}"
            write_run(root, name, "LunarLander-v3", seed, [level + seed] * 4, algo="dqn", members=[member])
    return StudyScores(read_results(root, epoch=100))


def claims(scores: StudyScores, name: str = "lunar-lander") -> dict[str, tuple[str, str]]:
    rows = [row for claim in PAGES[name].claims for row in claim.rows(scores)]
    return {row.claim: (row.measured, row.verdict) for row in rows}


def test_verdicts_follow_from_the_runs(tmp_path: Path) -> None:
    found = claims(study(tmp_path / "s", seeds=6))
    measured, verdict = found["AdaDQN has a better AUC than DQN 200x200"]
    assert measured.startswith("AUC 152 against 52.5: difference +100 [") and verdict == "**yes**"
    assert found["RandDQN, with a random target, has a lower AUC than AdaDQN"] == ("not run yet", "-")
    measured, verdict = found["AdaDQN-max performs as badly as the worst DQN (DQN 25x25)"]
    assert measured.startswith("AUC -199 against -198: difference -1.50 [") and verdict.startswith(
        "no difference shown"
    )


@pytest.mark.parametrize(("worst", "verdict"), [(-230.0, "**yes**: even lower"), (-150.0, "**no**: higher")])
def test_the_worst_may_be_even_worse(worst: float, verdict: str, tmp_path: Path) -> None:
    found = claims(study(tmp_path / "s", seeds=5, worst=worst))
    assert found["AdaDQN-max performs as badly as the worst DQN (DQN 25x25)"][1] == verdict


def test_what_is_worse_is_called_so(tmp_path: Path) -> None:
    found = claims(study(tmp_path / "s", seeds=6, adaptive=20.0))
    assert found["AdaDQN has a better AUC than DQN 200x200"][1] == "**no**: the other way round"
    assert found["AdaDQN has a better AUC than DQN 100x100"][1] == "**yes**"


@pytest.mark.parametrize(
    ("seeds", "words"), [(1, "points that way, with 1 seed"), (4, "points that way, with 4 seeds")]
)
def test_few_seeds_decide_nothing(seeds: int, words: str, tmp_path: Path) -> None:
    found = claims(study(tmp_path / "s", seeds))
    assert found["AdaDQN has a better AUC than DQN 200x200"][1] == words


def test_the_page_has_all_tables(tmp_path: Path) -> None:
    scores = study(tmp_path / "s", seeds=2)
    page = PAGES["lunar-lander"]
    text = page_text(page, scores, summary_of(scores), ["curves", "search"], "lunar_lander", "results/lunar-lander")
    assert "Each arm has 2 seeds of 400 environment steps" in text
    assert "| DQN 50x50 | 2 | -99.5 [" in text
    # Targets of the four members in turn.
    assert "| AdaDQN | target updates | 25.0% | 25.0% | 25.0% | 25.0% |" in text
    assert text.count("![") == 2 and "(lunar_lander/search.png)" in text
    assert "not run yet" in text


def test_roles_name_the_single_arms_by_their_auc(tmp_path: Path) -> None:
    scores = study(tmp_path / "s", seeds=1)
    assert [one.name for one in sides(scores, EACH)] == ["dqn-200x200", "dqn-100x100", "dqn-50x50", "dqn-25x25"]
    assert [one.name for one in (*sides(scores, BEST), *sides(scores, WORST))] == ["dqn-200x200", "dqn-25x25"]
    assert [one.name for one in sides(scores, NOT_BEST)] == ["dqn-100x100", "dqn-50x50", "dqn-25x25"]
    assert [one.name for one in sides(scores, NOT_WORST)] == ["dqn-200x200", "dqn-100x100", "dqn-50x50"]
    assert sides(scores, "randdqn") == []


def test_the_end_is_compared_where_a_claim_is_about_it(tmp_path: Path) -> None:
    root = tmp_path / "s"
    for seed in range(5):
        write_run(root, "adadqn", "CartPole-v1", seed, [0.0, 0.0, 0.0, 100.0])
        write_run(root, "randdqn", "CartPole-v1", seed, [90.0] * 4, algo="randdqn", settings={"selection": "random"})
    scores = StudyScores(read_results(root, epoch=100))
    (over_the_run,) = Higher("{high} over {low}", "adadqn", "randdqn").rows(scores)
    (at_the_end,) = Higher("{high} over {low}", "adadqn", "randdqn", "final IQM").rows(scores)
    assert over_the_run == ("AdaDQN over RandDQN", "AUC 25.0 against 90.0: difference -65.0 [-65.0, -65.0]",
                            "**no**: the other way round")  # fmt: skip
    assert at_the_end[1:] == ("final IQM 100 against 90.0: difference +10.0 [10.0, 10.0]", "**yes**")
    (matches,) = Similar("{one} matches {other}", "adadqn", "randdqn", "final IQM", or_better=True).rows(scores)
    assert matches.verdict == "**yes**: even higher"


def select(run: Path, shares: Sequence[tuple[int, int]]) -> None:
    """Rewrite the target updates of a run of the four architectures: so many of each member in turn."""
    targets = [member for member, times in shares for _ in range(times)]
    rows = [f"{50 * (place + 1)},{target},1,1,1,1,20,10,10,10" for place, target in enumerate(targets)]
    header = "step,target,loss_0,loss_1,loss_2,loss_3,acted_0,acted_1,acted_2,acted_3"
    run.joinpath("selection.csv").write_text("\n".join([header, *rows]) + "\n")


def test_mainly_is_more_than_half(tmp_path: Path) -> None:
    study(tmp_path / "s", seeds=5)
    for seed, most in enumerate((5, 5, 6, 5, 5)):  # 26 of 40: 65%
        select(tmp_path / "s" / "adadqn" / "LunarLander-v3" / str(seed), [(3, most), (0, 8 - most)])
        select(tmp_path / "s" / "adadqn-max" / "LunarLander-v3" / str(seed), [(0, 4), (1, 2), (2, 2)])
    scores = StudyScores(read_results(tmp_path / "s", epoch=100))
    (row,) = MainlySelects("mainly", "adadqn", BEST).rows(scores)
    assert row.verdict == "**yes**" and row.measured.endswith("best alone: DQN 200x200")
    assert MainlySelects("mainly", "adadqn", WORST).rows(scores)[0].verdict == "**no**"
    (half,) = MainlySelects("mainly", "adadqn-max", WORST).rows(scores)
    assert half.verdict == "**no**, though no other more often"
    assert MainlySelects("mainly", "adasac", BEST).rows(scores)[0].measured == "not run yet"
    (diverse,) = MoreDiverseBehaviour("diverse", "adadqn").rows(scores)
    assert diverse.verdict == "**yes**"  # in the first tenth one member is target, and has 20 of 50 actions
    # The worst alone is target in 14 of 40 updates of the one, 35%, and in half of those of the other.
    (ignored,) = Ignores("ignores {worst}", "adadqn").rows(scores)
    assert ignored == ("ignores DQN 25x25", "DQN 25x25 has 35% of the target updates, 25% would be chance", "**no**")


def test_few_seeds_do_not_decide_what_was_counted_either(tmp_path: Path) -> None:
    scores = study(tmp_path / "s", seeds=1)
    (row,) = MainlySelects("mainly", "adadqn", BEST).rows(scores)
    assert row.verdict.startswith("points the other way, with 1 seed")
    assert MoreDiverseBehaviour("diverse", "adadqn").rows(scores)[0].verdict == "points that way, with 1 seed"


def test_seeds_are_counted_in_each_environment(tmp_path: Path) -> None:
    """Five environments with one seed each are no five seeds: the interval has no width at all."""
    for environment in ("a", "b", "c", "d", "e"):
        write_run(tmp_path / "s", "adadqn", environment, 0, [0.0, 9.0])
        write_run(tmp_path / "s", "randdqn", environment, 0, [0.0, 5.0], algo="randdqn")
    scores = StudyScores(read_results(tmp_path / "s", epoch=100))
    assert Higher("", "adadqn", "randdqn").rows(scores)[0].verdict == "points that way, with 1 seed"
    assert Similar("", "adadqn", "randdqn").rows(scores)[0].verdict == "not decided, with 1 seed"


@pytest.mark.parametrize(
    ("first_high", "ends", "verdict"),
    [
        (250, "0.0001 in the first fifth, 0.01 in the last", "**yes**"),
        (0, "0.01 in the first fifth, 0.01 in the last", "**no**"),
    ],
)
def test_a_learning_rate_that_rises(first_high: int, ends: str, verdict: str, tmp_path: Path) -> None:
    rates = grid(learning_rate=[1e-4, 1e-2])
    for seed in range(5):
        run = write_run(tmp_path / "s", "adadqn", "CartPole-v1", seed, [1.0] * 5, members=rates)
        rows = [f"{step},{int(step > first_high)},1,1,25,25" for step in range(50, 501, 50)]
        run.joinpath("selection.csv").write_text("\n".join(["step,target,loss_0,loss_1,acted_0,acted_1", *rows]) + "\n")
    (row,) = RisingLearningRate("rises", "adadqn").rows(StudyScores(read_results(tmp_path / "s", epoch=100)))
    assert row.measured.endswith(ends) and row.verdict == verdict


def test_the_length_of_one_run_against_the_end_of_a_search(tmp_path: Path) -> None:
    for seed in range(5):
        write_run(tmp_path / "s", "adadqn", "CartPole-v1", seed, [1.0, 5.0, *[9.0] * 7])
        write_run(tmp_path / "s", "random-search", "CartPole-v1", seed, [*[0.0] * 8, 5.0], algo="random-search")
    scores = StudyScores(read_results(tmp_path / "s", epoch=100))
    (row,) = Similar("", "adadqn", "random-search", "final IQM", after=2 / 9).rows(scores)
    # 2/9 of 900 steps is the end of the second epoch.
    assert row.measured == "IQM at 200 steps 5.00 against final IQM 5.00: difference 0.000 [0.000, 0.000]"


@pytest.mark.parametrize("name", PAGES)
def test_claims_name_arms_that_the_study_has(name: str) -> None:
    """At one of its scales: a claim about an arm that only the larger one has is reported as not run."""
    page = PAGES[name]
    arms = {arm for scale in ("paper", "laptop") for arm in read_study(name, scale).arms}
    curves = (
        arms
        | {f"{arm}{suffix}" for arm in arms for suffix in ("-max", "-min")}
        | {
            BEST,
            WORST,
            EACH,
            NOT_BEST,
            NOT_WORST,
        }
    )
    for claim in page.claims:
        for entry in ("high", "low", "one", "other", "arm"):
            assert getattr(claim, entry, BEST) in curves, claim
    assert page.path.parent == Path("docs/results") and "-" not in page.path.stem


def test_populations_and_searches_have_their_own_curves(tmp_path: Path) -> None:
    root = tmp_path / "s"
    for seed in range(5):
        evaluations = [
            (
                step,
                0,
                member,
                10.0 * member,
            )
            for step in (100, 200, 300, 400)
            for member in (1, 2, 3)
        ]
        write_run(root, "adadqn", "MinAtar-Breakout", seed, [50.0] * 4, space="images", env="MinAtar/Breakout")
        write_run(root, "searl", "MinAtar-Breakout", seed, [20.0] * 4, algo="searl", space="images",
                  env="MinAtar/Breakout", evaluations=evaluations)  # fmt: skip
        write_run(root, "random-search", "MinAtar-Breakout", seed, [60.0, 0.0, 0.0, 0.0], algo="random-search",
                  space="images", env="MinAtar/Breakout")  # fmt: skip
    scores = StudyScores(read_results(root, epoch=100))
    found = claims(scores, "minatar-infinite")
    assert found["AdaDQN is above SEARL's worst member (SEARL-min)"][1] == "**yes**"
    measured, verdict = found["AdaDQN has a higher return at the end than Random search, at equal steps"]
    assert measured.startswith("final IQM 50.0 against 60.0: difference -10.0")
    assert verdict == "**no**: the other way round"
    text = page_text(PAGES["minatar-infinite"], scores, summary_of(scores), ["curves"], "minatar_infinite", "runs")
    assert "## Which member was target" not in text and "## Figures" not in text
    assert "have the best return so far" in text


@pytest.mark.thorough
def test_a_page_is_written_with_its_figures(tmp_path: Path) -> None:
    for seed in range(2):
        write_run(tmp_path / "s", "adadqn", "LunarLander-v3", seed, [10.0 + seed] * 10, members=DISCOUNTS)
        for member, name in zip(DISCOUNTS, ("dqn-0.986", "dqn-0.99"), strict=True):
            write_run(tmp_path / "s", name, "LunarLander-v3", seed, [5.0] * 10, algo="dqn", members=[member])
    page = tmp_path / "discounts.md"
    assert main(["discounts", "--runs", str(tmp_path / "s"), "--page", str(page)]) == 0
    text = page.read_text()
    assert text.startswith("# Discounts: AdaDQN with five of them, and meta-gradient DQN\n")
    assert "| AdaDQN and meta-gradient DQN reach similar performance | not run yet | - |" in text
    assert "discounts/discount.png" in text and (tmp_path / "discounts" / "discount.png").is_file()
