from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import shutil
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from adaqn.base.errors import CheckpointError, UserError
from adaqn.base.snapshot import Snapshot, read_snapshot, write_snapshot
from adaqn.replay.protocol import Transitions
from adaqn.replay.vectors import VectorReplay
from adaqn.runs.checkpoint import CheckpointStore

SAVABLE = st.one_of(
    npst.boolean_dtypes(),
    npst.integer_dtypes(endianness="?"),
    npst.unsigned_integer_dtypes(endianness="?"),
    npst.floating_dtypes(endianness="?"),
    npst.complex_number_dtypes(),
    npst.unicode_string_dtypes(max_len=4),
)
SHAPES = npst.array_shapes(min_dims=0, min_side=0, max_side=3)
ARRAYS = SAVABLE.flatmap(lambda dtype: npst.arrays(dtype, SHAPES))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
EXAMPLE = Snapshot(
    {"weights": np.arange(6, dtype=np.float32).reshape(2, 3), ".key[0]/ψ": np.array([7, 9], np.uint32)},
    {"clock": 12, "generator": {"state": 2**127 + 1}},
)


def assert_equal(given: Snapshot, expected: Snapshot) -> None:
    assert given.meta == expected.meta
    assert list(given.arrays) == list(expected.arrays)
    for name, array in expected.arrays.items():
        assert (given.arrays[name].dtype, given.arrays[name].shape) == (array.dtype, array.shape), name
        assert given.arrays[name].tobytes() == array.tobytes(), name


@settings(max_examples=60, deadline=None)
@given(arrays=st.dictionaries(st.text(), ARRAYS, max_size=4), meta=JSON)
def test_a_snapshot_comes_back_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, np.ndarray], meta: Any
) -> None:
    path = tmp_path_factory.mktemp("snapshot") / "agent.zip"
    snapshot = Snapshot(arrays, {"value": meta})
    write_snapshot(path, snapshot, kind="agent")
    assert_equal(read_snapshot(path, kind="agent"), snapshot)


def test_arrays_come_back_writable_and_from_any_layout(tmp_path: Path) -> None:
    square = np.arange(6).reshape(2, 3)
    write_snapshot(tmp_path / "a", Snapshot({"t": square.T, "s": square[:, ::2]}, {}), kind="agent")
    arrays = read_snapshot(tmp_path / "a", kind="agent").arrays
    arrays["t"][0, 0] = 100
    assert arrays["t"].tolist() == [[100, 3], [1, 4], [2, 5]]
    assert arrays["s"].tolist() == [[0, 2], [3, 5]]


def test_equal_content_gives_equal_bytes_and_digest(tmp_path: Path) -> None:
    digests = [write_snapshot(tmp_path / name, EXAMPLE, kind="agent") for name in "ab"]
    assert digests[0] == digests[1]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    changed = EXAMPLE._replace(arrays=EXAMPLE.arrays | {"weights": EXAMPLE.arrays["weights"] + 1})
    assert write_snapshot(tmp_path / "a", changed, kind="agent") != digests[0]


def test_a_file_is_replaced_and_not_written_over(tmp_path: Path) -> None:
    write_snapshot(tmp_path / "a", EXAMPLE, kind="agent")
    os.link(tmp_path / "a", tmp_path / "old")
    write_snapshot(tmp_path / "a", Snapshot({}, {"new": True}), kind="agent")
    assert_equal(read_snapshot(tmp_path / "old", kind="agent"), EXAMPLE)
    assert read_snapshot(tmp_path / "a", kind="agent").meta == {"new": True}


def test_the_arrays_are_npy_files_in_a_stored_zip(tmp_path: Path) -> None:
    write_snapshot(tmp_path / "a.zip", EXAMPLE, kind="agent")
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        head = json.loads(archive.read("meta.json"))
        assert (head["format"], head["version"], head["kind"]) == ("adaqn", 1, "agent")
        entry = head["arrays"][0]
        assert entry["name"] == "weights"
        assert np.load(io.BytesIO(archive.read(entry["file"]))).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_every_truncation_is_refused_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    write_snapshot(path, EXAMPLE, kind="agent")
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 7), *range(len(whole) - 30, len(whole))]:
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match="not a zip archive" if length < 4 else "is truncated") as caught:
            read_snapshot(path, kind="agent")
        assert str(path) in str(caught.value)


