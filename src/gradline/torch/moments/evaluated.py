"""Evaluate per-sample losses: the gradient of their mean, slopes along any direction, and variances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor

from gradline.protocol import Moments
from gradline.torch.moments.general import Graph
from gradline.torch.moments.graph import batch_norm_error, find_batch_norm, find_layers
from gradline.torch.moments.layers import Dense, Layer
from gradline.torch.moments.statistics import mean_and_variance, too_few_samples
from gradline.torch.private import version


class Evaluated:
    """Per-sample losses of one evaluation, and their gradient, slopes and variances after `backward()`.

    `slopes` can be called any number of times and along any direction, also one that was computed from the gradient of
    the same evaluation.

    If `by_layers`, the inputs and output gradients of the layers are kept, B × (inputs + outputs) numbers per layer,
    and the graph is freed as usual; the parameters may change. Otherwise the graph with all activations is kept, and
    the parameters must have the values of the evaluation: call `keep()` before they move and restore them before
    calling `slopes`.

    Args:
        losses: the per-sample losses, shape (B,), before any `backward()`.
        parameters: the parameters that move. Those that require no gradient, or are not used by the losses, have slope
            and variance 0.
        allow_batch_norm: accept losses whose samples BatchNorm mixes; their variances are then approximate.
    """

    def __init__(self, losses: Tensor, parameters: Sequence[Tensor], *, allow_batch_norm: bool = False) -> None:
        _check(losses)
        self.losses = losses.detach()
        self.parameters = list(parameters)
        self._fresh: list[tuple[Tensor, int] | None] = []
        self._graph: Graph | None = None
        self._waiting: Tensor | None = losses
        with _explaining():
            layers = find_layers(losses, self.parameters) if len(losses) > 1 else None
        self.by_layers = layers is not None
        self._layers: list[Layer] = layers or []
        once = len(set(self._used())) == len(self._used())
        self.diagonal_by_layers = self.by_layers and once and all(isinstance(layer, Dense) for layer in self._layers)
        name = None if self.by_layers or allow_batch_norm else find_batch_norm(losses)
        if name is not None:
            raise batch_norm_error(name)

    @property
    def undisturbed(self) -> bool:
        """Whether the parameters' `.grad` is exactly the gradient of the mean, neither clipped nor accumulated."""
        return all(
            known is not None or parameter.grad is None
            for known, parameter in zip(self._known(), self.parameters, strict=True)
        )

    def backward(self, *, variances: bool = False, accumulate: bool = True) -> None:
        """Add the gradient of the mean to the parameters' `.grad`.

        Args:
            variances: whether `gradient_variances` or `diagonal` will be called, for which the graph must be kept if
                there are convolutions or weights used twice.
            accumulate: `False` does not change `.grad`, nor call hooks on its accumulation.
        """
        losses, self._waiting = self._waiting, None
        if losses is None:
            raise RuntimeError("backward() has already run on these losses: evaluate anew")
        retain = not self.by_layers or (variances and not self.diagonal_by_layers)
        if retain:
            self._graph = Graph(losses, self.parameters)
        hooks = []
        for layer in self._layers:
            hooks.append(layer.node.register_prehook(layer.note))
            layer.node = None
        weights = torch.full_like(self.losses, 1.0 / len(losses))
        try:
            with _explaining():
                gradients = (self._accumulated if accumulate else self._aside)(losses, weights, retain)
        finally:
            for hook in hooks:  # a kept graph runs again with other gradients
                hook.remove()
        self._fresh = [None if gradient is None else (gradient, version(gradient)) for gradient in gradients]

    def _accumulated(self, losses: Tensor, weights: Tensor, retain: bool) -> list[Tensor | None]:
        """Run a backward pass; return each `.grad` that is exactly the gradient, else `None`."""
        unset = [_untouched(parameter) for parameter in self.parameters]
        empty = [parameter for parameter in self.parameters if parameter.grad is None]
        torch.autograd.backward(losses, weights, retain_graph=retain)
        if self._graph is not None:
            self._graph.filled = {id(parameter) for parameter in empty if parameter.grad is not None}
        return [parameter.grad if new else None for parameter, new in zip(self.parameters, unset, strict=True)]

    def _aside(self, losses: Tensor, weights: Tensor, retain: bool) -> list[Tensor | None]:
        """Return the gradients without changing `.grad`."""
        moving = [parameter for parameter in self.parameters if parameter.requires_grad]
        found = iter(torch.autograd.grad(losses, moving, weights, retain_graph=retain, allow_unused=True))
        return [next(found) if parameter.requires_grad else None for parameter in self.parameters]

    def keep(self) -> None:
        """Prepare for calls after the parameters have moved (and, unless `by_layers`, were restored).

        The inputs of layers are copied, because a data loader may overwrite the first one; a fingerprint of the graph's
        parameters is stored, so that wrong values are detected.
        """
        self._ran()
        for layer in self._layers:
            layer.inputs, layer.version = layer.inputs.clone(), 0
        if self._graph is not None:
            self._graph.keep()

    @torch.no_grad()
    def slopes(self, directions: Sequence[Tensor]) -> Tensor:
        """Return the exact slopes d·∇ℓ_b of all samples, shape (B,). Their mean is d·g."""
        self._ran()
        self._match(directions)
        if not self.by_layers:
            return self._from_graph(directions)
        return self._sum(layer.slopes(delta, directions) for layer, delta in self._pairs())

    @torch.no_grad()
    def own_slopes(self) -> Tensor:
        """Return the slopes g·∇ℓ_b along the gradient g of the mean; cheaper than `slopes`.

        The slopes along steepest descent have the opposite sign and the same variance.
        """
        self._ran()
        if not self.by_layers:
            return self._from_graph(None)
        if not self.diagonal_by_layers:  # not for convolutions and shared weights
            return self.slopes(self._gradients())
        return self._sum(cast(Dense, layer).own_slopes(delta) for layer, delta in self._pairs())

    @torch.no_grad()
    def gradient_variances(self) -> list[Tensor]:
        """Return the variance of each component of the mean gradient, var g_i, in the shapes of the parameters.

        Layer by layer they are differences of sums: below about machine epsilon times the mean square of the
        component's per-sample gradients they are rounding noise, clipped at 0. From the graph they are centred.
        """
        self._ran()
        if len(self.losses) < 2:
            raise too_few_samples(self.losses)
        if self.diagonal_by_layers:
            pairs, means = self._pairs(), self._known()
            found = dict(pair for layer, delta in pairs for pair in cast(Dense, layer).variances(delta, means))
        elif self._graph is None:
            raise RuntimeError(
                "the graph is freed: call backward(variances=True) to ask for components' variances of these layers"
            )
        else:
            found = self._graph.variances()
        return [
            found[place] if place in found else torch.zeros_like(p, requires_grad=False)
            for place, p in enumerate(self.parameters)
        ]

    @torch.no_grad()
    def diagonal(self, directions: Sequence[Tensor]) -> Tensor:
        """Return the variance of the slope of the PrLS paper, Σ_i d_i² var g_i, as if components were independent."""
        self._ran()
        self._match(directions)
        total = torch.zeros_like(self.losses[0])
        for variance, direction in zip(self.gradient_variances(), directions, strict=True):
            total += variance.mul_(direction).mul_(direction).sum().to(total)
        return total

    def moments(self, directions: Sequence[Tensor], *, diagonal: bool = False) -> Moments:
        """Return value and slope, means over the samples, with their variances, as the observation of a search."""
        means, variances = mean_and_variance(torch.stack((self.losses, self.slopes(directions))))
        (value, slope), (value_var, slope_var) = torch.stack((means, variances)).tolist()
        if diagonal:
            slope_var = float(self.diagonal(directions))
        return Moments(slope=slope, value=value, value_var=value_var, slope_var=slope_var)

    def _ran(self) -> None:
        if self._waiting is not None:
            raise RuntimeError("call backward() first: slopes and variances follow from it")

    def _match(self, directions: Sequence[Tensor]) -> None:
        if len(directions) != len(self.parameters):
            raise ValueError(
                f"directions must have one tensor for each of the {len(self.parameters)} parameters, "
                f"got {len(directions)}"
            )

    def _from_graph(self, directions: Sequence[Tensor] | None) -> Tensor:
        if self._graph is None or not self._graph.parameters:
            return torch.zeros_like(self.losses)
        return self._graph.slopes(directions)

    def _pairs(self) -> list[tuple[Layer, Tensor]]:
        """Return the layers with a gradient, and the gradients of their outputs."""
        if any(version(layer.inputs) != layer.version for layer in self._layers):
            raise RuntimeError(
                "the inputs of this evaluation were changed in place since: use new tensors for each batch, or call "
                "keep() before"
            )
        return [(layer, layer.delta) for layer in self._layers if layer.delta is not None]

    def _sum(self, parts: Any) -> Tensor:
        total: Tensor | None = None
        for part in parts:
            total = part.to(self.losses) if total is None else total.add_(part.to(total))
        if total is None:
            return torch.zeros_like(self.losses)
        return total.mul_(len(total))  # parts are of the gradient of the mean, which has 1/B of each sample

    def _known(self) -> list[Tensor | None]:
        """Return the gradients of the mean that were not written to since, else `None`."""
        return [grad[0] if grad is not None and grad[0]._version == grad[1] else None for grad in self._fresh]

    def _gradients(self) -> list[Tensor]:
        known = self._known()
        if any(known[place] is None for place in self._used()):
            raise RuntimeError(
                "the gradients of this evaluation were changed since (clipped, accumulated or zeroed in place): ask "
                "slopes(directions) with your own directions"
            )
        return [torch.zeros_like(p) if g is None else g for p, g in zip(self.parameters, known, strict=True)]

    def _used(self) -> list[int]:
        """Return the indices of the parameters of layers, repeated for each use."""
        return [place for layer in self._layers for place in (layer.weight, layer.bias) if place is not None]


