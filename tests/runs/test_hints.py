from __future__ import annotations

import pytest

from adaqn import Convolution, Hyperparameters
from adaqn.agents.population import Population
from adaqn.agents.registry import algorithm
from adaqn.cli import main
from adaqn.runs.display.hints import speed_hint

SMALL = (Hyperparameters(hidden=(16,)),)
LARGE = (Hyperparameters(hidden=(256, 256)),)
IMAGES = (Hyperparameters(convolutions=(Convolution(32, 8, 4),), hidden=(512,)),)


def hint(
    members: tuple[Hyperparameters, ...], algo: str = "adadqn", threads: int = 1, cores: int = 1, **settings: object
) -> str | None:
    shape = (84, 84, 4) if members[0].convolutions else (8,)
    return speed_hint(Population(members), algorithm(algo).configure(settings), shape, threads=threads, cores=cores)


def test_usual_settings_need_no_hint() -> None:
    assert hint(SMALL) is None
    assert hint(SMALL, cores=8) is None
    assert hint(LARGE, "adasac", threads=8, cores=8) is None
    assert hint(IMAGES * 5, threads=8, cores=8, train_freq=4) is None


def test_many_members_with_convolutions_are_trained_less_often() -> None:
    expected = "each of 3 members with convolutions makes an update every step; --train-freq 4 "
    assert expected in (hint(IMAGES * 3) or "")
    assert "every 3 steps; --train-freq 4 " in (hint(IMAGES * 3, train_freq=3) or "")
    assert hint(IMAGES * 2) is None


def test_one_thread_for_large_layers_is_named() -> None:
    assert "faster with --threads 8." in (hint(LARGE, "adasac", threads=1, cores=8) or "")
    assert hint(LARGE, "adasac", threads=1, cores=1) is None
    assert hint(SMALL, threads=2, cores=8) is None  # no slower than with one


def test_many_small_updates_are_one_larger() -> None:
    assert "8 updates of 32 transitions take longer than one of 256; --gradient-steps 1 --batch-size 256, " in (
        hint(SMALL, gradient_steps=8, batch_size=32) or ""
    )
    assert hint(SMALL, gradient_steps=3, batch_size=32) is None
    assert hint(SMALL, gradient_steps=9, batch_size=32) is None  # a batch of 288 is no small update any more


def test_the_command_line_prints_it_once_and_the_class_only_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    from adaqn import AdaDQN

    settings = ["--learning-starts", "50", "--gradient-steps", "4", "--batch-size", "8", "--grid", "hidden=8"]
    assert main(["train", "--env", "CartPole-v1", "--steps", "60", *settings]) == 0
    shown = " ".join(capsys.readouterr().out.split())  # which may be wrapped
    assert shown.count("Hint: ") == 1
    assert "--gradient-steps 1 --batch-size 32, " in shown
    agent = AdaDQN("CartPole-v1", SMALL, learning_starts=50, gradient_steps=4, batch_size=8)
    agent.learn(60)
    assert capsys.readouterr().out == ""
