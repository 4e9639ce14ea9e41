"""Searches for hyperparameters trial after trial, by ask and tell; they know nothing of what a trial is.

A searcher moves in the unit cube. What a vector means there, and how a trial of so many steps is run, is up to
whoever asks.
"""

from __future__ import annotations

from adaqn.search.dehb import DEHB
from adaqn.search.protocol import Searcher, Trial
from adaqn.search.random_search import RandomSearch

__all__ = ["DEHB", "RandomSearch", "Searcher", "Trial"]
