"""An untrusted file can fail to load, but not execute code or allocate more memory than its own size."""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from adaqn import AdaDQN, AdaSAC, Hyperparameters
from adaqn.api import Model
from adaqn.base.errors import CheckpointError, UserError
from adaqn.base.snapshot import Snapshot, read_snapshot, write_snapshot
from adaqn.cli import main
from adaqn.exported_policy import ExportedPolicy
from tests.model.test_api import assert_equal_weights

SMALL = [Hyperparameters(hidden=(8,)), Hyperparameters(hidden=(6, 4))]
QUICK: dict[str, Any] = {"learning_starts": 20, "batch_size": 8, "target_update_interval": 20, "buffer_size": 500}
OBSERVATIONS = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def agent() -> AdaDQN:
    return AdaDQN("CartPole-v1", SMALL, **QUICK).learn(100)


@pytest.fixture
def module_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that registers an environment on import, and leaves a trace of the import."""
    name = "a_module_that_registers"
    (tmp_path / f"{name}.py").write_text(
        "import pathlib, gymnasium\n"
        f"pathlib.Path({str(tmp_path / 'imported')!r}).touch()\n"
        "gymnasium.register('Registered-v0', 'gymnasium.envs.classic_control.cartpole:CartPoleEnv',"
        " max_episode_steps=30)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)
    gymnasium.registry.pop("Registered-v0", None)


def forgotten(name: str, trace: Path) -> None:
    """Forget the module, as in a new process."""
    sys.modules.pop(name, None)
    gymnasium.registry.pop("Registered-v0", None)
    trace.unlink(missing_ok=True)


def test_nothing_is_imported_because_a_file_says_so(module_on_path: str, tmp_path: Path) -> None:
    trace, env_id = tmp_path / "imported", f"{module_on_path}:Registered-v0"
    trained = AdaDQN(env_id, SMALL, **QUICK).learn(60, run_dir=tmp_path / "run")
    path = trained.save(tmp_path / "agent")
    actions = trained.predict(OBSERVATIONS, deterministic=True)[0].tolist()
    refusal = f"imports .*'{module_on_path}'.* pass trust_env=True"
    for load in (
        lambda **given: AdaDQN.load(path, **given),
        lambda **given: AdaDQN.from_run(tmp_path / "run", **given),
    ):
        forgotten(module_on_path, trace)
        model = load()
        assert model.predict(OBSERVATIONS, deterministic=True)[0].tolist() == actions
        np.testing.assert_array_equal(ExportedPolicy.load(model.export(tmp_path / "policy"))(OBSERVATIONS), actions)
        assert (
            Model.load(model.save(tmp_path / "again")).predict(OBSERVATIONS, deterministic=True)[0].tolist() == actions
        )
        for use in (lambda model=model: model.learn(60), model.make_env):
            with pytest.raises(UserError, match=refusal):
                use()
        assert not trace.exists() and module_on_path not in sys.modules
        model = load(trust_env=True)
        assert not trace.exists(), "the module was imported before it was needed"
        assert model.learn(60).num_timesteps == 60 and trace.exists()
        given = load(env=gymnasium.make("CartPole-v1"))
        assert given.learn(60).num_timesteps == 60


def test_a_run_whose_environment_imports_a_module_is_resumed_only_on_demand(
    module_on_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, trace = str(tmp_path / "run"), tmp_path / "imported"
    train = ["train", "--env", f"{module_on_path}:Registered-v0", "--steps", "40", "--learning-starts", "20", "--quiet"]
    assert main([*train, "--grid", "hidden=8", "--run-dir", run]) == 0
    for command in (["resume", run, "--steps", "60"], ["evaluate", run, "--episodes", "1"]):
        forgotten(module_on_path, trace)
        assert main(command) == 1
        told = capsys.readouterr().err
        assert "--trust-env" in told and f"'{module_on_path}'" in told and not trace.exists()
        assert main([*command, "--trust-env"]) == 0
    forgotten(module_on_path, trace)
    with pytest.raises(UserError, match="trust_env=True"):
        AdaDQN.resume(run)
    assert main(["export", run]) == 0 and not trace.exists()
    assert AdaDQN.resume(run, trust_env=True).num_timesteps == 60


def test_an_adapter_of_gymnasium_is_no_way_around(agent: AdaDQN, tmp_path: Path) -> None:
    path = forged(agent, tmp_path, lambda meta, _: meta["config"].update(env="GymV21Environment-v0"))
    with pytest.raises(UserError, match=r"imports .*'gym'.* pass trust_env=True"):
        AdaDQN.load(path).make_env()


def test_an_agent_without_its_environment_makes_it_when_it_learns(agent: AdaDQN, tmp_path: Path) -> None:
    loaded = AdaDQN.load(agent.save(tmp_path / "agent"))
    assert_equal_weights(loaded, agent)
    assert loaded.members == agent.members
    assert loaded.learn(60, reset_num_timesteps=False).num_timesteps == 160
    assert loaded.trainer.replay.added == 60 and loaded.trainer.updates == 40


def test_images_and_continuous_actions_load_without_an_environment(tmp_path: Path) -> None:
    pendulum = AdaSAC("Pendulum-v1", [Hyperparameters(hidden=(4,))] * 2, actor_hidden="4")
    again = AdaSAC.load(pendulum.save(tmp_path / "sac"))
    observations = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    np.testing.assert_array_equal(
        again.predict(observations, deterministic=True)[0], pendulum.predict(observations, deterministic=True)[0]
    )
    for high in (1, 10, 255):  # binary images are not scaled
        env: Any = gymnasium.wrappers.TransformObservation(
            gymnasium.make("CartPole-v1"),
            lambda _: np.zeros((6, 6, 1), np.uint8),
            gymnasium.spaces.Box(0, high, (6, 6, 1), np.uint8),
        )
        seen = AdaDQN(env, **QUICK)
        images = np.random.default_rng(1).integers(0, high + 1, (20, 6, 6, 1)).astype(np.uint8)
        loaded = AdaDQN.load(seen.save(tmp_path / f"image{high}"))
        assert (
            loaded.predict(images, deterministic=True)[0].tolist()
            == seen.predict(images, deterministic=True)[0].tolist()
        )
        weights, kept = (m.trainer.agent.policy_weights(m.trainer.state) for m in (loaded, seen))
        assert weights.network.scale == kept.network.scale == 1.0 / high


def forged(agent: Model, folder: Path, change: Callable[[dict[str, Any], dict[str, np.ndarray]], Any]) -> Path:
    """Rewrite a saved agent with other metadata or arrays and valid checksums, as an attacker could."""
    path = agent.save(folder / "forged")
    arrays, meta = read_snapshot(path, "agent")
    change(meta, arrays)
    write_snapshot(path, Snapshot(arrays, meta), "agent")
    return path


@pytest.mark.parametrize("part", ["config", "agent", "spaces", "clock"])
@pytest.mark.parametrize("value", [None, 5, [], {}, "missing"], ids=repr)
def test_an_agent_with_missing_or_wrong_metadata(part: str, value: Any, agent: AdaDQN, tmp_path: Path) -> None:
    def change(meta: dict[str, Any], _: Any) -> None:
        meta[part] = value
        if value == "missing":
            del meta[part]

    path = forged(agent, tmp_path, change)
    with pytest.raises(UserError, match=str(path)):
        AdaDQN.load(path)


@pytest.mark.parametrize("value", ["x", None, -1, 0.5, float("nan"), [1]], ids=repr)
def test_a_clock_that_is_no_number(value: Any, agent: AdaDQN, tmp_path: Path) -> None:
    path = forged(agent, tmp_path, lambda meta, _: meta["clock"].update(step=value))
    with pytest.raises(UserError, match="the clock's step must be"):
        AdaDQN.load(path)


def test_weights_that_are_not_finite(agent: AdaDQN, tmp_path: Path) -> None:
    def change(_: Any, arrays: dict[str, np.ndarray]) -> None:
        for array in arrays.values():
            if array.dtype == np.float32:
                array[...] = np.nan

    with pytest.raises(CheckpointError, match="a policy with non-finite parameters"):
        AdaDQN.load(forged(agent, tmp_path, change))


@pytest.mark.parametrize("where", ["config", "agent"])
def test_a_network_that_the_file_does_not_hold_is_never_made(where: str, agent: AdaDQN, tmp_path: Path) -> None:
    def change(meta: dict[str, Any], _: Any) -> None:
        meta[where]["members"] = [{"hidden": [200_000, 200_000]}] * 2  # 160 GB of parameters each

    path = forged(agent, tmp_path, change)
    try:
        loaded = AdaDQN.load(path)
    except UserError as error:
        assert re.search("bytes of arrays, but its configuration implies|of memory are available", str(error))
    else:  # the configuration has the initial members, the agent's metadata those that are loaded
        assert where == "config"
        assert_equal_weights(loaded, agent)


@pytest.mark.parametrize(
    "change",
    [
        lambda spaces: spaces["observation"].update(shape=[10**12]),
        lambda spaces: spaces["observation"].update(shape=[10**6, 10**6, 3]),
        lambda spaces: spaces["action"].update(n=10**12),
        lambda spaces: spaces["action"].update(n=10**7),
        lambda spaces: spaces["observation"].update(dtype="O"),
    ],
    ids=["vector", "image", "actions", "outputs", "objects"],
)
def test_a_space_that_the_file_has_no_parameters_for(change: Any, agent: AdaDQN, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError):
        AdaDQN.load(forged(agent, tmp_path, lambda meta, _: change(meta["spaces"])))


def test_arrays_that_no_network_of_this_size_has(agent: AdaDQN, tmp_path: Path) -> None:
    path = forged(agent, tmp_path, lambda _, arrays: arrays.update(extra=np.zeros(2_000_000)))
    with pytest.raises(CheckpointError, match="bytes of arrays, but its configuration implies"):
        AdaDQN.load(path)


@pytest.mark.parametrize("kind", ["deflated index", "deflated array", "one entry many times"])
def test_a_file_never_unpacks_to_more_than_its_size(
    kind: str, agent: AdaDQN, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = agent.save(tmp_path / "bomb")
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    head = json.loads(entries.pop("meta.json"))
    if kind == "one entry many times":
        head["arrays"] += [head["arrays"][0] | {"name": f"copy {n}"} for n in range(3000)]
    if kind == "deflated index":
        head["padding"] = "x" * 10_000_000
    if kind == "deflated array":
        entries[head["arrays"][0]["file"]] = bytes(10_000_000)
    entries["meta.json"] = json.dumps(head).encode()
    compression = zipfile.ZIP_DEFLATED if kind.startswith("deflated") else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    read: list[str] = []
    whole = zipfile.ZipFile.read
    monkeypatch.setattr(
        zipfile.ZipFile, "read", lambda self, name, *rest: read.append(name) or whole(self, name, *rest)
    )
    with pytest.raises(CheckpointError, match=r"it unpacks to more than its size|is listed for more than one array"):
        AdaDQN.load(path)
    assert len(read) == len(set(read)), "something was read twice"
    assert not (read and kind.startswith("deflated")), "sizes are read from the archive's directory"


@pytest.mark.parametrize("kind", ["declared shape", "deflated", "observations", "nan"])
def test_an_exported_policy_takes_no_more_memory_than_its_file_has(kind: str, agent: AdaDQN, tmp_path: Path) -> None:
    path = agent.export(tmp_path / "policy")
    with np.load(path) as file:
        arrays: dict[str, Any] = {name: file[name] for name in file.files}
    if kind == "deflated":
        np.savez_compressed(path, **arrays)
    elif kind == "nan":
        arrays["bias_0"][:] = np.nan
        np.savez(path, **arrays)
    elif kind == "observations":
        meta = json.loads(arrays["meta"].item())
        meta["observation"]["shape"] = [10**9, 10**3]
        arrays["meta"] = np.array(json.dumps(meta))
        np.savez(path, **arrays)
    else:
        with zipfile.ZipFile(path) as archive:
            entries = {name: archive.read(name) for name in archive.namelist()}
        kernel = entries["kernel_0.npy"]
        shape = str(arrays["kernel_0"].shape).encode()
        declared = b"(1940000000,)"  # 7.8 GB
        assert shape in kernel
        entries["kernel_0.npy"] = kernel.replace(
            shape + b", }" + b" " * (len(declared) - len(shape)), declared + b", }"
        )
        assert entries["kernel_0.npy"] != kernel and len(entries["kernel_0.npy"]) == len(kernel)
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in entries.items():
                archive.writestr(name, content)
    with pytest.raises(ValueError, match=r"is not an exported policy|is an exported policy, but a damaged one"):
        ExportedPolicy.load(path)


def test_observations_are_not_cast_silently(agent: AdaDQN, tmp_path: Path) -> None:
    policy = ExportedPolicy.load(agent.export(tmp_path / "policy"))
    for wrong, told in (
        (np.array(["1", "2", "3", "4"]), "numbers"),
        (np.full(4, np.nan), "finite"),
        (np.full(4, 1e300), "finite"),
        (np.zeros(4, "M8[s]"), "numbers"),
    ):
        with pytest.raises(UserError, match=told):
            agent.predict(wrong)
        with pytest.raises(ValueError, match=told):
            policy(wrong)
    assert policy(np.zeros(4, np.float64)) == agent.predict(np.zeros(4, np.float64), deterministic=True)[0]
