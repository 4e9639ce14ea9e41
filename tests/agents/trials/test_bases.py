"""Searches with bases other than DQN: they have the settings of the base, and a trial is a run of it."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import yaml

from adaqn.agents.population import Population
from adaqn.agents.protocol import Clock, Operation, TrialEnd, TrialStart
from adaqn.agents.registry import algorithm, base_names
from adaqn.agents.settings import PlainDQNSettings, PlainSACSettings, PlainTD3Settings, SACSettings, TD3Settings
from adaqn.agents.trials.settings import settings_of_one_trial
from adaqn.base.errors import UserError
from adaqn.envs.environments import Environments
from adaqn.replay.making import make_replay
from adaqn.runs.config import RunConfig
from adaqn.runs.session import Output, RunSession
from adaqn.training.observers import Observer
from adaqn.training.trainer import Trainer
from tests.agents.trials.cases import TINY, Diary, agent_for, agent_of, state_of, trainer_for

SEARCHES = ("random-search", "dehb")
EPISODE = 200  # steps of an episode of Pendulum
SMALL: dict[str, Any] = {
    "learning_starts": 150, "train_freq": 5, "batch_size": 4, "buffer_size": 300, "actor_hidden": "4",
    "selection_interval": 50, "epoch_steps": EPISODE,
}  # fmt: skip
TRIALS: dict[str, dict[str, Any]] = {
    "random-search": {"trial_steps": EPISODE},
    "dehb": {"min_trial_steps": EPISODE, "max_trial_steps": 2 * EPISODE, "eta": 2},
}


# Settings.


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(
    ("base", "of_trial"), [("sac", PlainSACSettings), ("td3", PlainTD3Settings), ("dqn", PlainDQNSettings)]
)
def test_the_settings_are_the_search_s_and_the_base_s_with_their_own_defaults(
    search: str, base: str, of_trial: type[Any]
) -> None:
    found = algorithm(search, base)
    assert found.base == base
    defaults = {item.name: item.default for item in dataclasses.fields(found.settings)}
    for item in dataclasses.fields(of_trial):
        assert defaults.pop(item.name) == item.default, item.name
    own = {"random-search": {"trial_steps"}, "dehb": {"min_trial_steps", "max_trial_steps", "eta"}}[search]
    assert set(defaults) == own | {"epoch_steps", "keep_replay"}


@pytest.mark.parametrize("search", SEARCHES)
def test_a_search_over_sac_has_sac_s_defaults_and_checks(search: str) -> None:
    settings = algorithm(search, "sac").configure({})
    assert (settings.batch_size, settings.buffer_size, settings.tau) == (256, 1_000_000, 0.005)
    assert algorithm(search).configure({}).batch_size == 64
    with pytest.raises(UserError, match=r"^unknown setting 'exploration_steps'"):
        algorithm(search, "sac").configure({"exploration_steps": 5})
    with pytest.raises(UserError, match=r"^unknown setting 'tau'"):
        algorithm(search).configure({"tau": 0.1})
    with pytest.raises(UserError, match=r"^tau must be a finite number between 0 and 1, but got 2$"):
        algorithm(search, "sac").configure({"tau": 2})
    with pytest.raises(UserError, match="would never learn, because learning_starts is 90000"):
        algorithm(search, "sac").configure({"learning_starts": 90_000})


def test_a_trial_has_the_settings_of_a_sac() -> None:
    sac = algorithm("sac")
    settings = algorithm("random-search", "sac").configure(SMALL | {"gamma": 0.9, "trial_steps": 777})
    assert settings_of_one_trial(settings, sac) == SACSettings(
        gamma=0.9, learning_starts=150, train_freq=5, batch_size=4, buffer_size=300, actor_hidden="4",
        selection_interval=50,
    )  # fmt: skip


def test_a_trial_over_td3_is_a_td3_whose_actor_follows_its_first_critic() -> None:
    settings = algorithm("dehb", "td3").configure(SMALL | {"action_noise": 0.3, "policy_delay": 3})
    expected = TD3Settings(
        learning_starts=150, train_freq=5, batch_size=4, buffer_size=300, actor_hidden="4", selection_interval=50,
        action_noise=0.3, policy_delay=3, behaviour="first",
    )  # fmt: skip
    assert settings_of_one_trial(settings, algorithm("td3")) == expected


def test_what_can_be_a_base_and_what_cannot() -> None:
    assert {"dqn", "sac", "td3"} <= set(base_names())
    assert not {"adadqn", "adasac", "randsac", "searl", "random-search", "dehb"} & set(base_names())
    for search in SEARCHES:
        assert algorithm(search).base == "dqn" and algorithm(search, "dqn") is algorithm(search)
        assert algorithm(search, "sac") is algorithm(search, "sac")  # one class of settings, however often asked
        with pytest.raises(UserError, match=r"^unknown base 'adasac'; did you mean .* \(allowed: dqn, sac"):
            algorithm(search, "adasac")
    with pytest.raises(UserError, match=r"^adadqn runs no trials, so it has no base, but got base='sac'$"):
        algorithm("adadqn", "sac")


def test_the_memory_is_that_of_the_largest_pair_of_critics_twice() -> None:
    agent = agent_for("random-search", SMALL | TRIALS["random-search"], env=pendulum(), base="sac")
    sac = algorithm("sac")
    pair = (TINY.largest(),) * 2
    settings = settings_of_one_trial(agent.settings, sac)
    population = sac.population(Population(pair), settings, 0, lambda: (3,))
    alone = sac.make(settings, population, *agent._spaces)
    assert agent.parameter_bytes == 2 * alone.parameter_bytes > 0


def pendulum() -> Environments:
    return Environments.make("Pendulum-v1", 1, {})


# Runs.


def recorded_run(
    search: str, steps: int, path: Path, observers: list[Observer]
) -> tuple[Trainer, list[dict[str, Any]]]:
    """A run of the real loop with its directory, from a configuration that names the base."""
    config = RunConfig.from_dict({
        "algo": search, "base": "sac", "env": "Pendulum-v1", "steps": steps, "seed": 3, "space": TINY.to_dict(),
        "settings": SMALL | TRIALS[search], "log_interval": 100, "checkpoint_interval": 10_000,
    })  # fmt: skip
    environments = pendulum()
    spaces_of = environments.observation_space, environments.action_space
    population = config.algorithm.population(Population(space=TINY), config.settings, 3, lambda: (3,))
    agent = config.algorithm.make(config.settings, population, *spaces_of)
    replay, traits = make_replay(300, 1, *spaces_of, 1), config.algorithm.traits
    trainer = Trainer(agent, environments, replay, config.settings.batch_size, config.seed, traits)
    session = RunSession.create(path, config, trainer, Output())
    session.run(observers, model=None)  # type: ignore[arg-type]
    environments.close()
    return trainer, [json.loads(line) for line in (path / "trials.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(("search", "fidelities"), [
    ("random-search", [EPISODE] * 3), ("dehb", [EPISODE, EPISODE, 2 * EPISODE]),
])  # fmt: skip
def test_a_run_over_sac_tells_its_trials(search: str, fidelities: list[int], tmp_path: Path) -> None:
    diary = Diary(lambda trainer: trainer.report().metrics)
    steps = sum(fidelities) + 20
    trainer, trials = recorded_run(search, steps, tmp_path / "run", [diary])
    assert [trial["fidelity"] for trial in trials] == fidelities
    ends = list(itertools.accumulate(fidelities))
    assert [(trial["first_step"], trial["last_step"]) for trial in trials] == list(zip([0, *ends], ends, strict=False))
    # The fitness of a trial is the mean return of its last epoch, which is as long as one episode of Pendulum.
    episodes = np.loadtxt(tmp_path / "run" / "episodes.csv", delimiter=",", skiprows=1, ndmin=2)
    returns = dict(episodes[:, :2].tolist())
    assert [trial["fitness"] for trial in trials] == [pytest.approx(returns[trial["last_step"]]) for trial in trials]
    # Updates are at every fifth step of a trial after its 150th.
    assert trainer.updates == sum((fidelity - 150) // 5 for fidelity in fidelities)
    assert diary.looks[EPISODE]["train/ent_coef"] != 1.0
    assert diary.looks[EPISODE + 10]["train/ent_coef"] == 1.0  # reset at the start of a trial
    # Two equal critics each, which differ from trial to trial in the learning rate.
    members = [json.loads(line)["members"] for line in (tmp_path / "run" / "members.jsonl").read_text().splitlines()]
    assert [len(pair) for pair in members] == [2] * (len(trials) + 1)
    assert all(first["learning_rate"] == second["learning_rate"] for first, second in members)
    rates = [trial["hyperparameters"]["learning_rate"] for trial in trials]
    assert [pair[0]["learning_rate"] for pair in members[: len(trials)]] == rates
    assert len(set(rates)) == (3 if search == "random-search" else 2)  # DEHB promotes the better of its two
    # selection.csv has the shares of both, as for SAC.
    header = (tmp_path / "run" / "selection.csv").read_text().splitlines()[0].split(",")
    assert "selected_0" in header and "selected_1" in header
    saved = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert (saved["base"], saved["settings"]["tau"]) == ("sac", 0.005)
    assert RunConfig.from_dict(saved).algorithm is algorithm(search, "sac")


def test_the_policy_is_the_actor_of_the_best_trial() -> None:
    trainer = trainer_for("random-search", SMALL | TRIALS["random-search"], "Pendulum-v1", base="sac")
    diary = Diary(lambda trainer: np.array(state_of(trainer).run.learning.actor.parameters))
    trainer.run(2 * EPISODE + 10, [diary])
    first, second = diary.ends
    assert first.fitness is not None and second.fitness is not None
    best = agent_of(trainer).best_trial(state_of(trainer))
    assert best is not None and best.number == int(second.fitness > first.fitness)
    weights = agent_of(trainer).policy_weights(state_of(trainer))
    assert weights.kind == "tanh-gaussian"
    held = state_of(trainer).best
    assert held is not None
    assert np.array_equal(weights.parameters, held.run.learning.actor.parameters)
    # Its last update is in its last step, after which it was looked at.
    ended = diary.looks[best.last_step]
    assert 0.0 < np.abs(weights.parameters - ended).max() < 0.01
    x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    actions = agent_of(trainer).policy(state_of(trainer), x, None, trainer.clock)
    outputs = np.asarray(
        weights.network.apply(weights.network.unravel(jnp.asarray(weights.parameters)), jnp.asarray(x))
    )
    np.testing.assert_allclose(actions, np.tanh(outputs[:, :1]), rtol=1e-5)


class Breaks(Diary):
    """Makes the current trial's actor diverge at a step."""

    def __init__(self, step: int) -> None:
        super().__init__(lambda trainer: self.destroy(trainer) if trainer.clock.step == step else None)

    def destroy(self, trainer: Trainer) -> None:
        state = state_of(trainer)
        learning = state.run.learning
        actor = learning.actor._replace(parameters=jnp.full_like(learning.actor.parameters, math.nan))
        trainer.state = state._replace(run=state.run._replace(learning=learning._replace(actor=actor)))


