"""Environments as the loop needs them, and probe environments under the namespace `Probe/`."""

from adaqn.envs import probes

probes.register()
