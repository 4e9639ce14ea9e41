"""Packages that only an extra of adaqn installs, imported when they are first needed."""

from __future__ import annotations

import importlib
from typing import Any

from adaqn.errors import UserError


def require_extra(what: str, module: str, extra: str) -> Any:
    """Import a module, or raise one sentence that says what needs it and which extra installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name != package:  # it is installed, but something that it needs is not
            raise
        raise UserError(
            f'{what} needs the package {package}, which is not installed: `pip install "adaqn[{extra}]"`'
        ) from error