def test_a_trial_whose_actor_diverges_has_failed_and_the_next_begins(tmp_path: Path) -> None:
    breaks = Breaks(160)
    trainer, trials = recorded_run("random-search", 161 + EPISODE + 20, tmp_path / "run", [breaks])
    # In the step after the divergence a random action is taken, and then the next trial begins.
    assert [(trial["first_step"], trial["last_step"]) for trial in trials] == [(0, 161), (161, 161 + EPISODE)]
    assert trials[0]["fitness"] is None and math.isfinite(trials[1]["fitness"])
    assert [start.step for start in breaks.starts] == [161, 161 + EPISODE]
    assert trials[0]["hyperparameters"] != trials[1]["hyperparameters"]
    best = agent_of(trainer).best_trial(state_of(trainer))
    assert best is not None and best.number == 1
    assert np.isfinite(state_of(trainer).run.learning.actor.parameters).all()


def test_where_every_actor_diverges_the_search_goes_on() -> None:
    settings = SMALL | TRIALS["random-search"] | {"actor_learning_rate": 1e30, "selection_interval": 10}
    trainer = trainer_for("random-search", settings, "Pendulum-v1", base="sac")
    diary = Diary(lambda trainer: state_of(trainer).failed)
    trainer.run(2 * EPISODE + 10, [diary])
    assert len(diary.ends) >= 2 and all(end.fitness is None for end in diary.ends)
    # It shows soon after learning has started, and not at the end of the trial.
    assert all(150 < end.last_step - end.first_step < EPISODE for end in diary.ends)
    assert trainer.report().lines == ("No trial has finished with a result yet.",)


