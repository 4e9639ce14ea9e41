"""Box2D's bindings crash the interpreter if a warning during their import is an error, as it is in tests."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import Box2D  # noqa: F401
