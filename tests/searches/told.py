"""Searches of Angle that are told slopes."""

import math

from gradline.protocol import Heading, Origin, Pending, Slope
from gradline.searches import Angle

NAN, INF = math.nan, math.inf


def course(cosine):
    return Heading(-1.0, cosine, 1.0)


def begun(search=None, cosine=0.0, memory=None):
    search = search or Angle()
    return Pending(search, Origin(course(cosine), 1.0), memory or search.start())


def told(pending, *slopes):
    """The steps asked for while these slopes are told."""
    asked = []
    for slope in slopes:
        asked.append(pending.step)
        pending.tell(Slope(slope))
    return asked