def test_wherever_a_failing_actor_shows_the_trial_gives_actions_within_the_box() -> None:
    trainer = trainer_for("random-search", SMALL | TRIALS["random-search"], "Pendulum-v1", base="sac")
    trainer.run(160)
    breaks, agent = Breaks(0), agent_of(trainer)
    breaks.destroy(trainer)
    state, clock, rng = state_of(trainer), Clock(160, 159, 1_000), np.random.default_rng(0)
    after, actions = agent.act(state, np.zeros((500, 3), np.float32), clock, rng)
    assert after.failed and actions.shape == (500, 1)
    assert actions.min() < -0.9 and actions.max() > 0.9 and np.abs(actions).max() <= 1.0
    batch = trainer.replay.sample(rng, 4)
    assert agent.update(after, Operation.ACTOR_UPDATE, batch, clock, rng) == (after, None)
    assert agent.perform(after, Operation.TARGET_UPDATE, clock, rng) == (after, ())
    assert agent.plan(after, clock, np.zeros(1, bool)) == (Operation.NEW_TRIAL,)
    following, (end, start, _) = agent.perform(after, Operation.NEW_TRIAL, clock, rng)
    assert isinstance(end, TrialEnd) and end.fitness is None
    assert isinstance(start, TrialStart) and (start.number, start.step) == (1, 160)
    assert not following.failed


def test_a_search_over_sac_goes_on_to_the_bit() -> None:
    def fresh() -> Trainer:
        return trainer_for("random-search", SMALL | TRIALS["random-search"], "Pendulum-v1", base="sac")

    def everything(trainer: Trainer) -> dict[str, Any]:
        snapshot = trainer.snapshot()
        arrays = {name: array.tobytes() for name, array in snapshot.arrays.items()}
        return arrays | {"rest": json.dumps(snapshot.meta)}

    whole, diary = fresh(), Diary()
    whole.run(2 * EPISODE + 10, [diary])
    first, before = fresh(), Diary(lambda trainer: trainer.clock.step == 215 and trainer.interrupt("test"))
    first.run(2 * EPISODE + 10, [before])
    second, rest = fresh(), Diary()
    second.replay.restore(first.replay.oldest, first.replay.rows(first.replay.oldest, first.replay.added))
    second.restore(first.snapshot())
    second.run(2 * EPISODE + 10, [rest])
    assert before.events + rest.events == diary.events and len(before.ends) == 1
    assert everything(second) == everything(whole)
