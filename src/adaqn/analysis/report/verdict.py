"""A run in plain words: who won, from when on, by how much, and what that does and doesn't mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adaqn.analysis.discounts import discounts_of
from adaqn.analysis.picture import target_shares
from adaqn.analysis.summary import rounded
from adaqn.runs.reading import RunData
from adaqn.runs.standings import acting_returns, history_of, selected_shares, selection_weights

PARTS = 10  # stretches of the run in which the lead is compared


def verdict(run: RunData, labels: Sequence[str]) -> list[str]:
    """Sentences about the members of a run."""
    if len(labels) < 2:
        return _alone(run)
    if not len(run.selection.step):
        state = "has been made yet" if run.summary is None else "was recorded, as it is short"
        return [f"The run has {len(labels)} members, and no target update {state}."]
    rule = (run.config.get("settings") or {}).get("selection", "lowest")
    sentences = [*_winner(run, labels), *_margin(run, labels), *_returns(run, labels)]
    if rule != "lowest":
        sentences.append(f"The target was chosen by the rule “{rule}”, so a large share is no sign of a small error.")
    if run.member_evaluations is not None:
        meaning = (
            "To win means to have been the elite, the member with the highest return when a generation was evaluated; "
            "this is one run with one seed."
        )
        return [*sentences, meaning]
    sentences.append(
        "To win means to have predicted the shared target with the smallest error. It does not mean that the policy of "
        "the member has the highest return, nor that it would be the best one on its own: all members learned from the "
        "same experience and the same targets, and this is one run with one seed."
    )
    return sentences


def _alone(run: RunData) -> list[str]:
    """About a run whose members, one or a pair, have the same hyperparameters."""
    sentences = ["This run trains a single set of hyperparameters, so there was no target to choose."]
    if len(run.members) > 1:
        sentences.append(f"A schedule changed them {_times(len(run.members) - 1)}; the last ones are shown here.")
    discounts = discounts_of(run)
    if discounts is not None and discounts.learned and len(discounts.value):
        first, last = discounts.value[0], discounts.value[-1]
        sentences.append(f"It learned its discount, which went from {first:.4g} to {last:.4g}.")
    return sentences


def _percent(share: float) -> str:
    """A whole number of percent that does not turn some into none, or nearly all into all."""
    if 0.0 < share < 0.005:
        return "less than 1%"
    return "more than 99%" if 0.995 < share < 1.0 else f"{share:.0%}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _winner(run: RunData, labels: Sequence[str]) -> list[str]:
    shares = selected_shares(run)
    order = np.argsort(-shares, kind="stable")
    first, second = int(order[0]), int(order[1])
    so_far = "" if run.summary is not None else "So far, "
    updates = f"of the {len(run.selection.step):,} target updates"
    if run.sums_up_selections:
        updates = "of the updates (two members at a time, so the shares add up to 200%)"
    role = "in the target pair" if run.sums_up_selections else "the target"
    opening = f"{so_far}{'m' if so_far else 'M'}ember {first} ({labels[first]})"
    following = f"next is member {second} ({labels[second]}) with {_percent(shares[second])}"
    if not shares[second]:
        following = "no other member was" if len(run.members) < 2 else "no other one of the current members was"
    sentences = [
        f"{opening} {'leads' if so_far else 'won'}: it was {role} in {_percent(shares[first])} {updates}; {following}."
    ]
    if len(run.members) > 1:
        sentences.append(
            f"The members changed in {len(run.members) - 1:,} generations; a share counts only the target updates "
            "since the current member was created."
        )
    return [*sentences, _since(run, labels, first)]


def _since(run: RunData, labels: Sequence[str], winner: int) -> str:
    """From when on the winner was chosen most often, in stretches of a tenth of the run."""
    bins = min(PARTS, len(run.selection.step))
    shares, edges = target_shares(run.selection, len(labels), bins, selection_weights(run))
    leads = shares[winner] >= shares.max(axis=0)
    if not leads[-1]:
        last = int(np.argmax(shares[:, -1]))
        return (
            f"In the last tenth of the run, however, member {last} ({labels[last]}) was chosen more often, in "
            f"{shares[last, -1]:.0%} of the updates."
        )
    behind = np.flatnonzero(~leads)
    if not len(behind):
        return "It was chosen most often in every tenth of the run."
    return f"It has been chosen most often from about step {edges[behind[-1] + 1]:,.0f} on."


def _margin(run: RunData, labels: Sequence[str]) -> list[str]:
    """By how much the lowest loss is below the next one, at the end of the run."""
    losses = run.selection.loss[-max(1, len(run.selection.step) // PARTS) :]
    sound = np.isfinite(losses).all(axis=0)
    if sound.sum() < 2:
        return ["Fewer than two members have finite losses at the end, so their losses cannot be compared."]
    median = np.where(sound, np.median(np.where(np.isfinite(losses), losses, 0.0), axis=0), np.inf)
    first, second = (int(index) for index in np.argsort(median, kind="stable")[:2])
    more = f", {median[second] / median[first] - 1.0:.0%} higher" if median[first] > 0.0 else ""
    return [
        f"In the last tenth of the run, member {first} ({labels[first]}) had the smallest error: a median cumulated "
        f"loss of {median[first]:.4g}, against {median[second]:.4g} of member {second} ({labels[second]}){more}."
    ]


def _returns(run: RunData, labels: Sequence[str]) -> list[str]:
    acting = acting_returns(history_of(run))
    known = [(of.mean, of.episodes, member) for member, of in enumerate(acting) if of.mean is not None]
    if not known:
        return []
    mean, episodes, member = max(known)
    role = "trained the actor" if run.sums_up_selections else "acted"
    return [
        f"The episodes with the highest mean return are those in which member {member} ({labels[member]}) {role} most: "
        f"{rounded(mean)} over {episodes:,} {'episode' if episodes == 1 else 'episodes'}, at whatever time of the run "
        "they took place."
    ]
