"""One run: its configuration, its directory, and the recorders that write it."""
