"""Ring buffers of experience."""
