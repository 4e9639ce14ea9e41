"""Damaged entries of the compilation cache are replaced, and a cache that cannot be written is only a warning."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from adaqn.networks.xla.compilation import CheckedCache, cache_directory
from tests.exactness.test_kill_and_resume import arguments, exact_contents


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


DAMAGES = [flip, halve, empty]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_none_and_is_replaced(damage: object, tmp_path: Path) -> None:
    assert callable(damage)
    cache = CheckedCache(tmp_path)
    assert cache.get("key") is None
    cache.put("key", b"program" * 100)
    cache.put("other", b"another")
    assert cache.get("key") == b"program" * 100
    damage(tmp_path / "key-cache")
    assert cache.get("key") is None and cache.get("other") == b"another"
    cache.put("key", b"program" * 100)
    assert cache.get("key") == b"program" * 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key-cache", "other-cache"]


def test_a_cache_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    cache = CheckedCache(tmp_path / "removed")
    with pytest.warns(RuntimeWarning, match="not cached for the next start: cannot write .*removed .No such file"):
        cache.put("key", b"program")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put("key", b"program")
    assert cache.get("key") is None


def test_threads_may_store_the_same_program_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, written, write = CheckedCache(tmp_path), threading.Barrier(2, timeout=10), Path.write_bytes

    def write_and_wait(self: Path, data: bytes) -> int:
        number = write(self, data)
        written.wait()  # neither has renamed its file yet
        return number

    monkeypatch.setattr(Path, "write_bytes", write_and_wait)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ThreadPoolExecutor(2) as pool:
            for stored in [pool.submit(cache.put, "key", b"program") for _ in range(2)]:
                stored.result()
    assert cache.get("key") == b"program"
    assert [file.name for file in tmp_path.iterdir()] == ["key-cache"]


def test_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADAQN_CACHE_DIR", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    monkeypatch.setenv("HOME", "/c")
    assert cache_directory() == Path("/a")
    monkeypatch.delenv("ADAQN_CACHE_DIR")
    assert cache_directory() == Path("/b/adaqn")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path("/c/.cache/adaqn")

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert cache_directory() is None


@pytest.mark.thorough
def test_a_run_with_a_damaged_cache_is_the_same_and_mends_it(tmp_path: Path) -> None:
    cache, contents = tmp_path / "cache", []
    environment = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    for name in ("cold", "damaged"):
        run_dir = tmp_path / name
        done = subprocess.run(
            [sys.executable, "-m", "adaqn.cli", *arguments("CartPole-v1", 1, run_dir, steps="300")],
            env=environment | {"ADAQN_CACHE_DIR": str(cache)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert (done.returncode, done.stderr) == (0, "")
        contents.append(exact_contents(run_dir))
        entries = sorted(cache.glob("*-cache"))
        assert len(entries) >= 4
        for path in entries:
            data = path.read_bytes()
            assert hashlib.sha256(data[32:]).digest() == data[:32], f"{path.name} is damaged after the {name} run"
        for index, path in enumerate(entries):
            DAMAGES[index % len(DAMAGES)](path)
    assert contents[0] == contents[1]


def test_programs_for_other_numbers_of_threads_are_kept_apart(tmp_path: Path) -> None:
    threads = "2"
    cache = CheckedCache(tmp_path, lambda: f"-{threads}")
    cache.put("key", b"two")
    threads = "1"
    assert cache.get("key") is None
    cache.put("key", b"one")
    threads = "2"
    assert cache.get("key") == b"two"


@pytest.mark.thorough
def test_the_number_of_threads_is_in_the_names_of_our_programs(tmp_path: Path) -> None:
    environ = {**os.environ, "ADAQN_CACHE_DIR": str(tmp_path), "PJRT_NPROC": "3"}
    module = "adaqn.networks.xla.compilation"
    program = f"import jax; from {module} import prepare_jax; prepare_jax(); jax.jit(lambda x: x + 1)(1.0)"
    subprocess.run([sys.executable, "-c", program], env=environ, check=True)
    assert list(tmp_path.glob("*-3-cache")) and not [f for f in tmp_path.glob("*-cache") if "-3-" not in f.name]
