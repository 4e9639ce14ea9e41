"""A run goes to the Hugging Face Hub and comes back as the same agent; the network is never used."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import numpy as np
import pytest

from adaqn import DQN, SAC, AdaDQN, UserError, evaluate_policy, grid
from adaqn.analysis.hub import Card, Upload, card_text, push_run, require_place
from adaqn.api import Model
from adaqn.cli import main
from adaqn.exported_policy import ExportedPolicy
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.runs.hub import HubRepository
from adaqn.training.evaluation import EvaluationResult

hub = pytest.importorskip("huggingface_hub")
OBSERVATIONS = 2.0 * np.random.default_rng(0).standard_normal((300, 4))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "cartpole"
    members = grid(hidden=[(8,), (12, 8)])
    settings: dict[str, Any] = {"learning_starts": 30, "target_update_interval": 20, "seed": 3}
    AdaDQN("CartPole-v1", members, **settings).learn(120, run_dir=path)
    (path / "video.mp4").write_bytes(b"a film")
    return path


@pytest.fixture(scope="module")
def pushed(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that would be uploaded."""
    folder = tmp_path_factory.mktemp("hub") / "folder"
    assert main(["push", str(run), "me/cartpole", "--to", str(folder), "--episodes", "3", "--seed", "5"]) == 0
    return folder


def test_the_agent_comes_back_with_the_same_policy(run: Path, pushed: Path) -> None:
    expected, _ = Model.from_run(run).predict(OBSERVATIONS, deterministic=True)
    assert 0.05 < expected.mean() < 0.95, "both actions must occur"
    agent = AdaDQN.from_hub(pushed)
    np.testing.assert_array_equal(agent.predict(OBSERVATIONS, deterministic=True)[0], expected)
    np.testing.assert_array_equal(ExportedPolicy.load(pushed / "policy.npz")(OBSERVATIONS), expected)
    assert type(agent) is AdaDQN and agent.num_timesteps == 120


