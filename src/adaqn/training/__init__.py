"""The training loop, its observers and callbacks, and evaluation."""
