"""One contract for all optimizers: they learn, use traced numbers without recompiling, and equal optax's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import Array

from adaqn.members.hyperparameters import OPTIMIZERS, WITH_WEIGHT_DECAY, Hyperparameters
from adaqn.networks.ensemble import Ensemble, EnsembleState
from adaqn.networks.optimizers import build_optimizer, optimizer_spec

RATES = dict.fromkeys(OPTIMIZERS, 0.1) | {
    # These normalize the size of the step, for which a rate of 0.1 is too large ...
    **dict.fromkeys(["lamb", "lion", "novograd", "rmsprop"], 0.01),
    # ... or too little: adadelta starts from tiny steps, lars takes a thousandth of the weights' norm.
    "adadelta": 3.0,
    "lars": 10.0,
}
BY_TENSOR = ["adafactor", "fromage", "lamb", "lars", "novograd", "sm3"]

# The programs are run a few hundred times only: halve the time that it takes to compile them.
QUICKLY: Any = {"xla_backend_optimization_level": 0}

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.5, 1.5, (64, 3)).astype(np.float32)
Y = np.sin(X @ np.array([1.0, -1.0, 0.5], np.float32)) + 0.5  # the best linear function leaves an error of 0.160


MIX = np.array([1.0, 0.5], np.float32)  # what is predicted is this mixture of the two outputs
SCALES = 2.0 * RNG.standard_normal(12).astype(np.float32)


def turning(step: int) -> np.ndarray:
    """Targets that change direction, because an optimizer that uses only the sign would see no other change."""
    return SCALES[step] * Y


class Trial(NamedTuple):
    """A group with one optimizer: member 0 has all options at their defaults, each other has one number changed."""

    name: str
    changed: tuple[str, ...]  # [K - 1] what is different in the members 1, 2, ...
    start: EnsembleState
    step: Callable[[EnsembleState, np.ndarray], tuple[EnsembleState, Array]]


def default_options(name: str) -> dict[str, float]:
    parameters = inspect.signature(getattr(optax, name)).parameters
    # Momentum that is off by default, and has no number then, is turned on.
    return {option: parameters[option].default or 0.0 for option in optimizer_spec(name).options} | (
        {"momentum": 0.5} if name in ("adafactor", "rmsprop", "sgd") else {}
    )


def other_value(option: str, default: float) -> float:
    if option == "max_step_size":
        return 0.05  # half of the 50 by default is as far out of reach
    if option == "threshold":
        return 10.0  # below 4, radam takes the root of a negative number
    return default / 2.0 if default >= 1e-3 else 0.1


@pytest.fixture(scope="module", params=OPTIMIZERS)
def trial(request: pytest.FixtureRequest) -> Trial:
    name = request.param
    options = default_options(name)
    base = Hyperparameters(
        hidden=(),  # kernel and bias are enough to tell arrays from a flat vector
        optimizer=name,
        optimizer_options=tuple(options.items()),
        learning_rate=RATES[name],
    )
    members = [base, base.replace(learning_rate=RATES[name] / 2.0)]
    for option, default in options.items():
        others = options | {option: other_value(option, default)}
        members.append(base.replace(optimizer_options=tuple(others.items())))
    ensemble = Ensemble.of(members, (3,), 2)
    (group,) = ensemble.init(members, np.random.default_rng(1))
    group = group._replace(parameters=jnp.stack([group.parameters[0]] * len(members)))
    if optimizer_spec(name).draws:
        group = group._replace(optimizer=jax.tree.map(lambda x: x[jnp.zeros(len(members), int)], group.optimizer))

    def step(state: EnsembleState, target: Array) -> tuple[EnsembleState, Array]:
        return ensemble.update(state, jnp.asarray(X), jnp.stack([target] * len(members)), lambda q: q @ MIX)

    return Trial(name, ("learning_rate", *options), (group,), jax.jit(step, compiler_options=QUICKLY))


def test_there_are_24_optimizers_and_each_is_known() -> None:
    assert len(OPTIMIZERS) == 24
    specs = {name: optimizer_spec(name) for name in OPTIMIZERS}
    assert [name for name in OPTIMIZERS if not specs[name].elementwise] == BY_TENSOR
    assert [name for name in OPTIMIZERS if specs[name].draws] == ["noisy_sgd"]
    assert specs["adam"].options == ("b1", "b2", "eps", "eps_root")
    assert specs["sgd"].options == ("momentum",)


def test_it_learns(trial: Trial) -> None:
    state, errors = trial.start, []
    for _ in range(400):
        state, predictions = trial.step(state, Y)
        errors.append(np.square(np.asarray(predictions)[0] - Y).mean())
    assert np.isfinite(errors).all()
    assert np.isfinite(np.asarray(state[0].parameters[0])).all()
    assert errors[0] > 0.5
    assert 0.16 < errors[-1] < 0.17, errors[-1]


def test_every_number_makes_a_difference(trial: Trial) -> None:
    state = trial.start
    for step in range(12):
        state, _ = trial.step(state, turning(step))
    parameters = np.asarray(state[0].parameters)
    assert np.isfinite(parameters).all()
    for name, changed in zip(trial.changed, parameters[1:], strict=True):
        assert np.abs(changed - parameters[0]).max() > 1e-5, name


def test_other_numbers_compile_nothing_and_count_from_the_next_step(trial: Trial) -> None:
    (group,) = trial.start
    still = group._replace(learning_rate=jnp.zeros_like(group.learning_rate))
    other = still._replace(options={name: value * 0.9 + 0.05 for name, value in group.options.items()})
    (after,), _ = trial.step(trial.step((other,), Y)[0], Y)
    assert trial.step._cache_size() == 1  # type: ignore[attr-defined]
    # Rprop takes the learning rate as the size of its first step only, and that is in its state.
    assert (after.parameters == group.parameters).all() == (trial.name != "rprop")


def arrays_of(flat: np.ndarray) -> list[np.ndarray]:
    return [flat[:6].reshape(3, 2), flat[6:]]


def with_optax(trial: Trial, start: Any, of_flat: Callable[[np.ndarray], Any]) -> np.ndarray:
    """The parameters after 6 updates with plain optax, on the tree that `of_flat` makes of a vector."""
    name = trial.name
    extra = {"key": 0} if optimizer_spec(name).draws else {}
    optimizer = getattr(optax, name)(RATES[name], **default_options(name), **extra)
    update = jax.jit(optimizer.update, compiler_options=QUICKLY)
    flat = np.array(trial.start[0].parameters[0])
    state = optimizer.init(of_flat(flat)) if start is None else start
    for step in range(6):
        error = (X @ flat[:6].reshape(3, 2) + flat[6:]) @ MIX - turning(step)
        gradient = np.append(np.outer(X.T @ error, MIX), error.sum() * MIX) / np.float32(len(X))
        changes, state = update(of_flat(gradient), state, of_flat(flat))
        flat = flat + np.concatenate([np.ravel(change) for change in jax.tree.leaves(changes)])
    return flat


def test_it_does_what_optax_does_with_the_arrays_of_the_network(trial: Trial) -> None:
    state = trial.start
    for step in range(6):
        state, _ = trial.step(state, turning(step))
    ours = np.asarray(state[0].parameters[0])
    if optimizer_spec(trial.name).draws:
        # Noise is drawn array by array, so only the same vector and key give the same numbers.
        start = jax.tree.map(lambda x: x[0], trial.start[0].optimizer)
        expected = with_optax(trial, start, lambda flat: flat)
    else:
        expected = with_optax(trial, None, arrays_of)
    # Single precision leaves radam's correction of the first steps, a difference of large numbers, three digits.
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4 if trial.name == "radam" else 2e-6)
    moved = np.abs(ours - np.asarray(trial.start[0].parameters[0])).max()
    assert moved > 1e-3
    if trial.name in BY_TENSOR:
        flat = with_optax(trial, None, lambda flat: flat)
        assert np.abs(ours - flat).max() > 0.01 * moved


@pytest.mark.parametrize("grouped", [True, False])
def test_equal_members_draw_different_noise(grouped: bool) -> None:
    members = [Hyperparameters(hidden=(), optimizer="noisy_sgd", learning_rate=0.1)] * 2
    ensemble = Ensemble.of(members, (1,), 1, grouped)
    state = tuple(
        group._replace(parameters=jnp.ones_like(group.parameters))
        for group in ensemble.init(members, np.random.default_rng(0))
    )
    step = jax.jit(lambda s: ensemble.update(s, jnp.ones((4, 1)), jnp.full((2, 4), 2.0), lambda q: q[:, 0]))
    draws = []
    for _ in range(2):
        state, predictions = step(state)  # the target is met, so there is nothing but noise
        assert predictions.shape == (2, 4)
        draws.append(np.concatenate([group.parameters for group in state]))
    first, second = draws[0] - 1.0, draws[1] - draws[0]
    assert np.abs(first[0] - first[1]).min() > 1e-3
    assert np.abs(first - second).min() > 1e-3
    assert (
        np.abs(np.stack([first, second])).max() < 0.1 * np.sqrt(0.01) * 5.0
    )  # a deviation of √η = 0.1 in the gradient


def test_a_key_begins_the_state_of_those_that_draw() -> None:
    keys = [jax.random.key(seed) for seed in (0, 0, 1)]
    parameters = jnp.zeros(3)
    states = [build_optimizer("noisy_sgd", 0.1, {}, key).init(parameters) for key in keys]
    drawn = [np.asarray(build_optimizer("noisy_sgd", 0.1, {}).update(parameters, state)[0]) for state in states]
    assert drawn[0].tolist() == drawn[1].tolist()
    assert drawn[0].tolist() != drawn[2].tolist()


def test_a_gradient_is_scaled_down_to_the_global_norm_by_hand() -> None:
    optimizer = build_optimizer("sgd", 1.0, {"max_grad_norm": 2.5})
    # A norm of 5 over both arrays is halved; a smaller one stays, to the bit; zero stays zero.
    for gradient, change in (((3.0, 4.0), (-1.5, -2.0)), ((0.75, 1.1), (-0.75, -1.1)), ((0.0, 0.0), (0.0, 0.0))):
        arrays = [jnp.asarray([part], jnp.float32) for part in gradient]
        changes, _ = optimizer.update(arrays, optimizer.init(arrays), arrays)
        assert np.concatenate(jax.tree.leaves(changes)).tolist() == np.array(change, np.float32).tolist()


@pytest.mark.parametrize("name", ["adam", "lamb"])
def test_clipping_leaves_the_state_of_an_optimizer_as_it_is(name: str) -> None:
    parameters = [jnp.asarray([1.0, 2.0])]
    plain, clipping = build_optimizer(name, 0.1, {}), build_optimizer(name, 0.1, {"max_grad_norm": 1.0})
    _, expected = plain.update([jnp.asarray([0.6, 0.8])], plain.init(parameters), parameters)
    _, found = clipping.update([jnp.asarray([3.0, 4.0])], clipping.init(parameters), parameters)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_the_optimizers_with_weight_decay_are_listed() -> None:
    assert [name for name in OPTIMIZERS if "weight_decay" in optimizer_spec(name).options] == list(WITH_WEIGHT_DECAY)


def test_weight_decay_shrinks_parameters_without_a_gradient() -> None:
    parameters = jnp.asarray([2.0, -4.0])
    optimizer = build_optimizer("adamw", 0.5, {"weight_decay": 0.25})
    change, _ = optimizer.update(jnp.zeros(2), optimizer.init(parameters), parameters)
    assert np.asarray(change).tolist() == [-0.25, 0.5]
