"""The stroke of each method: the same in every figure of the study and on its report page.

In comparisons with many methods gradline's are wide and coloured, tuned ones have the colour of the text, others grey.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradline.lab.figures.labels import METHODS
from gradline.lab.findings.comparison import OWN, TUNED
from gradline.plot.inks import DASHES, LIGHT, Inks, Stroke, stroke

NUMBERS = {
    "gols-i": 0, "prls": 1, "fixed-1": 2, "fixed-10": 3, "fixed-100": 4, "armijo": 2, "golden-section": 3, "angle": 5,
}  # fmt: skip
"""The strokes of methods that are shown together."""
MUTED = ("#8c8c8c", "#7f93a8", "#a8917f", "#8fa384")
OTHER_MARKERS = "x+1234<>dh*"


def numbers(lines: Sequence[str]) -> dict[str, int]:
    """Return the number of the stroke of each name or label: that of its method, or the first that is free."""
    names = {label: name for name, label in METHODS.items()}
    found: dict[str, int] = {}
    for line in lines:
        wanted = NUMBERS.get(names.get(line, line))
        if wanted is not None and wanted not in found.values():
            found[line] = wanted
    for line in lines:
        if line not in found:
            found[line] = next(number for number in range(len(lines) + 6) if number not in found.values())
    return found


def styles(methods: Sequence[str], inks: Inks = LIGHT) -> dict[str, Stroke]:
    """Return a stroke for each method of a comparison, no two of them alike, in colour or in grey."""
    found = {}
    tuned = [name for name in methods if name in TUNED]
    others = [name for name in methods if name not in OWN and name not in TUNED]
    for name in methods:
        if name in OWN:
            found[name] = stroke(OWN.index(name), inks)._replace(width=1.9, above=4.0)
        elif name in TUNED:
            found[name] = Stroke(inks.text, DASHES[1 + tuned.index(name) % 2][0], "", 1.3, 3.0)
        else:  # greys and muted colours: these are not what a reader looks for first
            place = others.index(name)
            muted, dashes = MUTED[place % len(MUTED)], DASHES[place % 4][0]
            found[name] = Stroke(muted, dashes, OTHER_MARKERS[place % len(OTHER_MARKERS)], 1.0, 2.0)
    return found
