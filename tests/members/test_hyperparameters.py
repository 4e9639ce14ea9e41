"""Tests of Hyperparameters, grids, their YAML form, and error messages."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from adaqn.base.checks import count
from adaqn.base.errors import UserError
from adaqn.members.hyperparameters import (
    ACTIVATIONS,
    LOSSES,
    OPTIMIZERS,
    Convolution,
    Hyperparameters,
    convolutions_from_text,
    grid,
    members_from,
)
from adaqn.networks.optimizers import check_options


def test_a_grid_is_the_product_with_the_last_column_varying_fastest() -> None:
    members = grid(hidden=[(25, 25), (50,)], learning_rate=[3e-4, 1e-3], loss=["l2"])
    assert [(m.hidden, m.learning_rate) for m in members] == [
        ((25, 25), 3e-4),
        ((25, 25), 1e-3),
        ((50,), 3e-4),
        ((50,), 1e-3),
    ]
    assert {m.loss for m in members} == {"l2"}


def test_the_order_of_a_grid_is_that_of_its_columns() -> None:
    members = grid(learning_rate=[3e-4, 1e-3], hidden=[(25, 25), (50,)])
    assert [(m.learning_rate, m.hidden) for m in members] == [
        (3e-4, (25, 25)),
        (3e-4, (50,)),
        (1e-3, (25, 25)),
        (1e-3, (50,)),
    ]


def test_a_list_may_repeat_members_and_a_grid_may_not() -> None:
    twice = [Hyperparameters(hidden=(64,))] * 2
    assert members_from(twice) == tuple(twice)
    with pytest.raises(UserError) as caught:
        grid(loss=["l1", "l2"], hidden=[(64,), 32, 64])
    assert str(caught.value) == (
        "members 0 and 2 of this grid are equal, but a grid must list every value once (a list, members=[...], may "
        "repeat members on purpose); one network with several layers is written 64x64 on the command line, (64, 64) in "
        "Python"
    )


@pytest.mark.parametrize(
    ("values", "equal", "hint"),
    [
        ({"learning_rate": [1e-3, "0.001"]}, "members 0 and 1", "on purpose)$"),
        ({"learning_rate": [1e-3, 1e-4], "loss": ["l1", "l2", "l1"]}, "members 0 and 2", "on purpose)$"),
        ({"optimizer.eps": [1.0, 2.0, 1]}, "members 0 and 2", "on purpose)$"),
        ({"convolutions": [[Convolution(64, 3, 1)]] * 2}, "members 0 and 1", "64k3s1+64k3s1 on the command line"),
    ],
)
def test_members_of_a_grid_that_come_out_equal_are_told(values: dict[str, Any], equal: str, hint: str) -> None:
    end = re.escape(hint.removesuffix("$")) + ("$" if hint.endswith("$") else "")
    with pytest.raises(UserError, match=f"^{equal} of this grid are equal.*{end}"):
        grid(**values)


def test_there_are_at_most_a_thousand_members() -> None:
    assert len(grid(hidden=list(range(1, 101)), learning_rate=[n / 1000 for n in range(10)])) == 1_000
    with pytest.raises(UserError, match=r"^this grid makes 1001 members, but there can be at most 1000$"):
        grid(hidden=range(1, 1002))
    # Refused before the product is built, which would exhaust memory.
    many = {f"optimizer.{letter}": range(1_000) for letter in "abcdef"}
    with pytest.raises(UserError, match=f"^this grid makes 1{'0' * 18} members, but there can be at most 1000$"):
        grid(**many)
    with pytest.raises(UserError, match=r"^members has 1001 members, but there can be at most 1000$"):
        members_from([Hyperparameters()] * 1001)


LAYERS = st.builds(Convolution, *[st.integers(1, 2**40)] * 3)


@given(st.lists(LAYERS, max_size=5))
def test_convolutions_in_one_word_are_those_that_were_written(layers: list[Convolution]) -> None:
    text = "+".join(f"{layer.channels}k{layer.kernel}s{layer.stride}" for layer in layers) or "none"
    assert convolutions_from_text(text) == tuple(layers)


@pytest.mark.parametrize("text", ["", "32", "32k8", "32c8s4", "32k8s4+", "32k8s4 64k4s2", "32k8s4x64k4s2", "-1k2s3"])
def test_convolutions_that_cannot_be_read_are_told_with_an_example(text: str) -> None:
    with pytest.raises(UserError) as caught:
        convolutions_from_text(text)
    assert str(caught.value) == (
        "convolutions must be channels, k and kernel, s and stride, joined by +, such as 32k8s4+64k4s2+64k3s1, "
        f"or none, but got {text!r}"
    )


def test_a_convolution_in_one_word_is_checked_as_any_other() -> None:
    with pytest.raises(UserError, match="convolution stride must be a whole number of at least 1, but got 0"):
        convolutions_from_text("32k8s0")


@pytest.mark.parametrize(
    ("name", "instead"),
    [("gamma", "called discount"), ("lr", "called learning_rate"), ("batch_size", "a setting of the run")],
)
def test_names_of_other_libraries_and_shared_settings_are_explained(name: str, instead: str) -> None:
    with pytest.raises(UserError, match=f"^unknown hyperparameter '{name}': .*{instead}"):
        grid(**{name: [1, 2]})
    with pytest.raises(UserError, match=f"^unknown hyperparameter '{name}': .*{instead}"):
        Hyperparameters.from_dict({name: 1})


def test_a_grid_without_columns_is_its_base() -> None:
    assert grid() == (Hyperparameters(),)
    assert grid(Hyperparameters(loss="l1")) == (Hyperparameters(loss="l1"),)


def test_a_grid_sets_options_of_the_optimizer_and_keeps_those_of_its_base() -> None:
    base = Hyperparameters(activation="tanh", optimizer_options=(("b1", 0.5), ("eps", 1.0)))
    members = grid(base, **{"optimizer.eps": [1.5e-8, 1.5e-4]})
    assert [m.optimizer_options for m in members] == [
        (("b1", 0.5), ("eps", 1.5e-8)),
        (("b1", 0.5), ("eps", 1.5e-4)),
    ]
    assert {m.activation for m in members} == {"tanh"}


def test_a_grid_over_whole_sets_of_options() -> None:
    members = grid(optimizer_options=[{"eps": 0.5}, {}])
    assert [m.optimizer_options for m in members] == [(("eps", 0.5),), ()]


FULL = Hyperparameters(
    hidden=(16, 8),
    activation="gelu",
    optimizer="rmsprop",
    optimizer_options=(("decay", 0.95), ("eps", 1e-6)),
    learning_rate=2.5e-4,
    loss="huber",
    discount=0.9,
    convolutions=(Convolution(32, 8, 4), Convolution(64, 4, 2)),
    padding="valid",
)
VALID = Hyperparameters(padding="valid")


@pytest.mark.parametrize("member", [Hyperparameters(), FULL, Hyperparameters(hidden=(), discount=0.0), VALID])
def test_yaml_there_and_back(member: Hyperparameters) -> None:
    assert Hyperparameters.from_dict(yaml.safe_load(yaml.safe_dump(member.to_dict()))) == member


def test_the_yaml_form_holds_plain_values_and_only_what_is_set() -> None:
    assert Hyperparameters().to_dict() == {
        "hidden": [200, 200],
        "activation": "relu",
        "optimizer": "adam",
        "learning_rate": 3e-4,
        "loss": "l2",
    }
    assert FULL.to_dict()["optimizer_options"] == {"decay": 0.95, "eps": 1e-6}
    assert FULL.to_dict()["convolutions"][0] == {"channels": 32, "kernel": 8, "stride": 4}
    assert FULL.to_dict()["padding"] == "valid"
    assert FULL.replace(padding="same").to_dict()["padding"] == "same"
    assert VALID.to_dict()["padding"] == "valid"


def test_numbers_that_yaml_reads_as_text_are_numbers() -> None:
    # YAML 1.1 reads "1e-3", without a decimal point, as text.
    given = yaml.safe_load("learning_rate: 1e-3\nhidden: [32, 3.2e1]\noptimizer_options: {eps: 1e-5}")
    member = Hyperparameters.from_dict(given)
    assert member == Hyperparameters(learning_rate=1e-3, hidden=(32, 32), optimizer_options=(("eps", 1e-5),))
    assert [type(width) for width in member.hidden] == [int, int]


def test_a_convolution_holds_whole_numbers() -> None:
    layer = Convolution(channels="32", kernel=8.0, stride=4)  # type: ignore[arg-type]
    assert layer == Convolution(32, 8, 4)
    assert type(layer.channels) is int


def test_the_order_of_options_makes_no_difference() -> None:
    one = Hyperparameters(optimizer_options=(("eps", 1.0), ("b1", 0.5)))
    other = Hyperparameters(optimizer_options=(("b1", 0.5), ("eps", 1.0)))
    assert one == other
    assert hash(one) == hash(other)


def test_only_names_and_sizes_are_part_of_the_architecture() -> None:
    same = FULL.replace(learning_rate=1.0, discount=0.5, optimizer_options=(("decay", 0.1), ("eps", 1.0))).architecture
    assert same == FULL.architecture
    changes: list[dict[str, Any]] = [
        {"hidden": (16,)},
        {"activation": "relu"},
        {"optimizer": "adam"},
        {"optimizer_options": (("eps", 1.0),)},
        {"loss": "l2"},
        {"convolutions": ()},
        {"padding": "same"},
    ]
    for change in changes:
        assert FULL.replace(**change).architecture != FULL.architecture, change


def test_padding_makes_no_other_architecture_where_nothing_is_padded() -> None:
    assert VALID.architecture == Hyperparameters().architecture


def test_one_width_may_be_written_as_a_number() -> None:
    assert Hyperparameters(hidden=64).hidden == (64,)  # type: ignore[arg-type]


MISTAKES: list[tuple[dict[str, Any], str]] = [
    (
        {"activation": "rellu"},
        f"unknown activation 'rellu'; did you mean 'relu'? (allowed: {', '.join(ACTIVATIONS)})",
    ),
    (
        {"optimizer": "adm"},
        f"unknown optimizer 'adm'; did you mean 'adam'? (allowed: {', '.join(OPTIMIZERS)})",
    ),
    (
        {"loss": "logcosh"},
        f"unknown loss 'logcosh'; did you mean 'log_cosh'? (allowed: {', '.join(LOSSES)})",
    ),
    ({"loss": 7}, "unknown loss 7 (allowed: huber, l1, l2, log_cosh)"),
    ({"padding": "SAME"}, "unknown padding 'SAME'; did you mean 'same'? (allowed: same, valid)"),
    ({"learning_rate": -0.1}, "learning_rate must be a finite number of at least 0, but got -0.1"),
    ({"learning_rate": math.nan}, "learning_rate must be a finite number of at least 0, but got nan"),
    ({"learning_rate": math.inf}, "learning_rate must be a finite number of at least 0, but got inf"),
    ({"learning_rate": "fast"}, "learning_rate must be a number, but got 'fast'"),
    ({"learning_rate": None}, "learning_rate must be a number, but got None"),
    ({"learning_rate": True}, "learning_rate must be a finite number of at least 0, but got True"),
    ({"discount": 1.5}, "discount must be a finite number between 0 and 1, but got 1.5"),
    ({"discount": -0.5}, "discount must be a finite number between 0 and 1, but got -0.5"),
    ({"discount": math.nan}, "discount must be a finite number between 0 and 1, but got nan"),
    ({"hidden": (0,)}, "the width of a hidden layer must be a whole number of at least 1, but got 0"),
    ({"hidden": (2.5,)}, "the width of a hidden layer must be a whole number of at least 1, but got 2.5"),
    ({"hidden": (True,)}, "the width of a hidden layer must be a finite number, but got True"),
    (
        {"hidden": (10**400,)},
        f"the width of a hidden layer must be a number, but got {10**400}",
    ),
    (
        {"hidden": "25x25"},
        "hidden must be a list of layer widths such as (200, 200), but got '25x25'",
    ),
    ({"hidden": None}, "hidden must be a list of layer widths such as (200, 200), but got None"),
    ({"optimizer_options": 3}, "optimizer_options must map names to numbers, but got 3"),
    (
        {"optimizer_options": {"eps": -1.0}},
        "optimizer option eps must be a finite number of at least 0, but got -1.0",
    ),
    ({"optimizer_options": {"eps": "x"}}, "optimizer option eps must be a number, but got 'x'"),
    (
        {"optimizer_options": {1: 0.5, "eps": None}},
        "optimizer option eps must be a number, but got None",
    ),
    ({"convolutions": 3}, "convolutions must be a list of layers, but got 3"),
    ({"convolutions": None}, "convolutions must be a list of layers, but got None"),
    ({"convolutions": [(8, 4, 2)]}, "a convolution has channels, kernel, stride, but got (8, 4, 2)"),
    (
        {"convolutions": [{"channels": 8}]},
        "a convolution has channels, kernel, stride, but got {'channels': 8}",
    ),
    (
        {"convolutions": [{"channels": 8, "kernel": 4, "stride": 0}]},
        "convolution stride must be a whole number of at least 1, but got 0",
    ),
]


@pytest.mark.parametrize(("values", "sentence"), MISTAKES, ids=[str(values)[:40] for values, _ in MISTAKES])
def test_a_mistake_is_told_in_one_sentence(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        Hyperparameters.from_dict(values)
    assert str(caught.value) == sentence


def test_an_unknown_hyperparameter_is_told() -> None:
    with pytest.raises(UserError, match=r"unknown hyperparameter 'lerning_rate'; did you mean 'learning_rate'\?"):
        Hyperparameters.from_dict({"lerning_rate": 1.0})
    with pytest.raises(UserError, match="a member must be a mapping of hyperparameters, but got 'adam'"):
        Hyperparameters.from_dict("adam")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"hidden": []}, "grid needs at least one value for hidden, but got an empty list"),
        ({"learning_rate": 1e-3}, "grid needs a list of values for learning_rate, but got 0.001"),
        ({"optimizer": "adam"}, "grid needs a list of values for optimizer, but got 'adam'"),
        ({"widths": [1]}, "unknown hyperparameter 'widths'"),
        ({"optimiser.eps": [1]}, "unknown hyperparameter 'optimiser.eps'; did you mean 'optimizer.eps'?"),
        (
            {"optimizer_options": [{}], "optimizer.eps": [1.0]},
            "grid takes either optimizer_options or single options, but got both (optimizer.eps)",
        ),
        (
            {"learning_rate": [1e-3, -1.0]},
            "learning_rate must be a finite number of at least 0, but got -1.0",
        ),
    ],
)
def test_a_mistake_in_a_grid_is_told_in_one_sentence(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match="^" + re.escape(sentence)):
        grid(**values)


def test_an_option_that_the_optimizer_does_not_have_is_told() -> None:
    with pytest.raises(UserError) as caught:
        check_options(Hyperparameters(optimizer="sgd", optimizer_options=(("eps", 1.0),)))
    assert str(caught.value) == "optimizer 'sgd' has no option 'eps' (it has: momentum)"
    with pytest.raises(UserError, match=r"optimizer 'adam' has no option 'epsi'; did you mean 'eps'\?"):
        check_options(Hyperparameters(optimizer_options=(("epsi", 1.0),)))


def test_members_are_given_as_hyperparameters_or_mappings() -> None:
    assert members_from([Hyperparameters(loss="l1"), {"loss": "l1"}]) == (Hyperparameters(loss="l1"),) * 2


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([], "members is empty, but an ensemble needs at least one member"),
        ("adam", "members must be a list of Hyperparameters, but got 'adam'"),
        ({"loss": "l1"}, "members must be a list of Hyperparameters, but got {'loss': 'l1'}"),
        (3, "members must be a list of Hyperparameters, but got 3"),
        ([3], "a member must be a mapping of hyperparameters, but got 3"),
    ],
)
def test_members_of_the_wrong_kind_are_told(values: Any, sentence: str) -> None:
    with pytest.raises(UserError, match="^" + re.escape(sentence) + "$"):
        members_from(values)


def test_a_large_seed_keeps_its_last_digit() -> None:
    assert count("seed", 2**60 + 1) == 2**60 + 1


def test_kinds_of_layers_are_written_only_where_they_differ_from_the_default() -> None:
    assert not {"normalization", "block"} & set(Hyperparameters().to_dict())
    member = Hyperparameters(normalization="layer", block="residual")
    assert (member.to_dict()["normalization"], member.to_dict()["block"]) == ("layer", "residual")
    assert Hyperparameters.from_dict(member.to_dict()) == member


def test_residual_blocks_of_different_widths_are_refused() -> None:
    sentence = r"residual blocks need hidden layers of equal width, but got hidden=\(64, 32\)"
    with pytest.raises(UserError, match=sentence):
        Hyperparameters(hidden=(64, 32), block="residual")
    with pytest.raises(UserError, match=r"unknown normalization 'batch' \(allowed: layer, none\)"):
        Hyperparameters(normalization="batch")


def test_a_limit_of_the_gradient_is_a_traced_number() -> None:
    member = Hyperparameters(max_grad_norm="1e1")  # type: ignore[arg-type] (YAML reads it as text)
    assert member.max_grad_norm == member.to_dict()["max_grad_norm"] == 10.0
    assert Hyperparameters.from_dict(member.to_dict()) == member
    assert "max_grad_norm" not in Hyperparameters().to_dict()
    assert member.architecture == member.replace(max_grad_norm=0.5).architecture != Hyperparameters().architecture
    with pytest.raises(UserError, match="max_grad_norm must be a finite number of at least 1e-12, but got 0"):
        Hyperparameters(max_grad_norm=0)


CATEGORICAL = Hyperparameters(head="categorical", value_range=(-100, 100))


def test_a_head_is_written_only_where_it_differs_from_the_default() -> None:
    assert not {"head", "bins", "value_range"} & set(Hyperparameters().to_dict())
    written = CATEGORICAL.to_dict()
    assert (written["head"], written["bins"], written["value_range"]) == ("categorical", 51, [-100.0, 100.0])
    # A scalar member may have the range that it would need, as in a grid of heads.
    for member in (CATEGORICAL, CATEGORICAL.replace(bins=7), CATEGORICAL.replace(head="scalar", bins=7)):
        assert Hyperparameters.from_dict(yaml.safe_load(yaml.safe_dump(member.to_dict()))) == member
    both = grid(head=["scalar", "categorical"], value_range=[(-100, 100)])
    assert both == (Hyperparameters(value_range=(-100, 100)), CATEGORICAL)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"head": "categoric"}, "unknown head 'categoric'; did you mean 'categorical'? (allowed: categorical, scalar)"),
        (
            {"head": "categorical"},
            "a categorical head needs value_range, the smallest and the largest discounted return to expect, such as "
            "(-100, 100), but got none",
        ),
        (
            {"head": "categorical", "value_range": (0, 1), "loss": "huber"},
            "a categorical head is trained by cross-entropy, so its loss must stay 'l2', but got 'huber'",
        ),
        ({"bins": 1}, "bins must be a whole number of at least 2, but got 1"),
        ({"value_range": 100}, "value_range must be two numbers such as (-100, 100), but got 100"),
        ({"value_range": (1, 2, 3)}, "value_range must be two numbers such as (-100, 100), but got (1, 2, 3)"),
        ({"value_range": (1, 1)}, "value_range must be a smaller number and a larger one, but got (1, 1)"),
        ({"value_range": (2, -2)}, "value_range must be a smaller number and a larger one, but got (2, -2)"),
        ({"value_range": (0, "x")}, "value_range must be a number, but got 'x'"),
        (
            {"value_range": (0, math.inf)},
            "value_range must be a finite number between -1e+15 and 1e+15, but got inf",
        ),
        (
            {"value_range": (10_000, 10_001)},
            "value_range=(10000, 10001) is too narrow for 51 bins: in single precision, a bin must be at least 1e-05 "
            "of the largest value",
        ),
    ],
)
def test_heads_that_cannot_be_are_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match="^" + re.escape(sentence) + "$"):
        Hyperparameters(**values)
