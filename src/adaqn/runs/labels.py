"""Short names for the members of an ensemble, for consoles and legends where a table does not fit."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from adaqn.hyperparameters import Hyperparameters


def member_labels(members: Sequence[Hyperparameters]) -> list[str]:
    """The shortest labels that tell the members apart, made only of hyperparameters in which they differ.

    Members that are equal in everything are numbered: `25x25 #1`, `25x25 #2`.
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
    """The options of the optimizer that are set: eps=1.5e-4."""
    return " ".join(f"{name}={number_label(value)}" for name, value in member.optimizer_options)


def number_label(value: float) -> str:
    """A number to four digits, as one writes learning rates: 3e-4, but 0.05."""
    if value == 0.0 or abs(value) >= 0.01:
        return f"{value:.4g}"
    mantissa, exponent = f"{value:.3e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def loss_meaning(pair: bool) -> str:
    """What members are compared by, as a legend says it."""
    if pair:
        return "exponential average, with rate tau, of the squared TD error / 2 (batch mean)"
    return "squared TD error / 2 (batch mean), summed over the updates between two target updates"


def _words(member: Hyperparameters) -> tuple[str, ...]:
    """One word for each hyperparameter, in the order in which a label names them."""
    return (
        layers_label(member.hidden),
        "-".join(str(c.channels) for c in member.convolutions) or "no convolution",
        "-".join(f"k{c.kernel}s{c.stride}" for c in member.convolutions) or "no kernel",
        member.activation,
        member.optimizer,
        options_label(member) or "default options",
        f"lr {number_label(member.learning_rate)}",
        member.loss,
        "default discount" if member.discount is None else f"discount {member.discount:.6g}",
    )


def _telling_fields(rows: Sequence[tuple[str, ...]]) -> tuple[int, ...]:
    """The fewest fields that tell apart all rows that differ; among equally few, the shortest words."""
    distinct = len(set(rows))
    if distinct == 1:
        return (0,)  # nothing tells them apart, so the layers stand for all
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
