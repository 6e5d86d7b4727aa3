"""Keep running statistics of layers such as BatchNorm consistent: only accepted probes update them.

Every forward pass in training mode changes the statistics. They are therefore saved before a search and restored after
each evaluation that does not end it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from gradline.torch.private import own_buffers


class RunningStatistics:
    """The buffers `running_…` and `num_batches_tracked` of some layers, and a saved copy."""

    def __init__(self) -> None:
        self.places: list[tuple[nn.Module, str]] = []
        self._kept: list[Tensor | None] = []

    def watch(self, layers: Iterable[nn.Module]) -> None:
        """Track these layers from now on; save the statistics of newly tracked ones."""
        before = dict(zip([(id(layer), name) for layer, name in self.places], self._kept, strict=True))
        self.places = list(
            {
                (id(layer), name): (layer, name)
                for layer in layers
                for name, _ in nn.Module.named_buffers(layer, recurse=False)  # scripted modules have no plain dict
                if name.startswith("running_") or name == "num_batches_tracked"
            }.values()
        )
        now = self.now()
        self._kept = [before.get((id(place[0]), place[1]), new) for place, new in zip(self.places, now, strict=True)]

    def now(self) -> list[Tensor | None]:
        """Return a copy of the current statistics; `None` for those a lazy layer does not have yet."""
        return [None if buffer is None or is_lazy(buffer) else buffer.clone() for buffer in self._buffers()]

    def keep(self) -> None:
        """Save the current statistics as those to restore."""
        if self.places:
            self._kept = self.now()

    def put_back(self) -> None:
        """Restore the saved statistics."""
        if self.places:
            self.put(self._kept)

    def put(self, statistics: Sequence[Tensor | None]) -> None:
        """Set the statistics."""
        for buffer, saved in zip(self._buffers(), statistics, strict=True):
            if buffer is not None and saved is not None:
                buffer.copy_(saved)

    def _buffers(self) -> list[Tensor | None]:
        """Return the current buffers, which moving a model to a device replaces."""
        return [own_buffers(layer)[name] for layer, name in self.places]
