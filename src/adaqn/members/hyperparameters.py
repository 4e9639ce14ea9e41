"""The hyperparameters of one critic (ζ in the paper), the names that they may have, and grids of them."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, get_args

from adaqn.base.checks import MEMBERS, count, number
from adaqn.base.errors import UserError, nearest, unknown_name
from adaqn.base.files import Json

ActivationName = Literal[
    "celu",
    "elu",
    "gelu",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "relu",
    "selu",
    "sigmoid",
    "silu",
    "soft_sign",
    "softmax",
    "softplus",
    "standardize",
    "tanh",
]
OptimizerName = Literal[
    "adabelief",
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamaxw",
    "adamw",
    "amsgrad",
    "fromage",
    "lamb",
    "lars",
    "lion",
    "nadam",
    "nadamw",
    "noisy_sgd",
    "novograd",
    "optimistic_gradient_descent",
    "radam",
    "rmsprop",
    "rprop",
    "sgd",
    "sm3",
    "yogi",
]
LossName = Literal["huber", "l1", "l2", "log_cosh"]
PaddingName = Literal["same", "valid"]
NormalizationName = Literal["none", "layer"]
BlockName = Literal["plain", "residual"]
HeadName = Literal["scalar", "categorical"]

ACTIVATIONS: tuple[str, ...] = get_args(ActivationName)
OPTIMIZERS: tuple[str, ...] = get_args(OptimizerName)
LOSSES: tuple[str, ...] = get_args(LossName)
PADDINGS: tuple[str, ...] = get_args(PaddingName)
NORMALIZATIONS: tuple[str, ...] = get_args(NormalizationName)
BLOCKS: tuple[str, ...] = get_args(BlockName)
HEADS: tuple[str, ...] = get_args(HeadName)
# The optimizers with the option `weight_decay`.
WITH_WEIGHT_DECAY = ("adadelta", "adamaxw", "adamw", "lamb", "lars", "lion", "nadamw", "novograd")


LEAST_GRAD_NORM = 1e-12
BINS = 51  # of a categorical head by default
LEAST_RANGE, MOST_VALUE = 1e-12, 1e15  # of the values of a categorical head
# Width of a bin relative to the largest value: below, single precision cannot tell neighbouring bins apart.
LEAST_WIDTH = 1e-5
# Names that users try, and what to write instead.
_SHARED = "all members share it, so it is a setting of the run, such as {name}={example}"
_OTHER_NAMES = {
    "gamma": "the discount of a member is called discount",
    "lr": "it is called learning_rate",
    "net_arch": "it is called hidden",
    "activation_fn": "it is called activation",
    "batch_size": _SHARED.format(name="batch_size", example=64),
    "buffer_size": _SHARED.format(name="buffer_size", example=100_000),
    "target_update_interval": _SHARED.format(name="target_update_interval", example=200),
    "train_freq": _SHARED.format(name="train_freq", example=4),
}


@dataclass(frozen=True)
class Convolution:
    """One convolutional layer with square kernels."""

    channels: int
    kernel: int
    stride: int

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = count(f"convolution {field.name}", getattr(self, field.name), low=1)
            object.__setattr__(self, field.name, value)


class Support(NamedTuple):
    """The values that a categorical head can represent: equal bins from `low` to `high`."""

    low: float
    high: float
    bins: int


class Architecture(NamedTuple):
    """The static hyperparameters, which determine the compiled program; all others are traced numbers."""

    convolutions: tuple[Convolution, ...]
    hidden: tuple[int, ...]
    activation: str
    optimizer: str
    optimizer_options: tuple[str, ...]  # names of the options that are set, and max_grad_norm; their values are traced
    loss: str
    padding: PaddingName = "same"  # always "same" without convolutions, where it has no effect
    normalization: str = "none"  # always "none" without hidden layers and with residual blocks, which have their own
    block: str = "plain"  # always "plain" without hidden layers
    support: Support | None = None  # of a categorical head; None with a scalar head


@dataclass(frozen=True, kw_only=True)
class Hyperparameters:
    """The hyperparameters of one member. Changing a number other than a width, bins or value_range compiles nothing."""

    hidden: tuple[int, ...] = (200, 200)  # widths of the hidden layers; () is a linear function
    activation: str = "relu"  # of hidden layers and convolutions
    optimizer: str = "adam"
    optimizer_options: tuple[tuple[str, float], ...] = ()  # (name, value) pairs such as ("eps", 1.5e-4)
    learning_rate: float = 3e-4
    loss: str = "l2"  # that a scalar head is trained with; members are always compared by their L2 error
    discount: float | None = None  # None: the run's gamma
    convolutions: tuple[Convolution, ...] = ()  # before the hidden layers, for images
    padding: PaddingName = "same"  # of the convolutions: zeros around the image, or "valid" for none
    normalization: str = "none"  # "layer": a layer norm between each plain hidden layer and its activation
    block: str = "plain"  # "residual": each hidden layer is a pre-norm residual block (SimBa); needs equal widths
    max_grad_norm: float | None = None  # the gradient is scaled down to this global norm; None: no clipping
    head: str = "scalar"  # "categorical": a histogram of values, trained by cross-entropy (HL-Gauss) instead of `loss`
    bins: int = BINS  # of a categorical head
    value_range: tuple[float, float] | None = None  # of a categorical head, required there; targets are clipped to it

    def __post_init__(self) -> None:
        set_field = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731 (frozen)
        set_field("hidden", _layers(self.hidden))
        set_field("convolutions", _convolutions(self.convolutions))
        set_field("optimizer_options", _options(self.optimizer_options))
        _require_name("activation", self.activation, ACTIVATIONS)
        _require_name("optimizer", self.optimizer, OPTIMIZERS)
        _require_name("loss", self.loss, LOSSES)
        _require_name("padding", self.padding, PADDINGS)
        _require_name("normalization", self.normalization, NORMALIZATIONS)
        _require_name("block", self.block, BLOCKS)
        _require_name("head", self.head, HEADS)
        set_field("bins", count("bins", self.bins, low=2))
        if self.value_range is not None:
            set_field("value_range", _value_range(self.value_range, self.bins))
        if self.head == "categorical":
            self._require_categorical()
        if self.block == "residual" and len(set(self.hidden)) > 1:
            raise UserError(f"residual blocks need hidden layers of equal width, but got hidden={self.hidden}")
        set_field("learning_rate", number("learning_rate", self.learning_rate, low=0.0))
        if self.discount is not None:
            set_field("discount", number("discount", self.discount, 0.0, 1.0))
        if self.max_grad_norm is not None:
            set_field("max_grad_norm", number("max_grad_norm", self.max_grad_norm, low=LEAST_GRAD_NORM))

    def _require_categorical(self) -> None:
        """Raise if a categorical head lacks something, or if something given would have no effect on it."""
        if self.value_range is None:
            raise UserError(
                "a categorical head needs value_range, the smallest and the largest discounted return to expect, such "
                "as (-100, 100), but got none"
            )
        if self.loss != "l2":
            raise UserError(
                f"a categorical head is trained by cross-entropy, so its loss must stay 'l2', but got {self.loss!r}"
            )

    @property
    def support(self) -> Support | None:
        """The values that a categorical head can represent; None with a scalar head."""
        if self.head != "categorical" or self.value_range is None:
            return None
        return Support(*self.value_range, self.bins)

    @property
    def traced_options(self) -> dict[str, float]:
        """The numbers that an optimizer is built from besides the learning rate, by name."""
        clipping = {} if self.max_grad_norm is None else {"max_grad_norm": self.max_grad_norm}
        return {**dict(self.optimizer_options), **clipping}

    @property
    def weight_decay(self) -> float | None:
        """The option `weight_decay` of the optimizer, if it is set."""
        return dict(self.optimizer_options).get("weight_decay")

    @property
    def architecture(self) -> Architecture:
        """The static part of the hyperparameters."""
        options = tuple(self.traced_options)
        padding = self.padding if self.convolutions else "same"
        block = self.block if self.hidden else "plain"
        return Architecture(
            self.convolutions,
            self.hidden,
            self.activation,
            self.optimizer,
            options,
            self.loss,
            padding,
            self.normalization if self.hidden and block == "plain" else "none",
            block,
            self.support,
        )

    def replace(self, **changes: Any) -> Hyperparameters:
        """A copy with other values for some fields."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> Json:
        """Plain values for YAML and JSON, without unset fields."""
        result: Json = {
            "hidden": list(self.hidden),
            "activation": self.activation,
            "optimizer": self.optimizer,
            "learning_rate": self.learning_rate,
            "loss": self.loss,
        }
        if self.optimizer_options:
            result["optimizer_options"] = dict(self.optimizer_options)
        if self.discount is not None:
            result["discount"] = self.discount
        if self.convolutions:
            result["convolutions"] = [dataclasses.asdict(layer) for layer in self.convolutions]
        if self.convolutions or self.padding != "same":
            result["padding"] = self.padding
        if self.normalization != "none":
            result["normalization"] = self.normalization
        if self.block != "plain":
            result["block"] = self.block
        if self.max_grad_norm is not None:
            result["max_grad_norm"] = self.max_grad_norm
        if self.head != "scalar":
            result["head"] = self.head
        if self.head != "scalar" or self.bins != BINS:
            result["bins"] = self.bins
        if self.value_range is not None:
            result["value_range"] = list(self.value_range)
        return result

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Hyperparameters:
        """The inverse of `to_dict`; omitted fields have their defaults."""
        if not isinstance(values, Mapping):
            raise UserError(f"a member must be a mapping of hyperparameters, but got {values!r}")
        names = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in names:
                raise unknown_hyperparameter(name, names)
        return cls(**values)


