"""Short names for the members of an ensemble, for consoles and legends that have no room for a table."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from adaqn.members.hyperparameters import Hyperparameters


def member_labels(members: Sequence[Hyperparameters]) -> list[str]:
    """The shortest labels that distinguish the members, made only of hyperparameters in which they differ.

    Members with equal hyperparameters are numbered: `25x25 #1`, `25x25 #2`.
    """
    if not members:
        return []
    rows = [_words(member) for member in members]
    fields = _telling_fields(rows)
    labels = [" ".join(row[field] for field in fields) for row in rows]
    counts, seen = Counter(labels), Counter[str]()
    for index, label in enumerate(labels):
        if counts[label] > 1:
            seen[label] += 1
            labels[index] = f"{label} #{seen[label]}"
    return labels


def layers_label(hidden: Sequence[int]) -> str:
    """Layer widths as they are written on the command line: 25x25."""
    return "x".join(map(str, hidden)) or "linear"


def convolutions_label(member: Hyperparameters) -> str:
    """Channels, kernel and stride of every convolution: 32k8s4 64k4s2."""
    return " ".join(f"{c.channels}k{c.kernel}s{c.stride}" for c in member.convolutions)


def options_label(member: Hyperparameters) -> str:
    """The optimizer options that are set, and the limit of the gradient's norm: eps=1.5e-4 max_grad_norm=10."""
    return " ".join(f"{name}={number_label(value)}" for name, value in member.traced_options.items())


def layers_kind_label(member: Hyperparameters) -> str:
    """The kind of the hidden layers: plain, layer norm or residual."""
    if member.block == "residual":
        return "residual"
    return "layer norm" if member.normalization == "layer" else "plain"


def loss_label(member: Hyperparameters) -> str:
    """The loss that the member is trained with: of a categorical head, categorical (cross-entropy)."""
    return member.loss if member.head == "scalar" else member.head


def head_label(member: Hyperparameters) -> str:
    """The head of the member: scalar, or categorical with its bins: categorical 51 bins -100:100."""
    support = member.support
    if support is None:
        return "scalar"
    return f"categorical {support.bins} bins {number_label(support.low)}:{number_label(support.high)}"


def number_label(value: float) -> str:
    """A number with four digits, in the usual notation of learning rates: 3e-4, but 0.05."""
    if value == 0.0 or abs(value) >= 0.01:
        return f"{value:.4g}"
    mantissa, exponent = f"{value:.3e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def loss_meaning(pair: bool) -> str:
    """The definition of the loss by which members are compared, for legends."""
    if pair:
        return "exponential average, with rate tau, of the squared TD error / 2 (batch mean)"
    return "squared TD error / 2 (batch mean), summed over the updates between two target updates"


def _words(member: Hyperparameters) -> tuple[str, ...]:
    """A text for each hyperparameter, in the order of a label."""
    return (
        layers_label(member.hidden),
        "-".join(str(c.channels) for c in member.convolutions) or "no convolution",
        "-".join(f"k{c.kernel}s{c.stride}" for c in member.convolutions) or "no kernel",
        member.activation,
        member.optimizer,
        options_label(member) or "default options",
        f"lr {number_label(member.learning_rate)}",
        loss_label(member),
        layers_kind_label(member),
        head_label(member),
        "default discount" if member.discount is None else f"discount {member.discount:.6g}",
    )


def _telling_fields(rows: Sequence[tuple[str, ...]]) -> tuple[int, ...]:
    """The smallest set of fields that distinguishes all different rows; among equally small ones, the shortest text."""
    distinct = len(set(rows))
    if distinct == 1:
        return (0,)  # all rows are equal, so the label is just the layers
    every = range(len(rows[0]))
    for count in range(1, len(every)):
        choices = [
            fields
            for fields in itertools.combinations(every, count)
            if len({tuple(row[field] for field in fields) for row in rows}) == distinct
        ]
        if choices:
            return min(choices, key=lambda fields: sum(len(row[field]) for row in rows for field in fields))
    return tuple(every)
