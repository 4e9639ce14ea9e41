"""One plug-in of each kind for adaqn, found through the entry points in pyproject.toml."""
