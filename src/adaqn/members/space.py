"""Search spaces of hyperparameters: those that come with the package, and user-defined ones."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from adaqn.base.checks import count, number
from adaqn.base.errors import UserError, unknown_name
from adaqn.base.files import Json
from adaqn.base.plugins import PresetFolder
from adaqn.members.hyperparameters import (
    ACTIVATIONS,
    BLOCKS,
    HEADS,
    LOSSES,
    NORMALIZATIONS,
    OPTIMIZERS,
    WITH_WEIGHT_DECAY,
    Convolution,
    Hyperparameters,
)

IntegerBounds = tuple[int, int]  # inclusive
FloatBounds = tuple[float, float]
Number = TypeVar("Number", int, float)
Section = TypeVar("Section")

LEAST_POSITIVE = 1e-12  # ConfigSpace rounds bounds to 13 places


@dataclass(frozen=True, kw_only=True)
class DenseLayers:
    """Bounds on the number of hidden layers and their width."""

    layers: IntegerBounds = (1, 3)
    neurons: IntegerBounds = (25, 200)

    def __post_init__(self) -> None:
        _read_bounds(self, "hidden")


@dataclass(frozen=True, kw_only=True)
class ConvolutionLayers:
    """Bounds on the number of convolutions and on their channels, kernel and stride."""

    layers: IntegerBounds = (1, 3)
    channels: IntegerBounds = (16, 64)
    kernel: IntegerBounds = (2, 8)
    stride: IntegerBounds = (2, 5)

    def __post_init__(self) -> None:
        _read_bounds(self, "convolutions")


Layers = DenseLayers | ConvolutionLayers


def names_from(kind: str, given: object, allowed: Sequence[str]) -> tuple[str, ...]:
    """A list of different names, all of them allowed; a single name is a list of one."""
    names = (given,) if isinstance(given, str) else given
    if isinstance(names, Mapping) or not isinstance(names, Sequence) or not names:
        raise UserError(f"{kind} in a search space must be a list of at least one name, but got {given!r}")
    for name in names:
        if name not in allowed:
            raise unknown_name(kind, name, allowed)
        if names.count(name) > 1:
            raise UserError(f"every {kind} in a search space must be listed once, but {name!r} is listed twice")
    return tuple(names)


def bounds_from(what: str, given: object, read: Callable[[str, object], Number]) -> tuple[Number, Number]:
    """A lower and an upper bound; a single number is both."""
    pair = (given, given) if isinstance(given, Real | str) else given
    if not isinstance(pair, Sequence) or len(pair) != 2:
        raise UserError(f"{what} in a search space must be a lower and an upper bound, but got {given!r}")
    low, high = read(what, pair[0]), read(what, pair[1])
    if low > high:
        raise UserError(f"the bounds of {what} must be in ascending order, but got {given!r}")
    return low, high


def section_from(kind: type[Section], name: str, given: object) -> Section:
    """Bounds of layers from a mapping."""
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise UserError(f"{name} in a search space must be a mapping of names to bounds, but got {given!r}")
    names = field_names(kind)
    for entry in given:
        if entry not in names:
            raise unknown_name(f"bound of {name}", entry, names)
    return kind(**given)


def positive(what: str, given: object) -> float:
    """A number above 0."""
    return number(what, given, low=LEAST_POSITIVE)


def share(what: str, given: object) -> float:
    """A number from 0 to 1."""
    return number(what, given, 0.0, 1.0)


def plain(of_layers: Layers) -> dict[str, list[int]]:
    """Bounds of layers as plain values."""
    return {name: list(getattr(of_layers, name)) for name in field_names(of_layers)}


def field_names(of: Layers | type) -> list[str]:
    """The names of a dataclass's fields."""
    return [entry.name for entry in dataclasses.fields(of)]


def _read_bounds(of_layers: Layers, section: str) -> None:
    for name in field_names(of_layers):
        least = 0 if name == "layers" else 1
        read = lambda what, given, low=least: count(what, given, low=low)  # noqa: E731
        object.__setattr__(of_layers, name, bounds_from(f"{section}.{name}", getattr(of_layers, name), read))


if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

PRESETS = PresetFolder("search space", ("presets", "spaces"))

