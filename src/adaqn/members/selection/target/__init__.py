"""Rules for the target member, one per file: `select(uniforms, losses, alive, size) -> Selection`."""
