"""`python -m adaqn.cli`: the same as the command `adaqn`."""

from __future__ import annotations

import sys

from adaqn.cli import main

sys.exit(main())
