"""gradline's own: Angle, GOLS-I along three directions, and PrLS, each with a new mini-batch at every evaluation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import gradline
from gradline.lab.bench.objective import Objective
from gradline.lab.methods.peers.method import Method
from gradline.lab.methods.peers.stepping import NewBatches, Stepper


def _method(name: str, about: str, make: Callable[[Any], Any]) -> Method:
    def build(objective: Objective) -> Stepper:
        return NewBatches(objective, make(objective.parameters))

    return Method(name, about, build, "gradline", "gradline", "gradline")


def _averaged(objective: Objective) -> Stepper:
    """Angle, judged by an average of its points."""
    average = gradline.LateAverage(objective.model)
    return NewBatches(objective, gradline.Angle(objective.parameters), average)


ADAM = torch.optim.Adam
NO_MOMENTUM = partial(torch.optim.Adam, betas=(0.0, 0.999))

METHODS = (
    _method("angle", "gradline.Angle, Adam's direction", gradline.Angle),
    Method("angle-average", "gradline.Angle and gradline.LateAverage", _averaged, "gradline", "gradline", "gradline"),
    _method("gols-i", "gradline.GOLSI, steepest descent", gradline.GOLSI),
    _method("gols-i-adam", "gradline.GOLSI(direction=Adam)", partial(gradline.GOLSI, direction=ADAM)),
    _method(
        "gols-i-adam-0",
        "gradline.GOLSI(direction=Adam without momentum)",
        partial(gradline.GOLSI, direction=NO_MOMENTUM),
    ),
    _method("prls", "gradline.PrLS, steepest descent", gradline.PrLS),
)
