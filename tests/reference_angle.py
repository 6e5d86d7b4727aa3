"""`gradline.Angle` written plainly: one tensor at a time, every sequence stored, copies of all for steps taken back."""

import math

import torch

from gradline import searches
from gradline.protocol import Heading, Origin, Slope
from gradline.torch.outliers import LOOKS, OutlierGuard


class Parameter:
    """A parameter y with its iterate z, their average x, the mean of earlier points, and Adam's second moment."""

    def __init__(self, point, group):
        self.point, self.group = point, group
        self.z = self.x = self.y = self.mean = point.detach().clone()
        self.square, self.updates = torch.zeros_like(self.y), 0
        self.direction = self.saved = None

    def update(self):
        """Adam's update without momentum, for a learning rate of 1."""
        gradient, (_, beta), scale = self.point.grad, self.group["betas"], self.group["lr_scale"]
        self.updates += 1
        self.square = beta * self.square + (1.0 - beta) * gradient**2
        return -scale * gradient / ((self.square / (1.0 - beta**self.updates)).sqrt() + self.group["eps"])


class ReferenceAngle:
    """The steps of `gradline.Angle`, without its average in `eval()`, saving, and everything else."""

    def __init__(self, params, *, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, lr_scale=1.0, **options):
        defaults = {"betas": betas, "eps": eps, "weight_decay": weight_decay, "lr_scale": lr_scale}
        params = list(params)
        groups = params if isinstance(params[0], dict) else [{"params": params}]
        self.param_groups = [{**defaults, **group} for group in groups]
        self.search = searches.Angle(**options)
        self.memory, self.pending, self.guard = self.search.start(), None, OutlierGuard()
        self.held, self.failures, self.evaluations, self.iterations = {}, 0, 0, 0

    def zero_grad(self):
        for group in self.param_groups:
            for point in group["params"]:
                point.grad = None

    @torch.no_grad()
    def step(self):
        moving = []
        for group in self.param_groups:
            for point in group["params"]:
                if point.grad is not None:
                    moving.append(self.held.setdefault(id(point), Parameter(point, group)))
        norm = math.sqrt(sum(float(each.point.grad.square().sum()) for each in moving))
        self.evaluations += 1
        if self.pending is not None:
            self.first(moving, norm)
        elif not self.memory.taken:
            self.begin(moving, norm)
        else:
            self.next(moving, norm)
        for each in self.held.values():
            each.point.copy_(each.y)

    def begin(self, moving, norm):
        if not 0.0 < norm < math.inf:
            return
        self.guard, self.failures = self.guard.after(norm), LOOKS
        for each in moving:
            each.mean = each.y
            each.direction = each.update() - each.group["lr_scale"] * each.group["weight_decay"] * each.y
        slope = sum(float((each.direction * each.point.grad).sum()) for each in moving)
        self.pending = self.search.search(Origin(Heading(slope, 0.0, 0.0), 1.0), self.memory)
        self.probe(next(self.pending))

    def probe(self, step):
        for each in self.held.values():
            if each.direction is not None:
                each.y = each.mean + step * each.direction

    def first(self, moving, norm):
        started = [each for each in moving if each.direction is not None]
        slope = sum(float((each.direction * each.point.grad).sum()) for each in started)
        far = self.failures < LOOKS and self.guard.is_off_scale(norm)
        self.failures = self.failures + 1 if far else 0
        try:
            self.probe(self.pending.send(Slope(math.inf if far else slope)))
        except StopIteration as end:
            self.pending, self.memory, self.failures = None, end.value.memory, 0
            for each in self.held.values():
                each.x = each.z = each.y
            self.iterations += 1
            self.take(moving, norm)

    def next(self, moving, norm):
        back = sum(float((each.point.grad * (each.y - each.saved[0])).sum()) for each in moving if each.saved)
        uphill = self.failures < LOOKS and self.guard.is_outlier(norm) and back > 0.0
        if uphill:
            self.guard = self.guard.after(norm)
        if uphill or not math.isfinite(norm):
            self.failures += 1
            if self.failures > 1:
                self.memory = self.search.halve_step(self.memory)
                for each in self.held.values():
                    if each.saved:
                        now = (each.y, each.z, each.x)
                        each.y, each.z, each.x = (
                            (one + other) / 2.0 for one, other in zip(now, each.saved, strict=True)
                        )
            return
        self.memory = self.search.count_step(self.memory, max(self.failures - 1, 0))
        self.failures, self.iterations = 0, self.iterations + 1
        self.take(moving, norm)

    def take(self, moving, norm):
        n = self.memory.taken
        along = sum(float((each.point.grad * (each.y - each.mean)).sum()) for each in moving)
        length = math.sqrt(sum(float((each.y - each.mean).square().sum()) for each in moving))
        cosine = along / (norm * length) if norm * length > 0.0 else 0.0
        faded = norm < 0.01 * self.guard.start
        self.memory = self.search.next_step(self.memory, max(-1.0, min(1.0, cosine)), faded=faded)
        factor, self.guard = self.guard.factor(norm), self.guard.after(norm)
        for each in self.held.values():
            each.mean = each.mean + (each.y - each.mean) / (n + 1)
            each.saved = None
        for each in moving:
            each.saved = (each.y, each.z, each.x)
            each.point.grad = each.point.grad * factor
            beta, step = each.group["betas"][0], self.memory.step
            decay = each.group["weight_decay"] * step * each.group["lr_scale"]
            each.z = (1.0 - min(decay, 1.0)) * each.z + step * each.update()
            weights = torch.arange(1.0, n + 2.0, dtype=torch.float64) ** 3
            each.x = each.x + float(weights[-1] / weights.sum()) * (each.z - each.x)
            each.y = (1.0 - beta) * each.z + beta * each.x
