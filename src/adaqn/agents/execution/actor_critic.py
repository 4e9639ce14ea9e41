"""Compiled functions of the actor-critic algorithms: an update and the next actions in one dispatch."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple

from jax import Array

from adaqn.agents.actor_critic import Functions, Program, report_interval, update_actor, update_critics
from adaqn.agents.execution.divided_actor_critic import DividedUpdate
from adaqn.agents.protocol import Operation
from adaqn.networks.xla.compilation import jit_step, small_program
from adaqn.replay.protocol import Batch


class ActorCriticPrograms(NamedTuple):
    """The functions of a family, compiled for one ensemble and actor."""

    act: Any  # (state, observations [n, ...], noise [n, A]) -> actions [n, A]
    mode: Any  # (state, observations) -> actions
    update: dict[Operation, Any]  # (state, batch, draws, ε_b) -> state
    update_and_act: dict[Operation, Any]  # (state, batch, draws, ε_b, observations, noise) -> (state, actions)
    report_interval: Any  # (state) -> (state, stretch)


@lru_cache(maxsize=32)
def compiled_programs(family: Functions, program: Program[Any]) -> ActorCriticPrograms:
    """Compile the functions; equal architectures and settings share one result."""

    def update(state: Any, batch: Batch[Array], draws: Any, epsilon: Array, actor: bool) -> Any:
        state = update_critics(family, program, state, batch, draws)
        return update_actor(family, program, state, batch.observation, draws, epsilon) if actor else state

    def updating(actor: bool) -> Any:
        return jit_step(lambda s, b, d, e: update(s, b, d, e, actor), concurrent=True)

    def updating_and_acting(actor: bool) -> Any:
        def both(
            state: Any, batch: Batch[Array], draws: Any, epsilon: Array, observations: Array, noise: Array
        ) -> tuple[Any, Array]:
            state = update(state, batch, draws, epsilon, actor)
            return state, family.act(program, state, observations, noise)

        return jit_step(both, concurrent=True)

    with_actor = {Operation.UPDATE: False, Operation.ACTOR_UPDATE: True}
    if program.ensemble.lanes > 1:
        divided = DividedUpdate(family, program)
        updates = {operation: partial(divided, actor) for operation, actor in with_actor.items()}
        updates_and_act = updates
    else:
        updates = {operation: updating(actor) for operation, actor in with_actor.items()}
        updates_and_act = {operation: updating_and_acting(actor) for operation, actor in with_actor.items()}
    return ActorCriticPrograms(
        act=small_program(lambda s, o, n: family.act(program, s, o, n)),
        mode=small_program(lambda s, o: family.mode(program, s, o)),
        update=updates,
        update_and_act=updates_and_act,
        report_interval=jit_step(lambda s: report_interval(program, s)),
    )
