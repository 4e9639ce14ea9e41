"""The contract of the suites, for all existing ones, and which ids belong to them."""

from __future__ import annotations

import importlib

import pytest

from adaqn.envs import suites
from tests.envs.suite_contract import check_environment, check_names


def test_suites_are_the_files() -> None:
    assert {"atari", "minatar"} <= set(suites.suites())
    assert {"Atari/BattleZone", "MinAtar/Asterix"} <= set(suites.names())


@pytest.mark.parametrize("suite", suites.suites())
def test_each_name_leads_to_its_file_and_is_the_id_of_what_is_made(suite: str) -> None:
    check_names(suite, importlib.import_module(f"adaqn.envs.suites.{suite}"))


@pytest.mark.parametrize("suite", suites.suites())
def test_environments_repeat_themselves_and_show_what_they_say(suite: str) -> None:
    check_environment(importlib.import_module(f"adaqn.envs.suites.{suite}").NAMES[0])


@pytest.mark.parametrize("other", ["CartPole-v1", "Probe/Truncation-v0", "Nowhere/Walker-v5", "ale_py:ALE/Pong-v5"])
def test_other_ids_are_gymnasiums_business(other: str) -> None:
    assert suites.find_spec(other) is None
