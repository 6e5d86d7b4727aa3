"""`LineSearchOptimizer`: a `torch.optim.Optimizer` that finds its step sizes by a line search."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

from gradline.driver import Driver
from gradline.protocol import Moments, Search, Value, observes
from gradline.torch.arguments import (
    check_arguments,
    check_decay,
    check_no_variances,
    check_spread,
    ignoring_lr,
    without_lrs,
)
from gradline.torch.base import caller, step_method, warn_of
from gradline.torch.checkpoint import SEARCH
from gradline.torch.context import ModuleContext
from gradline.torch.direction import DirectionFactory, SteepestDescent, Update
from gradline.torch.distributed.settings import settings_of
from gradline.torch.distributed.sharded import local
from gradline.torch.integrations.lightning_private import accumulated_batches
from gradline.torch.per_sample import MomentsSensor
from gradline.torch.sensors import Sensor, sensor_for
from gradline.torch.session import Closure, Session, Standing
from gradline.torch.snapshot import Noise
from gradline.torch.states import SavedOptimizer


class LineSearchOptimizer(SavedOptimizer):
    """Optimizer that finds the size of each step by a line search, so that no learning rate has to be chosen.

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

    **Without a closure** (`loss.backward(); optimizer.step()`) each call is one probe: it uses the gradients of the
    mini-batch just evaluated. Between calls the parameters may be at a probe instead of an accepted point: call
    `optimizer.eval()` before evaluating or saving the model and `optimizer.train()` before training continues, or use
    `with optimizer.eval(): ...`.

    **With a closure** (`loss = optimizer.step(closure)`) each call is one whole search. It returns the loss of the
    accepted probe and leaves the parameters at the accepted point.

    Given the same mini-batches, both modes take the same steps.

    **Searches that need variances** (`Moments`, for example `Prls`) need a closure that returns the vector of
    per-sample losses and does not call `backward()`: see [`PrLS`][gradline.PrLS].

    Args:
        params: parameters, named parameters or parameter groups, as for any torch optimizer. One step size is used for
            all groups. Groups take the options of the direction's optimizer except `lr`: the search finds it, and
            `group["lr"]` holds the last step.
        search: the line search, for example `gradline.searches.GolsI()`.
        direction: a torch optimizer class, or a `functools.partial` of it, built over the same groups. Its update per
            unit of learning rate is the direction, so that the step is its learning rate. `None`: steepest descent.
        reuse_gradient: start the next search from the gradient of the accepted probe, which is already computed.
            `False`: evaluate the gradient again at the start of each step, so that with static sampling it comes from
            the same mini-batch as the probes. `None`: `False` for searches on `Value`, `True` for all others.
        spread: make one probe per call of `step(closure)` instead of a whole search, for trainers that pass a new
            closure for each mini-batch. Between calls the parameters may be at a probe: use `eval()` and `train()` as
            without a closure.
        same_noise: reset torch's random number generators before each evaluation of a `step(closure)`, so that dropout
            uses one mask per search. Meant for closures over one mini-batch; closures of `batches.static` and
            `batches.full` always do this.
        model: the module called in training (the `DistributedDataParallel` wrapper, if there is one). `None`: detect it
            by a forward hook between construction and the first step. Pass it if the model is compiled in place
            (`model.compile()`), if you call its methods instead of the module itself, or if the first evaluation may
            fail on one of several processes.
        process_group: the processes that train the model together. Needed only if you average gradients yourself;
            otherwise it is inferred from `DistributedDataParallel` or `fully_shard`.
        diagonal: for searches that need variances: see [`PrLS`][gradline.PrLS].
        allow_batch_norm: for searches that need variances: see [`PrLS`][gradline.PrLS].
    """

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
        check_arguments(params, direction)
        driver = Driver(search)
        check_spread(search, spread)
        sensor: Sensor
        if observes(search) is Moments:
            sensor = MomentsSensor(search, self._parameters, diagonal=diagonal, allow_batch_norm=allow_batch_norm)
        else:
            check_no_variances(search, diagonal=diagonal, allow_batch_norm=allow_batch_norm)
            sensor = sensor_for(search)(search)
        if not isinstance(params, Tensor):
            params = without_lrs(params)
        base = None if direction is None else direction(params, lr=1.0)
        aim = SteepestDescent() if base is None else Update(base)
        if reuse_gradient is None:
            reuse_gradient = observes(search) is not Value
        context = ModuleContext(self._parameters, model, process_group)
        self._session = Session(
            driver, aim, sensor, context, self._gradients, self._settings, reuse_gradient=reuse_gradient
        )
        self.spread = spread
        self.same_noise = same_noise
        self._optimizer_search_hooks = OrderedDict()
        super().__init__(params if base is None else base.param_groups, {"lr": 0.0})
        if base is not None:  # share groups and state, so that changes of either count for both
            self.param_groups, self.state = base.param_groups, base.state
        self._held = None
        self._told_of_change = False
        self._versions = None
        self.param_groups[0][SEARCH] = repr(search)  # checkpoints load only existing keys
        self._show_step()

    @property
    def per_sample(self) -> bool:
        """Whether closures must return per-sample losses and must not call `backward()`."""
        return self._session.sensor.per_sample

    @property
    def probing(self) -> bool:
        """Whether the parameters are at a probe instead of an accepted point: see `eval()`."""
        return self._session.standing is Standing.PROBE

    @step_method
    def step(self, closure: Closure | None = None) -> Any:
        """Perform one whole search with a closure, or one probe with the current gradients without one.

        If the closure raises, or on Ctrl-C, the parameters are restored to their values before the call, and `step` can
        be called again. A search that ends at a non-finite point issues a warning and changes nothing. Searches that
        use only slopes do not check the loss: a NaN loss with finite gradients is not detected.

        Args:
            closure: computes the loss of a mini-batch, calls `backward()` on it and returns it. Gradients are cleared
                before each call; calling `zero_grad()` in it is harmless. For searches that need variances it returns
                the per-sample losses and does not call `backward()`.

        Returns:
            The loss of the accepted probe (the mean, for per-sample losses; the loss of the last probe if none was
            accepted), or `None` without a closure.
        """
        session, driver = self._session, self._session.driver
        if session.context.stepping:
            self._refuse_in_closure("step()")
        if session.standing.evaluating:
            self._forget_scaler()
            raise RuntimeError("the parameters are at the accepted point for evaluation: call optimizer.train() first")
        if closure is None:
            if session.sensor.needs_loss and not self._is_preparation():
                raise RuntimeError(
                    f"{type(driver.search).__name__} compares values of one batch, which step() without a closure does "
                    f"not see: call step(closure), or use a search that needs only slopes, such as GolsI"
                )
        else:
            self._refuse_closure_of_scaler()
            if not self.spread and (count := accumulated_batches(closure)) > 1:
                raise ValueError(
                    f"accumulate_grad_batches must be 1 for a {type(self).__name__} that makes a whole search in each "
                    f"step (Lightning lets it evaluate the last of the batches only), got {count}. Build the optimizer "
                    f"with spread=True: then each step is one probe, on all of the batches"
                )
        self._conform()
        if session.standing is Standing.PROBE and self._changed():
            self._look_at_parameters()
        before, mark = driver.state.last, session.mark()
        loss = None
        noise = None
        session.context.stepping = True
        try:
            session.context.ranks.begin(self._settings)
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
            with torch.no_grad():  # the closure's exit may have been interrupted
                try:
                    session.rewind(mark)
                except BaseException:  # a second failure: Ctrl-C again, or torch's signal of a loader's dead worker
                    session.rewind(mark)
                    raise
            if noise is not None:  # repeated, the step draws the same random numbers
                noise.again()
            raise
        finally:
            session.context.stepping = False
            self._hold_buffers()
            self._note_versions()
            last = driver.state.last
            if last is not before:
                self._show_step()
        if last is not None and last is not before:
            warn_of(last)
            self._call_hooks(last)
        return loss.mean() if isinstance(loss, Tensor) and self.per_sample else loss

    def eval(self) -> ExitStack:
        """Set the parameters to the last accepted point, for evaluating or saving the model, until `train()`.

        Also a context manager: `with optimizer.eval(): ...` restores the previous mode at its end. If the parameters
        are changed in this mode, the next search starts from the changed values. With sharded parameters, call `eval()`
        and `train()` in all processes.
        """
        self._refuse_in_closure("eval()")
        self._conform()
        session = self._session
        previously = session.standing.evaluating
        if not previously:
            self._look_at_parameters()
            if session.standing is Standing.PROBE and session.line is not None:
                with torch.no_grad():
                    session.line.home()
                session.standing = Standing.EVALUATION_FROM_PROBE
                self._note_versions()
            else:
                session.standing = Standing.EVALUATION
        return self._until_exit(previously)

    def train(self) -> None:
        """End `eval()`: set the parameters back to the current probe, if there is one, to continue training."""
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
        """Discard the current search and evaluate the gradient again; call it after changing or freezing parameters.

        The next search starts from the last accepted point, or from the current parameters if they were changed since
        the last probe. Sharded parameters always return to the accepted point: change them in `with optimizer.eval():`.
        """
        self._refuse_in_closure("refresh()")
        self._conform()
        session = self._session
        pending = session.driver.pending
        if session.line is not None and pending is not None and self.probing:
            with torch.no_grad():
                if session.line.sharded or session.line.is_at(pending.step):  # refresh() may be called on one rank only
                    session.line.home()
        session.abandon()
        self._note_versions()
        session.context.listen()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group; its parameters are updated from the next search on."""
        self._refuse_in_closure("add_param_group()")
        base = self._base
        if base is None:
            param_group = ignoring_lr(param_group)
            check_decay(param_group)
            super().add_param_group(param_group)
        elif self.param_groups is not base.param_groups:  # while this optimizer is built, over the base's own groups
            super().add_param_group(param_group)
        else:
            param_group = ignoring_lr(param_group)
            base.add_param_group(param_group)
        self._refuse_complex(param_group)
        self._session.context.listen()
        self._show_step()

    def _note_versions(self) -> None:
        line = self._session.line if self._session.standing is Standing.PROBE else None
        self._versions = None if line is None else line.versions()

    def _changed(self) -> bool:
        """Whether the version counters show writes by other code to parameters that are at a probe."""
        line = self._session.line
        return line is not None and self._versions is not None and line.versions() != self._versions

    def _look_at_parameters(self) -> None:
        """Discard the search if the parameters are not at its probe; the next search then starts from them.

        Compares every parameter value. `step` calls it only if `_changed()`, which is cheap and detects all changes
        except in-place operations on `p.data` and those of sharded parameters.
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
                    stacklevel=caller(),
                )

    def _settings(self) -> dict[str, str]:
        """Settings that determine the steps: they must be equal in all processes that train one model."""
        return settings_of(self.search, self._base, reuse_gradient=self._session.reuse_gradient, spread=self.spread)

    def _is_preparation(self) -> bool:
        """Whether this is the zero-gradient step by which `torch.distributed.checkpoint` creates optimizer state."""
        gradients = [local(p.grad) for p in self._parameters() if p.grad is not None]
        return bool(gradients) and not self.evaluations and not any(bool(gradient.any()) for gradient in gradients)
