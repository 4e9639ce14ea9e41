"""An exported policy computes in NumPy what its agent's `predict` computes in JAX."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from adaqn import AdaDQN, AdaSAC, Hyperparameters, exported_policy, grid
from adaqn.agents.protocol import PolicyWeights
from adaqn.api import Model
from adaqn.cli import main
from adaqn.envs.spaces import environment_actions
from adaqn.exported_policy import ExportedPolicy
from adaqn.members.hyperparameters import ACTIVATIONS, Convolution, PaddingName
from adaqn.networks import convolution
from adaqn.networks.network import ACTIVATION_FUNCTIONS, Network
from adaqn.runs.export import write_policy

ATARI_LIKE = (Convolution(4, 8, 4), Convolution(6, 4, 2), Convolution(5, 3, 1))


@pytest.fixture(scope="module")
def dqn() -> AdaDQN:
    settings: dict[str, Any] = {"learning_starts": 50, "target_update_interval": 50, "exploration_steps": 100}
    members = grid(hidden=[(8,), (12, 8)], activation=["tanh"], learning_rate=[3e-4, 1e-2])  # two groups of two
    # Stops between target updates, because the online network equals its snapshot right after one.
    return AdaDQN("CartPole-v1", members, seed=3, **settings).learn(445)


@pytest.fixture(scope="module")
def sac() -> AdaSAC:
    settings: dict[str, Any] = {"learning_starts": 50, "batch_size": 16, "actor_hidden": "16x8"}
    return AdaSAC("Pendulum-v1", grid(hidden=[(8,), (12,)]), seed=3, actor_activation="silu", **settings).learn(120)


def exported(
    path: Path,
    member: Hyperparameters,
    observations: spaces.Box,
    parameters: np.ndarray | None = None,
    scale: float = 1.0,
    outputs: int = 3,
    actions: spaces.Space[Any] | None = None,
) -> tuple[ExportedPolicy, Network, np.ndarray]:
    """A network with given or random parameters, and the policy loaded from its exported file."""
    network = Network(member.architecture, observations.shape, outputs, scale)
    if parameters is None:
        # Biases too, which are initialized with zero.
        rng = np.random.default_rng(0)
        parameters = network.init(rng) + 0.1 * rng.standard_normal(network.size, np.float32)
    actions = spaces.Discrete(outputs) if actions is None else actions
    kind = "greedy" if isinstance(actions, spaces.Discrete) else "tanh-gaussian"
    weights = PolicyWeights(kind, network, np.asarray(parameters, np.float32), member)
    write_policy(path, weights, observations, actions, env="Any-v0", algo="dqn")
    return ExportedPolicy.load(path), network, weights.parameters


def applied(network: Network, parameters: np.ndarray, observations: np.ndarray) -> np.ndarray:
    return np.asarray(network.apply(network.unravel(jnp.asarray(parameters)), jnp.asarray(observations)))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_that_of_the_trainer_and_never_overflows(name: str) -> None:
    far = [-1e15, -1e3, -100.0, -10.0, 10.0, 100.0, 1e3, 1e15]
    x = np.stack([np.linspace(-6.0, 6.0, 8), far, np.zeros(8), np.linspace(1.0, 1.1, 8)]).astype(np.float32)
    values = exported_policy.ACTIVATIONS[name](x)
    assert values.dtype == np.float32
    # In the last row, the variance that `standardize` divides by is the difference of two nearly equal numbers.
    tolerance = 1e-3 if name == "standardize" else 2e-6
    np.testing.assert_allclose(values, ACTIVATION_FUNCTIONS[name](jnp.asarray(x)), rtol=tolerance, atol=1e-6)


def test_all_activations_are_there() -> None:
    assert tuple(exported_policy.ACTIVATIONS) == ACTIVATIONS


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("hidden", [(), (9, 6)])
def test_outputs_are_those_of_the_network(name: str, hidden: tuple[int, ...], tmp_path: Path) -> None:
    space = spaces.Box(-np.inf, np.inf, (2, 3))
    member = Hyperparameters(hidden=hidden, activation=name)
    policy, network, parameters = exported(tmp_path / "policy.npz", member, space)
    observations = np.random.default_rng(1).standard_normal((20, 2, 3), np.float32)
    outputs = applied(network, parameters, observations)
    np.testing.assert_allclose(policy.outputs(observations), outputs, rtol=2e-5, atol=2e-6)
    np.testing.assert_array_equal(policy(observations), outputs.argmax(axis=1))


@pytest.mark.parametrize("changes", [{"normalization": "layer"}, {"block": "residual"}], ids=["layer", "residual"])
@pytest.mark.parametrize("convolutions", [(), ATARI_LIKE], ids=["vector", "image"])
def test_outputs_are_those_of_a_network_with_norms_and_residual_blocks(
    changes: dict[str, str], convolutions: tuple[Convolution, ...], tmp_path: Path
) -> None:
    space = spaces.Box(-np.inf, np.inf, (37, 42, 2) if convolutions else (5,))
    member = Hyperparameters(hidden=(6, 6), convolutions=convolutions, activation="silu").replace(**changes)
    policy, network, parameters = exported(tmp_path / "policy.npz", member, space)
    assert policy.meta["version"] == 2
    observations = np.random.default_rng(1).standard_normal((20, *space.shape), np.float32)
    outputs = applied(network, parameters, observations)
    np.testing.assert_allclose(policy.outputs(observations), outputs, rtol=2e-5, atol=5e-6)
    assert policy.outputs(observations).dtype == np.float32


@pytest.mark.parametrize("changes", [{}, {"block": "residual"}], ids=["plain", "residual"])
@pytest.mark.parametrize("convolutions", [(), ATARI_LIKE], ids=["vector", "image"])
def test_outputs_are_the_expectations_of_a_categorical_head(
    changes: dict[str, str], convolutions: tuple[Convolution, ...], tmp_path: Path
) -> None:
    space = spaces.Box(-np.inf, np.inf, (37, 42, 2) if convolutions else (5,))
    member = Hyperparameters(hidden=(6,), convolutions=convolutions, activation="silu").replace(**changes)
    member = member.replace(head="categorical", bins=11, value_range=(-3, 8))
    policy, network, parameters = exported(tmp_path / "policy.npz", member, space)
    assert policy.meta["version"] == 3
    observations = np.random.default_rng(1).standard_normal((20, *space.shape), np.float32)
    outputs = applied(network, parameters, observations)
    assert outputs.shape == policy.outputs(observations).shape
    assert np.ptp(outputs, axis=0).min() > 0.1, "the observations must matter"
    np.testing.assert_allclose(policy.outputs(observations), outputs, rtol=2e-5, atol=5e-6)
    assert policy.outputs(observations).dtype == np.float32
    np.testing.assert_array_equal(policy(observations), outputs.argmax(axis=1))


@pytest.mark.parametrize("wrong", [{"bins": 7}, {"bins": 0}, {"bins": 10**15}, {"low": 9.0}, {"high": math.inf}])
def test_damaged_bins_are_told(wrong: dict[str, float], tmp_path: Path) -> None:
    member = Hyperparameters(hidden=(6,), head="categorical", bins=11, value_range=(-3, 8))
    path = tmp_path / "policy.npz"
    policy, _, _ = exported(path, member, spaces.Box(-1.0, 1.0, (5,)))
    *layers, last = policy.meta["layers"]
    changed(path, layers=[*layers, last | wrong])
    with pytest.raises(ValueError, match="is an exported policy, but a damaged one"):
        ExportedPolicy.load(path)


def test_a_plain_network_is_written_for_earlier_readers_too(tmp_path: Path) -> None:
    policy, _, _ = exported(tmp_path / "policy.npz", Hyperparameters(hidden=(6,)), spaces.Box(-1.0, 1.0, (5,)))
    assert policy.meta["version"] == 1
    assert "layers" not in policy.meta


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("activation", ["relu", "softmax"])
def test_outputs_are_those_of_a_network_with_convolutions(
    padding: PaddingName, activation: str, tmp_path: Path
) -> None:
    space = spaces.Box(0, 255, (37, 42, 2), np.uint8)
    member = Hyperparameters(convolutions=ATARI_LIKE, hidden=(7,), padding=padding, activation=activation)
    policy, network, parameters = exported(tmp_path / "policy.npz", member, space, scale=1 / 255)
    images = np.random.default_rng(1).integers(256, size=(5, 37, 42, 2), dtype=np.uint8)
    outputs = applied(network, parameters, images)
    assert np.ptp(outputs, axis=0).min() > 1e-4, "the images must matter"
    np.testing.assert_allclose(policy.outputs(images), outputs, rtol=2e-5, atol=2e-6)
    assert policy(images[3]) == policy(images)[3] == outputs[3].argmax()


@settings(deadline=None, max_examples=30)
@given(
    height=st.integers(1, 9),
    width=st.integers(1, 9),
    kernel=st.integers(1, 5),
    stride=st.integers(1, 4),
    padding=st.sampled_from(["same", "valid"]),
)
def test_a_convolution_is_that_of_the_trainer(
    height: int, width: int, kernel: int, stride: int, padding: PaddingName
) -> None:
    if padding == "valid":
        height, width = max(height, kernel), max(width, kernel)
    rng = np.random.default_rng(0)
    # Whole numbers, so that both sums are exact.
    images = rng.integers(-9, 9, (2, height, width, 3)).astype(np.float32)
    weights = rng.integers(-9, 9, (kernel, kernel, 3, 2)).astype(np.float32)
    expected = convolution.convolve(jnp.asarray(images), jnp.asarray(weights), stride, padding)
    np.testing.assert_array_equal(exported_policy.convolve(images, weights, stride, padding == "same"), expected)


def test_the_best_action_is_counted_from_the_first_of_the_space(tmp_path: Path) -> None:
    kernel, bias = [[1.0, 0.0, -1.0]], [0.0, 0.5, 0.0]  # values x, 0.5 and -x
    space, actions = spaces.Box(-9.0, 9.0, (1,)), spaces.Discrete(3, start=5)
    member = Hyperparameters(hidden=())
    policy, _, _ = exported(tmp_path / "policy.npz", member, space, np.ravel([*kernel, bias]), actions=actions)
    assert policy([[2.0], [0.25], [-2.0]]).tolist() == [5, 6, 7]
    assert policy([-2.0]) == 7 and np.ndim(policy([-2.0])) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_means_are_squashed_and_rescaled_to_the_box(dtype: Any, tmp_path: Path) -> None:
    # Means x and 100 x; the log deviations 7 and -3 have no effect.
    parameters = np.array([1.0, 100.0, 0.0, 0.0, 0.0, 0.0, 7.0, -3.0])
    space = spaces.Box(-9.0, 9.0, (1,))
    actions = spaces.Box(np.array([-1.0, 0.1], dtype), np.array([3.0, 0.7], dtype), dtype=dtype)
    policy, _, _ = exported(
        tmp_path / "policy.npz", Hyperparameters(hidden=()), space, parameters, outputs=4, actions=actions
    )
    taken = policy(np.array([[0.5], [-2.0]], np.float32))
    assert taken.dtype == dtype
    expected = [[1 + 2 * math.tanh(0.5), 0.7], [1 + 2 * math.tanh(-2.0), 0.1]]
    np.testing.assert_allclose(taken, expected, rtol=1e-6)
    assert all(actions.contains(action) for action in taken)
    np.testing.assert_array_equal(policy([-2.0]), taken[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_actions_are_rescaled_as_the_trainer_does_it_to_the_last_bit(dtype: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    low, high = np.sort(rng.standard_normal((2, 40)), axis=0).astype(dtype)
    high[:10] = low[:10]  # if only one action is allowed, rounding must not change it
    low[10], high[10] = np.finfo(dtype).min, np.finfo(dtype).max
    box = spaces.Box(low, high, dtype=dtype)
    means = rng.standard_normal((40, 80)).astype(np.float32)
    policy, _, _ = exported(
        tmp_path / "policy.npz",
        Hyperparameters(hidden=()),
        spaces.Box(-9.0, 9.0, (40,)),
        np.concatenate([means.ravel(), np.zeros(80)]),
        outputs=80,
        actions=box,
    )
    observations = rng.standard_normal((50, 40), np.float32)
    expected = environment_actions(box, np.tanh(policy.outputs(observations)[:, :40]))
    np.testing.assert_array_equal(policy(observations), expected)
    assert all(box.contains(action) for action in policy(observations))


def test_a_greedy_policy_is_that_of_predict(dqn: AdaDQN, tmp_path: Path) -> None:
    policy = ExportedPolicy.load(dqn.export(tmp_path / "cartpole"))
    observations = 2.0 * np.random.default_rng(0).standard_normal((500, 4))  # float64, as some environments return
    actions, _ = dqn.predict(observations, deterministic=True)
    assert 0.1 < actions.mean() < 0.9, "both actions must occur"
    np.testing.assert_array_equal(policy(observations), actions)
    assert policy(observations).dtype == actions.dtype
    single, _ = dqn.predict(observations[7], deterministic=True)
    assert policy(observations[7]) == single and type(policy(observations[7])) is type(single)


def test_a_continuous_policy_is_that_of_predict(sac: AdaSAC, tmp_path: Path) -> None:
    policy = ExportedPolicy.load(sac.export(tmp_path / "pendulum.npz"))
    observations = np.random.default_rng(0).uniform([-1, -1, -8], [1, 1, 8], (500, 3)).astype(np.float32)
    actions, _ = sac.predict(observations, deterministic=True)
    assert np.ptp(actions) > 0.1, "the observation must matter"
    np.testing.assert_allclose(policy(observations), actions, rtol=0, atol=1e-5)
    single, _ = sac.predict(observations[7], deterministic=True)
    np.testing.assert_allclose(policy(observations[7]), single, rtol=0, atol=1e-5)
    assert policy(observations[7]).shape == single.shape == (1,)
    assert policy(observations).dtype == actions.dtype


@pytest.mark.parametrize("broken", [math.nan, math.inf, 1e38])
def test_of_a_diverged_target_member_the_last_sound_version_is_exported(broken: float, tmp_path: Path) -> None:
    model = AdaDQN("CartPole-v1", grid(hidden=[(8,), (12,)], learning_rate=[1e-3, 1e-2]), seed=3)
    observations = np.random.default_rng(0).standard_normal((50, 4), np.float32)
    before, _ = model.predict(observations, deterministic=True)
    state = model.trainer.state
    first, *others = state.learning.ensemble
    destroyed = first._replace(parameters=jnp.full_like(first.parameters, broken))
    model.trainer.state = state._replace(learning=state.learning._replace(ensemble=(destroyed, *others)))
    policy = ExportedPolicy.load(model.export(tmp_path / "policy"))
    np.testing.assert_array_equal(policy(observations), model.predict(observations, deterministic=True)[0])
    np.testing.assert_array_equal(policy(observations), before)
    assert 0 < before.sum() < 50, "both actions must occur"


@pytest.mark.parametrize("member", range(4))
def test_it_is_the_target_member_that_is_exported(member: int, dqn: AdaDQN, tmp_path: Path) -> None:
    trainer, state = dqn.trainer, dqn.trainer.state
    selected = state.learning.selected
    chosen = selected._replace(members=jnp.full_like(selected.members, member))
    trainer.state = state._replace(learning=state.learning._replace(selected=chosen))
    try:
        policy = ExportedPolicy.load(dqn.export(tmp_path / "policy"))
        observations = 2.0 * np.random.default_rng(0).standard_normal((500, 4))
        np.testing.assert_array_equal(policy(observations), dqn.predict(observations, deterministic=True)[0])
        assert policy.meta["hyperparameters"] == dqn.members[member].hyperparameters.to_dict()
    finally:
        trainer.state = state


def test_the_file_says_where_the_policy_comes_from(dqn: AdaDQN, sac: AdaSAC, tmp_path: Path) -> None:
    greedy = ExportedPolicy.load(dqn.export(tmp_path / "greedy.npz")).meta
    assert (greedy["environment"], greedy["algorithm"], greedy["kind"]) == ("CartPole-v1", "adadqn", "greedy")
    continuous = ExportedPolicy.load(sac.export(tmp_path / "deep" / "continuous.npz")).meta
    assert (continuous["environment"], continuous["algorithm"]) == ("Pendulum-v1", "adasac")
    assert continuous["hyperparameters"]["hidden"] == [16, 8]
    assert continuous["action"] == {"low": [-2.0], "high": [2.0], "dtype": "float32"}


def test_the_same_policy_gives_the_same_bytes(dqn: AdaDQN, tmp_path: Path) -> None:
    assert dqn.export(tmp_path / "one").read_bytes() == dqn.export(tmp_path / "two").read_bytes()


def test_the_reader_and_numpy_are_all_that_is_needed(sac: AdaSAC, tmp_path: Path) -> None:
    sac.export(tmp_path / "policy.npz")
    shutil.copy(str(exported_policy.__file__), tmp_path / "copied.py")
    program = (
        "import sys, json, copied\n"
        "actions = copied.ExportedPolicy.load('policy.npz')([[0.6, -0.8, 2.0], [1.0, 0.0, 0.5]])\n"
        "print(json.dumps([actions.tolist(), sorted({name.partition('.')[0] for name in sys.modules})]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    actions, modules = json.loads(done.stdout)
    expected, _ = sac.predict(np.array([[0.6, -0.8, 2.0], [1.0, 0.0, 0.5]]), deterministic=True)
    np.testing.assert_allclose(actions, expected, rtol=0, atol=1e-5)
    assert "numpy" in modules and not {"adaqn", "jax", "optax", "gymnasium"} & set(modules)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (4, 1), (2, 1, 4)])
def test_observations_of_another_shape_are_told(shape: tuple[int, ...], dqn: AdaDQN, tmp_path: Path) -> None:
    policy = ExportedPolicy.load(dqn.export(tmp_path / "policy"))
    sentence = f"observations have the shape (4,), or (n, *shape) for n of them, but got {shape}"
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        policy(np.zeros(shape))


def changed(path: Path, leave_out: str = "", **entries: Any) -> None:
    """Rewrite the file with changed metadata, or without an array."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files if name != leave_out}
    meta = json.loads(arrays.pop("meta").item()) | entries
    np.savez(path, meta=np.array(json.dumps(meta)), **arrays)


