"""The only environment loop, and those who listen to it."""