def unknown_hyperparameter(name: str, allowed: Sequence[str]) -> UserError:
    """The error for a name that is not a hyperparameter of a member."""
    if name in _OTHER_NAMES:
        return UserError(f"unknown hyperparameter {name!r}: {_OTHER_NAMES[name]}")
    return unknown_name("hyperparameter", name, allowed)


# Options whose default is None, not a number: setting them adds a term to the optimizer.
_OFF_BY_DEFAULT = {"adafactor": ("momentum",), "rmsprop": ("momentum",), "sgd": ("momentum",)}


@cache
def numeric_options(optimizer: str) -> tuple[str, ...]:
    """The names of the numeric options that an optimizer has besides its learning rate."""
    import optax  # imports JAX, which reading a configuration does not need

    parameters = inspect.signature(getattr(optax, optimizer)).parameters.values()
    return tuple(p.name for p in parameters if type(p.default) is float) + _OFF_BY_DEFAULT.get(optimizer, ())


def unknown_option(optimizer: str, name: str, allowed: Sequence[str]) -> UserError:
    """The error for an option that an optimizer does not have."""
    have = ", ".join(sorted(allowed)) or "none"
    return UserError(f"optimizer {optimizer!r} has no option {name!r}{nearest(name, allowed)} (it has: {have})")


