"""One process per run directory: a lock that the operating system releases when the process ends for any reason.

The lock is `flock` on the file `.lock` in the run directory. It belongs to the open file, so it ends with the process
even after SIGKILL or a crash, it also excludes a second run in the same process, and reading or copying the directory
does not release it, as it would with the record locks of `fcntl`. The content of the file only tells who holds the
lock: a file left behind by a killed process has no effect, and is removed by the next run.

The guarantees depend on the file system:

- On a local file system, processes of the same machine exclude each other, including containers that share the
  directory.
- On NFS, Linux turns `flock` into a lock on the server, so machines exclude each other too, if the server supports
  locks (version 4, or 3 with its lock daemon) and the mount does not make them local (`nolock`, `local_lock`). After a
  machine crashed or was disconnected, the server may keep its lock for a while (version 4: for the lease time, usually
  90 s; version 3: until the machine is back). A machine that is disconnected for longer can lose the lock unnoticed.
- Where locks are not supported (some FUSE and Lustre mounts, Windows), the run continues with a warning.

Deleting `.lock` during a run removes the protection. Commands that only read need no lock.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import os
import platform
import time
import warnings
import weakref
from pathlib import Path

from adaqn.base.errors import UserError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

LOCK_NAME = ".lock"
_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}
_PATIENCE = 0.1  # seconds to wait before a retry: another process may only be checking whether the lock is free

_held: weakref.WeakSet[RunLock] = weakref.WeakSet()


class RunLock:
    """The exclusive right to write to one run directory, which must exist."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / LOCK_NAME
        self._descriptor: int | None = None
        self._close: weakref.finalize | None = None  # closes the file even if `release` is never called

    def require_free(self) -> None:
        """Raise if another process or run holds the lock; nothing is written."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | _no_follow())
        except OSError:  # missing, or unreadable, which `acquire` reports
            return
        try:
            # A shared lock, which others that check at the same time can hold too.
            if not self._lock(descriptor, shared=True):
                raise self._in_use(descriptor)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise self._cannot(error) from error
        finally:
            os.close(descriptor)

    def acquire(self) -> None:
        """Take the lock, or raise without changing anything."""
        while self._descriptor is None:
            try:
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | _no_follow(), 0o644)
            except OSError as error:
                raise self._cannot(error) from error
            try:
                if not self._lock(descriptor):
                    raise self._in_use(descriptor)
                if _is_at(descriptor, self._path):  # otherwise its holder deleted it between `open` and `_lock`
                    self._hold(descriptor)
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise self._cannot(error) from error
                self._path.unlink(missing_ok=True)
                warnings.warn(
                    f"the file system of {self._directory} does not support locks ({error.strerror}): nothing "
                    "prevents a second process from writing the same run",
                    RuntimeWarning,
                    stacklevel=2,
                )
                return
            finally:
                if self._descriptor is None:
                    os.close(descriptor)

    def release(self) -> None:
        """Release the lock and delete its file; does nothing without the lock."""
        if self._descriptor is None or self._close is None:
            return
        with contextlib.suppress(OSError):
            if _is_at(self._descriptor, self._path):  # the directory may have been moved and replaced by another
                os.unlink(self._path)
        self._close()
        self._descriptor = None

    def forget(self) -> None:
        """Close the file without releasing the lock: in a forked process, where it belongs to the parent."""
        if self._close is not None:
            self._close()
        self._descriptor = None

    def _lock(self, descriptor: int, shared: bool = False) -> bool:
        """Whether the lock could be taken."""
        if fcntl is None:
            raise OSError(errno.ENOSYS, "no locks on this system")
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        for patience in (_PATIENCE, 0.0):
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                time.sleep(patience)
        return False

    def _hold(self, descriptor: int) -> None:
        since = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        holder = {"process": os.getpid(), "host": platform.node(), "since": since}
        with contextlib.suppress(OSError):  # a full disk: the lock still holds, only the holder is not recorded
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(holder).encode() + b"\n", 0)
            os.fsync(descriptor)  # for other machines
        self._descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)
        _held.add(self)

    def _in_use(self, descriptor: int) -> UserError:
        return UserError(
            f"{self._directory} is being written by {_holder(descriptor)}, and nothing was changed: wait until it "
            "ends, or stop it, or choose another directory"
        )

    def _cannot(self, error: OSError) -> UserError:
        return UserError(f"cannot lock {self._directory} with {self._path}: {error.strerror or error}")


def _holder(descriptor: int) -> str:
    """A description of the lock's holder, from the content of the file."""
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        process, host, since = int(holder["process"]), str(holder["host"]), str(holder["since"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"
    if (process, host) == (os.getpid(), platform.node()):
        return f"another run of this process (since {since})"
    return f"process {process} on {host} (since {since})"


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the path still refers to the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _no_follow() -> int:
    return getattr(os, "O_NOFOLLOW", 0)  # not on Windows


def _forget_all() -> None:
    for lock in list(_held):
        lock.forget()


# A forked child shares the open file, and would keep the lock after its parent has ended.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
