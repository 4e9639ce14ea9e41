"""`python -m benchmarks.study_pages NAME...`: the pages in docs/results/ about the studies that have runs in results/.

What the paper claims is declared here, study by study; how it is judged is in `claims`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.claims import (
    BEST,
    EACH,
    NOT_BEST,
    NOT_WORST,
    WORST,
    Higher,
    MoreSampleEfficient,
    Similar,
)
from benchmarks.selection_claims import Ignores, MainlySelects, MoreDiverseBehaviour, RisingLearningRate
from benchmarks.study_page import StudyPage, write_page

_ELSEWHERE = "; the paper says so for MuJoCo and Atari, not for this experiment"

_FIVE_SEEDS = (
    "The number of seeds was raised to five, of all arms alike, after the first three had been seen, because nothing "
    "is decided with fewer."
)

PAGES: dict[str, StudyPage] = {
    page.study: page
    for page in (
        StudyPage(
            study="lunar-lander",
            title="Lunar Lander: AdaDQN with four architectures",
            setting="AdaDQN trains the four architectures 25x25, 50x50, 100x100 and 200x200 in one run, with the "
            "paper's settings (preset `lunar-lander`) on {environments}",
            papers_scale="the paper has 20 seeds, and its authors' code trains for 500,000 steps",
            claims=(
                Higher("{high} has a better AUC than {low}", "adadqn", EACH),
                MoreSampleEfficient("AdaDQN", _ELSEWHERE),
                Higher("With ε_b = 0, AdaDQN has a lower AUC than AdaDQN", "adadqn", "adadqn-greedy-behaviour"),
                Similar(
                    "With ε_b = 0, it performs similarly to the best DQN ({other})", "adadqn-greedy-behaviour", BEST
                ),
                Higher("RandDQN, with a random target, has a lower AUC than AdaDQN", "adadqn", "randdqn"),
                Higher(
                    "AdaDQN-max, with the highest loss as target, has a lower AUC than AdaDQN", "adadqn", "adadqn-max"
                ),
                Similar("AdaDQN-max performs as badly as the worst DQN ({other})", "adadqn-max", WORST, or_worse=True),
                MainlySelects(
                    "AdaDQN mainly selects the architecture that performs best alone, and sometimes another",
                    "adadqn",
                    BEST,
                    and_another=True,
                ),
                MainlySelects(
                    "With ε_b = 0, it also focuses on the best architecture", "adadqn-greedy-behaviour", BEST
                ),
                MainlySelects("AdaDQN-max mainly selects the worst one", "adadqn-max", WORST),
                MoreDiverseBehaviour("At the start, AdaDQN's behaviour is more diverse than its target", "adadqn"),
            ),
            captions={
                "curves": "Left: AdaDQN beside the four DQNs. Right: AdaDQN beside its ablations.",
                "search": "AdaDQN beside grid and random search over the four DQNs, with the steps of all their runs "
                "counted.",
            },
        ),
        StudyPage(
            study="lunar-lander-infinite",
            title="Lunar Lander: AdaDQN in an infinite space",
            setting="AdaDQN has five members from the space `vectors`, with a generation every 10,000 steps (preset "
            "`lunar-lander-infinite`), on {environments}. The arms differ in how a generation selects survivors "
            "(tournament or truncation), and in whether a mutated member keeps its parent's weights or starts anew "
            "(reset)",
            papers_scale="the paper mentions this experiment without numbers; it has 20 seeds on Lunar Lander, and its "
            "authors' code trains for 500,000 steps",
            claims=(
                Similar("Truncation performs similarly to the tournament", "truncation", "tournament"),
                Similar(
                    "Resetting weights at a generation does not improve performance: with the tournament",
                    "tournament-reset",
                    "tournament",
                    or_worse=True,
                ),
                Similar(
                    "The same with truncation",
                    "truncation-reset",
                    "truncation",
                    or_worse=True,
                ),
            ),
            notes=(
                "The paper mentions a trial with weights reset at every generation, and does not say of which members, "
                "nor with which way of selecting them. Here the mutated members start anew.",
                "tournament-large-buffer has a replay buffer of 100,000 transitions instead of the paper's 10,000. It "
                "is ours, and was added after one of its seeds, 0, had been seen: [why runs in an infinite space "
                "collapse](collapse.md).",
            ),
        ),
        StudyPage(
            study="minatar-infinite",
            title="MinAtar: AdaDQN, SEARL, random search and DEHB in an infinite space",
            setting="All methods search the space `images` on {environments}, with the same number of environment "
            "steps: AdaDQN and SEARL train five members with a generation every 10,000 steps, random search has six "
            "trials one after the other, and DEHB has trials of an eighth and of a quarter of all steps",
            papers_scale="the paper has Atari games, where AdaDQN has 40 M frames, random search and DEHB 180 M, and 5 "
            "seeds; MinAtar is not in it",
            claims=(
                Higher(
                    "{high} has a higher return at the end than the best member of SEARL ({low})",
                    "adadqn",
                    "searl-max",
                    "final IQM",
                ),
                Higher("{high} is above SEARL's worst member ({low})", "adadqn", "searl-min", "final IQM"),
                *(
                    Higher(
                        "{high} has a higher return at the end than {low}, at equal steps", "adadqn", name, "final IQM"
                    )
                    for name in ("random-search", "dehb")
                ),
                *(
                    Similar(
                        "AdaDQN matches the end performance of {other} after 2/9 of the steps (40 M of 180 M frames)",
                        "adadqn",
                        name,
                        "final IQM",
                        or_better=True,
                        after=2 / 9,
                    )
                    for name in ("random-search", "dehb")
                ),
            ),
            notes=(
                "As in the paper, random search and DEHB have the best return so far, and SEARL its best and its worst "
                "member of each generation, while AdaDQN has the return of its training as it is.",
                _FIVE_SEEDS,
            ),
        ),
        StudyPage(
            study="mujoco-learning-rates",
            name="hopper-learning-rates",
            title="Hopper: AdaSAC with three learning rates",
            setting="AdaSAC trains critics with three learning rates in one run (preset `mujoco-learning-rates`) on "
            "{environments}; RandSAC draws the target pair at random, and each SAC has one of the learning rates",
            papers_scale="the paper pools six MuJoCo environments and has 9 seeds",
            claims=(
                MoreSampleEfficient("AdaSAC"),
                Similar(
                    "AdaSAC performs slightly above the best learning rate ({other})", "adasac", BEST, or_better=True
                ),
                Ignores("AdaSAC ignores the worst learning rate ({worst})", "adasac"),
                RisingLearningRate("AdaSAC chooses a low learning rate first and a higher one later", "adasac"),
                Similar("RandSAC and AdaSAC are on par", "randsac", "adasac"),
            ),
            notes=(
                _FIVE_SEEDS + " With those three alone, the AUC was 696 for AdaSAC, 656 for the best SAC and 410 for "
                "RandSAC: two more seeds of each changed the picture.",
                "With three critics, the target is the pair with the lowest losses. It was nearly always that of the "
                "two higher learning rates, so that here AdaSAC differs from SAC mostly in the two different learning "
                "rates of its pair, and in the actor's updates with the third critic early in the run.",
            ),
        ),
        StudyPage(
            study="mujoco-activations",
            name="hopper-activations",
            title="Hopper: AdaSAC with three activations",
            setting="AdaSAC trains critics with three activations in one run (preset `mujoco-activations`) on "
            "{environments}; RandSAC draws the target pair at random, and each SAC has one of the activations",
            papers_scale="the paper pools six MuJoCo environments and has 9 seeds",
            claims=(
                MoreSampleEfficient("AdaSAC"),
                Similar("AdaSAC performs slightly below the best activation ({other})", "adasac", BEST, or_worse=True),
                Higher("{high} outperforms the other two: {low}", "adasac", NOT_BEST),
                Higher("{high} outperforms the worst activation ({low})", "randsac", WORST),
                Similar("RandSAC outperforms no other: {other}", "randsac", NOT_WORST, or_worse=True),
            ),
        ),
        StudyPage(
            study="discounts",
            title="Discounts: AdaDQN with five of them, and meta-gradient DQN",
            setting="AdaDQN selects among five discounts between 0.985 and 0.995, and meta-gradient DQN learns its "
            "discount, both cross-validated with 0.99; each DQN has one of the discounts. On {environments} (preset "
            "`lunar-lander-discounts`)",
            papers_scale="the paper has two Atari games with 5 seeds, and no single DQNs beside them",
            claims=(
                Similar("AdaDQN and meta-gradient DQN reach similar performance", "adadqn", "metagradient"),
                Similar(
                    "AdaDQN and meta-gradient DQN reach similar performance at the end",
                    "adadqn",
                    "metagradient",
                    "final IQM",
                ),
                MoreSampleEfficient("AdaDQN", _ELSEWHERE),
            ),
            notes=(
                "The seeds of AdaDQN and meta-gradient DQN were raised to ten after the first three had been seen; the "
                "single DQNs still have three.",
            ),
        ),
    )
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the pages."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.study_pages", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="+", choices=PAGES, metavar="NAME", help=", ".join(PAGES))
    parser.add_argument("--runs", type=Path, help="directory of the runs (default results/NAME)")
    parser.add_argument("--page", type=Path, help="the file to write (default in docs/results)")
    given = parser.parse_args(arguments)
    if len(given.names) > 1 and (given.runs or given.page):
        parser.error("--runs and --page are for one page")
    for name in given.names:
        page = PAGES[name]
        path = given.page or page.path
        write_page(page, given.runs or page.runs, path)
        print(path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
