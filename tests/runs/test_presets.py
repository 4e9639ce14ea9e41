"""Every preset is a complete configuration, with the paper's sets of hyperparameters."""

from __future__ import annotations

import dataclasses
import itertools
from importlib import resources
from importlib.resources.abc import Traversable

import pytest

from adaqn.agents.registry import algorithm
from adaqn.members.hyperparameters import Convolution, Hyperparameters
from adaqn.members.search.dehb import brackets
from adaqn.members.space import SearchSpace, named_spaces
from adaqn.runs.config import RunConfig, presets, read_config

CRITIC = Hyperparameters(hidden=(256, 256), activation="relu", optimizer="adam", loss="l2", learning_rate=1e-3)
NATURE = (Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1))
ATARI = Hyperparameters(
    convolutions=NATURE, hidden=(512,), optimizer_options=(("eps", 1.5e-4),), learning_rate=5e-5, loss="l2"
)


def config_of(name: str) -> RunConfig:
    return RunConfig.from_dict(read_config(name), name)


@pytest.mark.parametrize("name", presets())
def test_every_preset_loads_and_repeats_itself(name: str) -> None:
    config = config_of(name)
    # A search has no initial members: it samples one for each trial during the run.
    assert bool(config.members) is (algorithm(config.algo).base is None)
    assert RunConfig.from_dict(config.to_dict()) == config
    # The preset's settings are in the configuration unchanged, and none is missing.
    values = read_config(name)
    settings = config.to_dict()["settings"]
    assert {key: settings[key] for key in values["settings"]} == values["settings"]
    assert (config.env, config.steps, config.algo) == (values["env"], values["steps"], values["algo"])


@pytest.mark.parametrize("name", ["mujoco", "mujoco-td3"])
def test_the_sixteen_sets_of_mujoco_are_the_product(name: str) -> None:
    config = config_of(name)
    expected = {
        CRITIC.replace(hidden=hidden, learning_rate=rate, optimizer=optimizer, activation=activation)
        for hidden, rate, optimizer, activation in itertools.product(
            [(256, 256), (512, 512)], [5e-4, 1e-3], ["adam", "rmsprop"], ["relu", "sigmoid"]
        )
    }
    assert len(expected) == len(config.members) == 16
    assert set(config.members) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mujoco-learning-rates", [CRITIC.replace(learning_rate=rate) for rate in (1e-4, 5e-4, 1e-3)]),
        ("mujoco-optimizers", [CRITIC.replace(optimizer=name) for name in ("adam", "adamw", "rmsprop")]),
        ("mujoco-architectures", [CRITIC.replace(hidden=(256,) * layers) for layers in (1, 2, 3, 4)]),
        ("mujoco-activations", [CRITIC.replace(activation=name) for name in ("relu", "sigmoid", "tanh")]),
        ("atari-activations", [ATARI.replace(activation=name) for name in ("relu", "tanh", "sigmoid")]),
        ("atari-discounts", [ATARI.replace(discount=d) for d in (0.9863, 0.9875, 0.9891, 0.991, 0.9946)]),
        (
            "lunar-lander-discounts",
            [
                Hyperparameters(hidden=(100, 100), learning_rate=3e-4, discount=d)
                for d in (0.9863, 0.9875, 0.9891, 0.991, 0.9946)
            ],
        ),
        ("atari-adam-epsilons", [ATARI.replace(optimizer_options=(("eps", e),)) for e in (1.5e-8, 1.5e-6, 1.5e-4)]),
        (
            "atari-architectures",
            [
                ATARI.replace(
                    hidden=(hidden,),
                    convolutions=tuple(
                        Convolution(n, layer.kernel, layer.stride) for n, layer in zip(channels, NATURE, strict=True)
                    ),
                )
                for channels, hidden in (((32, 64, 64), 512), ((44, 52, 64), 512), ((46, 46, 46), 714))
            ],
        ),
        (
            "lunar-lander",
            [Hyperparameters(hidden=(n, n), learning_rate=3e-4, loss="l2") for n in (25, 50, 100, 200)],
        ),
    ],
)
def test_sets_that_differ_in_one_thing(name: str, expected: list[Hyperparameters]) -> None:
    assert list(config_of(name).members) == expected


