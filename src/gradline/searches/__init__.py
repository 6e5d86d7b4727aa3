"""The line searches, one algorithm per file, each a frozen dataclass. None needs torch."""

from gradline.searches.angle import Angle, AngleMemory
from gradline.searches.armijo import Armijo
from gradline.searches.fixed import Fixed
from gradline.searches.golden_section import GoldenSection
from gradline.searches.gols_b import GolsB
from gradline.searches.gols_back import GolsBack
from gradline.searches.gols_i import GolsI
from gradline.searches.gols_max import GolsMax
from gradline.searches.prls import Prls, PrlsMemory
from gradline.searches.strong_wolfe import StrongWolfe

__all__ = [
    "Angle",
    "AngleMemory",
    "Armijo",
    "Fixed",
    "GoldenSection",
    "GolsB",
    "GolsBack",
    "GolsI",
    "GolsMax",
    "Prls",
    "PrlsMemory",
    "StrongWolfe",
]
