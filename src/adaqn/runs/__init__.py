"""One run: its configuration, its directory, and who writes what in it."""