# The hyperparameters that a space varies; all others are fixed.
VARIED = ("activation", "optimizer", "loss", "learning_rate", "hidden", "convolutions")
# Those that it varies only if it says so.
OPTIONAL = ("discount", "normalization", "block", "max_grad_norm", "weight_decay", "head")
# Of the hyperparameters that are names, those that there are; of the numbers, how a bound is read.
_NAMES = {
    "activation": ACTIVATIONS,
    "optimizer": OPTIMIZERS,
    "loss": LOSSES,
    "normalization": NORMALIZATIONS,
    "block": BLOCKS,
    "head": HEADS,
}
_NUMBERS = {"learning_rate": positive, "discount": share, "max_grad_norm": positive, "weight_decay": positive}
_LAYERS = {"hidden": DenseLayers, "convolutions": ConvolutionLayers}


@dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """A search space. Wherever a list or two bounds are expected, a single value fixes that hyperparameter.

    The paper's table has one number for all layers, so the layers of a sampled member are all equal. A member given by
    the user may have different layers: then each of them must be within the bounds.
    """

    activation: tuple[str, ...] = ACTIVATIONS
    optimizer: tuple[str, ...] = OPTIMIZERS
    loss: tuple[str, ...] = LOSSES  # of members with a scalar head
    learning_rate: FloatBounds = (1e-5, 1e-2)  # sampled log-uniformly
    hidden: DenseLayers = field(default_factory=DenseLayers)
    convolutions: ConvolutionLayers | None = None  # None: no convolutions
    discount: FloatBounds | None = None  # None: not varied, as in the paper; sampled uniformly
    normalization: tuple[str, ...] | None = None  # None: not varied
    block: tuple[str, ...] | None = None  # None: not varied
    max_grad_norm: FloatBounds | None = None  # None: not varied; sampled log-uniformly
    weight_decay: FloatBounds | None = None  # of the optimizers that have it; None: not varied; sampled log-uniformly
    head: tuple[str, ...] | None = None  # None: not varied; "categorical" needs fixed.value_range
    fixed: Hyperparameters = field(default_factory=Hyperparameters)  # values of the hyperparameters that are not varied

    def __post_init__(self) -> None:
        for name in field_names(SearchSpace):
            given = getattr(self, name)
            if name == "fixed":
                object.__setattr__(self, name, _fixed(given))
            elif given is not None or name not in (*OPTIONAL, "convolutions"):
                object.__setattr__(self, name, _entry(name, given))
        self._require_what_entries_need()

    def _require_what_entries_need(self) -> None:
        """Raise if an entry would have no effect, contradicts another one or lacks it."""
        if self.weight_decay is not None and not set(self.optimizer) & set(WITH_WEIGHT_DECAY):
            raise UserError(
                "weight_decay needs an optimizer that has it in the search space "
                f"({', '.join(WITH_WEIGHT_DECAY)}), but it has {', '.join(self.optimizer)}"
            )
        if "categorical" in (self.head or ()) and self.fixed.value_range is None:
            raise UserError(
                "a categorical head in a search space needs fixed.value_range, the smallest and the largest "
                "discounted return to expect, such as [-100, 100], but got none"
            )
        defaults = Hyperparameters()
        for name in OPTIONAL:
            fixed = getattr(self.fixed, name)
            if getattr(self, name) is not None and fixed != getattr(defaults, name):
                raise UserError(
                    f"{name} cannot be fixed, because the space varies it: give it a single value there, "
                    f"but got fixed.{name}={fixed}"
                )
        if self.fixed.optimizer_options and len(self.optimizer) > 1:
            raise UserError(
                "optimizer_options can be fixed only if the search space has a single optimizer, "
                f"because other optimizers may not have them, but it has {len(self.optimizer)}"
            )

    @classmethod
    def named(cls, name: str) -> SearchSpace:
        """The built-in space with this name."""
        return cls.from_dict(PRESETS.read(name))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SearchSpace:
        """The inverse of `to_dict`; omitted entries come from the named space `base`, if given, else the defaults."""
        if not isinstance(values, Mapping):
            raise UserError(f"a search space must be a mapping of names to allowed values, but got {values!r}")
        names = [*field_names(cls), "base"]
        for name in values:
            if name not in names:
                raise unknown_name("entry of a search space", name, names)
        entries = dict(values)
        if "base" in entries:
            of_base = cls.named(entries.pop("base")).to_dict()
            for name, entry in entries.items():
                if isinstance(entry, Mapping) and isinstance(of_base.get(name), Mapping):
                    entries[name] = {**of_base[name], **entry}
            entries = {**of_base, **entries}
        return cls(**entries)

    def to_dict(self) -> Json:
        """Plain values for YAML and JSON, without unset entries."""
        entries = {name: getattr(self, name) for name in field_names(SearchSpace) if name != "fixed"}
        result: Json = {
            name: plain(entry) if name in _LAYERS else list(entry)
            for name, entry in entries.items()
            if entry is not None
        }
        defaults = Hyperparameters().to_dict()
        fixed = {k: v for k, v in self.fixed.to_dict().items() if k not in defaults or v != defaults[k]}
        return {**result, "fixed": fixed} if fixed else result

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """The allowed names of every hyperparameter that is a name and that the space varies."""
        every = {name: getattr(self, name) for name in _NAMES}
        if "scalar" not in self.heads:
            del every["loss"]  # it has no effect on any member
        return {name: values for name, values in every.items() if values is not None}

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads that members can have."""
        return self.head or (self.fixed.head,)

    def largest(self) -> Hyperparameters:
        """The member with the most parameters: the most units, and the fewest convolutions that shrink the image."""
        convolutions: tuple[Convolution, ...] = ()
        if (of := self.convolutions) is not None:
            convolutions = (Convolution(of.channels[1], of.kernel[1], of.stride[0]),) * of.layers[0]
        head = "categorical" if "categorical" in self.heads else "scalar"
        return self.fixed.replace(
            activation=self.activation[0],
            optimizer=self.optimizer[0],
            head=head,
            loss=loss_of(head, self.loss[0]),
            learning_rate=self.learning_rate[0],
            hidden=(self.hidden.neurons[1],) * self.hidden.layers[1],
            convolutions=convolutions,
            discount=self.fixed.discount if self.discount is None else self.discount[0],
            normalization="layer" if "layer" in (self.normalization or (self.fixed.normalization,)) else "none",
            block="residual" if "residual" in (self.block or (self.fixed.block,)) else "plain",
            max_grad_norm=self.fixed.max_grad_norm if self.max_grad_norm is None else self.max_grad_norm[0],
        )

    @cached_property
    def configuration_space(self) -> ConfigurationSpace:
        """The space for ConfigSpace and tools built on it, without hyperparameters that have a single value."""
        return configuration_space(self)

    @property
    def dimensions(self) -> int:
        """The dimension of the unit cube: the number of hyperparameters with more than one value."""
        return len(self.configuration_space)

    def from_unit(self, point: np.ndarray) -> Hyperparameters:
        """The member at a point of the unit cube, with coordinates in the order of `configuration_space`. [D]"""
        return member_at(self, point)

    def sample(self, rng: np.random.Generator) -> Hyperparameters:
        """Sample a member uniformly, its learning rate log-uniformly."""
        return self.from_unit(rng.random(self.dimensions))

    def contains(self, member: Hyperparameters) -> bool:
        """Whether the member is in the space; hyperparameters that the space does not vary are ignored."""
        return not self._foreign(member) and clipped(self, member) == member

    def clip(self, member: Hyperparameters) -> Hyperparameters:
        """The member with its numbers clipped to their bounds, and layers removed or added where there must be.

        Names cannot be clipped: one that is not in the space is an error.
        """
        for name in self._foreign(member):
            raise unknown_name(f"{name} in this search space", getattr(member, name), self.categories[name])
        return clipped(self, member)

    def _foreign(self, member: Hyperparameters) -> list[str]:
        """The hyperparameters that are names and whose value is not in the space; a categorical head has no loss."""
        return [
            name
            for name, values in self.categories.items()
            if getattr(member, name) not in values and (name != "loss" or member.head == "scalar")
        ]


def _entry(name: str, given: object) -> object:
    """An entry as it is kept, from what a user wrote."""
    if name in _NAMES:
        return names_from(name, given, _NAMES[name])
    if name in _NUMBERS:
        return bounds_from(name, given, _NUMBERS[name])
    return section_from(_LAYERS[name], name, given)


def _fixed(given: object) -> Hyperparameters:
    if isinstance(given, Mapping):
        for name in given:
            if name in VARIED:
                raise UserError(f"{name} cannot be fixed, because the space varies it: give it a single value there")
        given = Hyperparameters.from_dict(given)
    if not isinstance(given, Hyperparameters):
        raise UserError(f"fixed in a search space must be a mapping of hyperparameters, but got {given!r}")
    defaults = Hyperparameters()
    return given.replace(**{name: getattr(defaults, name) for name in VARIED})


Layer = TypeVar("Layer")


def clipped(space: SearchSpace, member: Hyperparameters) -> Hyperparameters:
    """The member with its numbers clipped to their bounds.

    Surplus layers are removed from the end; missing ones are copies of the last layer, or the smallest possible if
    there is none. If the space has them, a member without a discount or a weight decay of its own gets the least,
    and one without a max_grad_norm the largest.
    """
    hidden = _clip_layers(member.hidden, space.hidden.layers, space.hidden.neurons[0])
    discount, max_grad_norm = member.discount, member.max_grad_norm
    if space.discount is not None:
        discount = clip_number(discount or 0.0, space.discount)
    if space.max_grad_norm is not None:
        max_grad_norm = clip_number(max_grad_norm or math.inf, space.max_grad_norm)
    member = member.replace(
        learning_rate=clip_number(member.learning_rate, space.learning_rate),
        hidden=tuple(clip_number(width, space.hidden.neurons) for width in hidden),
        convolutions=_clip_convolutions(member.convolutions, space.convolutions),
        discount=discount,
        max_grad_norm=max_grad_norm,
    )
    return with_weight_decay(member, member.weight_decay or 0.0, space.weight_decay)


def clip_number(value: Number, bounds: tuple[Number, Number]) -> Number:
    """The nearest number within the bounds."""
    return min(max(value, bounds[0]), bounds[1])


def with_weight_decay(member: Hyperparameters, decay: float, bounds: FloatBounds | None) -> Hyperparameters:
    """The member with this weight decay, clipped, if the space varies it and the member's optimizer has it."""
    if bounds is None or member.optimizer not in WITH_WEIGHT_DECAY:
        return member
    options = {**dict(member.optimizer_options), "weight_decay": clip_number(decay, bounds)}
    return member.replace(optimizer_options=tuple(options.items()))


