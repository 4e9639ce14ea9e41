"""One contract for all mutations, what each of them changes, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaqn.base.errors import UserError
from adaqn.members.evolution import DEFAULT_MUTATIONS, FURTHER_MUTATIONS, mutate, mutation, mutation_names
from adaqn.members.hyperparameters import ACTIVATIONS, LOSSES, OPTIMIZERS, Convolution, Hyperparameters
from adaqn.members.space import ConvolutionLayers, DenseLayers, SearchSpace
from adaqn.networks.optimizers import check_options

VECTORS = SearchSpace.named("vectors")
IMAGES = SearchSpace.named("images")
SMALL = SearchSpace(
    activation=("relu", "tanh"),
    optimizer=("adam", "sgd"),
    loss=("l2",),
    learning_rate=(1e-3, 1.1e-3),
    hidden=DenseLayers(layers=(0, 2), neurons=(8, 16)),
    convolutions=ConvolutionLayers(layers=(0, 2), channels=(4, 4), kernel=(2, 3), stride=(1, 2)),
)
HELD = SearchSpace(
    activation=("relu",),
    optimizer=("adam",),
    loss=("l2",),
    learning_rate=(3e-4, 3e-4),
    hidden=DenseLayers(layers=(2, 2), neurons=(200, 200)),
)
OF_FIELD = {  # what a mutation may change
    "activation": {"activation"},
    "architecture": {"hidden", "convolutions"},
    "learning_rate": {"learning_rate"},
    "loss": {"loss"},
    "optimizer": {"optimizer", "optimizer_options"},
}
MIDDLE = Hyperparameters(hidden=(100, 100), convolutions=(Convolution(32, 4, 3),) * 2, learning_rate=1e-4)


def changed(before: Hyperparameters, after: Hyperparameters) -> set[str]:
    return {name for name, value in vars(before).items() if getattr(after, name) != value}


def outcomes(name: str, space: SearchSpace, member: Hyperparameters, draws: int) -> Counter[Hyperparameters]:
    rng = np.random.default_rng(0)
    return Counter(mutation(name).mutate(rng, space, member) for _ in range(draws))


def assert_shares(seen: Mapping[Any, int], expected: Mapping[Any, float]) -> None:
    draws = sum(seen.values())
    assert set(seen) <= set(expected)
    for outcome, p in expected.items():
        assert abs(seen.get(outcome, 0) / draws - p) <= 4.5 * np.sqrt(p * (1.0 - p) / draws), outcome


def test_the_mutations_are_found_by_name() -> None:
    assert set(OF_FIELD) <= set(mutation_names())
    with pytest.raises(UserError, match=r"unknown mutation 'los'; did you mean 'loss'\?"):
        mutation("los")


@pytest.mark.parametrize("space", [VECTORS, IMAGES, SMALL], ids=["vectors", "images", "small"])
@pytest.mark.parametrize("name", mutation_names())
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_contract(name: str, space: SearchSpace, seed: int) -> None:
    member = space.sample(np.random.default_rng(seed)).replace(discount=0.7)
    if not mutation(name).applies(space, member):
        assert name not in OF_FIELD or (name, space) == ("loss", SMALL)
        return
    after = mutation(name).mutate(np.random.default_rng(seed), space, member)
    assert after == mutation(name).mutate(np.random.default_rng(seed), space, member)
    # An unknown mutation may change anything that a space varies, which excludes the discount here.
    assert changed(member, after) <= OF_FIELD.get(name, set.union(*OF_FIELD.values()))
    assert space.contains(after)
    draw = np.random.default_rng(seed)
    assert any(mutation(name).mutate(draw, space, member) != member for _ in range(40)), "it applies, but does nothing"


@pytest.mark.parametrize("space", [VECTORS, IMAGES, SMALL], ids=["vectors", "images", "small"])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_long_chains_stay_in_the_space(space: SearchSpace, seed: int) -> None:
    rng = np.random.default_rng(seed)
    member = space.sample(rng)
    names = set()
    for _ in range(250):
        name, after = mutate(rng, space, member, DEFAULT_MUTATIONS)
        assert changed(member, after) <= OF_FIELD[name]
        assert space.contains(after)
        names.add(name)
        member = after
    assert names >= set(OF_FIELD) - ({"loss"} if space is SMALL else set())


def test_a_chain_gets_everywhere() -> None:
    rng = np.random.default_rng(0)
    member = IMAGES.sample(rng)
    chain = []
    for _ in range(8_000):
        _, member = mutate(rng, IMAGES, member, DEFAULT_MUTATIONS)
        chain.append(member)
    assert {m.activation for m in chain} == set(ACTIVATIONS)
    assert {m.optimizer for m in chain} == set(OPTIMIZERS)
    assert {m.loss for m in chain} == set(LOSSES)
    assert {len(m.hidden) for m in chain} == {0, 1, 2}
    assert {len(m.convolutions) for m in chain} == {1, 2, 3}
    assert {m.convolutions[0].kernel for m in chain} == set(range(2, 9))
    assert {m.convolutions[0].stride for m in chain} == {2, 3, 4, 5}
    assert {16, 64} <= {m.convolutions[0].channels for m in chain}
    assert {25, 512} <= {m.hidden[0] for m in chain if m.hidden}
    assert 1e-6 in {m.learning_rate for m in chain}  # 0.8 and 1.2 together are less than 1: chains drift down


def test_the_mutations_that_apply_are_equally_likely() -> None:
    rng = np.random.default_rng(0)
    assert_shares(
        Counter(mutate(rng, IMAGES, MIDDLE, DEFAULT_MUTATIONS)[0] for _ in range(2_500)), dict.fromkeys(OF_FIELD, 0.2)
    )
    one_loss = SearchSpace(loss=("l2",), learning_rate=(1e-3, 1e-3))
    names = Counter(
        mutate(rng, one_loss, Hyperparameters(learning_rate=1e-3), DEFAULT_MUTATIONS)[0] for _ in range(2_000)
    )
    assert_shares(names, dict.fromkeys(["activation", "architecture", "optimizer"], 1 / 3))


def test_a_space_of_one_member_leaves_nothing_to_mutate() -> None:
    with pytest.raises(UserError, match=r"none of the mutations activation, .*, optimizer can change a member"):
        mutate(np.random.default_rng(0), HELD, Hyperparameters(), DEFAULT_MUTATIONS)


@pytest.mark.parametrize(("name", "values"), [("activation", ACTIVATIONS), ("optimizer", OPTIMIZERS), ("loss", LOSSES)])
def test_from_every_name_to_every_other(name: str, values: tuple[str, ...]) -> None:
    for value in values:
        seen = outcomes(name, VECTORS, Hyperparameters().replace(**{name: value}), draws=20 * len(values))
        others = [other for other in values if other != value]
        assert_shares(
            {getattr(member, name): times for member, times in seen.items()},
            dict.fromkeys(others, 1 / len(others)),
        )
        assert {getattr(member, name) for member in seen} == set(others)


def test_options_of_another_optimizer_go() -> None:
    adam = Hyperparameters(optimizer="adam", optimizer_options=(("b1", 0.5), ("eps", 1e-4)))
    space = SearchSpace(optimizer=("adam", "rmsprop"))
    (rmsprop,) = outcomes("optimizer", space, adam, draws=5)
    assert rmsprop == adam.replace(optimizer="rmsprop", optimizer_options=(("eps", 1e-4),))
    for member in outcomes("optimizer", VECTORS, adam, draws=500):
        check_options(member)


def test_the_learning_rate_goes_down_or_up_by_a_fifth() -> None:
    member = Hyperparameters(learning_rate=1e-3)
    seen = outcomes("learning_rate", VECTORS, member, draws=2_000)
    assert_shares(seen, {member.replace(learning_rate=1e-3 * 0.8): 0.5, member.replace(learning_rate=1e-3 * 1.2): 0.5})
    assert {m.learning_rate for m in outcomes("learning_rate", SMALL, member, draws=50)} == {1e-3, 1.1e-3}


def test_the_probabilities_of_the_architecture_for_images() -> None:
    def all_convolutions(*shape: int) -> Hyperparameters:
        return MIDDLE.replace(convolutions=(Convolution(*shape),) * 2)

    seen = outcomes("architecture", IMAGES, MIDDLE, draws=6_000)
    third = 0.4 / 3 / 2
    assert_shares(
        seen,
        {
            MIDDLE.replace(convolutions=(Convolution(32, 4, 3),)): 0.05,
            MIDDLE.replace(convolutions=(Convolution(32, 4, 3),) * 3): 0.05,
            all_convolutions(28, 4, 3): third,
            all_convolutions(36, 4, 3): third,
            all_convolutions(32, 3, 3): third,
            all_convolutions(32, 5, 3): third,
            all_convolutions(32, 4, 2): third,
            all_convolutions(32, 4, 4): third,
            MIDDLE.replace(hidden=(100,)): 0.05,
            MIDDLE: 0.05,  # a third hidden layer is one too many
            MIDDLE.replace(hidden=(84, 84)): 0.2,
            MIDDLE.replace(hidden=(116, 116)): 0.2,
        },
    )


def test_the_probabilities_of_the_architecture_for_vectors() -> None:
    member = Hyperparameters(hidden=(100, 60))
    seen = outcomes("architecture", VECTORS, member, draws=3_000)
    expected = {(100,): 0.1, (100, 60, 60): 0.1, (84, 44): 0.4, (116, 76): 0.4}
    assert_shares(seen, {member.replace(hidden=hidden): p for hidden, p in expected.items()})


def test_the_architecture_is_clipped() -> None:
    seen = outcomes("architecture", VECTORS, Hyperparameters(hidden=(30,)), draws=300)
    assert {member.hidden for member in seen} == {(30,), (30, 30), (25,), (46,)}
    seen = outcomes("architecture", VECTORS, Hyperparameters(hidden=(190, 30, 40)), draws=300)
    assert {member.hidden for member in seen} == {(190, 30, 40), (190, 30), (174, 25, 25), (200, 46, 56)}
    edge = Hyperparameters(hidden=(25,), convolutions=(Convolution(16, 2, 5),))
    assert {m.convolutions for m in outcomes("architecture", IMAGES, edge, draws=500)} == {
        (Convolution(16, 2, 5),),
        (Convolution(16, 2, 5),) * 2,
        (Convolution(20, 2, 5),),
        (Convolution(16, 3, 5),),
        (Convolution(16, 2, 4),),
    }


def test_a_first_layer_is_drawn_from_the_space() -> None:
    # Without hidden layers there are no neurons to change: 0.4 of the probability goes to the others.
    linear = MIDDLE.replace(hidden=())
    seen = outcomes("architecture", IMAGES, linear, draws=6_000)
    grown = {member.hidden: times for member, times in seen.items() if member.hidden}
    assert_shares(
        {"grown": sum(grown.values()), "other": 6_000 - sum(grown.values())}, {"grown": 1 / 12, "other": 11 / 12}
    )
    widths = [hidden[0] for hidden in grown]
    assert all(len(hidden) == 1 for hidden in grown)
    assert min(widths) in range(25, 45)
    assert max(widths) in range(492, 513)
    empty = Hyperparameters(hidden=(), convolutions=())
    assert {member.convolutions for member in outcomes("architecture", SMALL, empty, draws=400)} == {
        (),
        *((Convolution(4, kernel, stride),) for kernel in (2, 3) for stride in (1, 2)),
    }


def test_what_has_one_value_does_not_change() -> None:
    for space, member in (
        (HELD, Hyperparameters()),
        (SearchSpace(hidden=DenseLayers(layers=(0, 0))), Hyperparameters(hidden=())),
    ):
        assert not mutation("architecture").applies(space, member)
    assert not any(mutation(name).applies(HELD, Hyperparameters()) for name in mutation_names())
    # The paper's spaces do not vary all.
    absent = {name for name in mutation_names() if not mutation(name).applies(VECTORS, Hyperparameters())}
    assert absent == {"discount", "block", "normalization", "max_grad_norm", "weight_decay", "head"}
    assert "discount" not in DEFAULT_MUTATIONS


def test_a_discount_gets_a_longer_or_a_shorter_horizon() -> None:
    space = SearchSpace(discount=(0.985, 0.995))
    seen = outcomes("discount", space, Hyperparameters(discount=0.99), 1_000)
    discounts = {float(f"{member.discount:.6g}"): count for member, count in seen.items()}
    assert_shares(discounts, {0.992: 0.5, 0.988: 0.5})
    assert all(member.replace(discount=0.99) == Hyperparameters(discount=0.99) for member in seen)
    # At a bound it stays there, or moves away from it.
    ends = {member.discount or 0.0 for member in outcomes("discount", space, Hyperparameters(discount=0.985), 50)}
    assert sorted(ends) == [0.985, pytest.approx(0.988)]
    # One that the member does not have of its own becomes one of the space.
    assert all(space.contains(member) for member in outcomes("discount", space, Hyperparameters(), 20))
    assert not mutation("discount").applies(SearchSpace(discount=(0.99, 0.99)), Hyperparameters(discount=0.99))
    layers_alone = SearchSpace(hidden=DenseLayers(layers=(1, 3), neurons=(50, 50)))
    seen = outcomes("architecture", layers_alone, Hyperparameters(hidden=(50, 50)), draws=400)
    assert_shares({member.hidden: times for member, times in seen.items()}, {(50,): 0.5, (50, 50, 50): 0.5})


LAYER_KINDS = SearchSpace(
    normalization=("none", "layer"),
    block=("plain", "residual"),
    hidden=DenseLayers(layers=(0, 2), neurons=(8, 16)),
)


def test_normalization_and_block_become_the_other_value() -> None:
    member = Hyperparameters(hidden=(8, 8))
    assert outcomes("normalization", LAYER_KINDS, member, 20) == {member.replace(normalization="layer"): 20}
    assert outcomes("block", LAYER_KINDS, member, 20) == {member.replace(block="residual"): 20}
    residual = member.replace(block="residual", normalization="layer")
    assert outcomes("block", LAYER_KINDS, residual, 20) == {member.replace(normalization="layer"): 20}


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("normalization", {}, True),
        ("normalization", {"hidden": ()}, False),  # has no effect
        ("normalization", {"block": "residual"}, False),  # blocks have norms of their own
        ("block", {}, True),
        ("block", {"hidden": ()}, False),
        ("block", {"hidden": (8, 16)}, False),  # a block adds its input to its output
        ("block", {"hidden": (8, 8), "block": "residual"}, True),
    ],
)
def test_kinds_of_layers_mutate_only_where_they_matter(name: str, changes: dict[str, Any], expected: bool) -> None:
    member = Hyperparameters(hidden=(8,)).replace(**changes)
    assert mutation(name).applies(LAYER_KINDS, member) is expected
    for space in (VECTORS, HELD):
        assert mutation(name).applies(space, member) is False


def test_the_default_mutations_reach_every_kind_of_layer() -> None:
    rng, member, seen = np.random.default_rng(0), Hyperparameters(hidden=(8, 8)), set()
    for _ in range(300):
        _, member = mutate(rng, LAYER_KINDS, member, DEFAULT_MUTATIONS)
        assert LAYER_KINDS.contains(member)
        seen.add((member.normalization, member.block))
    assert len(seen) == 4


MODERN = SearchSpace.named("modern")


def test_clipping_and_weight_decay_are_halved_or_doubled() -> None:
    member = Hyperparameters(
        hidden=(64,), optimizer="adamw", optimizer_options=(("weight_decay", 1e-3),), max_grad_norm=2.0
    )
    norms = {m.max_grad_norm: count for m, count in outcomes("max_grad_norm", MODERN, member, 400).items()}
    assert_shares(norms, {1.0: 0.5, 4.0: 0.5})
    decays = {m.weight_decay: count for m, count in outcomes("weight_decay", MODERN, member, 400).items()}
    assert_shares(decays, {5e-4: 0.5, 2e-3: 0.5})
    # At a bound, they stay there or move away from it; without a value of their own, they start from a bound.
    ends = outcomes("max_grad_norm", MODERN, member.replace(max_grad_norm=None), 50)
    assert {m.max_grad_norm for m in ends} == {50.0, 100.0}
    assert not mutation("weight_decay").applies(MODERN, member.replace(optimizer="adam", optimizer_options=()))
    assert not mutation("max_grad_norm").applies(VECTORS, member)


def test_an_optimizer_with_weight_decay_gets_one_of_the_space_and_others_none() -> None:
    member = Hyperparameters(
        hidden=(64,), optimizer="adamw", optimizer_options=(("weight_decay", 1e-3),), max_grad_norm=2.0
    )
    seen = {m.optimizer: m.optimizer_options for m in outcomes("optimizer", MODERN, member, 200)}
    kept, without = (("weight_decay", 1e-3),), ()
    assert seen == {"adam": without, "lion": kept, "nadamw": kept, "radam": without, "rmsprop": without}
    adam = member.replace(optimizer="adam", optimizer_options=())
    seen = {m.optimizer: m.weight_decay for m in outcomes("optimizer", MODERN, adam, 200)}
    assert seen == {"adamw": 1e-5, "lion": 1e-5, "nadamw": 1e-5, "radam": None, "rmsprop": None}


def test_long_chains_in_the_modern_space() -> None:
    rng = np.random.default_rng(0)
    member, names = MODERN.sample(rng), set()
    for _ in range(400):
        name, member = mutate(rng, MODERN, member, DEFAULT_MUTATIONS)
        assert MODERN.contains(member)
        names.add(name)
    assert names == {*DEFAULT_MUTATIONS, *FURTHER_MUTATIONS} - {"head"}


TWO_HEADS = SearchSpace.from_dict(
    {"head": ["scalar", "categorical"], "loss": ["huber", "l1"], "fixed": {"value_range": [-5, 5], "bins": 7}}
)


def test_a_head_becomes_the_other_and_its_loss_fits() -> None:
    scalar = Hyperparameters(loss="huber", value_range=(0, 1))
    categorical = scalar.replace(head="categorical", loss="l2")
    assert outcomes("head", TWO_HEADS, scalar, 20) == {categorical: 20}
    # A member of the user without a range gets that of the space.
    (found,) = outcomes("head", TWO_HEADS, Hyperparameters(loss="l1"), 20)
    assert found == Hyperparameters(head="categorical", value_range=(-5, 5))
    assert_shares(outcomes("head", TWO_HEADS, categorical, 400), {scalar: 0.5, scalar.replace(loss="l1"): 0.5})


def test_the_loss_of_a_categorical_head_does_not_mutate() -> None:
    member = TWO_HEADS.fixed.replace(head="categorical")
    assert mutation("loss").applies(TWO_HEADS, member.replace(head="scalar"))
    assert not mutation("loss").applies(TWO_HEADS, member)
    rng, seen = np.random.default_rng(0), set()
    for _ in range(300):
        name, member = mutate(rng, TWO_HEADS, member, DEFAULT_MUTATIONS)
        assert TWO_HEADS.contains(member)
        seen.add((name, member.head, member.loss))
    assert {(head, loss) for _, head, loss in seen} == {("categorical", "l2"), ("scalar", "huber"), ("scalar", "l1")}
    assert ("head", "categorical", "l2") in seen and ("head", "scalar", "l1") in seen
