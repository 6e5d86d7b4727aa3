"""Studies: which runs belong together. A study is a value, and `plan` lists its runs.

Those that come with gradline are small TOML files beside this module (`gradline list` names them): the paper's, and the
comparisons with other optimizers. Your own is a path to such a file, or a `Study` made in Python. The keys of a
file are described in `gradline.lab.studies.reading`.
"""

from __future__ import annotations

from gradline.lab.studies.reading import available, load
from gradline.lab.studies.study import Setting, Study, Tuned, plan, plan_tuned, validate
from gradline.lab.studies.toml import StudyError

__all__ = ["Setting", "Study", "StudyError", "Tuned", "available", "load", "plan", "plan_tuned", "validate"]
