"""Telling a configuration that a user changed from one that a newer adaqn reads with settings of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adaqn import __version__
from adaqn.errors import CheckpointError

UNKNOWN = "of an unknown version"  # checkpoints did not always record it


def config_refusal(
    changed: list[str], now: Mapping[str, Any], before: Mapping[str, Any], made_by: str | None
) -> Exception:
    """The error for a run whose configuration differs in the entries `changed` from that of its checkpoint."""
    added = [name for entry in changed for name in added_entries(now.get(entry), before.get(entry), entry) or [""]]
    if added and all(added):
        return CheckpointError(
            f"the run was made by adaqn {made_by or UNKNOWN}, which did not have {', '.join(added)}, and this is adaqn "
            f"{__version__}: resume it with the adaqn that made it, or train it as a new run"
        )
    return CheckpointError(
        f"config.yaml was changed after the checkpoint was written ({', '.join(changed)}); "
        "restore it to resume (`adaqn resume --steps` changes the end of a run), or train it as a new run"
    )


def added_entries(now: Any, before: Any, name: str) -> list[str] | None:
    """Names of the entries that only `now` has, if everything else is equal; None if something else differs."""
    if isinstance(now, Mapping) and isinstance(before, Mapping):
        if not before.keys() <= now.keys():
            return None
        found = [str(key) for key in now if key not in before]
        inner = [added_entries(now[key], value, str(key)) for key, value in before.items()]
    elif isinstance(now, list) and isinstance(before, list) and len(now) == len(before):
        found, inner = [], [added_entries(own, other, name) for own, other in zip(now, before, strict=True)]
    else:
        return [] if now == before else None
    if any(names is None for names in inner):
        return None
    return list(dict.fromkeys([*found, *(each for names in inner for each in names or [])]))
