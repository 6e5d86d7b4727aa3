"""Versions of installed packages, each read once: the standard library parses a file at each call."""

from functools import cache
from importlib import metadata

version = cache(metadata.version)
