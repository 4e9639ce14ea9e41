"""A study: a table of runs, arms × environments × seeds, and where they execute."""
