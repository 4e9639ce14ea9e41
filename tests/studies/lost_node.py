"""A study on a Ray cluster of local nodes, one of which is lost while a run is under way on it.

python -m tests.studies.lost_node STUDY.yaml DIRECTORY
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from adaqn.studies import execution
from adaqn.studies.definition import read_study
from adaqn.studies.directory import StudyDirectory
from adaqn.studies.execution import Execution, Progress
from adaqn.studies.launchers import Options, open_launcher


class NodeRemover:
    """Removes the node that executes a run as soon as that has a checkpoint."""

    def __init__(self, cluster: Any, directory: StudyDirectory) -> None:
        self.lost: str | None = None
        self._cluster = cluster
        self._directory = directory
        # The head has no cores, and the second node comes only when the first is gone: all begins on the first.
        self._node = cluster.add_node(num_cpus=2)

    def show(self, progress: Progress) -> None:
        if self.lost is not None:
            return
        under_way = [key for key, state in progress.states.items() if state.status == "running" and state.step >= 600]
        if under_way:
            self.lost = str(under_way[0])
            self._cluster.remove_node(self._node, allow_graceful=False)
            self._cluster.add_node(num_cpus=1)
            self._cluster.add_node(num_cpus=1)


def main() -> None:
    execution.LOOK = 0.1
    study, directory = read_study(sys.argv[1]), StudyDirectory(Path(sys.argv[2]))
    directory.freeze(study)
    cluster = importlib.import_module("ray.cluster_utils").Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    remover = NodeRemover(cluster, directory)
    launcher = open_launcher("ray", Options(directory.path.resolve(), address=cluster.address))
    launcher.poll = 0.1
    failures = Execution(directory, study.runs(), launcher, 0, remover).run()
    cluster.shutdown()
    assert failures == [], failures
    print(f"lost: {remover.lost}")


if __name__ == "__main__":
    main()
