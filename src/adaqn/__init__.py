"""Reinforcement learning that tunes itself: several critics with different hyperparameters learn in one run."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adaqn.analysis.loading import load_runs
    from adaqn.api import (
        DEHB,
        DQN,
        SAC,
        SEARL,
        TD3,
        AdaDQN,
        AdaDQNMax,
        AdaSAC,
        AdaTD3,
        MetaGradientDQN,
        RandDQN,
        RandomSearch,
        RandSAC,
        RandTD3,
    )
    from adaqn.base.errors import UserError
    from adaqn.members.hyperparameters import Convolution, Hyperparameters, grid
    from adaqn.members.space import SearchSpace
    from adaqn.runs.config import RunConfig
    from adaqn.training.callbacks import (
        BaseCallback,
        CallbackList,
        CheckpointCallback,
        EvalCallback,
        StopTrainingOnReturn,
        StopTrainingOnRewardThreshold,
    )
    from adaqn.training.evaluation import evaluate_policy

__version__ = "0.1.0"

# Imported on first use, so that `adaqn --help` and tools that only read runs do not wait for JAX.
_HOMES = {
    "AdaDQN": "adaqn.api",
    "AdaDQNMax": "adaqn.api",
    "AdaSAC": "adaqn.api",
    "AdaTD3": "adaqn.api",
    "BaseCallback": "adaqn.training.callbacks",
    "CallbackList": "adaqn.training.callbacks",
    "CheckpointCallback": "adaqn.training.callbacks",
    "Convolution": "adaqn.members.hyperparameters",
    "DEHB": "adaqn.api",
    "DQN": "adaqn.api",
    "EvalCallback": "adaqn.training.callbacks",
    "Hyperparameters": "adaqn.members.hyperparameters",
    "MetaGradientDQN": "adaqn.api",
    "RandDQN": "adaqn.api",
    "RandSAC": "adaqn.api",
    "RandTD3": "adaqn.api",
    "RandomSearch": "adaqn.api",
    "RunConfig": "adaqn.runs.config",
    "SAC": "adaqn.api",
    "SEARL": "adaqn.api",
    "SearchSpace": "adaqn.members.space",
    "TD3": "adaqn.api",
    "StopTrainingOnReturn": "adaqn.training.callbacks",
    "StopTrainingOnRewardThreshold": "adaqn.training.callbacks",
    "UserError": "adaqn.base.errors",
    "evaluate_policy": "adaqn.training.evaluation",
    "grid": "adaqn.members.hyperparameters",
    "load_runs": "adaqn.analysis.loading",
}

__all__ = [
    "DEHB",
    "DQN",
    "SAC",
    "SEARL",
    "TD3",
    "AdaDQN",
    "AdaDQNMax",
    "AdaSAC",
    "AdaTD3",
    "BaseCallback",
    "CallbackList",
    "CheckpointCallback",
    "Convolution",
    "EvalCallback",
    "Hyperparameters",
    "MetaGradientDQN",
    "RandDQN",
    "RandSAC",
    "RandTD3",
    "RandomSearch",
    "RunConfig",
    "SearchSpace",
    "StopTrainingOnReturn",
    "StopTrainingOnRewardThreshold",
    "UserError",
    "evaluate_policy",
    "grid",
    "load_runs",
]


if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'adaqn' has no attribute {name!r}")
        return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
