"""Runs as jobs: what a run is, its store, checkpoints, locks, executors and progress."""