@pytest.mark.parametrize("name", [name for name in presets() if name.startswith("atari")])
def test_what_all_of_atari_shares(name: str) -> None:
    s = config_of(name).settings
    assert (s.gamma, s.learning_starts, s.buffer_size, s.batch_size) == (0.99, 20_000, 1_000_000, 32)
    assert (s.train_freq, s.n_steps, s.target_update_interval) == (4, 1, 8_000)


# Members of SEARL are greedy.
@pytest.mark.parametrize("name", [n for n in presets() if n.startswith("atari") and n != "atari-searl"])
def test_what_all_of_atari_shares_where_members_explore(name: str) -> None:
    s = config_of(name).settings
    assert (s.exploration_initial_eps, s.exploration_final_eps, s.exploration_steps) == (1.0, 0.01, 250_000)


def test_what_lunar_lander_has() -> None:
    for name in ("lunar-lander", "lunar-lander-discounts", "lunar-lander-infinite"):
        s = config_of(name).settings
        assert (s.gamma, s.learning_starts, s.buffer_size, s.batch_size) == (0.99, 1_000, 10_000, 32)
        assert (s.target_update_interval, s.train_freq, s.gradient_steps, s.n_steps) == (200, 1, 1, 1)
        assert (s.exploration_initial_eps, s.exploration_final_eps, s.exploration_steps) == (1.0, 0.01, 1_000)


@pytest.mark.parametrize(
    "name", ["lunar-lander", "atari-activations", "atari-architectures", "atari-adam-epsilons", "mujoco", "mujoco-td3"]
)
def test_where_members_stay_the_behaviour_member_is_drawn_until_the_end(name: str) -> None:
    s = config_of(name).settings
    assert (s.behaviour_initial_eps, s.behaviour_final_eps, s.behaviour_steps) == (1.0, 0.01, None)


def comment_of(file: Traversable) -> str:
    """The lines at the top that begin with #."""
    lines = file.read_text().splitlines(keepends=True)
    return "".join(itertools.takewhile(lambda line: line.startswith("#"), lines))


@pytest.mark.parametrize("name", [*presets(), *(f"spaces/{name}" for name in named_spaces())])
def test_every_preset_says_what_is_the_papers_the_authors_codes_and_ours(name: str) -> None:
    comment = comment_of(resources.files("adaqn") / "presets" / f"{name}.yaml")
    sources = [line.split(":")[0] for line in comment.splitlines() if line.startswith(("# Paper:", "# A", "# Ours:"))]
    assert sources[-3:] == ["# Paper", "# Authors' code", "# Ours"]


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("mujoco-architectures", "three and four layers"),
        ("mujoco-optimizers", "Adam as the third"),
        ("mujoco-learning-rates", "1e-4 and 5e-4"),
        ("mujoco", "steps (the text does not give the length)"),
        ("mujoco-td3", "AdaTD3 itself, which is not in the paper; TD3's delay and noise"),
    ],
)
def test_what_was_inferred_is_not_called_the_papers(name: str, ours: str) -> None:
    paper, _, rest = comment_of(resources.files("adaqn") / "presets" / f"{name}.yaml").partition("# Ours:")
    assert ours in " ".join(rest.replace("#", "").split()) and ours not in paper


@pytest.mark.parametrize("name", [name for name in presets() if name.startswith("mujoco")])
def test_what_all_of_mujoco_shares(name: str) -> None:
    s = config_of(name).settings
    assert (s.gamma, s.learning_starts, s.buffer_size, s.batch_size) == (0.99, 5_000, 1_000_000, 256)
    assert (s.tau, s.gradient_steps, s.train_freq) == (0.005, 1, 1)
    assert s.policy_delay == (2 if name == "mujoco-td3" else 1)
    assert name == "mujoco-modern" or s.actor == CRITIC
    assert (s.behaviour_initial_eps, s.behaviour_final_eps, s.behaviour_steps) == (1.0, 0.01, None)


def test_td3_on_mujoco_has_the_noise_of_its_authors() -> None:
    config = config_of("mujoco-td3")
    s = config.settings
    assert (config.algo, config.steps) == ("adatd3", config_of("mujoco").steps)
    assert (s.action_noise, s.target_policy_noise, s.target_noise_clip) == (0.1, 0.2, 0.5)


