"""An exported ONNX model computes in onnxruntime what its agent's `predict` computes in JAX."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from adaqn import DQN, SAC, TD3, AdaDQN, Hyperparameters, UserError, exported_policy, grid
from adaqn.agents.protocol import PolicyWeights
from adaqn.cli import main
from adaqn.exported_policy import ExportedPolicy
from adaqn.members.hyperparameters import ACTIVATIONS, Convolution, PaddingName
from adaqn.networks.network import Network
from adaqn.runs import onnx_graph
from adaqn.runs.export import PolicyFormat, write_policy

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def session(path: Path) -> Any:
    onnx.checker.check_model(str(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def actions_of(path: Path, observations: np.ndarray) -> np.ndarray:
    return session(path).run(["action"], {"observation": observations})[0]


def exported(
    folder: Path, member: Hyperparameters, observations: spaces.Box, actions: spaces.Space[Any], **network: Any
) -> tuple[ExportedPolicy, Path]:
    """A network with random parameters in both formats."""
    kind = "greedy" if isinstance(actions, spaces.Discrete) else "tanh-gaussian"
    outputs = int(actions.n) if isinstance(actions, spaces.Discrete) else 2 * int(np.prod(actions.shape or ()))
    built = Network(member.architecture, observations.shape, outputs, **network)
    rng = np.random.default_rng(0)
    parameters = built.init(rng) + 0.1 * rng.standard_normal(built.size, np.float32)
    weights = PolicyWeights(kind, built, parameters, member)
    formats: tuple[tuple[PolicyFormat, str], ...] = (("numpy", "policy.npz"), ("onnx", "policy.onnx"))
    for name, file in formats:
        write_policy(folder / file, weights, observations, actions, env="Any-v0", algo="dqn", format=name)
    return ExportedPolicy.load(folder / "policy.npz"), folder / "policy.onnx"


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_q_values_are_those_of_the_network_for_every_activation(name: str, tmp_path: Path) -> None:
    member = Hyperparameters(hidden=(9, 6), activation=name)
    policy, file = exported(tmp_path, member, spaces.Box(-np.inf, np.inf, (2, 3)), spaces.Discrete(3, start=5))
    observations = 3.0 * np.random.default_rng(1).standard_normal((40, 2, 3), np.float32)
    action, values = session(file).run(None, {"observation": observations})
    np.testing.assert_allclose(values, policy.outputs(observations), rtol=2e-5, atol=5e-6)
    np.testing.assert_array_equal(action, policy(observations))
    assert action.min() >= 5 and action.dtype == np.int64


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_does_not_overflow(name: str) -> None:
    graph = onnx_graph.Graph()
    info = onnx.helper.make_tensor_value_info
    graph.rename(onnx_graph.ACTIVATIONS[name](graph, "x", -1), "y")
    ends = [info(each, onnx.TensorProto.FLOAT, [2, 4]) for each in ("x", "y")]
    built = onnx.helper.make_graph(graph.nodes, "one", ends[:1], ends[1:], graph.constants)
    model = onnx.helper.make_model(built, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    run = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.array([[-1e15, -1e3, -100.0, -10.0], [10.0, 100.0, 1e3, 1e15]], np.float32)
    expected = exported_policy.ACTIVATIONS[name](x)
    np.testing.assert_allclose(run.run(None, {"x": x})[0], expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("activation", ["relu", "softmax", "standardize"])
def test_convolutions_scale_bytes_inside_the_graph(padding: PaddingName, activation: str, tmp_path: Path) -> None:
    layers = (Convolution(4, 8, 4), Convolution(6, 4, 2), Convolution(5, 3, 1))
    member = Hyperparameters(convolutions=layers, hidden=(7,), padding=padding, activation=activation)
    space = spaces.Box(0, 255, (37, 42, 2), np.uint8)
    policy, file = exported(tmp_path, member, space, spaces.Discrete(3), scale=1 / 255)
    images = np.random.default_rng(1).integers(256, size=(5, 37, 42, 2), dtype=np.uint8)
    action, values = session(file).run(None, {"observation": images})
    assert np.ptp(values, axis=0).min() > 1e-4, "the images must matter"
    np.testing.assert_allclose(values, policy.outputs(images), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(action, policy(images))
    (entry,) = session(file).get_inputs()
    assert (entry.name, entry.type, entry.shape) == ("observation", "tensor(uint8)", ["batch", 37, 42, 2])


BINS = {"head": "categorical", "bins": 11, "value_range": (-3, 8)}


@pytest.mark.parametrize(
    "changes", [{"normalization": "layer"}, {"block": "residual"}, BINS], ids=["layer", "residual", "categorical"]
)
@pytest.mark.parametrize("convolutions", [(), (Convolution(3, 4, 2),)], ids=["vector", "image"])
def test_norms_residual_blocks_and_categorical_heads(
    changes: dict[str, Any], convolutions: tuple[Convolution, ...], tmp_path: Path
) -> None:
    space = spaces.Box(-np.inf, np.inf, (9, 8, 2) if convolutions else (5,))
    member = Hyperparameters(hidden=(6, 6), convolutions=convolutions, activation="silu").replace(**changes)
    policy, file = exported(tmp_path, member, space, spaces.Discrete(3))
    observations = np.random.default_rng(1).standard_normal((20, *space.shape), np.float32)
    action, values = session(file).run(None, {"observation": observations})
    assert np.ptp(values, axis=0).min() > 1e-2, "the observations must matter"
    np.testing.assert_allclose(values, policy.outputs(observations), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(action, policy(observations))
    assert session(file).get_outputs()[1].shape == ["batch", 3]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tanh_gaussian_actions_stay_in_the_box(dtype: Any, tmp_path: Path) -> None:
    low, high = np.array([-2.0, 0.1, -1e30], dtype), np.array([3.0, 0.3, 1e38], dtype)
    box = spaces.Box(low, high, dtype=dtype)
    policy, file = exported(tmp_path, Hyperparameters(hidden=(8,)), spaces.Box(-9.0, 9.0, (4,)), box)
    observations = 50.0 * np.random.default_rng(1).standard_normal((200, 4), np.float32)
    actions = actions_of(file, observations)
    assert actions.dtype == dtype and all(box.contains(action) for action in actions)
    # In units of the largest bound: beside 1e38, differences of rounding hide what is small.
    np.testing.assert_allclose(actions / high, policy(observations) / high, rtol=0, atol=1e-5)
    assert np.ptp(actions[:, 0]) > 1.0, "the observation must matter"


@pytest.mark.parametrize(("changes", "seed"), [({}, 3), (BINS, 4)], ids=["scalar", "categorical"])
def test_a_greedy_policy_is_that_of_predict(changes: dict[str, Any], seed: int, tmp_path: Path) -> None:
    members = grid(Hyperparameters().replace(**changes), hidden=[(8,), (12, 8)])
    model = AdaDQN("CartPole-v1", members, learning_starts=50, seed=seed).learn(120)
    file = model.export(tmp_path / "cartpole", format="onnx")
    assert file == tmp_path / "cartpole.onnx"
    observations = 2.0 * np.random.default_rng(0).standard_normal((500, 4)).astype(np.float32)
    actions, _ = model.predict(observations, deterministic=True)
    assert 0.1 < actions.mean() < 0.9, "both actions must occur"
    np.testing.assert_array_equal(actions_of(file, observations), actions)
    np.testing.assert_array_equal(actions_of(file, observations[:1]), actions[:1])


class Pictures(gymnasium.Env[np.ndarray, np.int64]):
    """Random byte images; only its spaces matter here."""

    observation_space = spaces.Box(0, 255, (20, 20, 3), np.uint8)
    action_space = spaces.Discrete(4)


def test_a_policy_of_images_is_that_of_predict(tmp_path: Path) -> None:
    member = Hyperparameters(convolutions=(Convolution(8, 4, 2), Convolution(8, 3, 1)), hidden=(16,))
    model = DQN(Pictures(), [member], buffer_size=100, seed=1)
    file = model.export(tmp_path / "pictures.onnx")
    images = np.random.default_rng(0).integers(256, size=(200, 20, 20, 3), dtype=np.uint8)
    images[:, :10] //= np.arange(1, 201, dtype=np.uint8)[:, None, None, None]  # from bright to dark
    actions, _ = model.predict(images, deterministic=True)
    assert len(np.unique(actions)) > 1, "several actions must occur"
    np.testing.assert_array_equal(actions_of(file, images), actions)


@pytest.mark.parametrize("algorithm", [SAC, TD3])
def test_a_continuous_policy_is_that_of_predict(algorithm: Any, tmp_path: Path) -> None:
    model = algorithm("Pendulum-v1", seed=3, learning_starts=20, batch_size=16, actor_hidden="16x8").learn(40)
    file = model.export(tmp_path / "pendulum.onnx")
    observations = np.random.default_rng(0).uniform([-1, -1, -8], [1, 1, 8], (500, 3)).astype(np.float32)
    actions, _ = model.predict(observations, deterministic=True)
    assert np.ptp(actions) > 0.01, "the observation must matter"
    np.testing.assert_allclose(actions_of(file, observations), actions, rtol=0, atol=1e-5)
    properties = session(file).get_modelmeta().custom_metadata_map
    space = json.loads(properties["action_space"])
    assert (space["kind"], space["low"], space["high"]) == ("Box", [-2.0], [2.0])
    assert json.loads(properties["observation_space"])["shape"] == [3]
    assert (properties["environment"], properties["algorithm"]) == ("Pendulum-v1", algorithm.algo)
    assert json.loads(properties["hyperparameters"])["hidden"] == [16, 8]


def test_the_same_policy_gives_the_same_bytes(tmp_path: Path) -> None:
    model = DQN("CartPole-v1", policy_kwargs={"net_arch": [8]}, seed=3)
    one, two = model.export(tmp_path / "one.onnx"), model.export(tmp_path / "two.onnx")
    assert one.read_bytes() == two.read_bytes()


def test_only_a_policy_is_replaced(tmp_path: Path) -> None:
    model = DQN("CartPole-v1", policy_kwargs={"net_arch": [8]})
    file = model.export(tmp_path / "policy.onnx")
    before = file.read_bytes()
    other = DQN("CartPole-v1", policy_kwargs={"net_arch": [8]}, seed=1)
    other.export(file)
    assert file.read_bytes() != before
    file.write_text("notes\n")
    with pytest.raises(UserError, match="is no policy that adaqn exported, so it is not overwritten"):
        model.export(file)
    assert file.read_text() == "notes\n"
    model.export(file, force=True)
    assert file.read_bytes() == before


def test_a_suffix_of_the_other_format_is_told(tmp_path: Path) -> None:
    model = DQN("CartPole-v1", policy_kwargs={"net_arch": [8]})
    with pytest.raises(
        UserError, match=r"policy\.npz is the name of a policy in the format numpy, but the format onnx"
    ):
        model.export(tmp_path / "policy.npz", format="onnx")
    with pytest.raises(UserError, match=r"unknown format of a policy 'onx'; did you mean 'onnx'\?"):
        model.export(tmp_path / "policy", format="onx")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_writes_an_onnx_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = DQN("CartPole-v1", policy_kwargs={"net_arch": [8]}, seed=2)
    agent = model.save(tmp_path / "agent")
    assert main(["export", str(agent), "--format", "onnx"]) == 0
    file = tmp_path / "policy.onnx"
    assert capsys.readouterr().out == f"{file}\n"
    observations = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    np.testing.assert_array_equal(actions_of(file, observations), model.predict(observations, deterministic=True)[0])
    assert main(["export", str(agent), "-o", str(file)]) == 1
    assert (
        capsys.readouterr().err == f"adaqn: {file} exists already; add --force to overwrite it, or name another file\n"
    )


def test_without_the_extra_one_sentence_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    sentence = r'^the ONNX export needs the package onnx, which is not installed: `pip install "adaqn\[onnx\]"`$'
    with pytest.raises(UserError, match=sentence):
        DQN("CartPole-v1", policy_kwargs={"net_arch": [8]}).export(tmp_path / "policy.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arrays", "meta", "named"),
    [
        ({}, {"normalization": "rms"}, "normalization"),
        ({"gain_0": np.ones(3)}, {}, "gain_0"),
        ({}, {"activation": "swish"}, "the activation swish"),
        ({}, {"kind": "beta"}, "the kind beta"),
        ({}, {"version": 4}, "version 4"),
    ],
)
def test_an_unknown_part_of_a_network_is_refused(arrays: Any, meta: Any, named: str) -> None:
    known = {"version": 1, "kind": "greedy", "activation": "relu", "strides": [], "padding": "same"}
    known |= {"observation": {"shape": [2], "dtype": "float32", "scale": 1.0}, "action": {"start": 0}}
    layer = {"kernel_0": np.ones((2, 3), np.float32), "bias_0": np.zeros(3, np.float32)}
    assert onnx_graph.onnx_model(layer, known, {}, "0")
    assert onnx_graph.onnx_model(layer, known | {"not_used": None}, {}, "0")
    with pytest.raises(UserError, match=f"does not support a part of this policy's network: {named}$"):
        onnx_graph.onnx_model(layer | arrays, known | meta, {}, "0")
