"""An independent DQN in NumPy and double precision, sharing no code with ours: ReLU, Adam and a copied target."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

Layers = list[np.ndarray]  # kernel, bias, kernel, bias, ...


def l2_slope(error: np.ndarray) -> np.ndarray:
    """The derivative of ½ e²."""
    return error


def huber_slope(error: np.ndarray) -> np.ndarray:
    """The derivative of ½ e² where |e| < 1, and of |e| - ½ elsewhere."""
    return np.clip(error, -1.0, 1.0)


class PlainDQN:
    """A network with layers of these sizes (including inputs and outputs), from a flat parameter vector."""

    def __init__(
        self,
        flat: np.ndarray,
        sizes: Sequence[int],
        gamma: float,
        rate: float,
        slope: Callable[[np.ndarray], np.ndarray] = l2_slope,
    ) -> None:
        shapes = [shape for i, o in itertools.pairwise(sizes) for shape in ((i, o), (o,))]
        ends = np.cumsum([np.prod(shape) for shape in shapes])
        parts = np.split(flat.astype(np.float64), ends[:-1])
        self.layers: Layers = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
        self.gamma, self.rate, self.slope = gamma, rate, slope
        self.mean = [np.zeros_like(layer) for layer in self.layers]
        self.square = [np.zeros_like(layer) for layer in self.layers]
        self.updates = 0
        self.update_target()

    @property
    def flat(self) -> np.ndarray:
        return np.concatenate([layer.ravel() for layer in self.layers])

    def update_target(self) -> None:
        self.target = [layer.copy() for layer in self.layers]

    def values(self, x: np.ndarray) -> np.ndarray:
        return self._forward(self.layers, x)[-1]

    @staticmethod
    def _forward(layers: Layers, x: np.ndarray) -> Layers:
        """The inputs of each layer, and the values."""
        seen = [x.astype(np.float64)]
        for i in range(0, len(layers), 2):
            x = seen[-1] @ layers[i] + layers[i + 1]
            seen.append(x if i == len(layers) - 2 else np.maximum(x, 0.0))
        return seen

    def update(
        self, x: np.ndarray, action: np.ndarray, reward: np.ndarray, following: np.ndarray, terminated: np.ndarray
    ) -> float:
        """One step of Adam on the mean loss; returns the mean of ½ (Q - y)², by which members are compared."""
        next_value = self._forward(self.target, following)[-1].max(axis=1)
        y = reward + self.gamma * (1.0 - terminated) * next_value
        *inputs, q = self._forward(self.layers, x)
        rows = np.arange(len(x))
        error = q[rows, action] - y
        back = np.zeros_like(q)
        back[rows, action] = self.slope(error) / len(x)
        gradient: Layers = []
        for layer in reversed(range(len(inputs))):
            gradient = [inputs[layer].T @ back, back.sum(axis=0), *gradient]
            back = (back @ self.layers[2 * layer].T) * (inputs[layer] > 0.0)
        self.updates += 1
        for i, g in enumerate(gradient):
            self.mean[i] = 0.9 * self.mean[i] + 0.1 * g
            self.square[i] = 0.999 * self.square[i] + 0.001 * g**2
            mean = self.mean[i] / (1.0 - 0.9**self.updates)
            square = self.square[i] / (1.0 - 0.999**self.updates)
            self.layers[i] = self.layers[i] - self.rate * mean / (np.sqrt(square) + 1e-8)
        return float(0.5 * np.square(error).mean())