def _clip_convolutions(layers: tuple[Convolution, ...], bounds: ConvolutionLayers | None) -> tuple[Convolution, ...]:
    if bounds is None:
        return ()
    channels, kernel, stride = bounds.channels, bounds.kernel, bounds.stride
    return tuple(
        Convolution(
            clip_number(layer.channels, channels), clip_number(layer.kernel, kernel), clip_number(layer.stride, stride)
        )
        for layer in _clip_layers(layers, bounds.layers, Convolution(channels[0], kernel[0], stride[0]))
    )


def _clip_layers(layers: tuple[Layer, ...], bounds: IntegerBounds, smallest: Layer) -> tuple[Layer, ...]:
    kept = layers[: bounds[1]]
    return kept + (kept[-1] if kept else smallest,) * (bounds[0] - len(kept))


LEAST_DIFFERENCE = 1e-12  # of two bounds; ConfigSpace rounds them to 13 places
# The numbers that a space may vary, in the order of the cube, and whether they are sampled log-uniformly.
_CUBE_NUMBERS = {"learning_rate": True, "discount": False, "max_grad_norm": True, "weight_decay": True}


def configuration_space(space: SearchSpace) -> ConfigurationSpace:
    """The space for ConfigSpace and tools built on it, without hyperparameters that have a single value."""
    import ConfigSpace as package  # here, because it imports SciPy, which takes more than a second

    result = package.ConfigurationSpace()
    for name, values in space.categories.items():
        if len(values) > 1:
            result.add(package.CategoricalHyperparameter(name, values))
    for name, log in _CUBE_NUMBERS.items():
        bounds = getattr(space, name)
        if bounds is not None and bounds[1] - bounds[0] > LEAST_DIFFERENCE:
            result.add(package.UniformFloatHyperparameter(name, *bounds, log=log))
    without = [name for name in space.optimizer if name not in WITH_WEIGHT_DECAY]
    if "weight_decay" in result and without:
        having = [name for name in space.optimizer if name in WITH_WEIGHT_DECAY]
        result.add(package.InCondition(result["weight_decay"], result["optimizer"], having))
    if "loss" in result and "head" in result:
        result.add(package.EqualsCondition(result["loss"], result["head"], "scalar"))
    for section in ("hidden", "convolutions"):
        of_layers = getattr(space, section)
        if of_layers is None or of_layers.layers[1] == 0:
            continue
        for name, (low, high) in plain(of_layers).items():
            if low < high:
                result.add(package.UniformIntegerHyperparameter(f"{section}.{name}", low, high))
                if name != "layers" and of_layers.layers[0] == 0:
                    layers, of_layer = result[f"{section}.layers"], result[f"{section}.{name}"]
                    result.add(package.GreaterThanCondition(of_layer, layers, 0))
    return result


