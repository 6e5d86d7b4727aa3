"""What is trained: every problem by name, and which are for tuning and which are held out.

The split is fixed here. Whoever designs or tunes a method looks at `TUNE` only, and tells the results on `HELD_OUT`.
"""

from __future__ import annotations

from gradline.lab.problems.bench import digits, images, paper, physics, synthetic, text
from gradline.lab.problems.bench.problem import Problem, Size

__all__ = ["HELD_OUT", "PROBLEMS", "TUNE", "Problem", "Size"]

PROBLEMS: dict[str, Problem] = {
    problem.name: problem
    for problem in (
        *paper.PROBLEMS,
        *images.PROBLEMS,
        *text.PROBLEMS,
        *digits.PROBLEMS,
        *synthetic.PROBLEMS,
        *physics.PROBLEMS,
    )
}
"""Every problem by name."""

TUNE = tuple(name for name, problem in PROBLEMS.items() if not problem.held_out)
HELD_OUT = tuple(name for name, problem in PROBLEMS.items() if problem.held_out)
