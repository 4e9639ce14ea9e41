"""One run of a study, whoever executes it: it is started, resumed, or found finished.

Its directory is the unit of work, and its lock keeps two executors apart, so that nothing else has to.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from adaqn.base.errors import UserError
from adaqn.runs.config import OBSERVATION_SETTINGS
from adaqn.studies.directory import StudyDirectory
from adaqn.studies.study import RunKey
from adaqn.training.interrupts import RunInterrupted

DONE = 0
FAILED = 1
BUSY = 75  # some other process executes the run (EX_TEMPFAIL)


def perform(study_dir: Path, key: RunKey) -> int:
    """Bring a run to its end, and return an exit status: 0, 75 if somebody else is at it, 128 + signal if interrupted.

    What goes wrong is raised.
    """
    directory = StudyDirectory(study_dir)
    study = directory.read()
    study.values(key)  # raises if there is no such arm or environment
    if key not in study.runs():
        raise UserError(f"{key} is not among the runs of the study in {study_dir}: its seeds are others")
    if directory.is_finished(key):
        return DONE
    if directory.is_locked(key):
        return BUSY
    from adaqn.api import Model

    try:
        if directory.has_begun(key):
            directory.check_run(study, key)
            # Its environment is the one that the study names, so that nobody but its author is trusted.
            Model.resume(directory.run(key), trust_env=True, console=True)
        else:
            config = directory.config(study, key)
            observation = {name: getattr(config, name) for name in OBSERVATION_SETTINGS}
            Model.from_config(config, threads=config.threads).learn(
                config.steps, run_dir=directory.run(key), console=True, horizon=config.horizon, **observation
            )
    except UserError:
        # Somebody else may have begun the run since we looked.
        if directory.is_finished(key):
            return DONE
        if directory.is_locked(key):
            return BUSY
        raise
    except (KeyboardInterrupt, SystemExit) as left:
        interrupted = left.__cause__
        if not isinstance(interrupted, RunInterrupted):
            raise
        return DONE if interrupted.finished else 128 + interrupted.signal
    return DONE


def end_with_parent() -> None:
    """End this process as SIGTERM does, with a checkpoint, when standard input is closed.

    The process that started it holds the other end of the pipe, which the system closes however that process ends.
    """

    def wait() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()
