"""Tests of search spaces: the paper's, a user's, sampling from them, and error messages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from adaqn.base.errors import UserError
from adaqn.members.hyperparameters import ACTIVATIONS, LOSSES, OPTIMIZERS, Convolution, Hyperparameters
from adaqn.members.space import ConvolutionLayers, DenseLayers, SearchSpace, named_spaces, space_from

VECTORS = SearchSpace.named("vectors")
IMAGES = SearchSpace.named("images")
SMALL = SearchSpace(
    activation=("relu", "tanh"),
    optimizer=("adam",),
    loss=("l2", "l1"),
    learning_rate=(1e-4, 1e-2),
    hidden=DenseLayers(layers=(0, 2), neurons=(8, 16)),
    convolutions=ConvolutionLayers(layers=(1, 2), channels=(4, 4), kernel=(2, 3), stride=(1, 2)),
    fixed=Hyperparameters(discount=0.9, optimizer_options=(("eps", 1e-4),)),
)


def bounds(low: int, high: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), min_size=2, max_size=2).map(sorted)


def some(names: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), min_size=1, unique=True)


SPACES = st.builds(
    SearchSpace,
    activation=some(ACTIVATIONS),
    optimizer=some(OPTIMIZERS),
    loss=some(LOSSES),
    learning_rate=st.lists(st.floats(1e-8, 1.0), min_size=2, max_size=2).map(sorted),
    hidden=st.builds(DenseLayers, layers=bounds(0, 3), neurons=bounds(1, 64)),
    convolutions=st.none()
    | st.builds(
        ConvolutionLayers, layers=bounds(0, 3), channels=bounds(1, 64), kernel=bounds(1, 8), stride=bounds(1, 5)
    ),
    fixed=st.sampled_from([Hyperparameters(), Hyperparameters(discount=0.5)]),
) | st.builds(
    SearchSpace,
    discount=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=2).map(sorted),
)
SEEDS = st.integers(0, 2**32 - 1)


def random_member(rng: np.random.Generator) -> Hyperparameters:
    """A member that belongs to no space."""
    return Hyperparameters(
        activation=str(rng.choice(ACTIVATIONS)),
        optimizer=str(rng.choice(OPTIMIZERS)),
        loss=str(rng.choice(LOSSES)),
        learning_rate=float(10.0 ** rng.uniform(-9, 1)),
        hidden=tuple(int(width) for width in rng.integers(1, 100, rng.integers(0, 5))),
        convolutions=tuple(Convolution(*rng.integers(1, 9, 3).tolist()) for _ in range(rng.integers(0, 5))),
    )


def test_the_spaces_of_the_paper() -> None:
    assert named_spaces() == ["images", "modern", "vectors"]
    assert (
        SearchSpace(
            activation=ACTIVATIONS,
            optimizer=OPTIMIZERS,
            loss=LOSSES,
            learning_rate=(1e-6, 1e-3),
            hidden=DenseLayers(layers=(0, 2), neurons=(25, 512)),
            convolutions=ConvolutionLayers(layers=(1, 3), channels=(16, 64), kernel=(2, 8), stride=(2, 5)),
        )
        == IMAGES
    )
    assert (
        SearchSpace(
            activation=ACTIVATIONS,
            optimizer=OPTIMIZERS,
            loss=LOSSES,
            learning_rate=(1e-5, 1e-2),
            hidden=DenseLayers(layers=(1, 3), neurons=(25, 200)),
            convolutions=None,
        )
        == VECTORS
    )
    assert [len(names) for names in (IMAGES.activation, IMAGES.optimizer, IMAGES.loss)] == [18, 24, 4]
    assert (IMAGES.dimensions, VECTORS.dimensions) == (10, 6)


def test_the_corners_of_the_unit_cube() -> None:
    lowest = IMAGES.from_unit(np.zeros(10))
    assert lowest.learning_rate == pytest.approx(1e-6, rel=1e-12)
    assert lowest.replace(learning_rate=1e-6) == Hyperparameters(
        activation="celu",
        optimizer="adabelief",
        loss="huber",
        learning_rate=1e-6,
        hidden=(),
        convolutions=(Convolution(16, 2, 2),),
    )
    highest = IMAGES.from_unit(np.ones(10))
    assert highest.learning_rate == pytest.approx(1e-3, rel=1e-12)
    assert highest.replace(learning_rate=1e-3) == Hyperparameters(
        activation="tanh",
        optimizer="yogi",
        loss="log_cosh",
        learning_rate=1e-3,
        hidden=(512, 512),
        convolutions=(Convolution(64, 8, 5),) * 3,
    )


def test_every_value_has_an_equal_part_of_its_coordinate() -> None:
    space = SearchSpace(activation=("relu",), optimizer=("adam",), loss=("l2",), learning_rate=(1e-3, 1e-3))
    assert list(space.configuration_space) == ["hidden.layers", "hidden.neurons"]
    layers = [len(space.from_unit(np.array([u, 0.5])).hidden) for u in (0.0, 0.33, 0.34, 0.66, 0.67, 1.0)]
    assert layers == [1, 1, 2, 2, 3, 3]
    loss = SearchSpace.from_dict(
        {"activation": "relu", "optimizer": "adam", "learning_rate": 1e-3, "hidden": {"layers": 0}}
    )
    assert loss.dimensions == 1
    names = [loss.from_unit(np.array([u])).loss for u in (0.0, 0.24, 0.26, 0.49, 0.51, 0.74, 0.76, 1.0)]
    assert names == ["huber", "huber", "l1", "l1", "l2", "l2", "log_cosh", "log_cosh"]


def test_the_learning_rate_is_halfway_in_log_space() -> None:
    space = SearchSpace.from_dict({"activation": "relu", "optimizer": "adam", "loss": "l2", "hidden": {"layers": 0}})
    assert space.from_unit(np.array([0.5])).learning_rate == pytest.approx(10**-3.5, rel=1e-9)


@pytest.mark.parametrize("space", [VECTORS, IMAGES, SMALL])
def test_every_coordinate_matters(space: SearchSpace) -> None:
    point = np.full(space.dimensions, 0.9)
    for coordinate in range(space.dimensions):
        moved = point.copy()
        moved[coordinate] = 0.1
        assert space.from_unit(moved) != space.from_unit(point)


def test_a_point_outside_the_unit_cube_is_refused() -> None:
    for point in (np.zeros(5), np.full(6, 1.1), np.full(6, -0.1), np.full(6, np.nan)):
        with pytest.raises(ValueError, match="6 numbers between 0 and 1"):
            VECTORS.from_unit(point)


def test_what_is_held_at_one_value_is_no_dimension() -> None:
    space = SearchSpace.from_dict(
        {
            "activation": "relu",
            "optimizer": ["adam"],
            "loss": "l1",
            "learning_rate": "1e-3",
            "hidden": {"layers": 2, "neurons": 64},
            "convolutions": {"layers": 1, "channels": 8, "kernel": 3, "stride": 1},
            "fixed": {"discount": 0.5, "optimizer_options": {"eps": 1e-4}},
        }
    )
    assert space.dimensions == 0
    assert space.sample(np.random.default_rng(0)) == Hyperparameters(
        activation="relu",
        optimizer="adam",
        optimizer_options=(("eps", 1e-4),),
        loss="l1",
        learning_rate=1e-3,
        hidden=(64, 64),
        discount=0.5,
        convolutions=(Convolution(8, 3, 1),),
    )


def test_draws_are_uniform() -> None:
    rng = np.random.default_rng(0)
    draws = 3_000
    members = [IMAGES.sample(rng) for _ in range(draws)]

    def shares_are_equal(values: list[Any], among: list[Any]) -> None:
        p = 1.0 / len(among)
        assert set(values) <= set(among)
        for value in among:
            assert abs(values.count(value) / draws - p) <= 4.5 * np.sqrt(p * (1.0 - p) / draws), value

    shares_are_equal([m.activation for m in members], list(ACTIVATIONS))
    shares_are_equal([m.optimizer for m in members], list(OPTIMIZERS))
    shares_are_equal([m.loss for m in members], list(LOSSES))
    shares_are_equal([len(m.hidden) for m in members], [0, 1, 2])
    shares_are_equal([len(m.convolutions) for m in members], [1, 2, 3])
    shares_are_equal([m.convolutions[0].channels for m in members], list(range(16, 65)))
    shares_are_equal([m.convolutions[0].kernel for m in members], list(range(2, 9)))
    shares_are_equal([m.convolutions[0].stride for m in members], [2, 3, 4, 5])
    shares_are_equal([int(np.floor(np.log10(m.learning_rate))) for m in members], [-6, -5, -4])
    widths = [m.hidden[0] for m in members if m.hidden]
    assert abs(np.mean(widths) - (25 + 512) / 2) <= 4.5 * 488 / np.sqrt(12 * len(widths))
    assert all(len(set(m.hidden)) <= 1 and len(set(m.convolutions)) == 1 for m in members)


def test_draws_depend_on_the_generator_alone() -> None:
    global_state = np.random.get_state()[1].tolist()  # type: ignore[index, union-attr]
    first, again, other = (np.random.default_rng(seed) for seed in (3, 3, 4))
    fresh = SearchSpace.named("images")  # with a separate ConfigSpace object
    fresh.configuration_space.seed(123)
    drawn = [IMAGES.sample(first) for _ in range(20)]
    assert drawn == [fresh.sample(again) for _ in range(20)]
    assert drawn != [IMAGES.sample(other) for _ in range(20)]
    assert np.random.get_state()[1].tolist() == global_state  # type: ignore[index, union-attr]


def test_configspace_sees_the_same_space() -> None:
    space = IMAGES.configuration_space
    space.seed(0)
    configurations = space.sample_configuration(50)
    assert {c["hidden.layers"] for c in configurations} == {0, 1, 2}
    assert all(("hidden.neurons" in c) == (c["hidden.layers"] > 0) for c in configurations)
    rate: Any = space["learning_rate"]
    assert (rate.lower, rate.upper, rate.log) == (1e-6, 1e-3, True)


@settings(max_examples=30, deadline=None)
@given(SPACES, SEEDS)
def test_what_is_drawn_is_in_the_space(space: SearchSpace, seed: int) -> None:
    rng = np.random.default_rng(seed)
    corner = (rng.random(space.dimensions) < 0.5).astype(float)
    for member in (space.sample(rng), space.from_unit(corner)):
        assert space.contains(member)
        assert space.clip(member) == member
        assert space.discount is not None or member.discount == space.fixed.discount


@settings(max_examples=30, deadline=None)
@given(SPACES, SEEDS)
def test_what_was_clipped_is_in_the_space(space: SearchSpace, seed: int) -> None:
    rng = np.random.default_rng(seed)
    member = random_member(rng).replace(
        activation=space.activation[-1], optimizer=space.optimizer[-1], loss=space.loss[-1]
    )
    clipped = space.clip(member)
    assert space.contains(clipped)
    assert space.contains(member) == (clipped == member)


@settings(max_examples=30, deadline=None)
@given(SPACES)
def test_yaml_there_and_back(space: SearchSpace) -> None:
    back = SearchSpace.from_dict(yaml.safe_load(yaml.safe_dump(space.to_dict())))
    assert back == space
    assert hash(back) == hash(space)


def test_the_yaml_form_holds_plain_values_and_only_what_is_set() -> None:
    assert SMALL.to_dict() == {
        "activation": ["relu", "tanh"],
        "optimizer": ["adam"],
        "loss": ["l2", "l1"],
        "learning_rate": [1e-4, 1e-2],
        "hidden": {"layers": [0, 2], "neurons": [8, 16]},
        "convolutions": {"layers": [1, 2], "channels": [4, 4], "kernel": [2, 3], "stride": [1, 2]},
        "fixed": {"discount": 0.9, "optimizer_options": {"eps": 1e-4}},
    }
    assert SearchSpace.from_dict(SMALL.to_dict()) == SMALL
    assert set(VECTORS.to_dict()) == {"activation", "optimizer", "loss", "learning_rate", "hidden"}


def test_only_what_the_space_does_not_vary_is_fixed() -> None:
    assert SearchSpace(fixed=Hyperparameters(hidden=(7,), loss="l1", padding="valid")) == SearchSpace(
        fixed=Hyperparameters(padding="valid")
    )
    assert SearchSpace(fixed=Hyperparameters(padding="valid")).to_dict()["fixed"] == {"padding": "valid"}


@pytest.mark.parametrize(
    ("change", "inside"),
    [
        ({}, True),
        ({"hidden": ()}, True),
        ({"hidden": (8, 16)}, True),
        ({"hidden": (8, 17)}, False),
        ({"hidden": (8, 8, 8)}, False),
        ({"activation": "elu"}, False),
        ({"optimizer": "sgd", "optimizer_options": ()}, False),
        ({"loss": "huber"}, False),
        ({"learning_rate": 1e-2}, True),
        ({"learning_rate": 1.01e-2}, False),
        ({"learning_rate": 0.99e-4}, False),
        ({"convolutions": ()}, False),
        ({"convolutions": (Convolution(4, 2, 1), Convolution(4, 3, 2))}, True),
        ({"convolutions": (Convolution(4, 2, 1), Convolution(5, 3, 2))}, False),
        ({"convolutions": (Convolution(4, 1, 1),)}, False),
        ({"convolutions": (Convolution(4, 2, 3),)}, False),
        ({"discount": 0.1, "optimizer_options": ()}, True),  # not part of the space
    ],
)
def test_contains(change: dict[str, Any], inside: bool) -> None:
    member = SMALL.from_unit(np.full(SMALL.dimensions, 0.5)).replace(**change)
    assert SMALL.contains(member) is inside


def test_clip_by_hand() -> None:
    member = Hyperparameters(
        learning_rate=1.0,
        hidden=(100, 12, 3),
        convolutions=(Convolution(1, 9, 9), Convolution(4, 2, 2), Convolution(4, 2, 2)),
        discount=0.3,
    )
    assert SMALL.clip(member) == member.replace(
        learning_rate=1e-2, hidden=(16, 12), convolutions=(Convolution(4, 3, 2), Convolution(4, 2, 2))
    )
    assert SMALL.clip(Hyperparameters()).convolutions == (Convolution(4, 2, 1),)
    assert VECTORS.clip(member) == member.replace(learning_rate=1e-2, hidden=(100, 25, 25), convolutions=())
    assert VECTORS.clip(Hyperparameters(hidden=())).hidden == (25,)
    deep = SearchSpace(hidden=DenseLayers(layers=(3, 3)))
    assert deep.clip(Hyperparameters(hidden=(30, 500))).hidden == (30, 200, 200)


def test_a_name_outside_the_space_cannot_be_clipped() -> None:
    with pytest.raises(UserError, match=r"unknown activation in this search space 'gelu'.*\(allowed: relu, tanh\)"):
        SMALL.clip(Hyperparameters(activation="gelu"))
    with pytest.raises(
        UserError, match=r"optimizer in this search space 'adamw'; did you mean 'adam'\? \(allowed: adam"
    ):
        SMALL.clip(Hyperparameters(optimizer="adamw"))


def test_a_space_that_narrows_a_named_one() -> None:
    space = SearchSpace.from_dict({"base": "images", "loss": ["l2", "huber"], "hidden": {"neurons": [64, 256]}})
    assert space.loss == ("l2", "huber")
    assert space.hidden == DenseLayers(layers=(0, 2), neurons=(64, 256))
    assert space.convolutions == IMAGES.convolutions
    assert SearchSpace.from_dict({"base": "images", "convolutions": None}).convolutions is None


def test_a_space_is_given_as_itself_by_name_as_a_file_or_as_values(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(SMALL.to_dict()))
    assert space_from(SMALL) is SMALL
    assert space_from("images") == IMAGES
    assert space_from(path) == space_from(str(path)) == space_from(SMALL.to_dict()) == SMALL
    path.write_text("loss: [l1")
    with pytest.raises(UserError, match=r"mine\.yaml is not valid YAML"):
        space_from(path)
    path.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(UserError, match="cannot read"):
        space_from(path)
    with pytest.raises(UserError, match=r"no such file\) 'vector'; did you mean 'vectors'"):
        space_from("vector")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "a search space must be a mapping"),
        ({"activations": ["relu"]}, r"unknown entry of a search space 'activations'; did you mean 'activation'\?"),
        ({"activation": ["rleu"]}, r"unknown activation 'rleu'; did you mean 'relu'\?"),
        ({"activation": []}, "activation in a search space must be a list of at least one name, but got \\[\\]"),
        ({"activation": {"relu": 1}}, "must be a list of at least one name"),
        ({"optimizer": 3}, "optimizer in a search space must be a list"),
        ({"loss": ["l1", "l2", "l1"]}, "every loss in a search space must be listed once, but 'l1' is listed twice"),
        ({"learning_rate": [1e-2, 1e-3]}, "bounds of learning_rate must be in ascending order"),
        ({"learning_rate": [0, 1e-3]}, "learning_rate must be a finite number of at least 1e-12, but got 0"),
        ({"learning_rate": [1e-4, 1e-3, 1e-2]}, "learning_rate in a search space must be a lower and an upper bound"),
        ({"learning_rate": None}, "must be a lower and an upper bound, but got None"),
        ({"learning_rate": "fast"}, "learning_rate must be a number, but got 'fast'"),
        ({"hidden": 3}, "hidden in a search space must be a mapping"),
        ({"hidden": {"width": [1, 2]}}, r"unknown bound of hidden 'width'.*\(allowed: layers, neurons\)"),
        ({"hidden": {"layers": [-1, 2]}}, "hidden.layers must be a whole number of at least 0, but got -1"),
        ({"hidden": {"neurons": [0, 2]}}, "hidden.neurons must be a whole number of at least 1, but got 0"),
        ({"hidden": {"neurons": [1.5, 2]}}, "hidden.neurons must be a whole number"),
        ({"convolutions": {"kernel": True}}, "convolutions.kernel must be a finite number"),
        ({"convolutions": {"strides": 2}}, r"unknown bound of convolutions 'strides'; did you mean 'stride'\?"),
        ({"fixed": {"loss": "l1"}}, "loss cannot be fixed, because the space varies it"),
        ({"fixed": {"discuont": 0.9}}, r"unknown hyperparameter 'discuont'; did you mean 'discount'\?"),
        ({"fixed": 0.9}, "fixed in a search space must be a mapping"),
        (
            {"fixed": {"optimizer_options": {"eps": 1e-4}}},
            "only if the search space has a single optimizer.* it has 24",
        ),
        ({"base": "pixels"}, "unknown search space 'pixels'"),
    ],
)
def test_mistakes_get_one_sentence(values: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        SearchSpace.from_dict(values)


def test_importing_the_module_imports_neither_configspace_nor_jax() -> None:
    code = (
        "import sys, adaqn.members.space; adaqn.members.space.SearchSpace.named('images'); "
        "print({'ConfigSpace', 'scipy', 'jax'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_discounts_are_sampled_uniformly_where_the_space_has_them() -> None:
    space = SearchSpace(discount=(0.985, 0.995))
    assert space.dimensions == SearchSpace().dimensions + 1
    rng = np.random.default_rng(0)
    found = np.array([space.sample(rng).discount for _ in range(1_000)], float)
    assert found.min() >= 0.985 and found.max() <= 0.995
    # The mean and the deviation of a uniform distribution, within four standard errors.
    assert abs(found.mean() - 0.99) < 4 * 0.01 / np.sqrt(12 * 1_000)
    assert abs(found.std() - 0.01 / np.sqrt(12)) < 2e-4
    assert SearchSpace.from_dict(space.to_dict()) == space
    assert SearchSpace.from_dict({"base": "vectors", "discount": [0.9, 0.95]}).discount == (0.9, 0.95)
    assert all(SearchSpace.named(name).discount is None for name in named_spaces())
    assert "discount" not in SearchSpace().to_dict()


def test_a_member_without_a_discount_is_not_in_a_space_with_discounts() -> None:
    space = SearchSpace(discount=(0.9, 0.95))
    assert not space.contains(Hyperparameters()) and space.clip(Hyperparameters()).discount == 0.9
    assert space.contains(Hyperparameters(discount=0.92)) and not space.contains(Hyperparameters(discount=0.96))
    assert space.largest().discount == 0.9
    assert SearchSpace().contains(Hyperparameters(discount=0.96))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"discount": [0.9, 1.1]}, "discount must be a finite number between 0 and 1, but got 1.1"),
        ({"discount": [0.9]}, r"discount in a search space must be a lower and an upper bound, but got \[0.9\]"),
        (
            {"discount": [0.9, 0.95], "fixed": {"discount": 0.9}},
            "discount cannot be fixed, because the space varies it",
        ),
    ],
)
def test_discounts_that_cannot_be_are_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        SearchSpace.from_dict(given)


def test_kinds_of_layers_are_dimensions_only_where_they_are_listed() -> None:
    space = SearchSpace.from_dict({"normalization": ["none", "layer"], "block": "residual"})
    assert space.dimensions == SearchSpace().dimensions + 1
    assert space.to_dict()["normalization"] == ["none", "layer"]
    assert space.to_dict()["block"] == ["residual"]
    assert SearchSpace.from_dict(space.to_dict()) == space
    assert not {"normalization", "block"} & set(SearchSpace().to_dict())
    members = [space.sample(np.random.default_rng(seed)) for seed in range(40)]
    assert {member.normalization for member in members} == {"none", "layer"}
    assert {member.block for member in members} == {"residual"}
    assert all(space.contains(member) for member in members)
    assert not space.contains(members[0].replace(block="plain"))
    assert space.largest().block == "residual"


def test_kinds_of_layers_can_be_fixed() -> None:
    space = SearchSpace.from_dict({"fixed": {"block": "residual", "normalization": "layer"}})
    member = space.sample(np.random.default_rng(0))
    assert (member.block, member.normalization) == ("residual", "layer")
    assert space.largest().block == "residual"
    assert space.to_dict()["fixed"] == {"block": "residual", "normalization": "layer"}
    with pytest.raises(UserError, match="block cannot be fixed, because the space varies it: give it a single value"):
        SearchSpace.from_dict({"block": ["plain", "residual"], "fixed": {"block": "residual"}})
    with pytest.raises(UserError, match=r"unknown block 'residul'; did you mean 'residual'\?"):
        SearchSpace(block=("residul",))


def test_the_modern_space() -> None:
    space = SearchSpace.named("modern")
    assert space.dimensions == 10
    assert SearchSpace.from_dict(space.to_dict()) == space
    members = [space.sample(np.random.default_rng(seed)) for seed in range(200)]
    assert all(space.contains(member) for member in members)
    assert len({(member.normalization, member.block) for member in members}) == 4
    norms = np.log([member.max_grad_norm or np.nan for member in members])
    assert (np.log(0.5) <= norms).all()
    assert (norms <= np.log(100.0)).all()
    assert abs(norms.mean() - np.log(50.0) / 2) < 4 * np.log(200.0) / np.sqrt(12 * 200)
    decaying = {"adamw", "lion", "nadamw"}
    assert {member.optimizer for member in members if member.weight_decay is not None} == decaying
    assert {member.optimizer for member in members if member.weight_decay is None} == set(space.optimizer) - decaying
    decays = np.log10([member.weight_decay for member in members if member.weight_decay is not None])
    assert decays.min() < -4.5
    assert decays.max() > -2.5
    assert ((decays >= -5.0 - 1e-9) & (decays <= -2.0 + 1e-9)).all()


def test_clipping_to_a_space_with_limits_and_weight_decay() -> None:
    space = SearchSpace(max_grad_norm=(1.0, 10.0), weight_decay=(1e-4, 1e-2), optimizer=("adam", "adamw"))
    assert space.clip(Hyperparameters()).max_grad_norm == 10.0
    assert space.clip(Hyperparameters(max_grad_norm=0.5)).max_grad_norm == 1.0
    assert space.clip(Hyperparameters()).weight_decay is None
    assert space.clip(Hyperparameters(optimizer="adamw")).weight_decay == 1e-4
    strong = Hyperparameters(optimizer="adamw", optimizer_options=(("eps", 1e-5), ("weight_decay", 0.5)))
    assert space.clip(strong).optimizer_options == (("eps", 1e-5), ("weight_decay", 1e-2))
    assert space.largest().max_grad_norm == 1.0
    free = SearchSpace()
    assert (free.clip(strong).weight_decay, free.clip(Hyperparameters(max_grad_norm=3.0)).max_grad_norm) == (0.5, 3.0)


def test_weight_decay_without_an_optimizer_that_has_it_is_refused() -> None:
    with pytest.raises(UserError, match=r"weight_decay needs an optimizer that has it .* but it has adam, sgd"):
        SearchSpace(weight_decay=(1e-4, 1e-2), optimizer=("adam", "sgd"))
    with pytest.raises(UserError, match=r"weight_decay cannot be fixed, because the space varies it"):
        SearchSpace(
            weight_decay=(1e-4, 1e-2),
            optimizer=("adamw",),
            fixed=Hyperparameters(optimizer="adamw", optimizer_options=(("weight_decay", 0.5),)),
        )


TWO_HEADS = {"head": ["scalar", "categorical"], "loss": ["huber", "l1"], "fixed": {"value_range": [-5, 5], "bins": 7}}


def test_a_head_is_a_dimension_only_where_it_is_listed() -> None:
    space = SearchSpace.from_dict(TWO_HEADS)
    assert space.dimensions == SearchSpace().dimensions + 1
    assert space.to_dict()["head"] == ["scalar", "categorical"]
    assert space.to_dict()["fixed"] == TWO_HEADS["fixed"]
    assert SearchSpace.from_dict(yaml.safe_load(yaml.safe_dump(space.to_dict()))) == space
    assert "head" not in SearchSpace().to_dict()
    members = [space.sample(np.random.default_rng(seed)) for seed in range(60)]
    assert all(space.contains(member) for member in members)
    # A categorical head has no loss of its own, whichever losses the space has.
    kinds = {(member.head, member.loss, member.bins, member.value_range) for member in members}
    assert kinds == {(*kind, 7, (-5.0, 5.0)) for kind in (("categorical", "l2"), ("scalar", "huber"), ("scalar", "l1"))}
    assert space.largest().head == "categorical"
    assert not space.contains(members[0].replace(head="scalar", loss="l2"))


def test_without_scalar_heads_the_loss_is_no_dimension() -> None:
    fixed = {"value_range": [-5, 5], "head": "categorical"}
    for values in ({"fixed": fixed}, {"head": "categorical", "fixed": {"value_range": [-5, 5]}}):
        space = SearchSpace.from_dict(values)
        assert space.dimensions == SearchSpace().dimensions - 1
        assert "loss" not in space.configuration_space
        member = space.sample(np.random.default_rng(0))
        assert (member.head, member.loss) == ("categorical", "l2")
        assert space.contains(member) and space.largest().head == "categorical"
        assert SearchSpace.from_dict(space.to_dict()) == space


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"head": "categorical"}, "a categorical head in a search space needs fixed.value_range"),
        ({"head": ["scaler"]}, r"unknown head 'scaler'; did you mean 'scalar'\?"),
        (
            {"head": ["scalar", "categorical"], "fixed": {"head": "categorical", "value_range": [0, 1]}},
            "head cannot be fixed, because the space varies it",
        ),
    ],
)
def test_heads_that_cannot_be_are_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        SearchSpace.from_dict(given)