@pytest.mark.parametrize(
    ("name", "space", "interval", "frequency"),
    [("atari-infinite", "images", 80_000, 8_000), ("lunar-lander-infinite", "vectors", 10_000, 200)],
)
def test_the_infinite_ones_draw_five_members_from_their_space(
    name: str, space: str, interval: int, frequency: int
) -> None:
    config = config_of(name)
    assert config.space is not None and config.space == SearchSpace.named(space)
    assert len(config.members) == config.settings.population == 5
    assert all(config.space.contains(member) for member in config.members)
    assert (config.settings.generation_interval, config.settings.target_update_interval) == (interval, frequency)
    assert config.settings.exploit == "tournament"
    another = RunConfig.from_dict(read_config(name) | {"seed": 1})
    assert another.members != config.members


def test_searl_on_atari_has_generations_as_ada_has() -> None:
    config, ada = config_of("atari-searl"), config_of("atari-infinite")
    assert (config.algo, config.steps) == ("searl", 10_000_000)
    assert config.space == SearchSpace.named("images")
    assert config.members == ada.members and len(config.members) == 5
    for name in ("population", "generation_interval", "target_update_interval", "exploit"):
        assert getattr(config.settings, name) == getattr(ada.settings, name), name


@pytest.mark.parametrize("name", ["atari-random-search", "atari-dehb"])
def test_a_search_on_atari_has_180_million_frames_in_the_space_for_images(name: str) -> None:
    config = config_of(name)
    assert config.algo == name.removeprefix("atari-")
    assert config.steps * 4 == 180_000_000
    assert config.space == SearchSpace.named("images")
    assert (config.settings.epoch_steps, config.settings.keep_replay) == (250_000, True)


def test_random_search_on_atari_has_six_trials_of_30_million_frames() -> None:
    config = config_of("atari-random-search")
    assert config.settings.trial_steps * 4 == 30_000_000
    assert config.steps == 6 * config.settings.trial_steps


def test_dehb_on_atari_has_trials_of_20_to_40_million_frames() -> None:
    settings = config_of("atari-dehb").settings
    assert (settings.min_trial_steps * 4, settings.max_trial_steps * 4) == (20_000_000, 40_000_000)
    # One whole round fits into the 180 million frames, and the next begins.
    first, second = brackets(settings.min_trial_steps, settings.max_trial_steps, settings.eta)
    assert (first, second) == (((2, 5_000_000), (1, 10_000_000)), ((2, 10_000_000),))
    assert sum(rung.configurations * rung.fidelity for rung in (*first, *second)) == 40_000_000

    def told(eta: int) -> str:
        searcher = dataclasses.replace(settings, eta=eta).searcher(SearchSpace.named("images").dimensions)
        return " ".join(searcher.describe())

    # As the preset says of itself.
    assert "A single rung" in told(3) and "every trial takes 10,000,000 steps" in told(3)
    assert "bracket 0: 2 x 5,000,000, 1 x 10,000,000 steps" in told(settings.eta)


def test_the_spaces_are_the_papers() -> None:
    assert named_spaces() == ["images", "modern", "vectors"]
    images, vectors = SearchSpace.named("images"), SearchSpace.named("vectors")
    for space in (images, vectors):
        assert (len(space.activation), len(space.optimizer), len(space.loss)) == (18, 24, 4)
    assert images.learning_rate == (1e-6, 1e-3) and vectors.learning_rate == (1e-5, 1e-2)
    assert (images.hidden.layers, images.hidden.neurons) == ((0, 2), (25, 512))
    assert (vectors.hidden.layers, vectors.hidden.neurons) == ((1, 3), (25, 200))
    of = images.convolutions
    assert of is not None and vectors.convolutions is None
    assert (of.layers, of.channels, of.kernel, of.stride) == ((1, 3), (16, 64), (2, 8), (2, 5))


def test_the_modern_critics_of_mujoco() -> None:
    config = config_of("mujoco-modern")
    kinds = [(member.block, member.normalization, member.weight_decay) for member in config.members]
    assert kinds == [
        ("plain", "none", None), ("plain", "layer", None), ("residual", "none", 0.01), ("plain", "layer", None)
    ]  # fmt: skip
    assert config.members[3].max_grad_norm == 10.0
    assert config.settings.normalize_observations
    assert (config.settings.actor.block, config.settings.actor.hidden) == ("residual", (128,))
    others = [name for name in presets() if name != "mujoco-modern"]
    assert not any(config_of(name).settings.normalize_observations for name in others)