def _require_name(kind: str, given: object, allowed: Sequence[str]) -> None:
    if given not in allowed:
        raise unknown_name(kind, given, allowed)


def _layers(hidden: object) -> tuple[int, ...]:
    if isinstance(hidden, int):
        hidden = (hidden,)
    if isinstance(hidden, str) or not isinstance(hidden, Iterable):
        raise UserError(f"hidden must be a list of layer widths such as (200, 200), but got {hidden!r}")
    return tuple(count("the width of a hidden layer", width, low=1) for width in hidden)


def _convolutions(layers: object) -> tuple[Convolution, ...]:
    if isinstance(layers, str | Mapping) or not isinstance(layers, Iterable):
        raise UserError(f"convolutions must be a list of layers, but got {layers!r}")
    return tuple(_convolution(layer) for layer in layers)


def _convolution(layer: object) -> Convolution:
    if isinstance(layer, Convolution):
        return layer
    names = ("channels", "kernel", "stride")
    if isinstance(layer, Mapping) and set(layer) == set(names):
        return Convolution(**layer)
    raise UserError(f"a convolution has {', '.join(names)}, but got {layer!r}")


def _value_range(given: object, bins: int) -> tuple[float, float]:
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
        raise UserError(f"value_range must be two numbers such as (-100, 100), but got {given!r}")
    low, high = (number("value_range", value, -MOST_VALUE, MOST_VALUE) for value in given)
    if high - low < LEAST_RANGE:
        raise UserError(f"value_range must be a smaller number and a larger one, but got {given!r}")
    if high - low < bins * LEAST_WIDTH * max(abs(low), abs(high)):
        raise UserError(
            f"value_range={given!r} is too narrow for {bins} bins: in single precision, a bin must be at least "
            f"{LEAST_WIDTH:g} of the largest value"
        )
    return low, high


def _options(options: object) -> tuple[tuple[str, float], ...]:
    try:
        pairs = dict(options)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise UserError(f"optimizer_options must map names to numbers, but got {options!r}") from None
    numbers = ((str(name), number(f"optimizer option {name}", pairs[name], low=0.0)) for name in pairs)
    return tuple(sorted(numbers))


def layers_from_text(text: str) -> tuple[int, ...]:
    """Parse hidden layers written as 256x256, or linear for none."""
    try:
        return tuple(int(width) for width in text.split("x")) if text != "linear" else ()
    except ValueError:
        raise UserError(f"hidden layers must be widths joined by x, such as 25x25, but got {text!r}") from None


