"""Searches that try hyperparameters one after the other within one run: random search and DEHB."""

from __future__ import annotations

from adaqn.agents.trials.dehb import DEHBSettings
from adaqn.agents.trials.random_search import RandomSearchSettings
from adaqn.agents.trials.searching import search_with

ALGORITHMS = {
    "random-search": search_with(RandomSearchSettings),
    "dehb": search_with(DEHBSettings),
}
