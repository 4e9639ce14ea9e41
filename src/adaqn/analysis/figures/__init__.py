"""Every figure type of the paper, one per file: its `draw` makes it of a study, or says why the study has none.

A new file with a function `draw(page: Page) -> Figure` is found by its name.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from matplotlib.figure import Figure

from adaqn.analysis.page import Page

# In the order of the paper; others come behind them.
_ORDER = (
    "curves", "search", "selection", "environments", "ranking", "intervals", "profiles", "radar", "evolution",
    "discount", "training_time",
)  # fmt: skip


def figure_types() -> dict[str, Callable[[Page], Figure]]:
    """The functions that draw figures, by name."""
    found = {module.name for module in pkgutil.iter_modules(__path__)}
    names = [*(name for name in _ORDER if name in found), *sorted(found - {*_ORDER})]
    return {name: importlib.import_module(f"{__name__}.{name}").draw for name in names}