def member_at(space: SearchSpace, point: np.ndarray) -> Hyperparameters:
    """The member at a point of the unit cube, with coordinates in the order of `configuration_space`. [D]

    The interval of a discrete coordinate is divided into equal parts, one per value: ConfigSpace itself rounds, so
    the lowest and the highest value would get only half a part each. If a member has no layers, the coordinates of
    its layers' properties have no effect.
    """
    point = np.asarray(point, np.float64)
    if point.shape != (space.dimensions,) or not ((point >= 0.0) & (point <= 1.0)).all():
        raise ValueError(f"a point of this space is {space.dimensions} numbers between 0 and 1, but got {point!r}")
    values: Json = {}
    for hyperparameter, coordinate in zip(space.configuration_space.values(), point.tolist(), strict=True):
        if math.isfinite(hyperparameter.size):
            parts = int(hyperparameter.size)
            part = min(int(coordinate * parts), parts - 1)
            # In ConfigSpace's vectors a categorical is an index into its list, and numbers are scaled to [0, 1].
            coordinate = float(part) if hyperparameter.name in space.categories else part / (parts - 1)
        values[hyperparameter.name] = hyperparameter.to_value(coordinate)
    return _member(space, values)


def loss_of(head: str, of_scalar: str) -> str:
    """The loss of a member with this head: a categorical one is trained by cross-entropy."""
    return of_scalar if head == "scalar" else Hyperparameters.loss


