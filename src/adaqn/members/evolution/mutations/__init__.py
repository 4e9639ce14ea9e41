"""Mutations of a member, one per file: `applies(space, member)` and `mutate(rng, space, member)`."""
