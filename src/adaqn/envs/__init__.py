"""Environments for the training loop, and probe environments in the namespace `Probe/`."""

from adaqn.envs import probes

probes.register()
