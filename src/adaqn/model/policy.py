"""A trained agent in use: its properties, its actions, and saving and exporting it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np

from adaqn.agents.population import Population
from adaqn.agents.protocol import MemberReport
from adaqn.base.errors import UserError
from adaqn.base.files import writing
from adaqn.base.snapshot import Snapshot, require_replaceable, write_snapshot
from adaqn.envs.spaces import environment_actions, observation_dtype
from adaqn.envs.values import Unusable, array_of, observation_of, require_finite
from adaqn.members.space import SearchSpace
from adaqn.model.access import EnvironmentAndReplay, zip_path
from adaqn.model.threads import ThreadChoice
from adaqn.runs.config import RunConfig
from adaqn.runs.export import PolicyFormat, policy_path, require_policy, write_policy
from adaqn.runs.saved_spaces import describe_spaces
from adaqn.training.trainer import Trainer


class TrainedPolicy(EnvironmentAndReplay):
    """The methods of the public classes for using a trained agent: members, predictions, files."""

    algo: ClassVar[str]
    seed: int
    observation_space: gymnasium.spaces.Box
    action_space: gymnasium.spaces.Discrete | gymnasium.spaces.Box
    _base: str | None
    _threads: ThreadChoice
    _population: Population
    _predict_rng: np.random.Generator

    @property
    def num_timesteps(self) -> int:
        """Number of environment steps taken."""
        return self._trainer.clock.step

    @property
    def members(self) -> tuple[MemberReport, ...]:
        """Hyperparameters, cumulated loss and share of selections of each member."""
        return self._trainer.report().members

    @property
    def space(self) -> SearchSpace | None:
        """The search space of the members; SEARL, RandomSearch and DEHB always have one."""
        return self._population.space

    @property
    def trainer(self) -> Trainer:
        """The training loop with its state: agent, environments, replay buffer, clock."""
        return self._trainer

    def predict(
        self,
        observation: np.ndarray,
        state: None = None,
        episode_start: object = None,
        deterministic: bool = False,
    ) -> tuple[Any, None]:
        """Return the action for one observation or a batch of them, and None in place of SB3's hidden state.

        The target member acts. `deterministic=False` explores as training does at its current step, with a separate
        random generator, so that predicting does not change training. `state` and `episode_start` exist for
        compatibility with SB3's recurrent policies and are ignored.
        """
        del state, episode_start
        shape = self.observation_space.shape
        try:
            observation = array_of(observation)
            single = observation.shape == shape
            if not single and observation.shape[1:] != shape:
                raise UserError(f"observations must have the shape {shape}, but got {observation.shape}")
            batch = observation_of(
                observation[None] if single else observation, observation_dtype(self.observation_space)
            )
            require_finite(batch)
        except Unusable as unusable:
            raise UserError(f"predict got {unusable}") from None
        trainer = self._trainer
        actions = trainer.agent.policy(
            trainer.state, batch, None if deterministic else self._predict_rng, trainer.clock
        )
        actions = environment_actions(self.action_space, actions)
        return (actions[0] if single else actions), None

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the agent to a zip file (`.zip` is appended), without its replay buffer; `load` reads it.

        A previously saved agent is replaced; any other existing file only with `force`.
        """
        file = zip_path(path)
        if not force:
            require_replaceable(file, "agent")
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
        trainer = self._trainer
        arrays, agent = trainer.agent.to_arrays(trainer.state)
        config = self._config(max(trainer.clock.horizon, self.settings.minimum_steps.steps)).to_dict()
        spaces = describe_spaces(self.observation_space, self.action_space)
        clock = trainer.clock._asdict()
        write_snapshot(
            file,
            Snapshot(arrays, {"config": config, "agent": agent, "spaces": spaces, "clock": clock}),
            "agent",
        )
        return file

    def export(self, path: str | Path, *, format: PolicyFormat | None = None, force: bool = False) -> Path:
        """Write only the policy to a file that runs without JAX.

        `format="numpy"` (`.npz` is appended) is for `adaqn.exported_policy`, which needs only NumPy; `format="onnx"`
        (`.onnx` is appended) needs the extra `onnx` to be written, and runs wherever ONNX models do. By default the
        suffix of `path` decides, and without one it is NumPy's.
        A previously exported policy is replaced; any other existing file only with `force`.
        """
        file, chosen = policy_path(path, format)
        if not force:
            require_policy(file)
        weights = self._trainer.agent.policy_weights(self._trainer.state)
        write_policy(
            file,
            weights,
            self.observation_space,
            self.action_space,
            env=self._source.id,
            algo=self.algo,
            format=chosen,
        )
        return file

    def _config(self, steps: int, **watching: Any) -> RunConfig:
        return RunConfig(
            algo=self.algo,
            base=self._base,
            env=self._source.id,
            env_kwargs=self._source.kwargs,
            wrappers=self._source.wrappers,
            imports=self._source.imports,
            steps=steps,
            seed=self.seed,
            n_envs=self._n_envs,
            threads=self._threads.given,
            **self._population._asdict(),
            settings=self.settings,
            **watching,
        )
