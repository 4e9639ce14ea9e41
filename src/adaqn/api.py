"""The public classes, with Stable-Baselines3's names, made from the table of algorithms.

Editors and type checkers read `api.pyi`, which has their arguments; `make stubs` writes it.
"""

from __future__ import annotations

from adaqn.agents.algorithms import ALGORITHMS
from adaqn.agents.protocol import TrialEnd
from adaqn.agents.registry import Algorithm
from adaqn.agents.trials.agent import TrialAgent
from adaqn.model.model import MODELS, Model, model_class
from adaqn.model.signatures import documentation_of

__all__ = ["MODELS", "Model", "model_class"]


class SearchModel(Model):
    """A search: sequential trials in one run, each a fresh agent."""

    @property
    def best_trial(self) -> TrialEnd | None:
        """The trial that `predict` acts with, or None until a trial has finished without failing."""
        agent = self._trainer.agent
        assert isinstance(agent, TrialAgent), "all searches consist of trials"
        return agent.best_trial(self._trainer.state)


def _public_class(algo: str, entry: Algorithm, name: str) -> type:
    base = Model if entry.base is None else SearchModel
    return type(name, (base,), {"algo": algo, "__doc__": documentation_of(entry), "__module__": __name__})


for _algo, _entry in ALGORITHMS.items():
    if _entry.public is not None:
        globals()[_entry.public] = _public_class(_algo, _entry, _entry.public)
        __all__ += [_entry.public]
