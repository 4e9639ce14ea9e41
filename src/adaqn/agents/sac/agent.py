"""AdaSAC (Algorithm 2), RandSAC and SAC: one algorithm with different selection rules and numbers of members."""

from __future__ import annotations

import math

import jax
import numpy as np

from adaqn.agents.core.actor_critic_agent import ActorCriticAgent
from adaqn.agents.core.ensemble_agent import AgentState
from adaqn.agents.protocol import Clock, PolicyWeights, Report
from adaqn.agents.sac import learning
from adaqn.agents.sac.learning import Draws, SACState
from adaqn.replay.protocol import Batch

State = AgentState[SACState]


class SACAgent(ActorCriticAgent[SACState]):
    """AdaSAC (Algorithm 2) as an agent of the training loop."""

    functions = learning.FUNCTIONS
    outputs_per_action = 2
    actor_copies = 3  # parameters and two moments

    def draws(self, members: int, batch: Batch[np.ndarray], rng: np.random.Generator) -> Draws:
        """Draw the random numbers of one update."""
        next_noise, noise = rng.standard_normal((2, len(batch.action), self._actions), np.float32)
        uniforms = rng.random(2 * members + 1, np.float32)
        return Draws(next_noise, noise, uniforms[:members], uniforms[members:])

    def policy_weights(self, state: State) -> PolicyWeights:
        """The actor, whose parameters are always finite."""
        parameters = np.array(state.learning.actor.parameters)
        return PolicyWeights("tanh-gaussian", self._actor, parameters, self.settings.actor)

    def report(self, state: State, clock: Clock) -> Report:
        """Summarize the members, with scalars for the logs."""
        report = super().report(state, clock)
        log_alpha, entropy = jax.device_get((state.learning.log_alpha.parameters, state.learning.entropy))
        own = {"train/ent_coef": math.exp(float(log_alpha)), "train/entropy": float(entropy)}
        return report._replace(metrics=report.metrics | own)
