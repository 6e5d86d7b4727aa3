"""Problems: what is trained. A problem builds a task from a seed. A new one is a value in `catalogue`, or your own."""

from __future__ import annotations

from typing import Any

from gradline.lab.problems.catalogue import COMPARED, TRAINED
from gradline.lab.problems.network import NETWORKS, Activation, Loss, Network
from gradline.lab.problems.problem import Built, Problem
from gradline.lab.problems.script import Script

__all__ = ["PROBLEMS", "Activation", "Built", "Loss", "Network", "Problem", "Script", "problem_from_dict"]

PROBLEMS: dict[str, Problem] = {problem.name: problem for problem in (*NETWORKS, *COMPARED, *TRAINED)}
"""Every problem by name: those of the paper, those that optimizers are compared on, and those trained to the end."""


def problem_from_dict(values: dict[str, Any]) -> Problem:
    """Return the problem that its `to_dict` described. Nothing is imported for it."""
    kinds: dict[str, type[Problem]] = {kind.kind: kind for kind in (Network, Built, Script)}
    if values["kind"] not in kinds:
        raise ValueError(f"kind must be one of {', '.join(kinds)} (the kinds of problems), got {values['kind']!r}")
    return kinds[values["kind"]].from_dict(values)
