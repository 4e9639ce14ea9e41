"""Whether a replay buffer will fit: better asked before a run than answered by the system hours later."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

try:
    import resource
except ImportError:  # not on Windows
    resource = None

from adaqn.errors import UserError

GB = 1e9


def require_memory(needed: int, available: int | None = None) -> None:
    """Refuse a replay buffer that takes more bytes when full than are available, by default here and now."""
    if available is None:
        available = available_memory()
    if available is not None and needed > available:
        # Rounded down, so that the advice is enough.
        share = int(100 * max(available, 0) / needed)
        raise UserError(
            f"the replay buffer takes {needed / GB:.2f} GB when it is full, but {max(available, 0) / GB:.2f} GB of "
            f"memory are available: lower buffer_size to {share} % of its value or less"
        )


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that this process may still take from the machine and from its container; None where Linux is not."""
    limits = [_machine(root), *_control_groups(root), _address_space(root)]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def _machine(root: Path) -> int | None:
    kilobytes = re.search(r"^MemAvailable:\s+(\d+) kB$", _text(root / "proc/meminfo"), re.MULTILINE)
    return int(kilobytes[1]) * 1024 if kilobytes else None


def _address_space(root: Path) -> int | None:
    """What `ulimit -v` leaves; beyond it, compiled code does not raise but ends the process."""
    if resource is None:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _text(root / "proc/self/statm").split(" ")[0]
    if limit == resource.RLIM_INFINITY or not pages.isdecimal():
        return None
    return limit - int(pages) * resource.getpagesize()


def _control_groups(root: Path) -> list[int | None]:
    """What each control group that this process is in leaves, in both versions of their file system."""
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
        # A limit holds for all groups below it. Inside a container the path may be the host's, which is not
        # there, and the container's own group is the one at the top.
        group = PurePosixPath(path.lstrip("/"))
        left += [_left_in(below / directory, *files) for directory in (group, *group.parents)]
    return left


def _left_in(group: Path, limit_file: str, usage_file: str, reclaimable_name: str) -> int | None:
    limit, usage = _text(group / limit_file).strip(), _text(group / usage_file).strip()
    if not (limit.isdecimal() and usage.isdecimal()):  # no such group, or "max" for no limit
        return None
    # Files that were read count as used, but make room when memory is needed.
    reclaimable = re.search(rf"^{reclaimable_name} (\d+)$", _text(group / "memory.stat"), re.MULTILINE)
    return int(limit) - int(usage) + (int(reclaimable[1]) if reclaimable else 0)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
