"""Repositories of the Hugging Face Hub: fetching a saved agent, and uploading a folder.

Of a repository only the agent is read back: arrays and JSON, checked by `Model.load`. Nothing is unpickled. The package
`huggingface_hub` is imported when it is used, so importing adaqn never touches the network.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from adaqn import __version__
from adaqn.base.errors import UserError
from adaqn.base.plugins import require_extra

MODEL = "model.zip"  # name of the agent in a repository

_REPOSITORY = re.compile(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*", re.ASCII)


def require_repository(repo_id: str) -> None:
    """Raise if a text cannot be the name of a repository."""
    forbidden = "--" in repo_id or ".." in repo_id or repo_id.endswith((".", "-", ".git")) or len(repo_id) > 96
    if forbidden or _REPOSITORY.fullmatch(repo_id) is None:
        raise UserError(f"a repository of the Hugging Face Hub is named USER/NAME, but got {repo_id!r}")


def fetch_agent(repo: str | os.PathLike[str], filename: str, revision: str | None, token: str | bool | None) -> Path:
    """The path of an agent's file: in a local folder, or downloaded to the Hub's cache."""
    path = PurePosixPath(filename)
    if path.is_absolute() or ".." in path.parts or "\\" in filename or path.suffix != ".zip":
        raise UserError(f"filename= names a .zip file inside the repository, but got {filename!r}")
    if os.path.isdir(repo):
        if revision is not None:
            raise UserError(f"revision= is for a repository of the Hugging Face Hub, but {repo} is a folder")
        return Path(repo) / path
    repo = os.fspath(repo)
    require_repository(repo)
    hub = require_extra("from_hub", "huggingface_hub", "hub")
    with _faults(f"cannot download {path} of {repo} from the Hugging Face Hub"):
        downloaded = hub.hf_hub_download(
            repo, str(path), revision=revision, token=token, library_name="adaqn", library_version=__version__
        )
    return Path(downloaded)


class HubRepository:
    """A repository to upload to; the user is the one logged in with `hf auth login`, or HF_TOKEN."""

    def __init__(self, repo_id: str, api: Any = None) -> None:
        require_repository(repo_id)
        self._id = repo_id
        self._hub = require_extra("adaqn push", "huggingface_hub", "hub")
        self._api = self._hub.HfApi(library_name="adaqn", library_version=__version__) if api is None else api

    def files(self) -> list[str]:
        """The files in the repository; none if it does not exist yet."""
        with _faults(f"cannot look at {self._id} on the Hugging Face Hub"):
            try:
                return list(self._api.list_repo_files(self._id))
            except _errors().RepositoryNotFoundError:
                return []

    def upload(self, folder: Path, private: bool, message: str) -> str:
        """Create the repository if it does not exist, add the folder's files in one commit, and return its address."""
        with _faults(f"cannot upload to {self._id} on the Hugging Face Hub"):
            url = self._api.create_repo(self._id, private=private or None, exist_ok=True)
            self._api.upload_folder(repo_id=self._id, folder_path=folder, commit_message=message)
        return str(url)


def _errors() -> Any:
    """The module of the errors, which is no attribute of the package before something else has imported it."""
    return importlib.import_module("huggingface_hub.errors")


@contextlib.contextmanager
def _faults(what: str) -> Iterator[None]:
    """Convert what `huggingface_hub` raises without a network, a login or a repository into one sentence."""
    errors = _errors()
    importlib.import_module("huggingface_hub.utils")  # sets the level of its logger
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it logs every retry
    try:
        yield
    except UserError:
        raise
    except (errors.HTTPError, errors.EntryNotFoundError, OSError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{what}: {reason}") from error
    finally:
        logger.setLevel(level)
