"""Benchmarks of adaqn's speed, memory and learning against other libraries; run each with `python -m`."""