def convolutions_from_text(text: str) -> tuple[Convolution, ...]:
    """Parse convolutions written as 32k8s4+64k4s2 (channels, kernel, stride), or none."""
    layers = [re.fullmatch(r"(\d+)k(\d+)s(\d+)", word) for word in text.split("+")] if text != "none" else []
    if not all(layers):
        raise UserError(
            "convolutions must be channels, k and kernel, s and stride, joined by +, such as "
            f"32k8s4+64k4s2+64k3s1, or none, but got {text!r}"
        )
    return tuple(Convolution(*map(int, layer.groups())) for layer in layers if layer)


def range_from_text(text: str) -> tuple[float, float]:
    """Parse a range of values written as -100:100."""
    low, colon, high = text.partition(":")
    if not colon:
        raise UserError(f"value_range must be two numbers joined by a colon, such as -100:100, but got {text!r}")
    return number("value_range", low), number("value_range", high)


def grid(base: Hyperparameters | None = None, /, **values: Iterable[Any]) -> tuple[Hyperparameters, ...]:
    """The Cartesian product of values of some hyperparameters; the last one varies fastest.

    `grid(hidden=[(25, 25), (50, 50)], learning_rate=[3e-4, 1e-3])` returns four members. An option of the optimizer
    is written `optimizer.eps`: `grid(**{"optimizer.eps": [1.5e-8, 1.5e-4]})`. `base` provides the other fields. All
    members of a grid must be different; a list of members may repeat them.
    """
    base = base or Hyperparameters()
    names = [field.name for field in dataclasses.fields(Hyperparameters)]
    columns: list[tuple[str, list[Any]]] = []
    for name, column in values.items():
        if name not in names and not name.startswith("optimizer."):
            raise unknown_hyperparameter(name, [*names, "optimizer.eps"])
        if isinstance(column, str) or not isinstance(column, Iterable):
            raise UserError(f"grid needs a list of values for {name}, but got {column!r}")
        column = list(column)
        if not column:
            raise UserError(f"grid needs at least one value for {name}, but got an empty list")
        columns.append((name, column))
    by_name = [name for name, _ in columns if name.startswith("optimizer.")]
    if by_name and "optimizer_options" in values:
        raise UserError(f"grid takes either optimizer_options or single options, but got both ({by_name[0]})")
    _require_count("this grid makes", math.prod(len(column) for _, column in columns))
    members: dict[Hyperparameters, int] = {}  # with their indices
    for row in itertools.product(*(column for _, column in columns)):
        changes: dict[str, Any] = {}
        options = dict(base.optimizer_options)
        for (name, _), value in zip(columns, row, strict=True):
            if name.startswith("optimizer."):
                options[name.removeprefix("optimizer.")] = value
            else:
                changes[name] = value
        changes.setdefault("optimizer_options", options)
        member = base.replace(**changes)
        if member in members:
            raise _repeated(columns, members[member], len(members))
        members[member] = len(members)
    return tuple(members)


def members_from(values: Sequence[Any]) -> tuple[Hyperparameters, ...]:
    """Convert a non-empty list of Hyperparameters or mappings to the members of an ensemble."""
    if isinstance(values, (str, Mapping, Hyperparameters)) or not isinstance(values, Iterable):
        raise UserError(f"members must be a list of Hyperparameters, but got {values!r}")
    members = tuple(v if isinstance(v, Hyperparameters) else Hyperparameters.from_dict(v) for v in values)
    if not members:
        raise UserError("members is empty, but an ensemble needs at least one member")
    _require_count("members has", len(members))
    return members


def _require_count(what: str, members: int) -> None:
    if members > MEMBERS:
        raise UserError(f"{what} {members} members, but there can be at most {MEMBERS}")


# A user who lists a layer twice may mean one network with two layers.
_OF_SEVERAL_LAYERS = {
    "hidden": "64x64 on the command line, (64, 64) in Python",
    "convolutions": "64k3s1+64k3s1 on the command line, (Convolution(64, 3, 1), Convolution(64, 3, 1)) in Python",
}


def _repeated(columns: Sequence[tuple[str, list[Any]]], first: int, second: int) -> UserError:
    """The error for two equal members of a grid."""
    hint = ""
    for name, column in columns:
        if name not in _OF_SEVERAL_LAYERS:
            continue
        networks = [getattr(Hyperparameters(**{name: value}), name) for value in column]
        if len(set(networks)) < len(networks):
            hint = f"; one network with several layers is written {_OF_SEVERAL_LAYERS[name]}"
    return UserError(
        f"members {first} and {second} of this grid are equal, but a grid must list every value once (a list, "
        f"members=[...], may repeat members on purpose){hint}"
    )
