"""One DQN update on batches of Atari frames, ours against PyTorch's: `python -m benchmarks.convolutions`.

Both compute a target from the next frames, one gradient and one Adam step with the same network on one core. They
take turns, and the minimum processor time of each is reported: other processes can only increase it. With `--layers`,
single layers instead, forwards and backwards, ours against XLA's convolution: those behind the first layer of networks
from the space `images` on MinAtar.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

BATCH, ACTIONS, UNITS = 32, 6, 512
LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # channels, kernel, stride
SMALL_LAYERS = (
    (5, 64, 8, 2),
    (5, 64, 3, 2),
    (4, 53, 8, 3),
    (3, 64, 4, 2),
    (2, 60, 6, 5),
)  # side, channels, kernel, stride


def main() -> None:
    """Measure alternately, then print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--layers", action="store_true", help="measure single layers on small images")
    given = parser.parse_args()
    os.sched_setaffinity(0, {given.core})
    os.environ["PJRT_NPROC"] = "1"
    if given.layers:
        for side, channels, kernel, stride in SMALL_LAYERS:
            least = fastest(layer_updates(side, channels, kernel, stride), given.rounds)
            print(
                f"{channels} kernels of {kernel} x {kernel}, stride {stride}, on {side} x {side} x {channels}: "
                f"{1e3 * least['adaqn']:.2f} ms, XLA {1e3 * least['xla']:.2f} ms"
            )
        return
    least = fastest({"adaqn": ours(given.members), "torch": torchs()}, given.rounds)
    for name, seconds in least.items():
        print(f"{name}: {1e3 * seconds:.1f} ms per update")
    print(
        f"ours with {given.members} members takes {least['adaqn'] / least['torch']:.2f} times as long as torch with one"
    )


def fastest(updates: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The least processor time of each, which take turns."""
    times: dict[str, list[float]] = {name: [] for name in updates}
    for update in updates.values():
        update()  # compile
    for _ in range(rounds):
        for name, update in updates.items():
            begun = time.process_time()
            update()
            times[name].append(time.process_time() - begun)
    return {name: min(found) for name, found in times.items()}


def layer_updates(side: int, channels: int, kernel: int, stride: int) -> dict[str, Callable[[], Any]]:
    """A layer on square images, forwards and backwards: ours, and XLA's with its own gradient."""
    import jax
    import numpy as np

    from adaqn.networks.convolution import convolve
    from adaqn.networks.xla.compilation import prepare_jax, small_program

    prepare_jax()
    rng = np.random.default_rng(0)
    image = rng.standard_normal((BATCH, side, side, channels), np.float32)
    weights = rng.standard_normal((kernel, kernel, channels, channels), np.float32)

    def xla(x: Any, k: Any) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, k, (stride, stride), "SAME", dimension_numbers=layout)

    def update(layer: Callable[..., Any]) -> Callable[[], Any]:
        program = small_program(jax.value_and_grad(lambda x, k: layer(x, k).sum(), argnums=(0, 1)))
        return lambda: jax.block_until_ready(program(image, weights))

    return {"adaqn": update(lambda x, k: convolve(x, k, stride, "same")), "xla": update(xla)}


def ours(members: int) -> Callable[[], Any]:
    """An update of an ensemble of equal networks."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from adaqn import Hyperparameters
    from adaqn.members.hyperparameters import Convolution
    from adaqn.networks.ensemble import Ensemble, EnsembleParameters, EnsembleState
    from adaqn.networks.xla.compilation import prepare_jax

    prepare_jax()
    layers = tuple(Convolution(*layer) for layer in LAYERS)
    ensemble_members = [Hyperparameters(convolutions=layers, hidden=(UNITS,), padding="valid")] * members
    ensemble = Ensemble.of(ensemble_members, (84, 84, 4), ACTIONS, scale=1 / 255)
    rng = np.random.default_rng(0)
    now, later = (jnp.asarray(rng.integers(256, size=(BATCH, 84, 84, 4), dtype=np.uint8)) for _ in range(2))

    @partial(jax.jit, donate_argnums=0)
    def step(state: EnsembleState, target: EnsembleParameters) -> EnsembleState:
        best = ensemble.value(target, jnp.asarray(0), later).max(axis=1)
        return ensemble.update(state, now, jnp.stack([best] * members), lambda q: q[:, 0])[0]

    state = ensemble.init(ensemble_members, rng)
    target = jax.tree.map(jnp.copy, ensemble.parameters(state))

    def update() -> None:
        nonlocal state
        state = jax.block_until_ready(step(state, target))

    return update


def torchs() -> Callable[[], Any]:
    """An update of one network as in Stable-Baselines3, without its replay buffer."""
    import torch  # pyright: ignore[reportMissingImports]
    from torch import nn  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)

    def network() -> nn.Sequential:
        modules: list[nn.Module] = []
        for inputs, (channels, kernel, stride) in zip((4, 32, 64), LAYERS, strict=True):
            modules += [nn.Conv2d(inputs, channels, kernel, stride), nn.ReLU()]
        head = [nn.Flatten(), nn.Linear(7 * 7 * 64, UNITS), nn.ReLU(), nn.Linear(UNITS, ACTIONS)]
        return nn.Sequential(*modules, *head)

    online, target = network(), network()
    optimizer = torch.optim.Adam(online.parameters(), 1e-4)
    now, later = (torch.randint(0, 256, (BATCH, 4, 84, 84), dtype=torch.uint8) for _ in range(2))

    def update() -> None:
        with torch.no_grad():
            best = target(later.float() / 255).max(1)[0]
        loss = nn.functional.smooth_l1_loss(online(now.float() / 255)[:, 0], best)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(online.parameters(), 10.0)
        optimizer.step()

    return update


if __name__ == "__main__":
    main()
