"""Error messages about missing packages, completed with the adaqn extra that installs them."""

from __future__ import annotations

import re

# The extra of adaqn that installs each module.
EXTRAS = {"mujoco": "mujoco", "ale_py": "atari", "minatar": "minatar", "imageio": "video", "wandb": "wandb"}


def with_our_extra(message: str) -> str:
    """The message about a missing package, with the adaqn extra that installs it, if there is one."""
    for package, extra in EXTRAS.items():
        if re.search(rf"gymnasium\[{extra}\]|No module named '{package}'", message):
            install = f'`pip install "adaqn[{extra}]"`'
            replaced = re.sub(rf'`pip install "?gymnasium\[{extra}\]"?`', install, message)
            return replaced if install in replaced else f"{message}; {install} installs it"
    return message