def _untouched(parameter: Tensor) -> bool:
    """Whether `.grad` will be exactly the gradient after a backward pass."""
    return (
        parameter.grad is None
        and not parameter._backward_hooks
        and not getattr(parameter, "_post_accumulate_grad_hooks", None)
    )


def _check(losses: Any) -> None:
    if not isinstance(losses, Tensor) or losses.ndim != 1 or not len(losses):
        got = f"a tensor of shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else repr(losses)
        raise TypeError(
            f"losses must be a tensor of shape (B,), one loss for each sample (variances are taken over them), got "
            f"{got}; use reduction='none' in the loss, and its mean over any further dimension"
        )
    if losses.grad_fn is None:
        raise ValueError(
            "losses must have a graph (the optimizer calls backward on their mean), got a tensor that depends on no "
            "parameter that requires a gradient; compute them with gradients enabled, and do not detach them"
        )


@contextmanager
def _explaining() -> Iterator[None]:
    """Context manager that explains the error for a graph that is freed already."""
    try:
        yield
    except RuntimeError as error:
        if "second time" not in str(error) and "freed" not in str(error):
            raise
        raise RuntimeError(
            "losses must be returned before backward() is called on them (the optimizer does that, and needs what it "
            "frees): remove backward() from the closure"
        ) from error
