"""Find the modules that use an optimizer's parameters.

An optimizer is given parameters, but must know which layers have running statistics (rejected probes must not update
BatchNorm's), and whether `DistributedDataParallel` or `fully_shard` distributes the parameters. Modules are found when
they are called, by a global forward pre-hook (`register_module_forward_pre_hook`) that is registered from the
optimizer's construction to the end of its first step. With `model=` this is not needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parameter import is_lazy
from torch.utils.hooks import RemovableHandle

from gradline.torch.distributed.reduce import find
from gradline.torch.measuring import LocalReduce

_HOOKS_WARNING = r"Using `torch\.compile\(module\)` when there are global hooks"
"""torch.compile warns that global hooks are called twice for a compiled module, which is harmless for this one."""


class RunningStatistics:
    """The buffers `running_…` and `num_batches_tracked` of some layers, and a saved copy.

    Every forward pass in training mode changes them. So that only accepted probes do, they are saved before a search
    and restored after each evaluation that does not end it.
    """

    def __init__(self) -> None:
        self.places: list[tuple[nn.Module, str]] = []
        self._kept: list[Tensor | None] = []

    def watch(self, layers: Iterable[nn.Module]) -> None:
        """Track these layers from now on; save the statistics of newly tracked ones."""
        before = dict(zip(self.places, self._kept, strict=True))
        watched = RunningStatistics()
        watched.places = list(
            {
                (layer, name): None
                for layer in layers
                for name, _ in nn.Module.named_buffers(layer, recurse=False)
                if name.startswith("running_") or name == "num_batches_tracked"
            }
        )
        kept = [before.get(place, new) for place, new in zip(watched.places, watched.now(), strict=True)]
        self.places, self._kept = watched.places, kept  # together: an interrupt before leaves both as they were

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
        return [getattr(layer, name) for layer, name in self.places]


class ModuleContext:
    """The modules that contain some parameters, their running statistics, and the processes that train them.

    Without a `model` the modules are found between `listen` and `stop`; without a `process_group` the processes are
    inferred from them.
    """

    def __init__(
        self, parameters: Callable[[], list[Tensor]], model: nn.Module | None = None, process_group: Any = None
    ) -> None:
        self.parameters = parameters
        self.process_group = process_group
        self.ranks = LocalReduce()  # the processes that take part in each evaluation
        self._roots: WeakKeyDictionary[nn.Module, None] = WeakKeyDictionary()  # with our parameters, in order of calls
        self._others: WeakSet[nn.Module] = WeakSet()  # to ignore
        self.statistics = RunningStatistics()
        self.stepping = False  # within a step the search keeps and restores the statistics itself
        self.known = False  # no further modules are expected
        self.discovered: Callable[[], None] = _nothing  # called after each `discover`
        self._around: list[nn.Module] | None = None  # the modules when processes were last looked for
        self._under_way: ExitStack | None = None  # of an evaluation in which processes may be discovered
        self._given = model if isinstance(model, Hashable) else None  # one without a hash is found when it is called
        if model is not None and not isinstance(model, nn.Module):
            raise TypeError(
                f"model must be a module, the one called in training, or None (its layers and wrappers are found in "
                f"it), got {model!r}"
            )
        if self._given is not None:
            self._roots[self._given] = None

    def __getstate__(self) -> dict[str, Any]:
        # A copy belongs to other modules and finds them, and other processes, itself.
        return {"parameters": self.parameters, "discovered": self.discovered}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["parameters"])  # type: ignore[misc]
        self.discovered = state["discovered"]

    def listen(self) -> None:
        """Find the modules that are called from now on, until `stop`; with a given model, do nothing."""
        self.known = False
        self._others.clear()
        if self._given is None:
            _listening.add(self)

    def stop(self) -> None:
        """Stop finding modules."""
        self.known = True
        _listening.discard(self)

    def discover(self, *, last: bool = False) -> None:
        """Find layers with running statistics and other processes, from the modules known so far.

        `last`: an evaluation has been made, so that no further modules are expected.
        """
        if self.known:
            return
        around, layers = self._found()
        self.statistics.watch(layers)
        if around != self._around:
            self.ranks = find(self.parameters(), around, self.process_group)
            if self._under_way is not None:
                self._under_way.enter_context(self.ranks.failing_together(in_forward=True))
            self._around = around
        self.discovered()
        if last:
            self.stop()
            self._around = None  # do not keep a model alive

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        """Context manager of an evaluation that fails in all processes if in one; they may be discovered in it."""
        with ExitStack() as self._under_way:
            try:
                self._under_way.enter_context(self.ranks.failing_together())
                yield
            finally:
                self._under_way = None

    def called(self, module: nn.Module, parts: Iterable[nn.Module]) -> None:
        """Handle the start of the forward pass of a module with these submodules, itself included."""
        if module in self._others:
            return
        if module in self._roots:
            if not self.stepping:
                self.statistics.keep()
            return
        if not self._ids().isdisjoint(map(id, _parameters(module))):
            self._roots[module] = None
            self.discover()
        self._others.update(part for part in parts if part not in self._roots)

    def _ids(self) -> set[int]:
        return set(map(id, self.parameters()))

    def _found(self) -> tuple[list[nn.Module], list[nn.Module]]:
        """Return modules with parameters of ours, and all layers of those whose trainable parameters are all ours."""
        ours = self._ids()
        around: list[nn.Module] = []
        layers: list[nn.Module] = []
        for module in dict.fromkeys(part for root in list(self._roots) for part in root.modules()):
            parameters = list(_parameters(module))
            if not ours.isdisjoint(map(id, parameters)):
                around.append(module)
                trained = {id(parameter) for parameter in parameters if parameter.requires_grad}
                if trained and trained <= ours:
                    layers += module.modules()
        return around, layers


_parameters = nn.Module.parameters
"""Return the parameters of a module, even if its class defines a method of this name that gives something else."""


class _Listening:
    """The contexts that currently find modules, and the global hook shared by all of them.

    The hook is removed during a module's forward pass: its submodules are known, and compiled code meets no hook.
    """

    def __init__(self) -> None:
        # In order, so that all processes discover alike. Collecting a context does not remove the hook, since torch may
        # iterate over its hooks then.
        self._contexts: WeakValueDictionary[int, ModuleContext] = WeakValueDictionary()
        self._hook: RemovableHandle | None = None

    def add(self, context: ModuleContext) -> None:
        self.discard(context)  # without contexts, a hook that is left over goes, with its filter of warnings
        self._contexts[id(context)] = context
        self._register()

    def discard(self, context: ModuleContext) -> None:
        self._contexts.pop(id(context), None)
        if not self._contexts:
            self._unregister()

    def _register(self) -> None:
        if self._hook is None and self._contexts:
            self._hook = register_module_forward_pre_hook(self._called)
            warnings.filterwarnings("ignore", _HOOKS_WARNING, UserWarning)

    def _unregister(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
            for place, rule in enumerate(warnings.filters):
                if getattr(rule[1], "pattern", None) == _HOOKS_WARNING:
                    del warnings.filters[place]  # type: ignore[attr-defined]
                    break

    def _called(self, module: nn.Module, _inputs: Any) -> None:
        if torch.compiler.is_compiling():
            return
        try:
            parts = list(module.modules())
        except TypeError:  # torch cannot list modules that have no hash, such as dataclasses; those they call are found
            return
        for context in list(self._contexts.values()):
            context.called(module, parts)
        if isinstance(module, torch.jit.ScriptModule):
            return  # it cannot have hooks, and its submodules call none
        self._unregister()
        if not self._contexts:
            return
        returned: RemovableHandle

        def end(_module: nn.Module, _inputs: Any, _output: Any) -> None:
            returned.remove()
            self._register()

        returned = module.register_forward_hook(end, always_call=True)


_listening = _Listening()


def _nothing() -> None:
    """Do nothing, as what is called after each discovery unless it is set."""
