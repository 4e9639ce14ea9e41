"""What is done differently on a GPU, with a faked platform: the computations still run on the CPU."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from adaqn import AdaDQN, Hyperparameters
from adaqn.agents.execution.value import fused_programs
from adaqn.members.hyperparameters import Convolution
from adaqn.networks import convolution
from adaqn.networks.ensemble import Ensemble
from adaqn.networks.xla import compilation
from adaqn.networks.xla.compilation import jit_step
from adaqn.networks.xla.threads import Threads
from adaqn.runs.checkpoint import platform_facts

IMAGES = Hyperparameters(convolutions=(Convolution(4, 3, 2),), hidden=(6,))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


def jitted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The compiler options of every following call of `jax.jit`."""
    options: list[Any] = []
    original = jax.jit

    def noting(function: Any, **given: Any) -> Any:
        options.append(given.get("compiler_options"))
        return original(function, **given)

    monkeypatch.setattr(jax, "jit", noting)
    return options


def test_a_gpu_gets_no_option_of_the_cpu(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    options = jitted(monkeypatch)
    jit_step(lambda state, x: state + x)
    assert options == [{"xla_gpu_deterministic_ops": True}]


def test_a_cpu_gets_no_option_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    options = jitted(monkeypatch)
    jit_step(lambda state, x: state + x)
    assert [name for given in options for name in given if not name.startswith("xla_cpu_")] == []


def test_this_jaxlib_knows_the_option() -> None:
    assert float(jax.jit(lambda x: x + 1.0, compiler_options=compilation.OPTIONS)(1.0)) == 2.0
    with pytest.raises(jax.errors.JaxRuntimeError, match="No such compile option"):
        jax.jit(lambda x: x + 1.0, compiler_options={"xla_gpu_deterministic_oops": True})(1.0)


def test_a_batch_is_transferred_in_one_call(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    transferred: list[Any] = []
    original = jax.device_put

    def noting(values: Any) -> Any:
        transferred.append(values)
        return original(values)

    monkeypatch.setattr(jax, "device_put", noting)
    kinds: list[Any] = []

    def update(state: Any, batch: Any, epsilon: Any) -> Any:
        kinds.append(batch["image"].dtype)
        return state + batch["image"].astype(jnp.float32).sum() + batch["reward"].sum() * epsilon

    batch = {"image": np.full((2, 3), 7, np.uint8), "reward": np.array([1.0, 2.0], np.float32)}
    state = jit_step(update)(jnp.zeros(()), batch, np.float32(10.0))
    assert float(state) == 42.0 + 30.0
    assert len(transferred) == 1 and transferred[0][0] is batch
    assert kinds == [np.uint8], "images are transferred as bytes"


def test_groups_are_those_of_a_cpu_so_that_saved_agents_fit_both(gpu: None) -> None:
    dense = Hyperparameters(hidden=(6,))
    assert Ensemble.of([IMAGES, IMAGES], (8, 8, 2), 3).groups == ((0,), (1,))
    assert Ensemble.of([dense, IMAGES, dense], (8, 8, 2), 3).groups == ((0, 2), (1,))


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_the_backward_pass_of_a_convolution_is_the_same(padding: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    images = jnp.asarray(rng.integers(-9, 9, (2, 9, 9, 3)).astype(np.float32))
    kernel = jnp.asarray(rng.integers(-9, 9, (3, 3, 3, 2)).astype(np.float32))

    def gradients() -> Any:
        return jax.grad(lambda x, k: (convolution.convolve(x, k, 2, padding) ** 2).sum(), argnums=(0, 1))(
            images, kernel
        )

    own = gradients()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(convolution, "_convolve", None)  # the CPU's function is not called
    for ours, its in zip(own, gradients(), strict=True):
        np.testing.assert_allclose(ours, its, rtol=1e-5)


class Pictures(gymnasium.Env[np.ndarray, np.int64]):
    """Random byte images, and a reward for the action that their brightness asks for."""

    observation_space = spaces.Box(0, 255, (8, 8, 2), np.uint8)
    action_space = spaces.Discrete(2)

    def _observation(self) -> np.ndarray:
        self._bright = int(self.np_random.integers(2))
        return self.np_random.integers(128 * self._bright, 128 + 127 * self._bright, (8, 8, 2)).astype(np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = float(int(action) == self._bright)
        self._steps += 1
        return self._observation(), reward, self._steps == 10, False, {}


@pytest.mark.thorough
def test_a_run_of_images_is_that_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    members = [IMAGES, Hyperparameters(convolutions=IMAGES.convolutions, hidden=(6,), learning_rate=1e-2)]
    settings: dict[str, Any] = {"learning_starts": 20, "target_update_interval": 20, "batch_size": 8, "seed": 3}

    def losses() -> list[float]:
        model = AdaDQN(Pictures(), members, buffer_size=200, **settings).learn(70)
        return [member.cumulated_loss for member in model.members]

    alone = losses()
    fused_programs.cache_clear()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    try:
        np.testing.assert_allclose(losses(), alone, rtol=1e-4)
    finally:
        fused_programs.cache_clear()
    assert alone[0] != alone[1] and min(alone) > 0.0


def test_a_run_that_continues_on_another_device_can_be_told(gpu: None) -> None:
    assert platform_facts(Threads(1))["backend"] == "gpu"