def test_every_flipped_byte_is_refused_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    write_snapshot(path, EXAMPLE, kind="agent")
    whole = path.read_bytes()
    refused = 0
    for position in range(len(whole)):
        flipped = whole[position] ^ (0xFF, 0x01, 0x20)[position % 3]
        path.write_bytes(whole[:position] + bytes([flipped]) + whole[position + 1 :])
        try:
            loaded = read_snapshot(path, kind="agent")
        except CheckpointError:
            refused += 1
        else:  # an entry's date or permissions, which are not read
            assert_equal(loaded, EXAMPLE)
    assert refused > 0.8 * len(whole)


def rewritten(path: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None]) -> None:
    """Change the header and entries of a snapshot like an attacker who recomputes the checksums."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    head = json.loads(entries.pop("meta.json"))
    change(head, entries)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
        archive.writestr("meta.json", json.dumps(head))


def forge_array(data: bytes) -> Callable[[dict[str, Any], dict[str, bytes]], None]:
    def change(head: dict[str, Any], entries: dict[str, bytes]) -> None:
        entries[head["arrays"][0]["file"]] = data
        head["arrays"][0]["sha256"] = hashlib.sha256(data).hexdigest()

    return change


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda head, entries: head.update(format="zoo"),
            "not one that adaqn wrote: its format is not 'adaqn'",
        ),
        (
            lambda head, entries: head.update(version=7),
            r"was written by a newer adaqn \(format version 7, this one reads up to 1\)",
        ),
        (lambda head, entries: head.update(version="1"), "has the format version '1', which never existed"),
        (lambda head, entries: head.update(kind="segment"), "of kind 'segment', but 'agent' is needed"),
        (lambda head, entries: head.update(arrays=3), "index is incomplete"),
        (lambda head, entries: head["arrays"][0].pop("sha256"), "index is incomplete"),
        (lambda head, entries: entries.clear(), "index is incomplete"),
        (
            lambda head, entries: entries.update({head["arrays"][1]["file"]: b"\x93NUMPY"}),
            "array '.key.0./ψ' does not match its checksum",
        ),
        (forge_array(b"something else"), "array 'weights' is not a valid .npy"),
        (
            forge_array(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", b"1234")),
            "not a valid .npy",
        ),
        (
            forge_array(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9**99,), }")),
            "not a valid .npy",
        ),
        (forge_array(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", b"1234")), "Fortran"),
        (forge_array(npy("__import__('os').abort()")), "not a valid .npy"),
        (forge_array(npy("(" * 5000)), "not a valid .npy"),
        (
            forge_array(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (0,), }")),
            "is not allowed",
        ),
    ],
)
def test_a_file_from_elsewhere_is_refused_in_one_sentence(tmp_path: Path, change: Any, sentence: str) -> None:
    path = tmp_path / "a.zip"
    write_snapshot(path, EXAMPLE, kind="agent")
    rewritten(path, change)
    with pytest.raises(CheckpointError, match=sentence) as caught:
        read_snapshot(path, kind="agent")
    assert str(path) in str(caught.value)


class Bomb:
    """An attacker's object: unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(self.path), "w"))


def test_a_pickle_is_refused_and_not_executed(tmp_path: Path) -> None:
    bomb = io.BytesIO()
    np.save(bomb, np.array([Bomb(tmp_path / "executed")], object), allow_pickle=True)
    path = tmp_path / "a.zip"
    write_snapshot(path, EXAMPLE, kind="agent")
    rewritten(path, forge_array(bomb.getvalue()))
    with pytest.raises(CheckpointError, match="array 'weights' has dtype object, which is not allowed"):
        read_snapshot(path, kind="agent")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("dtype", [object, ml_dtypes.bfloat16, [("field", np.float32)]])
