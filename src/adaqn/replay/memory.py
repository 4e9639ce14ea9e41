"""Checks before a run starts that it will fit into memory, so that it is not killed hours later."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

try:
    import resource
except ImportError:  # not on Windows
    resource = None

from adaqn.base.errors import UserError

GB = 10**9


class Need(NamedTuple):
    """Something that needs memory."""

    what: str  # completes "most of it for ..."
    size: int  # in bytes
    remedy: str  # advice if that is too much


def require_room(needs: Sequence[Need], available: int | None = None) -> None:
    """Raise if all needs together exceed the available bytes (default: the memory available now)."""
    if available is None:
        available = available_memory()
    needed = sum(need.size for need in needs)
    if available is not None and needed > available:
        largest = max(needs, key=lambda need: need.size)
        raise UserError(
            f"this run needs {gigabytes(needed)} of memory besides its replay buffer, most of it for {largest.what}, "
            f"but {gigabytes(available)} of memory are available: {largest.remedy}"
        )


def require_memory(needed: int, available: int | None = None, times: int = 1) -> None:
    """Raise if a full replay buffer needs more than `times` the available bytes."""
    if available is None:
        available = available_memory()
    if available is not None and needed > times * available:
        raise too_large(needed, available)


def too_large(needed: int, available: int | None) -> UserError:
    """The error for a replay buffer that needs too many bytes."""
    has = "this machine has less" if available is None else f"{gigabytes(available)} of memory are available"
    # Rounded down, so that following the advice is enough.
    share = 0 if available is None else 100 * max(available, 0) // needed
    target = f" to {share} % of its value or less" if share else ""
    return UserError(
        f"the replay buffer takes {gigabytes(needed)} when it is full, but {has}: lower buffer_size{target}"
    )


def gigabytes(size: int) -> str:
    """Format a number of bytes for a message, with integers because it may exceed the range of floats."""
    hundredths = (max(size, 0) * 100 + GB // 2) // GB
    return f"{hundredths // 100:,}.{hundredths % 100:02d} GB"


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that this process can still allocate, given the machine's and the container's limits; None if not Linux."""
    limits = [_machine(root), *_control_groups(root), _address_space(root)]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def resident_memory(root: Path = Path("/")) -> int | None:
    """Bytes of memory that this process occupies now; None if not Linux."""
    pages = _text(root / "proc/self/statm").split(" ")
    if resource is None or len(pages) < 2 or not pages[1].isdecimal():
        return None
    return int(pages[1]) * resource.getpagesize()


def _machine(root: Path) -> int | None:
    kilobytes = re.search(r"^MemAvailable:\s+(\d+) kB$", _text(root / "proc/meminfo"), re.MULTILINE)
    return int(kilobytes[1]) * 1024 if kilobytes else None


def _address_space(root: Path) -> int | None:
    """What `ulimit -v` leaves; beyond it, compiled code ends the process instead of raising."""
    if resource is None:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _text(root / "proc/self/statm").split(" ")[0]
    if limit == resource.RLIM_INFINITY or not pages.isdecimal():
        return None
    return limit - int(pages) * resource.getpagesize()


def _control_groups(root: Path) -> list[int | None]:
    """What each control group (v1 and v2) of this process leaves."""
    mounted = root / "sys/fs/cgroup"
    left: list[int | None] = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, names_and_path = line.partition(":")
        names, _, path = names_and_path.partition(":")
        if number == "0" and not names:
            files, below = ("memory.max", "memory.current", "inactive_file"), mounted
        elif "memory" in names.split(","):
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            below = mounted / "memory"
        else:
            continue
        # A limit applies to all groups below it. Inside a container the path may be the host's, which does not exist
        # here, and the container's own group is the top one.
        group = PurePosixPath(path.lstrip("/"))
        left += [_left_in(below / directory, *files) for directory in (group, *group.parents)]
    return left


def _left_in(group: Path, limit_file: str, usage_file: str, reclaimable_name: str) -> int | None:
    limit, usage = _text(group / limit_file).strip(), _text(group / usage_file).strip()
    if not (limit.isdecimal() and usage.isdecimal()):  # no such group, or "max" for no limit
        return None
    # Cached files count as used, but are evicted when memory is needed.
    reclaimable = re.search(rf"^{reclaimable_name} (\d+)$", _text(group / "memory.stat"), re.MULTILINE)
    return int(limit) - int(usage) + (int(reclaimable[1]) if reclaimable else 0)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
