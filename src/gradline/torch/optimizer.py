"""`LineSearchOptimizer`, a `torch.optim.Optimizer` whose steps a line search finds."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from gradline.driver import Driver
from gradline.protocol import Moments, Record, Search, Stop, Value, observes
from gradline.torch.arguments import check_arguments, check_decay, check_no_variances, check_spread, without_lr
from gradline.torch.context import ModuleContext
from gradline.torch.direction import DirectionFactory, SteepestDescent, Update
from gradline.torch.distributed.settings import settings_of
from gradline.torch.distributed.sharded import local, local_gradient
from gradline.torch.evaluating import Closure, Evaluator
from gradline.torch.line import Gradients
from gradline.torch.noise import Noise
from gradline.torch.private import foreach_mul_, not_compiled
from gradline.torch.sensors import MomentsSensor, Sensor, sensor_for
from gradline.torch.session import Session, Standing
from gradline.torch.states import SavedOptimizer, SearchHook

__all__ = ["LineSearchOptimizer"]


class LineSearchOptimizer(SavedOptimizer):
    """Minimise by line searches: no learning rate to choose.

    ```python
    import torch, gradline
    from gradline.searches import GolsMax

    torch.manual_seed(0)
    inputs, targets = torch.randn(64, 3), torch.randn(64, 1)
    model = torch.nn.Linear(3, 1)
    optimizer = gradline.LineSearchOptimizer(model.parameters(), GolsMax(), direction=torch.optim.Adam)

    for _ in range(20):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    ```

    **Without a closure** (`loss.backward(); optimizer.step()`) each call is one probe, on whatever batch the loop just
    used. Between calls the parameters may stand at a probe: call `optimizer.eval()` before you evaluate or save the
    model and `optimizer.train()` before you go on, or use `with optimizer.eval(): ...`.

    **With a closure** (`loss = optimizer.step(closure)`) each call is one whole search, and the parameters stand at the
    accepted point afterwards. It returns the loss of the accepted probe.

    Given the same batches, both ways take the same steps.

    **Searches that look at variances** (`Moments`, as `Prls` does) need a closure, which returns the vector of
    per-sample losses and does not call `backward()`: see [`PrLS`][gradline.PrLS].

    Args:
        params: parameters, named parameters or parameter groups, as for any torch optimizer. All groups move together,
            by one step. Groups take the options of the direction's optimizer, but no `lr`: the search finds it, and
            `group["lr"]` shows the last step.
        search: any search, for example `gradline.searches.GolsI()`.
        direction: the class of a torch optimizer, or a `functools.partial` of it: its own update becomes the direction,
            and the step found is its learning rate. It is built over the same groups. `None`: steepest descent.
        reuse_gradient: begin the next search from the accepted probe's gradient, which is already computed. `False`
            evaluates it anew at the start of each step, so that with static mini-batches the start belongs to the same
            batch as the probes. `None`: `False` for searches that compare values as they are, `True` for others.
        spread: make one probe in each call of `step`, with a closure too: for trainers that pass a closure of one batch
            and call `step` once for each. The search goes on with the next batch, as it does without a closure, and
            `eval()` and `train()` are needed as they are there.
        same_noise: let all evaluations of a `step(closure)` draw the same random numbers from torch's generators, so
            that dropout has one mask within a search. For closures of one batch; those of `batches.static` and
            `batches.full` have it without being asked.
        model: the module that is called in training (the `DistributedDataParallel` wrapper, if there is one). `None`:
            it is found, by a hook on forward passes between the construction and the first step. Give it if the model
            is compiled in place (`model.compile()`), if you call its methods rather than itself, or if the very first
            evaluation may fail on one of several processes.
        process_group: the processes that train the model together, if they cannot be inferred from
            `DistributedDataParallel` or `fully_shard`, because you average gradients yourself.
        diagonal: for searches that look at variances: see [`PrLS`][gradline.PrLS].
        allow_batch_norm: for searches that look at variances: see [`PrLS`][gradline.PrLS].
    """

    # GradScaler then calls step() after an overflow too, instead of leaving the parameters at a bad probe.
    _step_supports_amp_scaling = True

    def __init__(
        self,
        params: Any,
        search: Search[Any, Any],
        *,
        direction: DirectionFactory | None = None,
        reuse_gradient: bool | None = None,
        spread: bool = False,
        same_noise: bool = False,
        model: torch.nn.Module | None = None,
        process_group: Any = None,
        diagonal: bool = False,
        allow_batch_norm: bool = False,
    ) -> None:
        check_arguments(params, search, direction)
        check_spread(search, spread)
        sensor: Sensor
        if observes(search) is Moments:
            sensor = MomentsSensor(search, self._parameters, diagonal=diagonal, allow_batch_norm=allow_batch_norm)
        else:
            check_no_variances(search, diagonal=diagonal, allow_batch_norm=allow_batch_norm)
            sensor = sensor_for(search)(search)
        if not isinstance(params, Tensor):
            params = [without_lr(group) if isinstance(group, dict) else group for group in params]
        base = None if direction is None else direction(params, lr=1.0)
        aim = SteepestDescent() if base is None else Update(base)
        if reuse_gradient is None:
            reuse_gradient = observes(search) is not Value
        evaluator = Evaluator(sensor, self._clear, self._gradients)
        context = ModuleContext(self._parameters, model)
        self._session = Session(Driver(search), aim, evaluator, context, reuse_gradient=reuse_gradient)
        self._session.process_group = process_group
        self._session.settings = self._settings
        self.spread = spread
        self.same_noise = same_noise
        self._optimizer_search_hooks = OrderedDict()
        super().__init__(params if base is None else base.param_groups, {"lr": 0.0})
        if base is not None:  # one set of groups and one state, whoever changes them
            self.param_groups, self.state = base.param_groups, base.state
        self._held = None
        self._stepping = False
        self._told_of_lr = False
        self._told_of_change = False
        self._versions = None
        self._shown = None
        self._show_step()

    @property
    def search(self) -> Search[Any, Any]:
        """The search that finds the steps."""
        return self._session.driver.search

    @property
    def per_sample(self) -> bool:
        """Whether closures return the losses of all samples, and leave `backward()` to the optimizer."""
        return self._session.sensor.per_sample is not None

    @property
    def probing(self) -> bool:
        """Whether the parameters stand at a probe now, and not at an accepted point: see `eval()`."""
        return self._session.standing is Standing.PROBE

    @property
    def evaluations(self) -> int:
        """How many times the gradient was evaluated: closure calls, or `step()` calls without one."""
        return self._session.driver.evaluations

    @property
    def iterations(self) -> int:
        """How many searches have ended."""
        return self._session.driver.iterations

    @property
    def last(self) -> Record[Any, Any] | None:
        """The last search: its `.step`, `.evaluations`, `.stop` (a sentence) and `.transcript`; `None` at first."""
        return self._session.driver.last

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        """Make one whole search with a closure, or take one turn of it on the gradients there are.

        A failure (an exception in the closure, Ctrl-C) leaves the parameters exactly as they were before the step, and
        it can be taken again. So does a search that ended at a point that is not finite; a warning tells. A search that
        looks at slopes does not look at the loss: a NaN loss whose gradients are finite goes unseen.

        Args:
            closure: computes the loss of a batch, calls `backward()` on it and returns it. Gradients are cleared before
                each call; `zero_grad()` in it does no harm. For searches that look at variances it computes and returns
                the losses of all samples, and that is all.

        Returns:
            The loss of the accepted probe (the mean of its samples' losses; of the last probe, where none was
            accepted); `None` without a closure.
        """
        if torch.compiler.is_compiling():
            return _uncompiled(LineSearchOptimizer.step, self, closure)
        self._refuse_in_closure("step()")
        session, driver = self._session, self._session.driver
        if session.standing.evaluating:
            self._forget_scaler()
            raise RuntimeError("the parameters are at the accepted point for evaluation: call optimizer.train() first")
        if closure is not None and hasattr(self, "found_inf"):
            self._forget_scaler()
            raise RuntimeError(
                "GradScaler.step() must be called without a closure (it looks for overflows before the closure has "
                "run): call backward() before, or unscale in the closure and call step(closure) yourself"
            )
        if closure is None and session.sensor.needs_loss and not self._is_preparation():
            raise RuntimeError(
                f"{type(driver.search).__name__} compares values of one batch, which step() without a closure does "
                f"not see: call step(closure), or use a search that needs only slopes, such as GolsI"
            )
        self._look_at_lr()
        self._conform()
        if self._changed():
            self._look_at_parameters(stacklevel=6 if "step" in vars(self) else 5)
        before, mark = driver.last, session.mark()
        loss = None
        noise = None
        self._stepping = session.context.stepping = True
        try:
            session.evaluator.ranks.begin(self._settings)
            if closure is None:
                session.advance(scaled=hasattr(self, "found_inf"))
            elif self.spread:
                loss = session.advance(closure)
            else:
                if getattr(closure, "same_noise", self.same_noise):
                    noise = Noise(self._parameters())
                loss = session.run_search(closure, noise)
        except BaseException:
            self._forget_scaler()
            with torch.no_grad():  # the closure's way out may have been interrupted
                try:
                    session.rewind(mark)
                except BaseException:  # a second failure: Ctrl-C again, or torch's signal of a loader's dead worker
                    session.rewind(mark)
                    raise
            if noise is not None:  # taken again, the step sees the same noise: a part of it may have been seen
                noise.again()
            raise
        finally:
            self._stepping = session.context.stepping = False
            self._hold_buffers()
            self._show_step()
            self._note_versions()
        if driver.last is not None and driver.last is not before:
            _warn(driver.last)
            for hook in list(self._optimizer_search_hooks.values()):
                hook(driver.last)
        return loss.mean() if isinstance(loss, Tensor) and self.per_sample else loss

    def _forget_scaler(self) -> None:
        """GradScaler sets these for one step, and if it fails leaves them: the next would be divided by both scales."""
        for name in ("grad_scale", "found_inf"):
            vars(self).pop(name, None)

    def register_search_hook(self, hook: SearchHook) -> RemovableHandle:
        """Have `hook(record)` called whenever a search has ended, with what is then `optimizer.last`.

        Returns:
            A handle: `handle.remove()` ends it.
        """
        handle = RemovableHandle(self._optimizer_search_hooks)
        self._optimizer_search_hooks[handle.id] = hook
        return handle

    def eval(self) -> _EvalMode:
        """Put the last accepted point in place, to evaluate or save the model, until `train()`.

        Also a context manager: `with optimizer.eval(): ...` goes on as before at its end. What is written to the
        parameters meanwhile counts, in whatever way: the next search begins there. Where parameters are sharded, call
        `eval()` and `train()` in all processes.
        """
        self._refuse_in_closure("eval()")
        self._conform()
        session = self._session
        previously = session.standing.evaluating
        if not previously:
            self._look_at_parameters(stacklevel=3)
            if session.standing is Standing.PROBE and session.line is not None:
                with torch.no_grad():
                    session.line.home()
                session.standing = Standing.EVALUATION_FROM_PROBE
                self._note_versions()
            else:
                session.standing = Standing.EVALUATION
        return _EvalMode(self, previously)

    def train(self) -> None:
        """Go back to where the search goes on, after `eval()`."""
        self._refuse_in_closure("train()")
        self._conform()
        session = self._session
        if session.standing is Standing.EVALUATION_FROM_PROBE and session.line is not None:
            with torch.no_grad():
                if session.line.is_at(None):
                    session.to_probe()
                    session.standing = Standing.PROBE
                else:
                    session.abandon()  # the user has put the parameters elsewhere, to train on from there
            self._note_versions()
        if session.standing.evaluating:
            session.standing = Standing.ACCEPTED

    def refresh(self) -> None:
        """Evaluate the gradient anew before the next search: call it after changing or freezing parameters by hand.

        Ends a search under way at the last accepted point, or where you have put the parameters since. (Sharded
        parameters go to the accepted point in any case: change them in `with optimizer.eval():`.)
        """
        self._refuse_in_closure("refresh()")
        self._conform()
        session = self._session
        pending = session.driver.pending
        if session.line is not None and pending is not None and self.probing:
            with torch.no_grad():
                if session.line.sharded or session.line.is_at(pending.step):  # it may be called on one rank only
                    session.line.home()
        session.abandon()
        self._note_versions()
        session.context.listen()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters; they move from the next search on."""
        self._refuse_in_closure("add_param_group()")
        base = self._base
        if base is None:
            param_group = without_lr(param_group)
            check_decay(param_group)
            super().add_param_group(param_group)
        elif self.param_groups is not base.param_groups:  # while this optimizer is built, over the base's own groups
            super().add_param_group(param_group)
        else:
            param_group = without_lr(param_group)
            base.add_param_group(param_group)
        for parameter in param_group["params"]:
            if parameter.is_complex():
                self.param_groups.pop()
                raise TypeError(
                    f"parameters must be real (slopes along complex ones are not supported), got one of shape "
                    f"{tuple(parameter.shape)} and {parameter.dtype}; make torch.view_as_real of it the parameter, and "
                    f"use torch.view_as_complex of that in the model"
                )
        self._session.context.listen()
        self._show_step()

    def _note_versions(self) -> None:
        line = self._session.line
        self._versions = None if line is None else line.versions()

    def _changed(self) -> bool:
        """Whether somebody else has written to the parameters."""
        line = self._session.line
        return line is not None and self._versions is not None and line.versions() != self._versions

    def _look_at_parameters(self, stacklevel: int) -> None:
        """Where somebody has put the parameters elsewhere than at the probe, the next search begins there.

        This looks at every number. Each step asks `_changed()` before, which costs nothing and sees all but in-place
        operations on `p.data`, and sharded parameters.
        """
        session = self._session
        pending = session.driver.pending
        if session.standing is not Standing.PROBE or session.line is None or pending is None:
            return
        with torch.no_grad():
            moved = not session.line.is_at(pending.step)
        if moved:
            session.abandon()
            if not self._told_of_change:
                self._told_of_change = True
                warnings.warn(
                    "gradline: the parameters were changed since the last step: a new search begins where they are "
                    "now. To change them again and again, do it at accepted points: in `with optimizer.eval():`",
                    UserWarning,
                    stacklevel=stacklevel,
                )

    def _settings(self) -> dict[str, str]:
        """What decides on the steps: must be the same in all processes that train one model."""
        return settings_of(self.search, self._base, reuse_gradient=self._session.reuse_gradient, spread=self.spread)

    def _is_preparation(self) -> bool:
        """Whether this is the first step, on gradients of 0: `torch.distributed.checkpoint` makes the state so."""
        gradients = [local(p.grad) for p in self._parameters() if p.grad is not None]
        return bool(gradients) and not self.evaluations and not any(bool(gradient.any()) for gradient in gradients)

    def _look_at_lr(self) -> None:
        """Tell, once, whoever sets a learning rate that it does nothing."""
        shown, self._shown = self._shown, None
        if shown is not None and not self._told_of_lr and any(g["lr"] != shown for g in self.param_groups):
            self._told_of_lr = True
            warnings.warn(
                "gradline: something set group['lr'], a scheduler perhaps. It does nothing: the search finds each "
                "step, and group['lr'] only shows it. If a trainer must have a scheduler, give it gradline.NoSchedule",
                UserWarning,
                stacklevel=6 if "step" in vars(self) else 5,  # beyond torch's wrappers, and a scheduler's
            )

    def _clear(self) -> None:
        for parameter in self._parameters():
            parameter.grad = None

    def _gradients(self) -> Gradients:
        parameters, tensors = [], []
        for group in self.param_groups:
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is not None:
                    if gradient.is_sparse:
                        raise TypeError(
                            f"gradients must be dense (a slope is a sum over all entries), but a parameter of shape "
                            f"{tuple(parameter.shape)} has a sparse one; use sparse=False in its layer"
                        )
                    parameters.append(parameter)
                    tensors.append(local_gradient(parameter, gradient))
        scale = getattr(self, "grad_scale", None)
        if scale is not None:  # GradScaler leaves the division to us; the search sees an overflow as it is
            foreach_mul_(tensors, float(1.0 / scale))
        if not parameters:
            raise RuntimeError(
                "no parameter has a gradient: call loss.backward() before step(), or in the closure, "
                "on parameters that require gradients"
            )
        return Gradients(parameters, tensors)


class _EvalMode:
    """What `eval()` returns: as a context manager it goes back to the mode before."""

    def __init__(self, optimizer: LineSearchOptimizer, previously: bool) -> None:
        self._optimizer = optimizer
        self._previously = previously

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._previously:
            self._optimizer.train()


@not_compiled
def _uncompiled(step: Callable[..., Any], optimizer: LineSearchOptimizer, closure: Closure | None) -> Any:
    """A search is Python: nothing is gained by compiling it, and torch would compile pieces anew for each step."""
    return step(optimizer, closure)


def _warn(record: Record[Any, Any]) -> None:
    if record.stop in (Stop.NON_FINITE, Stop.NON_FINITE_ORIGIN):
        # The reader of the warning is five calls up, beyond torch's wrappers of step().
        warnings.warn(f"gradline: {record.stop} ({record.evaluations} probes)", RuntimeWarning, stacklevel=5)
