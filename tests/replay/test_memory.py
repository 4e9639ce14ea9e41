from __future__ import annotations

from pathlib import Path

import pytest

from adaqn.base.errors import UserError
from adaqn.replay.memory import (
    Need,
    available_memory,
    gigabytes,
    require_memory,
    require_room,
    resident_memory,
    too_large,
)

MEMINFO = "MemTotal:       16000000 kB\nMemFree:          100000 kB\nMemAvailable:    8000000 kB\n"
MACHINE = 8000000 * 1024
GB = 10**9


def machine(root: Path, **files: str) -> Path:
    """A root directory with these files; __ in their names stands for a slash."""
    for name, text in ({"proc__meminfo": MEMINFO} | files).items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def write(root: Path, directory: str, **files: object) -> None:
    """Files of a control group, each named after `memory.`."""
    for name, content in files.items():
        path = root / "sys/fs/cgroup" / directory / f"memory.{name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")


def test_what_the_machine_has(tmp_path: Path) -> None:
    assert available_memory(machine(tmp_path)) == MACHINE


def test_elsewhere_it_is_not_known_and_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert available_memory(tmp_path) is None
    monkeypatch.setattr("adaqn.replay.memory.available_memory", lambda: None)
    require_memory(10**18)


def test_what_a_container_leaves_counts_without_files_that_can_be_dropped(tmp_path: Path) -> None:
    machine(tmp_path, proc__self__cgroup="0::/\n")
    write(tmp_path, "", max=4 * GB, current=3 * GB, stat=f"anon 5\ninactive_file {GB}\nactive_file 7")
    assert available_memory(tmp_path) == 2 * GB


def test_the_narrowest_of_all_groups_counts(tmp_path: Path) -> None:
    machine(tmp_path, proc__self__cgroup="0::/user/job.7/step\n")
    write(tmp_path, "user/job.7/step", max="max", current=GB)
    write(tmp_path, "user/job.7", max=3 * GB, current=GB)
    write(tmp_path, "user", max=5 * GB, current=GB)
    assert available_memory(tmp_path) == 2 * GB


def test_groups_of_the_first_version(tmp_path: Path) -> None:
    # The path is the host's, the files of the container's group lie at the top.
    machine(tmp_path, proc__self__cgroup="5:devices:/docker/3a\n4:cpu,memory:/docker/3a\n0::/docker/3a\n")
    write(tmp_path, "memory", limit_in_bytes=6 * GB, usage_in_bytes=2 * GB, stat=f"total_inactive_file {GB}")
    assert available_memory(tmp_path) == 5 * GB


def test_no_limit_is_that_of_the_machine(tmp_path: Path) -> None:
    machine(tmp_path, proc__self__cgroup="4:memory:/\n0::/\n")
    write(tmp_path, "memory", limit_in_bytes=9223372036854771712, usage_in_bytes=GB)
    write(tmp_path, "", max="max", current=GB)
    assert available_memory(tmp_path) == MACHINE


def test_a_buffer_that_does_not_fit_is_refused_in_one_sentence() -> None:
    require_memory(7 * GB, available=7 * GB)
    with pytest.raises(UserError) as caught:
        require_memory(7_257_000_000, available=4 * GB)
    assert str(caught.value) == (
        "the replay buffer takes 7.26 GB when it is full, but 4.00 GB of memory are available: "
        "lower buffer_size to 55 % of its value or less"
    )


def test_a_buffer_may_be_larger_than_memory_where_it_need_not_be_filled() -> None:
    require_memory(10 * GB, available=GB, times=10)
    with pytest.raises(UserError) as caught:
        require_memory(1000 * GB, available=GB, times=10)
    # No advice is given for less than one percent.
    assert str(caught.value) == (
        "the replay buffer takes 1,000.00 GB when it is full, but 1.00 GB of memory are available: lower buffer_size"
    )


def test_a_failed_allocation_with_unknown_limits_is_an_error() -> None:
    assert str(too_large(2 * GB, None)) == (
        "the replay buffer takes 2.00 GB when it is full, but this machine has less: lower buffer_size"
    )


def test_needs_are_added_up_and_the_largest_is_named() -> None:
    needs = [Need("a batch", 2 * GB, "lower batch_size"), Need("the networks", 3 * GB, "take smaller layers")]
    require_room(needs, available=5 * GB)
    with pytest.raises(UserError) as caught:
        require_room(needs, available=4_994_000_000)
    assert str(caught.value) == (
        "this run needs 5.00 GB of memory besides its replay buffer, most of it for the networks, but 4.99 GB of "
        "memory are available: take smaller layers"
    )


def test_sizes_beyond_the_range_of_floats_can_be_formatted() -> None:
    assert gigabytes(10**400).endswith(",000.00 GB")
    assert (gigabytes(0), gigabytes(-5), gigabytes(12_345_678_901)) == ("0.00 GB", "0.00 GB", "12.35 GB")


def test_by_default_it_asks_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adaqn.replay.memory.available_memory", lambda: 10)
    require_memory(10)
    with pytest.raises(UserError, match="are available"):
        require_memory(11)


def test_resident_memory_is_the_second_number_of_statm_in_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource.getpagesize", lambda: 4096)
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "statm").write_text("900 25 7 1 0 60 0\n")
    assert resident_memory(tmp_path) == 25 * 4096
    assert resident_memory(tmp_path / "nowhere") is None
