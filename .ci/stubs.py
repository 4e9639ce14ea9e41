"""Write src/adaqn/api.pyi: the public classes with every argument, its type, default and meaning, for editors.

    python .ci/stubs.py [--check]

With --check nothing is written; the exit status is 1 if the file is not what would be written.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import adaqn.api
from adaqn.agents.algorithms import ALGORITHMS
from adaqn.agents.registry import Algorithm
from adaqn.api import Model, SearchModel
from adaqn.model.signatures import documentation_of, signature_of

FILE = Path(adaqn.api.__file__).with_suffix(".pyi")
HEAD = '''"""The public classes. Written by .ci/stubs.py from the table of algorithms: do not edit."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from adaqn.agents.population import Scheduled
from adaqn.agents.protocol import TrialEnd
from adaqn.envs.source import EnvironmentLike
from adaqn.members.space import SearchSpace
from adaqn.model.model import MODELS as MODELS, Members, Model as Model, model_class as model_class

class SearchModel(Model):
    @property
    def best_trial(self) -> TrialEnd | None: ...
'''


def stub() -> str:
    """The content of the file."""
    return HEAD + "".join(_class(entry) for entry in ALGORITHMS.values() if entry.public is not None)


def _class(entry: Algorithm) -> str:
    base = Model if entry.base is None else SearchModel
    positional, keywords = [], []
    for parameter in signature_of(Model.__init__, entry).parameters.values():
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        text = f"        {parameter.name}: {parameter.annotation}{default},"
        (keywords if parameter.kind is parameter.KEYWORD_ONLY else positional).append(text)
    lines = "\n".join([*positional, "        *,", *keywords])
    about = textwrap.indent(documentation_of(entry), "    ", lambda line: bool(line.strip())).strip()
    return (
        f'\nclass {entry.public}({base.__name__}):\n    """{about}\n    """\n\n'
        f"    def __init__(\n        self,\n{lines}\n    ) -> None: ...\n"
    )


def main() -> None:
    """Write the file, or compare it."""
    if "--check" not in sys.argv[1:]:
        FILE.write_text(stub(), encoding="utf-8")
    elif not FILE.exists() or FILE.read_text(encoding="utf-8") != stub():
        sys.exit(f"{FILE.name} is out of date: run `make stubs`")


if __name__ == "__main__":
    main()
