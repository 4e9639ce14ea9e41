"""`adaqn push`: a repository of the Hugging Face Hub with an agent and its model card."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import adaqn
from adaqn.agents.protocol import MemberReport
from adaqn.analysis.picture import draw_run
from adaqn.api import Model
from adaqn.base.errors import UserError
from adaqn.base.files import Json, make_parent, replacing, yaml_text
from adaqn.envs.making import close
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.runs.config import as_mapping, read_config
from adaqn.runs.directory import RunDirectory
from adaqn.runs.display.labels import member_labels
from adaqn.runs.hub import MODEL, HubRepository, require_repository
from adaqn.runs.reading import read_run
from adaqn.training.evaluation import EvaluationResult, evaluate_policy

MOST_ROWS = 32  # of the table of members


class Card(NamedTuple):
    """What a model card says."""

    repo_id: str
    name: str  # of the public class: AdaDQN
    algo: str
    environment: str | None
    steps: int
    seed: int
    policy: Hyperparameters  # of the network that acts
    members: Sequence[MemberReport]
    evaluation: EvaluationResult | None
    evaluation_seed: int
    versions: Json
    files: Sequence[str]  # beside the card


def card_text(card: Card) -> str:
    """The README.md of the repository."""
    return f"---\n{yaml_text(_metadata(card))}---\n\n" + "\n\n".join(filter(None, _sections(card))) + "\n"


def _metadata(card: Card) -> Json:
    """The metadata that the Hub reads; `model-index` holds the evaluation, in the form that RL libraries share."""
    tags = ["reinforcement-learning", "deep-reinforcement-learning", "adaqn", card.algo]
    values: Json = {
        "library_name": "adaqn",
        "pipeline_tag": "reinforcement-learning",
        "tags": tags if card.environment is None else [card.environment, *tags],
    }
    if card.evaluation is not None:
        environment = card.environment or "unnamed environment"
        metric = {
            "type": "mean_reward",
            "name": "mean_reward",
            "value": f"{card.evaluation.mean:.2f} +/- {card.evaluation.std:.2f}",
            "verified": False,
        }
        result = {
            "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
            "dataset": {"name": environment, "type": environment},
            "metrics": [metric],
        }
        values["model-index"] = [{"name": card.name, "results": [result]}]
    return values


def _sections(card: Card) -> list[str]:
    where = "an environment without a name" if card.environment is None else _code(card.environment)
    # An algorithm of another package has no class in adaqn.
    home, name = ("adaqn", card.name) if card.name in adaqn.__all__ else ("adaqn.api", "Model")
    usage = (
        f"```python\nfrom {home} import {name}\n\n"
        f'agent = {name}.from_hub("{card.repo_id}")\n'
        "action, _ = agent.predict(observation, deterministic=True)\n```"
    )
    return [
        f"# {card.name} on {where}",
        f"{card.name} trained on {where} for {card.steps:,} environment steps (seed {card.seed}) with adaqn "
        f"{adaqn.__version__}, reinforcement learning that tunes its own hyperparameters within one run.",
        _evaluation(card),
        "## Use",
        'Install with `pip install "adaqn[hub]"`. The file is read without executing any code in it.',
        usage,
        "`policy.npz` runs with NumPy alone (`adaqn.exported_policy`)"
        + (", and `policy.onnx` wherever ONNX models do." if "policy.onnx" in card.files else "."),
        "## Hyperparameters",
        f"The network that acts: {_code(_described(card.policy))}.",
        _members(card),
        "`config.yaml` has the complete configuration: `adaqn train --config config.yaml` repeats the run.",
        "![The run over time](picture.png)" if "picture.png" in card.files else "",
        "Trained with " + ", ".join(f"{name} {version}" for name, version in card.versions.items()) + "."
        if card.versions
        else "",
    ]


def _evaluation(card: Card) -> str:
    result = card.evaluation
    if result is None:
        return "It was not evaluated when this page was written."
    return (
        f"Mean return **{result.mean:.2f} ± {result.std:.2f}** (mean and standard deviation over "
        f"{len(result.returns)} episodes of the deterministic policy, evaluation seed {card.evaluation_seed}). This is "
        "one trained agent: another seed can give another result."
    )


def _members(card: Card) -> str:
    """The table of an ensemble; a single member is the network that acts."""
    if len(card.members) < 2:
        return ""
    labels = member_labels([member.hyperparameters for member in card.members])
    rows = [
        f"| {index} | {_code(label)} | {'diverged' if member.diverged else f'{member.selected:.0%}'} |"
        for index, (label, member) in enumerate(zip(labels, card.members, strict=True))
    ]
    left_out = len(rows) - MOST_ROWS
    table = ["| member | differs in | target updates |", "|---|---|---|", *rows[:MOST_ROWS]]
    return "\n".join(table) + (f"\n\n{left_out} more members are in `config.yaml`." if left_out > 0 else "")


def _described(member: Hyperparameters) -> str:
    return ", ".join(f"{name} {value}" for name, value in member.to_dict().items())


def _code(text: str) -> str:
    """Text from a configuration, shown literally: no backtick or line break ends the code, no bar ends a table cell."""
    return "`" + " ".join(text.split()).replace("`", "'").replace("|", "\\|") + "`"


CARD = "README.md"
FILM = "replay.mp4"  # the name of the film that the Hub shows beside a model
FILES = (MODEL, "policy.npz", "policy.onnx", "config.yaml", "picture.png", FILM, CARD)


class Upload(NamedTuple):
    """What `adaqn push` does with a run."""

    repo_id: str
    to: Path | None = None  # folder to write to instead of uploading
    best: bool = False  # the film is that of the best model
    episodes: int = 10  # of the evaluation; 0 for none
    seed: int = 0
    private: bool = False
    force: bool = False


def require_place(upload: Upload, repository: HubRepository | None = None) -> HubRepository | None:
    """Check where the files go, before anything is loaded or evaluated; the repository, if it is one of the Hub."""
    require_repository(upload.repo_id)
    if upload.to is not None:
        if upload.to.exists() and not upload.to.is_dir():
            raise UserError(f"--to names a folder, but {upload.to} is a file")
        place, present = str(upload.to), [name for name in FILES if (upload.to / name).exists()]
        repository = None
    else:
        repository = HubRepository(upload.repo_id) if repository is None else repository
        place, present = upload.repo_id, [name for name in repository.files() if name in FILES]
    if present and not upload.force:
        raise UserError(f"{place} already has {', '.join(present)}; add --force to replace them")
    return repository


def push_run(run_dir: Path, model: Model, upload: Upload, repository: HubRepository | None) -> str:
    """Write the files of a run, and upload them unless they are for a folder; returns where they are."""
    with tempfile.TemporaryDirectory(prefix="adaqn-push-") as name:
        folder = Path(name)
        write_files(folder, run_dir, model, upload)
        if repository is not None:
            return repository.upload(folder, upload.private, f"Add {type(model).__name__} with adaqn")
        assert upload.to is not None, "without a repository there is a folder"
        for file in sorted(folder.iterdir()):
            make_parent(upload.to / file.name)
            with replacing(upload.to / file.name) as copy, file.open("rb") as original:
                shutil.copyfileobj(original, copy)
        return str(upload.to)


def write_files(folder: Path, run_dir: Path, model: Model, upload: Upload) -> None:
    """Write everything that is uploaded to an empty folder; the ONNX model only if the extra onnx is installed."""
    directory, run = RunDirectory.open(run_dir), read_run(run_dir)
    evaluation = _evaluated(model, upload)
    model.save(folder / MODEL)
    model.export(folder / "policy.npz")
    if importlib.util.find_spec("onnx") is not None:
        model.export(folder / "policy.onnx")
    shutil.copyfile(directory.config, folder / "config.yaml")
    draw_run(run_dir, folder / "picture.png")
    film = directory.path / ("best_video.mp4" if upload.best else "video.mp4")
    if film.is_file():
        shutil.copyfile(film, folder / FILM)
    trainer = model.trainer
    card = Card(
        repo_id=upload.repo_id,
        name=type(model).__name__,
        algo=model.algo,
        environment=read_config(directory.config).get("env"),
        steps=model.num_timesteps,
        seed=model.seed,
        policy=trainer.agent.policy_weights(trainer.state).hyperparameters,
        members=model.members,
        evaluation=evaluation,
        evaluation_seed=upload.seed,
        versions={} if run.summary is None else as_mapping("versions", run.summary.get("versions")),
        files=sorted(file.name for file in folder.iterdir()),
    )
    (folder / CARD).write_text(card_text(card), encoding="utf-8")


def _evaluated(model: Model, upload: Upload) -> EvaluationResult | None:
    if upload.episodes == 0:
        return None
    env = model.make_env()
    try:
        return evaluate_policy(model, env, upload.episodes, deterministic=True, seed=upload.seed)
    finally:
        close(env)
