"""Helpers without knowledge of experiments: names, files, threads, formatting, optional packages."""
