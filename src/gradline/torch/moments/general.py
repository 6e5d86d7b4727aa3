"""Compute per-sample slopes and gradients of any losses from their autograd graph.

The gradient of v·ℓ is Jᵀv, linear in v. The derivative of d·Jᵀv with respect to v is J d, the slopes of all samples
along d: one backward pass through a backward pass gives them, for any v and without per-sample gradients.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from gradline.torch.private import same_versions

_ROOM = 2**24
"""Largest number of per-sample gradient components held at once (128 MB in float64)."""


class HiddenError(RuntimeError):
    """A part of the graph cannot be traversed again."""


class Graph:
    """Losses with their graph, which keeps the memory of the forward pass as long as the object lives.

    Autograd raises an error if parameters were written to after the forward pass. A line search writes to them but
    restores them bit for bit; `keep` stores a fingerprint, and if it matches the graph may be used.
    """

    def __init__(self, losses: Tensor, parameters: Sequence[Tensor]) -> None:
        self.losses = losses
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self._ours = [place for place, parameter in enumerate(parameters) if parameter.requires_grad]
        self.filled: set[int] = set()  # ids of parameters with a gradient from the backward pass
        self._then = same_versions(tuple(self.parameters))
        self._marks: list[Tensor] | None = None
        self._pull: tuple[Tensor, list[Tensor | None]] | None = None

    def keep(self) -> None:
        """Store a fingerprint of the parameters, so that the graph can be used again after they are restored."""
        self._marks = self._fingerprint()

    def slopes(self, directions: Sequence[Tensor] | None) -> Tensor:
        """Return the per-sample slopes along the directions; `None`: along the gradient of the mean."""
        with self._in_place(), _without_hooks(self.parameters):
            try:
                return self._twice(directions)
            except (RuntimeError, NotImplementedError) as error:
                if isinstance(error, torch.OutOfMemoryError | HiddenError):
                    raise
                if "modified by an inplace operation" in str(error):
                    raise RuntimeError(
                        "the inputs of this evaluation were changed in place since: use new tensors for each batch"
                    ) from error
                self._pull = None
                warnings.warn(
                    f"gradline: the backward pass cannot be differentiated ({str(error).splitlines()[0][:200]}), so "
                    f"slopes take one backward pass per sample; for attention, use "
                    f"torch.nn.attention.sdpa_kernel(SDPBackend.MATH) in the forward pass",
                    RuntimeWarning,
                    stacklevel=5,
                )
                return self._one_by_one(directions)

    def variances(self) -> dict[int, Tensor]:
        """Return the variance of each component of the mean gradient, by the indices of the parameters.

        Mean and sum of squared deviations are updated by chunks of samples.
        """
        count = 0
        means = [torch.zeros_like(parameter, requires_grad=False) for parameter in self.parameters]
        squares = [torch.zeros_like(mean) for mean in means]
        with self._in_place(), _without_hooks(self.parameters):
            for chunk in self._rows():
                new = len(chunk[0])
                total = count + new
                for mean, square, rows in zip(means, squares, chunk, strict=True):
                    centre = rows.mean(dim=0)
                    moved = centre - mean
                    square += (rows - centre).square_().sum(dim=0)
                    square.addcmul_(moved, moved, value=count * new / total)
                    mean.add_(moved, alpha=new / total)
                count = total
        return {place: square / (count * (count - 1)) for place, square in zip(self._ours, squares, strict=True)}

    def _twice(self, directions: Sequence[Tensor] | None) -> Tensor:
        with torch.enable_grad():
            if self._pull is None:
                weights = torch.full_like(self.losses, 1.0 / len(self.losses), requires_grad=True)
                pulled = torch.autograd.grad(
                    self.losses, self.parameters, weights, create_graph=True, allow_unused=True
                )
                self._require_all(pulled)
                self._pull = weights, list(pulled)
            weights, gradients = self._pull
            pairs = [
                (gradient, gradient.detach() if directions is None else directions[place])
                for gradient, place in zip(gradients, self._ours, strict=True)
                if gradient is not None
            ]
            outputs, along = [gradient for gradient, _ in pairs], [direction for _, direction in pairs]
            (slopes,) = torch.autograd.grad(outputs, weights, along, retain_graph=True)
        return slopes

    def _one_by_one(self, directions: Sequence[Tensor] | None) -> Tensor:
        if directions is None:
            along = self._gradients(torch.full_like(self.losses, 1.0 / len(self.losses)))
        else:
            along = [directions[place] for place in self._ours]
        slopes = []
        for chunk in self._rows():
            pairs = zip(chunk, along, strict=True)
            parts = [rows.reshape(len(rows), -1) @ direction.reshape(-1) for rows, direction in pairs]
            slopes.append(torch.stack(parts).sum(dim=0))
        return torch.cat(slopes)

    def _rows(self) -> Iterator[list[Tensor]]:
        size = len(self.losses)
        room = max(1, _ROOM // max(1, sum(parameter.numel() for parameter in self.parameters)))
        first = 0
        while first < size:
            chosen = torch.zeros(min(room, size - first), size, dtype=self.losses.dtype, device=self.losses.device)
            chosen[:, first : first + len(chosen)].fill_diagonal_(1.0)
            first += len(chosen)
            try:
                with warnings.catch_warnings():
                    # An operator without a batching rule loops internally, and warns.
                    warnings.filterwarnings("error", message=".*performance drop.*", category=UserWarning)
                    rows = self._gradients(chosen, batched=True)
            except torch.OutOfMemoryError:
                raise
            except (RuntimeError, UserWarning):
                singles = [self._gradients(row) for row in chosen]
                rows = [torch.stack(samples) for samples in zip(*singles, strict=True)]
            yield rows

    def _gradients(self, weights: Tensor, *, batched: bool = False) -> list[Tensor]:
        gradients = torch.autograd.grad(
            self.losses, self.parameters, weights, retain_graph=True, is_grads_batched=batched, allow_unused=True
        )
        self._require_all(gradients)
        shape = weights.shape[:-1]
        return [
            parameter.new_zeros(*shape, *parameter.shape) if gradient is None else gradient
            for parameter, gradient in zip(self.parameters, gradients, strict=True)
        ]

    def _require_all(self, gradients: Sequence[Tensor | None]) -> None:
        for gradient, parameter in zip(gradients, self.parameters, strict=True):
            if gradient is None and id(parameter) in self.filled:
                raise HiddenError(
                    f"losses must show their whole graph (per-sample slopes come from going through it again), but a "
                    f"parameter of shape {tuple(parameter.shape)} is hidden in it; in torch.utils.checkpoint, pass "
                    f"use_reentrant=False"
                )

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        """Context manager with the parameters' version counters of the evaluation, if their values match."""
        now = same_versions(tuple(self.parameters))
        if now.prev_versions == self._then.prev_versions:
            yield
            return
        if self._marks is None:
            raise RuntimeError(
                "the parameters were changed after this evaluation: ask for its slopes before, or call keep() before "
                "they move and ask again when they are back"
            )
        if not all(map(torch.equal, self._marks, self._fingerprint())):
            raise RuntimeError(
                "the parameters are not where they were in this evaluation: put them back (bit for bit) before asking "
                "for its slopes"
            )
        self._then.__exit__(None, None, None)
        try:
            yield
        finally:
            now.__exit__(None, None, None)

    @torch.no_grad()
    def _fingerprint(self) -> list[Tensor]:
        return [number for p in self.parameters for number in (p.sum(), torch.linalg.vector_norm(p))]


@contextmanager
def _without_hooks(parameters: Sequence[Tensor]) -> Iterator[None]:
    """Context manager without the users' gradient hooks, which have already run on the gradient of the mean."""
    hooked = [(parameter, parameter._backward_hooks) for parameter in parameters if parameter._backward_hooks]
    for parameter, _ in hooked:
        parameter._backward_hooks = None
    try:
        yield
    finally:
        for parameter, hooks in hooked:
            parameter._backward_hooks = hooks