@pytest.mark.parametrize("kind", ["empty", "text", "array", "arrays", "agent", "torn", "other format"])
def test_what_is_no_exported_policy_is_told(kind: str, dqn: AdaDQN, tmp_path: Path) -> None:
    path = dqn.export(tmp_path / "policy.npz")
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("no policy\n")
    elif kind == "array":
        np.save(tmp_path / "array.npy", np.arange(3))
        path = tmp_path / "array.npy"
    elif kind == "arrays":
        np.savez(path, kernel_0=np.ones((4, 2)))
    elif kind == "agent":
        path = dqn.save(tmp_path / "agent")
    elif kind == "torn":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        changed(path, format="another")
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} is not an exported policy$"):
        ExportedPolicy.load(path)


class Intruder:
    """Creates a directory when it is unpickled."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._directory),)


@pytest.mark.parametrize("name", ["meta", "kernel_0"])
def test_nothing_in_a_file_is_executed(name: str, dqn: AdaDQN, tmp_path: Path) -> None:
    path = dqn.export(tmp_path / "policy")
    with np.load(path) as file:
        arrays: dict[str, Any] = {entry: file[entry] for entry in file.files}
    arrays[name] = np.array(Intruder(tmp_path / "made"), object)
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=r"is not an exported policy$"):
        ExportedPolicy.load(path)
    assert not (tmp_path / "made").exists()


def test_a_newer_version_is_told(dqn: AdaDQN, tmp_path: Path) -> None:
    path = dqn.export(tmp_path / "policy")
    changed(path, version=4, kind="not known yet")
    with pytest.raises(ValueError, match=r"newer adaqn: its format has version 4, and this reader knows 3$"):
        ExportedPolicy.load(path)


@pytest.mark.parametrize(
    "damage",
    [
        {"leave_out": "bias_1"},
        {"activation": "sine"},
        {"kind": "other"},
        {"strides": [1]},
        {"action": {}},
        {"observation": {"shape": [5], "dtype": "float32", "scale": 1.0}},
    ],
    ids=lambda damage: next(iter(damage)),
)
def test_what_does_not_fit_together_is_told(damage: dict[str, Any], dqn: AdaDQN, tmp_path: Path) -> None:
    path = dqn.export(tmp_path / "policy")
    changed(path, **damage)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} is an exported policy, but a damaged one"):
        ExportedPolicy.load(path)


def test_a_file_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ExportedPolicy.load(tmp_path / "policy.npz")


def test_the_command_exports_a_run_and_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    main(
        ["train", "--env", "CartPole-v1", "--steps", "150", "--learning-starts", "50", "--quiet", "--run-dir", str(run)]
    )
    assert main(["export", str(run)]) == 0
    assert capsys.readouterr().out == f"{run / 'policy.npz'}\n"
    observations = np.random.default_rng(0).standard_normal((50, 4), np.float32)
    expected, _ = Model.from_run(run).predict(observations, deterministic=True)
    np.testing.assert_array_equal(ExportedPolicy.load(run / "policy.npz")(observations), expected)

    (run / "policy.npz").write_text("mine")
    assert main(["export", str(run)]) == 1
    assert capsys.readouterr().err == (
        f"adaqn: {run / 'policy.npz'} exists already; add --force to overwrite it, or name another file\n"
    )
    assert (run / "policy.npz").read_text() == "mine"
    assert main(["export", str(run), "--force"]) == 0
    np.testing.assert_array_equal(ExportedPolicy.load(run / "policy.npz")(observations), expected)


def test_the_command_exports_a_saved_agent(sac: AdaSAC, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = sac.save(tmp_path / "agent")
    (tmp_path / "here.npz").write_text("mine")
    assert main(["export", str(saved), "-o", str(tmp_path / "here")]) == 1  # .npz is appended
    assert main(["export", str(saved), "-o", str(tmp_path / "there")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'there.npz'}\n"
    policy = ExportedPolicy.load(tmp_path / "there.npz")
    observation = np.array([0.6, -0.8, 2.0], np.float32)
    np.testing.assert_allclose(policy(observation), sac.predict(observation, deterministic=True)[0], rtol=0, atol=1e-5)


def test_mistakes_on_the_command_line_get_one_sentence(
    dqn: AdaDQN, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = dqn.save(tmp_path / "agent")
    for arguments, sentence in (
        ([str(tmp_path / "nothing.zip")], "no saved agent"),
        ([str(tmp_path)], "is not a run directory"),
        ([str(saved), "-o", str(tmp_path)], "is a directory; name a file for the policy"),
        ([str(saved), "-o", str(saved / "policy.npz")], "cannot write"),
    ):
        assert main(["export", *arguments]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("adaqn: ") and sentence in line
