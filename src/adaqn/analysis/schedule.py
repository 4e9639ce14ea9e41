"""The history of the target member as a hyperparameter schedule that a plain DQN run can follow."""

from __future__ import annotations

from pathlib import Path

from adaqn.agents.population import Scheduled
from adaqn.base.checks import count
from adaqn.base.errors import UserError
from adaqn.base.files import make_parent, replacing, require_free, yaml_text
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.runs.config import as_mapping, schedule_values
from adaqn.runs.reading import RunData, member_of, read_run


def write_schedule(run_directory: Path, output: Path | None = None, force: bool = False) -> Path:
    """Write the schedule of a run to `output`, by default `schedule.yaml` in its directory; must not exist yet."""
    run = read_run(run_directory)
    path = run.path / "schedule.yaml" if output is None else output
    require_free(path, force)
    text = yaml_text({"schedule": schedule_values(schedule_of(run))})
    make_parent(path)
    with replacing(path) as file:
        file.write(text.encode())
    return path


def schedule_of(run: RunData) -> tuple[Scheduled, ...]:
    """The hyperparameters of the target member, with an entry for each step at which they changed."""
    if not run.members:
        raise UserError(f"{run.path} has no members yet, so no schedule can be made from it")
    if run.sums_up_selections:
        raise UserError(f"{run.path} has a pair of members as target, which no schedule of one member can follow")
    generations = [(line["step"], [member_of(values) for values in line["members"]]) for line in run.members]
    # Until the first target update, the first member is the target.
    history = [(generations[0][0], 0), *zip(run.selection.step.tolist(), run.selection.target.tolist(), strict=True)]
    # Several environments can step past the end of an interval, but a run that follows this schedule checks it there,
    # so steps are rounded down. One environment needs no rounding: its target changes exactly at the end of an
    # interval, or (SEARL) at the end of a generation.
    alone = run.config.get("n_envs") == 1
    settings = as_mapping(f"settings in {run.path / 'config.yaml'}", run.config.get("settings"))
    interval = 1 if alone else count("target_update_interval", settings.get("target_update_interval", 1), low=1)
    schedule: list[Scheduled] = []
    for step, target in history:
        members: list[Hyperparameters] | None = next(
            (who for since, who in reversed(generations) if since <= step), None
        )
        if members is None or target >= len(members):
            raise UserError(f"members.jsonl of {run.path} has no member {target} at step {step}, which was the target")
        begins = step - step % interval
        if schedule and schedule[-1].step == begins:
            schedule.pop()
        if not schedule or schedule[-1].hyperparameters != members[target]:
            schedule.append(Scheduled(begins, members[target]))
    return tuple(schedule)
