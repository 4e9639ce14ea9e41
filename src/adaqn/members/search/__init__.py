"""Hyperparameter searches with an ask/tell interface, independent of what a trial is.

A searcher works in the unit cube. The caller decides what a vector means, and how a trial with a given number of steps
is run.
"""

from __future__ import annotations

from adaqn.members.search.dehb import DEHB
from adaqn.members.search.protocol import Searcher, Trial
from adaqn.members.search.random_search import RandomSearch

__all__ = ["DEHB", "RandomSearch", "Searcher", "Trial"]
