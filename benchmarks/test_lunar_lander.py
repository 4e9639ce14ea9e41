"""The page of the Lunar Lander results follows from the runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from adaqn.analysis.scores import StudyScores
from adaqn.analysis.study import read_results
from adaqn.analysis.summary import summary_of
from adaqn.hyperparameters import grid
from benchmarks.lunar_lander import claims, page_text
from tests.analysis.study_files import write_run

FOUR = grid(hidden=[(25, 25), (50, 50), (100, 100), (200, 200)])
LEVELS = (-200.0, -100.0, 0.0, 50.0)


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


def test_verdicts_follow_from_the_runs(tmp_path: Path) -> None:
    found = {claim: (measured, verdict) for claim, measured, verdict in claims(study(tmp_path / "s", seeds=6))}
    measured, verdict = found["AdaDQN has a better AUC than DQN 200x200"]
    assert measured.startswith("AUC 152 against 52.5: difference +100 [") and verdict == "**yes**"
    assert found["RandDQN, with a random target, has a lower AUC than AdaDQN"] == ("not run yet", "-")
    measured, verdict = found["AdaDQN-max performs as badly as the worst DQN (DQN 25x25)"]
    assert measured.startswith("AUC -199 against -198: difference -1.50 [") and verdict.startswith(
        "no difference shown"
    )


@pytest.mark.parametrize(("worst", "verdict"), [(-230.0, "**yes**: even lower"), (-150.0, "**no**: higher")])
def test_the_worst_may_be_even_worse(worst: float, verdict: str, tmp_path: Path) -> None:
    found = {claim: verdict for claim, _, verdict in claims(study(tmp_path / "s", seeds=5, worst=worst))}
    assert found["AdaDQN-max performs as badly as the worst DQN (DQN 25x25)"] == verdict


def test_what_is_worse_is_called_so(tmp_path: Path) -> None:
    found = {claim: verdict for claim, _, verdict in claims(study(tmp_path / "s", seeds=6, adaptive=20.0))}
    assert found["AdaDQN has a better AUC than DQN 200x200"] == "**no**: the other way round"
    assert found["AdaDQN has a better AUC than DQN 100x100"] == "**yes**"


@pytest.mark.parametrize(
    ("seeds", "words"), [(1, "points that way, with 1 seed"), (4, "points that way, with 4 seeds")]
)
def test_few_seeds_decide_nothing(seeds: int, words: str, tmp_path: Path) -> None:
    found = {claim: verdict for claim, _, verdict in claims(study(tmp_path / "s", seeds))}
    assert found["AdaDQN has a better AUC than DQN 200x200"] == words


def test_the_page_has_all_tables(tmp_path: Path) -> None:
    scores = study(tmp_path / "s", seeds=2)
    text = page_text(scores, summary_of(scores), ["curves", "search"], "lunar_lander", "results/lunar-lander")
    assert "Each arm has 2 seeds of 400 environment steps" in text
    assert "| DQN 50x50 | 2 | -99.5 [" in text
    # Targets of the four members in turn.
    assert "| AdaDQN | target updates | 25.0% | 25.0% | 25.0% | 25.0% |" in text
    assert text.count("![") == 2 and "(lunar_lander/search.png)" in text
    assert "not run yet" in text
