"""Messages about missing packages, with the extra of adaqn that installs them."""

from __future__ import annotations

import re

# The extras of adaqn by the module that each of them installs.
EXTRAS = {"mujoco": "mujoco", "ale_py": "atari", "minatar": "minatar", "imageio": "video", "wandb": "wandb"}


def with_our_extra(message: str) -> str:
    """A message about a missing package, with the extra of adaqn that installs it where there is one."""
    for package, extra in EXTRAS.items():
        if re.search(rf"gymnasium\[{extra}\]|No module named '{package}'", message):
            install = f'`pip install "adaqn[{extra}]"`'
            replaced = re.sub(rf'`pip install "?gymnasium\[{extra}\]"?`', install, message)
            return replaced if install in replaced else f"{message}; {install} installs it"
    return message