def test_what_could_not_be_read_again_is_not_written(tmp_path: Path, dtype: Any) -> None:
    with pytest.raises(CheckpointError, match=r"array 'x' has dtype .*, but only numbers and text are allowed"):
        write_snapshot(tmp_path / "a.zip", Snapshot({"x": np.zeros(2, dtype)}, {}), kind="agent")
    assert os.listdir(tmp_path) == []


def test_what_is_no_snapshot_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no file"):
        read_snapshot(tmp_path / "missing.zip", kind="agent")
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_snapshot(tmp_path, kind="agent")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(CheckpointError, match="is not a zip archive"):
        read_snapshot(tmp_path / "text", kind="agent")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("policy.pth", b"\x80\x02")
    with pytest.raises(CheckpointError, match=r"has no meta\.json"):
        read_snapshot(tmp_path / "other.zip", kind="agent")


def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.zip"
    write_snapshot(path, EXAMPLE, kind="agent")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"cannot write .*a\.zip: No space left on device"):
        write_snapshot(path, Snapshot({}, {}), kind="agent")
    assert os.listdir(tmp_path) == ["a.zip"]
    assert_equal(read_snapshot(path, kind="agent"), EXAMPLE)


SLOTS = 10  # of the ring
SEGMENT = 4  # rows


def new_replay(slots: int = SLOTS) -> VectorReplay:
    return VectorReplay(capacity=2 * slots, n_envs=2, observation_shape=(3,), action_shape=(), action_dtype=np.int32)


def add_rows(replay: VectorReplay, last: int) -> None:
    """Rows that contain their own number in all arrays."""
    for row in range(replay.added, last):
        observation = np.full((2, 3), row, np.float32)
        ends = np.array([row % 3 == 0, False])
        replay.add(Transitions(observation, np.array([row, -row]), np.full(2, 0.5 * row), observation + 1, ends, ~ends))


def snapshot_of(step: int) -> Snapshot:
    return Snapshot({"weights": np.full(3, step, np.float32)}, {"step": step, "generator": 2**100 + step})


def assert_holds(store: CheckpointStore, step: int, rows: int, slots: int = SLOTS) -> None:
    """Check that the store loads the snapshot of this step, with the rows added up to it."""
    expected, loaded = new_replay(slots), new_replay(slots)
    add_rows(expected, rows)
    assert_equal(store.load(loaded), snapshot_of(step))
    assert (loaded.oldest, loaded.added) == (expected.oldest, expected.added)
    for name, array in expected.rows(expected.oldest, expected.added).items():
        assert loaded.rows(loaded.oldest, loaded.added)[name].tolist() == array.tolist(), name


def segments(directory: Path) -> list[str]:
    return sorted(os.listdir(directory / "segments"))


@settings(max_examples=25, deadline=None)
@given(
    segment_rows=st.integers(1, 7),
    slots=st.integers(1, 12),
    growth=st.lists(st.integers(0, 15), min_size=1, max_size=6),
    reopen=st.booleans(),
)
def test_the_newest_checkpoint_comes_back_with_its_rows(
    tmp_path_factory: pytest.TempPathFactory, segment_rows: int, slots: int, growth: list[int], reopen: bool
) -> None:
    directory = tmp_path_factory.mktemp("store")
    store, replay = CheckpointStore(directory, segment_rows), new_replay(slots)
    for step, more in enumerate(growth):
        add_rows(replay, replay.added + more)
        store.save(step, snapshot_of(step), replay)
        if reopen:
            store, replay = CheckpointStore(directory, segment_rows), new_replay(slots)
            store.load(replay)
        assert_holds(CheckpointStore(directory), step, replay.added, slots)
    assert store.steps() == list(range(len(growth)))[-2:]


