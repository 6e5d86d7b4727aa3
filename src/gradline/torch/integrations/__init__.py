"""Adapters to trainers and loggers; each needs its own extra."""
