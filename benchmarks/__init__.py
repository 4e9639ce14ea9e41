"""How fast, how small and how good adaqn is beside its peers; each program here is run with `python -m`."""
