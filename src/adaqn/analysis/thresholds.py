"""The return that counts as optimal in an environment, for the optimality gap of plain returns."""

from __future__ import annotations

from adaqn.analysis.study import StudyResults


def optimal_return(study: StudyResults) -> float | None:
    """1 for normalized scores; in one environment, the reward threshold that Gymnasium has for it, if any."""
    if len(study.environments) > 1:
        return 1.0
    import gymnasium  # here, because it is slow to import

    identifier = study.arms[0].config.get("env")
    specification = gymnasium.registry.get(identifier) if isinstance(identifier, str) else None
    threshold = None if specification is None else specification.reward_threshold
    return None if threshold is None else float(threshold)
