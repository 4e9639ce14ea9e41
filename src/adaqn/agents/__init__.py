"""The algorithms: one package or file per family, found by the names in its table `ALGORITHMS`."""
