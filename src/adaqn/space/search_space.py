"""A search space: what a member may become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

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
from adaqn.space.clipping import clipped
from adaqn.space.cube import configuration_space, loss_of, member_at
from adaqn.space.entries import (
    ConvolutionLayers,
    DenseLayers,
    FloatBounds,
    bounds_from,
    field_names,
    names_from,
    plain,
    positive,
    section_from,
    share,
)

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