def test_the_layout_and_that_segments_are_written_once(tmp_path: Path) -> None:
    store, replay = CheckpointStore(tmp_path, SEGMENT), new_replay()
    add_rows(replay, 7)
    store.save(100, snapshot_of(100), replay)
    assert store.steps() == [100]
    assert (tmp_path / "step-000000100.zip").is_file()
    assert segments(tmp_path) == ["rows-000000000-000000004.zip"]
    before = (tmp_path / "segments/rows-000000000-000000004.zip").stat()
    # A resumed process knows the segments of the checkpoint that it loaded.
    store, replay = CheckpointStore(tmp_path, SEGMENT), new_replay()
    store.load(replay)
    add_rows(replay, 10)
    store.save(200, snapshot_of(200), replay)
    after = (tmp_path / "segments/rows-000000000-000000004.zip").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    # The ring of ten rows has dropped rows 0 to 3, but the checkpoint of step 200 needs them.
    add_rows(replay, 17)
    store.save(300, snapshot_of(300), replay)
    assert segments(tmp_path) == [f"rows-{first:09d}-{first + 4:09d}.zip" for first in (0, 4, 8, 12)]
    store.save(400, snapshot_of(400), replay)
    assert segments(tmp_path) == [f"rows-{first:09d}-{first + 4:09d}.zip" for first in (4, 8, 12)]
    assert store.steps() == [300, 400]
    assert_holds(store, 400, 17)


def test_the_cost_of_a_checkpoint_does_not_grow_with_the_buffer(tmp_path: Path) -> None:
    sizes: list[int] = []
    store, replay = CheckpointStore(tmp_path, SEGMENT), new_replay(slots=1000)
    for step in range(1, 41):
        add_rows(replay, 8 * step + 2)  # the tail has two rows each time
        store.save(step, snapshot_of(step), replay)
        sizes.append((tmp_path / f"step-{step:09d}.zip").stat().st_size)
    names = 100 * len(segments(tmp_path))  # bytes of JSON; a segment itself has kilobytes
    assert len(segments(tmp_path)) == 80
    assert sizes[-1] - sizes[0] < names


def test_rows_are_stored_though_the_ring_turned_more_than_once_between_two_checkpoints(
    tmp_path: Path,
) -> None:
    store, replay = CheckpointStore(tmp_path, SEGMENT), new_replay()
    add_rows(replay, 33)
    store.save(1, snapshot_of(1), replay)
    assert segments(tmp_path)[0] == "rows-000000023-000000024.zip"
    add_rows(replay, 75)
    store.save(2, snapshot_of(2), replay)
    assert_holds(CheckpointStore(tmp_path), 2, 75)


def test_rows_are_restored_in_order_and_only_those_that_were_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, replay = CheckpointStore(tmp_path, SEGMENT), new_replay()
    for step, rows in ((1, 9), (2, 17)):  # the ring of ten rows holds rows 7 to 16 at the end
        add_rows(replay, rows)
        store.save(step, snapshot_of(step), replay)
    restored: list[tuple[int, int]] = []
    loaded = new_replay()
    monkeypatch.setattr(loaded, "restore", lambda first, rows: restored.append((first, first + len(rows["reward"]))))
    store.load(loaded)
    assert restored == [(7, 8), (8, 12), (12, 16), (16, 17)]


def test_without_a_replay_only_the_snapshot_is_read(tmp_path: Path) -> None:
    two_checkpoints(tmp_path)
    shutil.rmtree(tmp_path / "segments")
    assert_equal(CheckpointStore(tmp_path).load(None), snapshot_of(200))


