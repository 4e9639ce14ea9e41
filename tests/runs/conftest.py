"""Runs without learning, new for each test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from adaqn.training.trainer import Trainer
from tests.fakes import fake_run


@pytest.fixture
def new_trainer() -> Callable[..., Trainer]:
    return fake_run


@pytest.fixture
def trainer() -> Trainer:
    return fake_run()
