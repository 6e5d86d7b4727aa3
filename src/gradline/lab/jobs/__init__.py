"""Runs as jobs: what a run is, its store, checkpoints, executors and progress."""
