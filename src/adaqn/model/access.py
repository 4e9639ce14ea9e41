"""Access to a model's environment and replay buffer, with Stable-Baselines3's method names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium

from adaqn.agents.settings import Settings
from adaqn.base.errors import UserError
from adaqn.envs.environments import Environments
from adaqn.envs.source import EnvironmentLike, EnvironmentSource
from adaqn.envs.spaces_only import require_trust
from adaqn.replay.making import make_replay
from adaqn.replay.protocol import Replay
from adaqn.runs.replay_file import read_replay, write_replay
from adaqn.runs.saved_spaces import check_same_spaces, describe_spaces
from adaqn.training.trainer import Trainer


class EnvironmentAndReplay:
    """The methods of the public classes for environments and replay buffers."""

    settings: Any  # of the class that the algorithm has for them
    _trainer: Trainer
    _source: EnvironmentSource
    _n_envs: int
    _spaces_only: bool  # loaded without environments, which are made on first use
    _not_trusted: str | None  # the file that named the environment, if its modules must not be imported

    def get_env(self) -> gymnasium.Env:
        """The environment that this agent trains in, or the first of several.

        Stepping it aborts the current training episode; `make_env` returns a new environment.
        """
        self._require_environments()
        return self._trainer.lend()

    def set_env(self, env: EnvironmentLike, force_reset: bool = True) -> None:
        """Train in another environment with the same spaces from now on, starting new episodes.

        `env` is an id, a function or an object, and replaces everything about the previous environment, its arguments
        and wrappers included. `force_reset` exists for compatibility with SB3; an episode is never continued in
        another environment.
        """
        if not force_reset:
            raise UserError("set_env starts new episodes in the new environment: leave force_reset=False out")
        trainer = self._trainer
        before = trainer.environments
        source = EnvironmentSource.of(env)
        environments = Environments.make(source, self._n_envs)
        try:
            check_same_spaces(
                "this agent",
                describe_spaces(before.observation_space, before.action_space),
                describe_spaces(environments.observation_space, environments.action_space),
            )
            if environments.frame_stack != before.frame_stack and not self._spaces_only:
                raise UserError(
                    f"this agent stores observations of {before.frame_stack} stacked images, "
                    f"but the environment stacks {environments.frame_stack}"
                )
            trainer.set_environments(environments)
            if self._spaces_only:
                trainer.enter(environments, replay_for(self.settings, environments))
                self._spaces_only = False
        except UserError:
            environments.close()
            raise
        self._source = source
        before.close()

    def make_env(self, **kwargs: object) -> gymnasium.Env:
        """Make a new environment like the one that this agent trains in."""
        self._require_source()
        return self._source.require_new(self._source.make(**kwargs), self._trainer.environments.envs)

    def save_replay_buffer(self, path: str | Path) -> Path:
        """Write the replay buffer to a zip file of arrays (`.zip` is appended); `load_replay_buffer` reads it."""
        self._require_environments()
        file = zip_path(path)
        write_replay(file, self._trainer)
        return file

    def load_replay_buffer(self, path: str | Path) -> None:
        """Replace the replay buffer by one that `save_replay_buffer` wrote.

        The spaces and the number of environments must be the same. A loaded agent then learns without waiting for its
        buffer to fill again; a new agent still takes `learning_starts` steps first.
        """
        self._require_environments()
        trainer = self._trainer
        filled = replay_for(self.settings, trainer.environments)
        trainer.set_replay(filled, transitions=read_replay(zip_path(path), trainer, filled))

    def _require_environments(self) -> None:
        """Make the environments of an agent that was loaded without them."""
        if not self._spaces_only:
            return
        self._require_source()
        before, environments = self._trainer.environments, Environments.make(self._source, self._n_envs)
        saved, given = (describe_spaces(each.observation_space, each.action_space) for each in (before, environments))
        check_same_spaces("the agent", saved, given)
        replay = replay_for(self.settings, environments)
        self._trainer.enter(environments, replay)
        self._spaces_only = False

    def _require_source(self) -> None:
        """Raise if no environment can be made: it was given as an object, or its modules are not trusted."""
        if not self._source.repeatable:
            raise UserError(
                "this agent was made with an environment object, which cannot be made a second time; pass another "
                "such environment with env= (on the command line --env ID), for evaluations with eval_env="
            )
        if self._not_trusted is not None:
            require_trust(self._source, self._not_trusted)


def replay_for(settings: Settings, environments: Environments, capacity: int | None = None) -> Replay:
    """An empty replay buffer for an agent's spaces, by default of size `settings.buffer_size`."""
    return make_replay(
        settings.buffer_size if capacity is None else capacity,
        environments.count,
        environments.observation_space,
        environments.action_space,
        settings.n_steps,
        environments.frame_stack,
        padding="zeros",
    )


def zip_path(path: str | Path) -> Path:
    """The path with `.zip` appended unless it already has this suffix."""
    path = Path(path)
    return path if path.suffix == ".zip" else path.with_name(path.name + ".zip")
