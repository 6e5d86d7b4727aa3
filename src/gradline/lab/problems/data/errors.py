"""What can go wrong with data, as exceptions."""

from __future__ import annotations


class DataError(RuntimeError):
    """A data set cannot be had: its files are absent, damaged, or not what they claim to be."""


class DownloadError(DataError):
    """Files are absent and no mirror gave them; the message says which files to put where."""
