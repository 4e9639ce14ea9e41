"""Algorithms, a package or a file for each family, found by the names in its table `ALGORITHMS`."""