def _member(space: SearchSpace, values: Mapping[str, Any]) -> Hyperparameters:
    """The member with these values by ConfigSpace's names; those with a single possible value may be missing."""

    def value(name: str, allowed: Sequence[Any]) -> Any:
        return values.get(name, allowed[0])

    def number(name: str) -> Any:
        """A number within its bounds, which rounding could leave; that of `fixed` if the space does not vary it."""
        bounds = getattr(space, name)
        return getattr(space.fixed, name) if bounds is None else clip_number(value(name, bounds), bounds)

    convolutions: tuple[Convolution, ...] = ()
    if (of := space.convolutions) is not None:
        shape = [value(f"convolutions.{name}", getattr(of, name)) for name in ("channels", "kernel", "stride")]
        convolutions = (Convolution(*shape),) * value("convolutions.layers", of.layers)
    head = str(value("head", space.heads))
    member = space.fixed.replace(
        activation=str(value("activation", space.activation)),
        optimizer=str(value("optimizer", space.optimizer)),
        head=head,
        loss=loss_of(head, str(value("loss", space.loss))),
        learning_rate=number("learning_rate"),
        hidden=(value("hidden.neurons", space.hidden.neurons),) * value("hidden.layers", space.hidden.layers),
        convolutions=convolutions,
        discount=number("discount"),
        normalization=str(value("normalization", space.normalization or (space.fixed.normalization,))),
        block=str(value("block", space.block or (space.fixed.block,))),
        max_grad_norm=number("max_grad_norm"),
    )
    decay = 0.0 if space.weight_decay is None else value("weight_decay", space.weight_decay)
    return with_weight_decay(member, decay, space.weight_decay)


def space_from(given: SearchSpace | Mapping[str, Any] | str | Path) -> SearchSpace:
    """Convert a space, its name, a YAML file, or plain values to a space."""
    if isinstance(given, SearchSpace):
        return given
    if not isinstance(given, str | Path):
        return SearchSpace.from_dict(given)
    return SearchSpace.from_dict(PRESETS.read_given(given))


def default_space(observation_shape: tuple[int, ...]) -> SearchSpace:
    """The built-in space for observations of this shape: images have three dimensions."""
    return SearchSpace.named("images" if len(observation_shape) == 3 else "vectors")


def named_spaces() -> list[str]:
    """The names of the built-in spaces."""
    return PRESETS.names()
