"""Rules for the behaviour member, one per file: `draw(uniforms, epsilon, losses, alive, target) -> members [S]`."""