def test_configuration_film_and_picture_are_there(run: Path, pushed: Path) -> None:
    assert (pushed / "config.yaml").read_bytes() == (run / "config.yaml").read_bytes()
    assert (pushed / "replay.mp4").read_bytes() == b"a film"
    assert (pushed / "picture.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    expected = {"README.md", "config.yaml", "model.zip", "picture.png", "policy.npz", "replay.mp4"}
    assert {file.name for file in pushed.iterdir()} - {"policy.onnx"} == expected


def test_the_card_has_the_evaluation_where_the_hub_reads_it(run: Path, pushed: Path) -> None:
    model = Model.from_run(run)
    evaluated = evaluate_policy(model, model.make_env(), 3, seed=5)
    data = hub.ModelCard((pushed / "README.md").read_text()).data
    (result,) = data.eval_results
    assert (result.task_type, result.dataset_type, result.metric_type) == (
        "reinforcement-learning",
        "CartPole-v1",
        "mean_reward",
    )
    assert result.metric_value == f"{evaluated.mean:.2f} +/- {evaluated.std:.2f}"
    assert data.library_name == "adaqn" and {"CartPole-v1", "reinforcement-learning", "adadqn"} <= set(data.tags)
    text = (pushed / "README.md").read_text()
    assert f"**{evaluated.mean:.2f} ± {evaluated.std:.2f}** (mean and standard deviation over 3 episodes" in text
    assert 'AdaDQN.from_hub("me/cartpole")' in text and "120 environment steps (seed 3)" in text
    assert re.search(r"^\| 1 \| `12x8` \| \d+% \|$", text, re.MULTILINE)


def card(**changes: Any) -> str:
    values: dict[str, Any] = {
        "repo_id": "me/x", "name": "DQN", "algo": "dqn", "environment": "X-v0", "steps": 9, "seed": 0,
        "policy": Hyperparameters(), "members": (), "evaluation": EvaluationResult((1.0, 3.0), (5, 5)),
        "evaluation_seed": 0, "versions": {}, "files": (),
    }  # fmt: skip
    return card_text(Card(**values | changes))


def test_names_cannot_write_into_the_card() -> None:
    name = "a`b|c\n---\nlicense: mit\n# Heading"
    text = card(environment=name)
    data = hub.ModelCard(text).data
    assert data.tags[0] == name and data.license is None
    assert "# DQN on `a'b\\|c --- license: mit # Heading`" in text.splitlines()


def test_without_an_evaluation_the_card_claims_none() -> None:
    text = card(evaluation=None)
    assert hub.ModelCard(text).data.eval_results is None
    assert "It was not evaluated" in text


def test_an_algorithm_of_another_package_is_loaded_by_the_base_class() -> None:
    assert 'from adaqn.api import Model\n\nagent = Model.from_hub("me/x")' in card(name="tree-search")


class FakeHub:
    """A Hub in a folder, called with the signatures of the real one."""

    def __init__(self, folder: Path, files: tuple[str, ...] | None) -> None:
        self.folder = folder
        self.api = create_autospec(hub.HfApi, instance=True)
        self.api.create_repo.return_value = "https://hub/me/cartpole"
        self.api.upload_folder.side_effect = lambda **given: shutil.copytree(given["folder_path"], folder)
        if files is None:
            missing = hub.errors.RepositoryNotFoundError("no such repository", response=_response(404))
            self.api.list_repo_files.side_effect = missing
        else:
            self.api.list_repo_files.return_value = list(files)

    @property
    def repository(self) -> HubRepository:
        return HubRepository("me/cartpole", self.api)


def _response(status: int) -> Any:
    module = sys.modules[hub.errors.HTTPError.__module__.partition(".")[0]]  # httpx or its successor
    return module.Response(status, request=module.Request("GET", "https://hub"))


def test_an_upload_creates_the_repository_and_adds_the_files(run: Path, tmp_path: Path) -> None:
    fake = FakeHub(tmp_path / "hub", files=None)
    upload = Upload("me/cartpole", episodes=1, private=True)
    repository = require_place(upload, fake.repository)
    where = push_run(run, AdaDQN.from_run(run), upload, repository)
    assert where == "https://hub/me/cartpole"
    fake.api.create_repo.assert_called_once_with("me/cartpole", private=True, exist_ok=True)
    assert fake.api.upload_folder.call_args.kwargs["repo_id"] == "me/cartpole"
    expected, _ = Model.from_run(run).predict(OBSERVATIONS, deterministic=True)
    np.testing.assert_array_equal(Model.from_hub(fake.folder).predict(OBSERVATIONS, deterministic=True)[0], expected)


def test_files_of_an_earlier_push_are_only_replaced_with_force(run: Path, pushed: Path, tmp_path: Path) -> None:
    fake = FakeHub(tmp_path / "hub", files=(".gitattributes", "README.md", "model.zip"))
    with pytest.raises(UserError, match=r"^me/cartpole already has README.md, model.zip; add --force to replace them$"):
        require_place(Upload("me/cartpole"), fake.repository)
    assert require_place(Upload("me/cartpole", force=True), fake.repository) is not None
    empty = FakeHub(tmp_path / "hub", files=(".gitattributes",))
    assert require_place(Upload("me/cartpole"), empty.repository) is not None
    with pytest.raises(UserError, match=r"already has model\.zip"):
        require_place(Upload("me/cartpole", to=pushed))


@pytest.mark.parametrize("name", ["cartpole", "me/", "../x", "a/b/c", "me/x--y", "me/x y", "/etc/x", "me/x.git", ""])
def test_what_is_no_name_of_a_repository_is_told(name: str) -> None:
    sentence = f"a repository of the Hugging Face Hub is named USER/NAME, but got {name!r}"
    with pytest.raises(UserError, match=f"^{re.escape(sentence)}$"):
        require_place(Upload(name, to=Path("anywhere")))
    with pytest.raises(UserError, match=f"^{re.escape(sentence)}$"):
        DQN.from_hub(name)


def downloading(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Any:
    """Replace the download by one from a folder, with the real signature."""
    fake = create_autospec(hub.hf_hub_download)
    fake.side_effect = lambda repo, name, **given: str(folder / name)
    monkeypatch.setattr(hub, "hf_hub_download", fake)
    return fake


def test_an_agent_is_downloaded_by_name_and_revision(pushed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = downloading(monkeypatch, pushed)
    agent = AdaDQN.from_hub("me/cartpole", revision="v1", token=False)
    assert agent.num_timesteps == 120
    assert fake.call_args.args == ("me/cartpole", "model.zip")
    assert (fake.call_args.kwargs["revision"], fake.call_args.kwargs["token"]) == ("v1", False)


def test_an_agent_of_another_algorithm_is_refused(pushed: Path) -> None:
    with pytest.raises(UserError, match=r"holds an agent of adadqn, which SAC\.load does not read"):
        SAC.from_hub(pushed)


@pytest.mark.parametrize("name", ["../model.zip", "/etc/model.zip", "a/../../m.zip", "a\\..\\m.zip", "model.pkl", ""])
def test_a_file_outside_of_the_repository_is_refused(name: str, pushed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = downloading(monkeypatch, pushed)
    for repository in ("me/cartpole", pushed):
        with pytest.raises(UserError, match=r"filename= names a \.zip file inside the repository, but got"):
            AdaDQN.from_hub(repository, filename=name)
    assert not fake.called


class Intruder:
    """Creates a directory when it is unpickled."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __reduce__(self) -> Any:
        return Path.mkdir, (self._directory,)


@pytest.mark.parametrize("content", ["pickle", "zip of a pickle", "agent with a pickle"])
def test_nothing_is_unpickled_on_the_way_back(
    content: str, pushed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = pickle.dumps(Intruder(tmp_path / "made"))
    file = tmp_path / "model.zip"
    if content == "pickle":
        file.write_bytes(data)
    else:
        with zipfile.ZipFile(file, "w") as archive:
            if content == "zip of a pickle":
                archive.writestr("data.pkl", data)
            else:
                with zipfile.ZipFile(pushed / "model.zip") as sound:
                    for entry in sound.namelist():
                        first = entry == "arrays/00000.npy"
                        archive.writestr(entry, data if first else sound.read(entry))
    downloading(monkeypatch, tmp_path)
    with pytest.raises(UserError, match=r"adaqn wrote|damaged|checksum"):
        AdaDQN.from_hub("me/cartpole")
    assert not (tmp_path / "made").exists()
    pickle.loads(data)
    assert (tmp_path / "made").exists(), "the pickle must be able to do harm"


def test_a_revision_of_a_folder_is_refused(pushed: Path) -> None:
    with pytest.raises(UserError, match=r"revision= is for a repository of the Hugging Face Hub, but .* is a folder"):
        AdaDQN.from_hub(pushed, revision="v1")


def test_a_lost_network_is_told_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = create_autospec(hub.hf_hub_download)
    fake.side_effect = hub.errors.LocalEntryNotFoundError("cannot find the file\nand the Hub is out of reach")
    monkeypatch.setattr(hub, "hf_hub_download", fake)
    sentence = (
        "cannot download model.zip of me/x from the Hugging Face Hub: cannot find the file and the Hub is out of reach"
    )
    with pytest.raises(UserError, match=f"^{sentence}$"):
        DQN.from_hub("me/x")
    api = FakeHub(tmp_path / "hub", files=()).api
    api.create_repo.side_effect = hub.errors.HTTPError("connection refused")
    with pytest.raises(UserError, match=r"^cannot upload to me/x on the Hugging Face Hub: connection refused$"):
        HubRepository("me/x", api).upload(tmp_path, False, "message")


def test_the_first_use_of_the_hub_in_a_process_has_its_errors(tmp_path: Path) -> None:
    script = "from adaqn import DQN\nDQN.from_hub('me/x')"
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert "UserError: cannot download model.zip of me/x from the Hugging Face Hub: " in done.stderr


def test_without_the_extra_one_sentence_names_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert main(["push", str(run), "me/x"]) == 1
    missing = 'needs the package huggingface_hub, which is not installed: `pip install "adaqn[hub]"`\n'
    assert capsys.readouterr().err == f"adaqn: adaqn push {missing}"
    assert main(["push", str(run), "me/x", "--to", str(tmp_path / "folder"), "--episodes", "0"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'folder'}\n"
    with pytest.raises(UserError, match=r"^from_hub needs the package huggingface_hub, which is not installed"):
        DQN.from_hub("me/x")