def two_checkpoints(directory: Path) -> tuple[CheckpointStore, VectorReplay]:
    store, replay = CheckpointStore(directory, SEGMENT), new_replay()
    for step, rows in ((100, 6), (200, 15)):
        add_rows(replay, rows)
        store.save(step, snapshot_of(step), replay)
    return store, replay


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(b"\x93NUMPY") + 128] ^= 0x10  # the first byte after an array's header
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [flip, os.unlink, lambda path: os.truncate(path, path.stat().st_size // 2)])
@pytest.mark.parametrize("name", ["step-000000200.zip", "segments/rows-000000008-000000012.zip"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    two_checkpoints(tmp_path)
    damage(tmp_path / name)
    if (tmp_path / "step-000000200.zip").exists():
        with pytest.warns(UserWarning, match="the checkpoint of step 200 cannot be used: .*" + name[-20:]):
            assert_holds(CheckpointStore(tmp_path, SEGMENT), 100, 6)
    else:
        assert_holds(CheckpointStore(tmp_path, SEGMENT), 100, 6)


def test_a_segment_that_only_the_older_checkpoint_needs_is_not_missed(tmp_path: Path) -> None:
    two_checkpoints(tmp_path)
    (tmp_path / "segments/rows-000000000-000000004.zip").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_holds(CheckpointStore(tmp_path, SEGMENT), 200, 15)


@pytest.mark.parametrize("damage", [flip, os.unlink])
def test_a_damaged_segment_that_both_need_is_named_and_the_agent_can_still_be_read(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    store, replay = CheckpointStore(tmp_path, SEGMENT), new_replay()
    for step, rows in ((100, 6), (200, 9)):
        add_rows(replay, rows)
        store.save(step, snapshot_of(step), replay)
    shared = tmp_path / "segments/rows-000000000-000000004.zip"
    whole = shared.read_bytes()
    damage(shared)
    with (
        pytest.warns(UserWarning, match="cannot be used"),
        pytest.raises(
            CheckpointError,
            match=rf"tried those of steps 100, 200\): .*{shared.name}.*share these segments .* still be evaluated",
        ),
    ):
        CheckpointStore(tmp_path).load(new_replay())
    assert_equal(CheckpointStore(tmp_path).load(None), snapshot_of(200))
    shared.write_bytes(whole)
    assert_holds(CheckpointStore(tmp_path), 200, 9)


def test_a_segment_of_another_course_of_the_run_is_not_taken(tmp_path: Path) -> None:
    _, replay = two_checkpoints(tmp_path)
    rows = {name: np.zeros_like(array) for name, array in replay.rows(8, 12).items()}
    other = Snapshot(rows, {"first": 8, "last": 12})
    write_snapshot(tmp_path / "segments/rows-000000008-000000012.zip", other, kind="segment")
    with pytest.warns(UserWarning, match="is not the segment that belongs to the checkpoint"):
        assert_holds(CheckpointStore(tmp_path), 100, 6)


def test_after_a_fallback_the_run_goes_on_and_the_torn_file_disappears(tmp_path: Path) -> None:
    two_checkpoints(tmp_path)
    flip(tmp_path / "step-000000200.zip")
    store, replay = CheckpointStore(tmp_path, SEGMENT), new_replay()
    with pytest.warns(UserWarning, match="step 200"):
        store.load(replay)
    add_rows(replay, 11)
    store.save(150, snapshot_of(150), replay)
    assert store.steps() == [100, 150]
    assert_holds(CheckpointStore(tmp_path), 150, 11)


@pytest.mark.parametrize("damage", [flip, lambda path: path.write_bytes(path.read_bytes()[:-100])])
def test_a_torn_checkpoint_does_not_push_out_the_good_one(tmp_path: Path, damage: Callable[[Path], Any]) -> None:
    two_checkpoints(tmp_path)
    damage(tmp_path / "step-000000200.zip")
    store, replay = CheckpointStore(tmp_path, SEGMENT), new_replay()
    with pytest.warns(UserWarning, match="step 200"):
        store.load(replay)
    add_rows(replay, 11)
    store.save(300, snapshot_of(300), replay)
    assert store.steps() == [100, 300]
    flip(tmp_path / "step-000000300.zip")
    with pytest.warns(UserWarning, match="step 300"):
        assert_holds(CheckpointStore(tmp_path, SEGMENT), 100, 6)


def test_without_anything_whole_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"there is no checkpoint in .*nowhere$"):
        CheckpointStore(tmp_path / "nowhere").load(new_replay())
    two_checkpoints(tmp_path)
    for step in (100, 200):
        flip(tmp_path / f"step-{step:09d}.zip")
    with (
        pytest.warns(UserWarning, match="cannot be used"),
        pytest.raises(CheckpointError, match=r"no checkpoint in .* that is complete \(tried those of steps 100, 200\)"),
    ):
        CheckpointStore(tmp_path).load(new_replay())


def test_a_replay_that_is_not_empty_is_not_restored_into(tmp_path: Path) -> None:
    store, replay = two_checkpoints(tmp_path)
    with pytest.raises(ValueError, match="can only be restored into an empty replay, but this one has 15 rows"):
        store.load(replay)


class Killed(BaseException):
    """Simulates the death of the process: no error handler catches it."""


class Killer:
    """Allows this many file operations and then kills the process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, operations: int) -> None:
        self.left = operations
        for name in ("replace", "unlink", "fsync", "mkdir"):
            monkeypatch.setattr(os, name, self.guarded(getattr(os, name)))

    def guarded(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise Killed
            return operation(*arguments, **options)

        return call


def test_a_process_killed_between_any_two_file_operations_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    two_checkpoints(tmp_path / "base")
    outcomes: list[int] = []
    for operations in range(100):
        directory = tmp_path / str(operations)
        shutil.copytree(tmp_path / "base", directory)
        store, replay = CheckpointStore(directory, SEGMENT), new_replay()
        store.load(replay)
        add_rows(replay, 26)
        with pytest.MonkeyPatch.context() as monkeypatch:
            killer = Killer(monkeypatch, operations)
            with contextlib.suppress(Killed):
                store.save(300, snapshot_of(300), replay)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an intact checkpoint causes no warning
            outcomes.append(max(CheckpointStore(directory).steps()))
            assert_holds(CheckpointStore(directory), *{200: (200, 15), 300: (300, 26)}[outcomes[-1]])
        resumed, replay = CheckpointStore(directory, SEGMENT), new_replay()
        resumed.load(replay)
        add_rows(replay, 30)
        resumed.save(400, snapshot_of(400), replay)
        assert_holds(CheckpointStore(directory), 400, 30)
        assert not list(directory.rglob("*.tmp"))
        if killer.left >= 0:
            break
    assert outcomes == sorted(outcomes)
    assert outcomes.count(200) > 5  # writes of segments, and of the checkpoint until it is renamed
    assert outcomes.count(300) > 3  # deletions


def test_the_first_checkpoint_killed_halfway_leaves_none_or_a_whole_one(tmp_path: Path) -> None:
    whole: list[bool] = []
    for operations in range(100):
        directory, replay = tmp_path / str(operations), new_replay()
        add_rows(replay, 9)
        with pytest.MonkeyPatch.context() as monkeypatch:
            killer = Killer(monkeypatch, operations)
            with contextlib.suppress(Killed):
                CheckpointStore(directory, SEGMENT).save(0, snapshot_of(0), replay)
        whole.append(bool(CheckpointStore(directory).steps()))
        if whole[-1]:
            assert_holds(CheckpointStore(directory), 0, 9)
        if killer.left >= 0:
            break
    assert whole == sorted(whole)
    assert whole.count(False) > 5


def test_foreign_files_in_the_directory_stay(tmp_path: Path) -> None:
    store, replay = two_checkpoints(tmp_path)
    for name in ("notes.txt", "step-1.zip", "segments/mine.zip", ".step-000000200.zip.12.tmp", ".mine.tmp"):
        (tmp_path / name).write_text("x")
    store.save(300, snapshot_of(300), replay)
    assert {"notes.txt", "step-1.zip", ".mine.tmp"} <= set(os.listdir(tmp_path))
    assert ".step-000000200.zip.12.tmp" not in os.listdir(tmp_path)
    assert "mine.zip" in segments(tmp_path)


def test_a_segment_that_somebody_removed_is_written_again(tmp_path: Path) -> None:
    store, replay = two_checkpoints(tmp_path)
    (tmp_path / "segments/rows-000000008-000000012.zip").unlink()
    store.save(300, snapshot_of(300), replay)
    assert_holds(CheckpointStore(tmp_path), 300, 15)
