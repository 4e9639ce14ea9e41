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

from adaqn.checks import count, number
from adaqn.errors import UserError, unknown_name
from adaqn.files import Json
from adaqn.hyperparameters import (
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
from adaqn.plugins import PresetFolder

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

IntegerBounds = tuple[int, int]  # inclusive
FloatBounds = tuple[float, float]
Layer = TypeVar("Layer")
Number = TypeVar("Number", int, float)
Section = TypeVar("Section")

_PRESETS = PresetFolder("search space", ("presets", "spaces"))

# The hyperparameters that a space varies; all others are fixed.
VARIED = ("activation", "optimizer", "loss", "learning_rate", "hidden", "convolutions")
# Those that it varies only if it says so.
OPTIONAL = ("discount", "normalization", "block", "max_grad_norm", "weight_decay", "head")
CATEGORICAL = ("activation", "optimizer", "loss", "normalization", "block", "head")
LEAST_DIFFERENCE = LEAST_POSITIVE = 1e-12  # ConfigSpace rounds bounds to 13 places


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
        set_field = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731 (frozen)
        set_field("activation", _names("activation", self.activation, ACTIVATIONS))
        set_field("optimizer", _names("optimizer", self.optimizer, OPTIMIZERS))
        set_field("loss", _names("loss", self.loss, LOSSES))
        set_field("learning_rate", _bounds("learning_rate", self.learning_rate, _positive))
        set_field("hidden", _section(DenseLayers, "hidden", self.hidden))
        if self.convolutions is not None:
            set_field("convolutions", _section(ConvolutionLayers, "convolutions", self.convolutions))
        set_field("fixed", _fixed(self.fixed))
        if self.discount is not None:
            set_field("discount", _bounds("discount", self.discount, _discount))
        if self.normalization is not None:
            set_field("normalization", _names("normalization", self.normalization, NORMALIZATIONS))
        if self.block is not None:
            set_field("block", _names("block", self.block, BLOCKS))
        if self.max_grad_norm is not None:
            set_field("max_grad_norm", _bounds("max_grad_norm", self.max_grad_norm, _positive))
        if self.weight_decay is not None:
            set_field("weight_decay", _bounds("weight_decay", self.weight_decay, _positive))
            if not set(self.optimizer) & set(WITH_WEIGHT_DECAY):
                raise UserError(
                    "weight_decay needs an optimizer that has it in the search space "
                    f"({', '.join(WITH_WEIGHT_DECAY)}), but it has {', '.join(self.optimizer)}"
                )
        if self.head is not None:
            set_field("head", _names("head", self.head, HEADS))
            if "categorical" in self.head and self.fixed.value_range is None:
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
        return cls.from_dict(_PRESETS.read(name))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SearchSpace:
        """The inverse of `to_dict`; omitted entries come from the named space `base`, if given, else the defaults."""
        if not isinstance(values, Mapping):
            raise UserError(f"a search space must be a mapping of names to allowed values, but got {values!r}")
        names = [*_field_names(cls), "base"]
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
        result: Json = {
            "activation": list(self.activation),
            "optimizer": list(self.optimizer),
            "loss": list(self.loss),
            "learning_rate": list(self.learning_rate),
            "hidden": _plain(self.hidden),
        }
        if self.convolutions is not None:
            result["convolutions"] = _plain(self.convolutions)
        if self.discount is not None:
            result["discount"] = list(self.discount)
        if self.normalization is not None:
            result["normalization"] = list(self.normalization)
        if self.block is not None:
            result["block"] = list(self.block)
        if self.max_grad_norm is not None:
            result["max_grad_norm"] = list(self.max_grad_norm)
        if self.weight_decay is not None:
            result["weight_decay"] = list(self.weight_decay)
        if self.head is not None:
            result["head"] = list(self.head)
        defaults = Hyperparameters().to_dict()
        fixed = {k: v for k, v in self.fixed.to_dict().items() if k not in defaults or v != defaults[k]}
        return {**result, "fixed": fixed} if fixed else result

    @cached_property
    def configuration_space(self) -> ConfigurationSpace:
        """The space for ConfigSpace and tools built on it, without hyperparameters that have a single value."""
        import ConfigSpace as package  # here, because it imports SciPy, which takes more than a second

        Float, Integer = package.UniformFloatHyperparameter, package.UniformIntegerHyperparameter
        space = package.ConfigurationSpace()
        for name, values in self._categories.items():
            if len(values) > 1:
                space.add(package.CategoricalHyperparameter(name, values))
        low, high = self.learning_rate
        if high - low > LEAST_DIFFERENCE:
            space.add(Float("learning_rate", low, high, log=True))
        if self.discount is not None and self.discount[1] - self.discount[0] > LEAST_DIFFERENCE:
            space.add(Float("discount", *self.discount))
        for name in ("max_grad_norm", "weight_decay"):
            bounds = getattr(self, name)
            if bounds is not None and bounds[1] - bounds[0] > LEAST_DIFFERENCE:
                space.add(Float(name, *bounds, log=True))
        without = [name for name in self.optimizer if name not in WITH_WEIGHT_DECAY]
        if "weight_decay" in space and without:
            having = [name for name in self.optimizer if name in WITH_WEIGHT_DECAY]
            space.add(package.InCondition(space["weight_decay"], space["optimizer"], having))
        if "loss" in space and "head" in space:
            space.add(package.EqualsCondition(space["loss"], space["head"], "scalar"))
        for section in ("hidden", "convolutions"):
            of_layers = getattr(self, section)
            if of_layers is None or of_layers.layers[1] == 0:
                continue
            for name, (low, high) in _plain(of_layers).items():
                if low < high:
                    space.add(Integer(f"{section}.{name}", low, high))
                    if name != "layers" and of_layers.layers[0] == 0:
                        layers, of_layer = space[f"{section}.layers"], space[f"{section}.{name}"]
                        space.add(package.GreaterThanCondition(of_layer, layers, 0))
        return space

    @property
    def _categories(self) -> dict[str, tuple[str, ...]]:
        """The allowed names of every hyperparameter that is a name and that the space varies."""
        every = {name: getattr(self, name) for name in CATEGORICAL}
        if "scalar" not in self._heads:
            del every["loss"]  # it has no effect on any member
        return {name: values for name, values in every.items() if values is not None}

    @property
    def _heads(self) -> tuple[str, ...]:
        """The heads that members can have."""
        return self.head or (self.fixed.head,)

    def largest(self) -> Hyperparameters:
        """The member with the most parameters: the most units, and the fewest convolutions that shrink the image."""
        convolutions: tuple[Convolution, ...] = ()
        if (of := self.convolutions) is not None:
            convolutions = (Convolution(of.channels[1], of.kernel[1], of.stride[0]),) * of.layers[0]
        head = "categorical" if "categorical" in self._heads else "scalar"
        return self.fixed.replace(
            activation=self.activation[0],
            optimizer=self.optimizer[0],
            head=head,
            loss=_loss(head, self.loss[0]),
            learning_rate=self.learning_rate[0],
            hidden=(self.hidden.neurons[1],) * self.hidden.layers[1],
            convolutions=convolutions,
            discount=self.fixed.discount if self.discount is None else self.discount[0],
            normalization="layer" if "layer" in (self.normalization or (self.fixed.normalization,)) else "none",
            block="residual" if "residual" in (self.block or (self.fixed.block,)) else "plain",
            max_grad_norm=self.fixed.max_grad_norm if self.max_grad_norm is None else self.max_grad_norm[0],
        )

    @property
    def dimensions(self) -> int:
        """The dimension of the unit cube: the number of hyperparameters with more than one value."""
        return len(self.configuration_space)

    def from_unit(self, point: np.ndarray) -> Hyperparameters:
        """The member at a point of the unit cube, with coordinates in the order of `configuration_space`. [D]

        The interval of a discrete coordinate is divided into equal parts, one per value: ConfigSpace itself rounds, so
        the lowest and the highest value would get only half a part each. If a member has no layers, the coordinates of
        its layers' properties have no effect.
        """
        point = np.asarray(point, np.float64)
        if point.shape != (self.dimensions,) or not ((point >= 0.0) & (point <= 1.0)).all():
            raise ValueError(f"a point of this space is {self.dimensions} numbers between 0 and 1, but got {point!r}")
        values: Json = {}
        for hyperparameter, coordinate in zip(self.configuration_space.values(), point.tolist(), strict=True):
            if math.isfinite(hyperparameter.size):
                parts = int(hyperparameter.size)
                part = min(int(coordinate * parts), parts - 1)
                # In ConfigSpace's vectors a categorical is an index into its list, and numbers are scaled to [0, 1].
                coordinate = float(part) if hyperparameter.name in CATEGORICAL else part / (parts - 1)
            values[hyperparameter.name] = hyperparameter.to_value(coordinate)
        return self._member(values)

    def sample(self, rng: np.random.Generator) -> Hyperparameters:
        """Sample a member uniformly, its learning rate log-uniformly."""
        return self.from_unit(rng.random(self.dimensions))

    def contains(self, member: Hyperparameters) -> bool:
        """Whether the member is in the space; hyperparameters that the space does not vary are ignored."""
        return not self._foreign(member) and self.clip(member) == member

    def _foreign(self, member: Hyperparameters) -> list[str]:
        """The hyperparameters that are names and whose value is not in the space; a categorical head has no loss."""
        return [
            name
            for name, values in self._categories.items()
            if getattr(member, name) not in values and (name != "loss" or member.head == "scalar")
        ]

    def clip(self, member: Hyperparameters) -> Hyperparameters:
        """The member with its numbers clipped to their bounds.

        Surplus layers are removed from the end; missing ones are copies of the last layer, or the smallest possible if
        there is none. If the space has them, a member without a discount or a weight decay of its own gets the least,
        and one without a max_grad_norm the largest. Names cannot be clipped: one that is not in the space is an error.
        """
        for name in self._foreign(member):
            raise unknown_name(f"{name} in this search space", getattr(member, name), self._categories[name])
        hidden = _clip_layers(member.hidden, self.hidden.layers, self.hidden.neurons[0])
        return member.replace(
            learning_rate=_clip(member.learning_rate, self.learning_rate),
            hidden=tuple(_clip(width, self.hidden.neurons) for width in hidden),
            convolutions=self._clip_convolutions(member.convolutions),
            discount=member.discount if self.discount is None else _clip(member.discount or 0.0, self.discount),
            max_grad_norm=(
                member.max_grad_norm
                if self.max_grad_norm is None
                else _clip(member.max_grad_norm or math.inf, self.max_grad_norm)
            ),
            optimizer_options=self._with_decay(member, member.weight_decay or 0.0),
        )

    def _with_decay(self, member: Hyperparameters, decay: float) -> tuple[tuple[str, float], ...]:
        """The member's optimizer options with this weight decay, clipped, if the space varies it for its optimizer."""
        if self.weight_decay is None or member.optimizer not in WITH_WEIGHT_DECAY:
            return member.optimizer_options
        options = {**dict(member.optimizer_options), "weight_decay": _clip(decay, self.weight_decay)}
        return tuple(options.items())

    def _clip_convolutions(self, layers: tuple[Convolution, ...]) -> tuple[Convolution, ...]:
        of_layers = self.convolutions
        if of_layers is None:
            return ()
        channels, kernel, stride = of_layers.channels, of_layers.kernel, of_layers.stride
        layers = _clip_layers(layers, of_layers.layers, Convolution(channels[0], kernel[0], stride[0]))
        return tuple(
            Convolution(_clip(layer.channels, channels), _clip(layer.kernel, kernel), _clip(layer.stride, stride))
            for layer in layers
        )

    def _member(self, values: Mapping[str, Any]) -> Hyperparameters:
        """The member with these values by ConfigSpace's names; those with a single possible value may be missing."""

        def value(name: str, allowed: Sequence[Any]) -> Any:
            return values.get(name, allowed[0])

        layers = value("hidden.layers", self.hidden.layers)
        neurons = value("hidden.neurons", self.hidden.neurons)
        convolutions: tuple[Convolution, ...] = ()
        if (of := self.convolutions) is not None:
            shape = [value(f"convolutions.{name}", getattr(of, name)) for name in ("channels", "kernel", "stride")]
            convolutions = (Convolution(*shape),) * value("convolutions.layers", of.layers)
        head = str(value("head", self._heads))
        member = self.fixed.replace(
            activation=str(value("activation", self.activation)),
            optimizer=str(value("optimizer", self.optimizer)),
            head=head,
            loss=_loss(head, str(value("loss", self.loss))),
            learning_rate=_clip(value("learning_rate", self.learning_rate), self.learning_rate),
            hidden=(neurons,) * layers,
            convolutions=convolutions,
            discount=(
                self.fixed.discount if self.discount is None else _clip(value("discount", self.discount), self.discount)
            ),
            normalization=str(value("normalization", self.normalization or (self.fixed.normalization,))),
            block=str(value("block", self.block or (self.fixed.block,))),
            max_grad_norm=(
                self.fixed.max_grad_norm
                if self.max_grad_norm is None
                else _clip(value("max_grad_norm", self.max_grad_norm), self.max_grad_norm)
            ),
        )
        decay = 0.0 if self.weight_decay is None else value("weight_decay", self.weight_decay)
        return member.replace(optimizer_options=self._with_decay(member, decay))


def space_from(given: SearchSpace | Mapping[str, Any] | str | Path) -> SearchSpace:
    """Convert a space, its name, a YAML file, or plain values to a space."""
    if isinstance(given, SearchSpace):
        return given
    if not isinstance(given, str | Path):
        return SearchSpace.from_dict(given)
    return SearchSpace.from_dict(_PRESETS.read_given(given))


def default_space(observation_shape: tuple[int, ...]) -> SearchSpace:
    """The built-in space for observations of this shape: images have three dimensions."""
    return SearchSpace.named("images" if len(observation_shape) == 3 else "vectors")


def named_spaces() -> list[str]:
    """The names of the built-in spaces."""
    return _PRESETS.names()


def _loss(head: str, of_scalar: str) -> str:
    """The loss of a member with this head: a categorical one is trained by cross-entropy."""
    return of_scalar if head == "scalar" else Hyperparameters.loss


def _names(kind: str, given: object, allowed: Sequence[str]) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    if isinstance(names, Mapping) or not isinstance(names, Sequence) or not names:
        raise UserError(f"{kind} in a search space must be a list of at least one name, but got {given!r}")
    for name in names:
        if name not in allowed:
            raise unknown_name(kind, name, allowed)
        if names.count(name) > 1:
            raise UserError(f"every {kind} in a search space must be listed once, but {name!r} is listed twice")
    return tuple(names)


def _bounds(what: str, given: object, read: Callable[[str, object], Number]) -> tuple[Number, Number]:
    pair = (given, given) if isinstance(given, Real | str) else given
    if not isinstance(pair, Sequence) or len(pair) != 2:
        raise UserError(f"{what} in a search space must be a lower and an upper bound, but got {given!r}")
    low, high = read(what, pair[0]), read(what, pair[1])
    if low > high:
        raise UserError(f"the bounds of {what} must be in ascending order, but got {given!r}")
    return low, high


def _read_bounds(of_layers: DenseLayers | ConvolutionLayers, section: str) -> None:
    for name in _field_names(of_layers):
        least = 0 if name == "layers" else 1
        read = lambda what, given, low=least: count(what, given, low=low)  # noqa: E731
        object.__setattr__(of_layers, name, _bounds(f"{section}.{name}", getattr(of_layers, name), read))


def _positive(what: str, given: object) -> float:
    return number(what, given, low=LEAST_POSITIVE)


def _discount(what: str, given: object) -> float:
    return number(what, given, 0.0, 1.0)


def _section(kind: type[Section], name: str, given: object) -> Section:
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise UserError(f"{name} in a search space must be a mapping of names to bounds, but got {given!r}")
    names = _field_names(kind)
    for entry in given:
        if entry not in names:
            raise unknown_name(f"bound of {name}", entry, names)
    return kind(**given)


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


def _plain(of_layers: DenseLayers | ConvolutionLayers) -> dict[str, list[int]]:
    return {name: list(getattr(of_layers, name)) for name in _field_names(of_layers)}


def _field_names(of: DenseLayers | ConvolutionLayers | type) -> list[str]:
    return [entry.name for entry in dataclasses.fields(of)]


def _clip(value: Number, bounds: tuple[Number, Number]) -> Number:
    return min(max(value, bounds[0]), bounds[1])


def _clip_layers(layers: tuple[Layer, ...], bounds: IntegerBounds, smallest: Layer) -> tuple[Layer, ...]:
    kept = layers[: bounds[1]]
    return kept + (kept[-1] if kept else smallest,) * (bounds[0] - len(kept))
