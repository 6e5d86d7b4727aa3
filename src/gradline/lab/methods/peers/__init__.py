"""Who takes part: every method by name, and groups of them."""

from __future__ import annotations

from gradline.lab.methods.peers import learning_rate_free, line_searches, own, plain
from gradline.lab.methods.peers.method import Method

__all__ = ["GROUPS", "METHODS", "Method"]

METHODS: dict[str, Method] = {
    method.name: method
    for method in (*own.METHODS, *line_searches.METHODS, *learning_rate_free.METHODS, *plain.METHODS)
}
"""Every method by name."""

GROUPS: dict[str, tuple[str, ...]] = {
    "all": tuple(METHODS),
    **{
        group: tuple(name for name, method in METHODS.items() if method.group == group)
        for group in ("gradline", "searches", "learning-rate-free", "tuned")
    },
    **{
        family: tuple(name for name, method in METHODS.items() if method.family == family) for family in ("sgd", "adam")
    },
}
"""Names that stand for several methods."""
