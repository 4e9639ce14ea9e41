"""What came out of runs: pictures and films."""
