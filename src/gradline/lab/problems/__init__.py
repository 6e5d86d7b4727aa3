"""What is trained: a problem builds a task from a seed. A new one is a value in one of these files, or your own."""

from __future__ import annotations

from typing import Any

from gradline.lab.problems.compared import COMPARED
from gradline.lab.problems.network import NETWORKS, Activation, Loss, Network
from gradline.lab.problems.problem import Built, Problem
from gradline.lab.problems.script import Script
from gradline.lab.problems.training import TRAINING

__all__ = ["PROBLEMS", "Activation", "Built", "Loss", "Network", "Problem", "Script", "problem_from_dict"]

PROBLEMS: dict[str, Problem] = {problem.name: problem for problem in (*NETWORKS, *COMPARED, *TRAINING)}
"""Every problem by name: those of the paper, those that optimizers are compared on, and those trained to the end."""


def problem_from_dict(values: dict[str, Any]) -> Problem:
    """Return the problem that its `to_dict` described. Nothing is imported for it."""
    if values["kind"] == "network":
        return Network.from_dict(values)
    kinds: dict[str, Any] = {"built": Built, "script": Script}
    if values["kind"] in kinds:
        given = {name: value for name, value in values.items() if name != "kind"}
        made: Problem = kinds[values["kind"]](**given | {"batch_sizes": tuple(values["batch_sizes"])})
        return made
    raise ValueError(f"kind must be network, built or script (the kinds of problems there are), got {values['kind']!r}")
