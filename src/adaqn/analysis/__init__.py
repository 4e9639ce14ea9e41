"""Results of runs: figures, schedules and videos."""
