"""Publishing a run on the Hugging Face Hub: the agent, its policy, configuration, film, picture, and a model card."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from adaqn.analysis.model_card import Card, card_text
from adaqn.analysis.picture import draw_run
from adaqn.api import Model
from adaqn.envs.making import close
from adaqn.errors import UserError
from adaqn.files import make_parent, replacing
from adaqn.runs.config import as_mapping, read_config
from adaqn.runs.directory import RunDirectory
from adaqn.runs.hub import MODEL, HubRepository, require_repository
from adaqn.runs.reading import read_run
from adaqn.training.evaluation import EvaluationResult, evaluate_policy

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
