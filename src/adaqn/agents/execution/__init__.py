"""How updates are executed: fused into one program, per member, or divided among lanes."""
