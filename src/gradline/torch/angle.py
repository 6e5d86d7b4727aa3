"""`Angle`: Schedule-Free AdamW that finds its learning rate, one gradient evaluation per step.

The optimizer that users see; `angle_steps` has what a step does, and `angle_state` its state, the average and saving.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from gradline.searches import Angle as AngleSearch
from gradline.torch.angle_state import Phase
from gradline.torch.angle_steps import AngleSteps
from gradline.torch.arguments import check_group, check_params, ignoring_lr, search_of, without_lrs
from gradline.torch.base import step_method
from gradline.torch.buckets import ORIGIN
from gradline.torch.checkpoint import SEARCH
from gradline.torch.context import ModuleContext
from gradline.torch.distributed.sharded import local
from gradline.torch.private import set_grad


class Angle(AngleSteps):
    """Schedule-Free AdamW without a learning rate: the angle after each step sets the size of the next.

    Each step needs one gradient evaluation, as Adam's does. The step is the learning rate of Schedule-Free AdamW,
    adapted by the angle between the gradient and the displacement of the parameters (see
    [`gradline.searches.Angle`][gradline.searches.Angle]). The first 12 to 20 evaluations search for the first step.
    Neither a schedule nor the length of training is needed: steps move an iterate, and the model is evaluated with the
    average of all iterates, in which late ones weigh more.

    ```python
    import torch, gradline

    torch.manual_seed(0)
    inputs = torch.randn(256, 5)
    targets = inputs.sum(dim=1, keepdim=True).sin()
    model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = gradline.Angle(model.parameters())

    for _ in range(400):
        batch = torch.randint(256, (16,))
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs[batch]), targets[batch]).backward()
        optimizer.step()

    with optimizer.eval():  # with the average
        assert torch.nn.functional.mse_loss(model(inputs), targets) < 0.1
    ```

    **Evaluate and save in `optimizer.eval()`.** It sets the parameters to the average, which has less noise than the
    points at which gradients are computed. `optimizer.train()` sets them back. `with optimizer.eval():` does both. The
    running statistics of BatchNorm fit both: those points are close to the average.

    `step(closure)` calls the closure once, then takes the step, as Adam does.

    Args:
        params: parameters or parameter groups. Groups may have their own `betas`, `eps`, `weight_decay` and `lr_scale`.
        betas: how far gradients are computed from the iterate towards the average (0: at the iterate), which takes the
            place of Adam's momentum, and the decay rate of Adam's second moment. They cannot be changed later.
        eps: Adam's term in the denominator. For parameters in float16 1e-3 or more, as for Adam: squares of small
            gradients are 0 there.
        weight_decay: decoupled weight decay, with AdamW's default: each step of size α multiplies the iterate by
            1 - α·`weight_decay`. Set it to 0 where the training loss should come close to zero.
        lr_scale: factor of the step in a group, as fine-tuning needs: 0.1 moves these parameters a tenth as far.
        average: whether `eval()` uses the average. `False`: it sets the parameters to the last accepted point.
        model: the module called in training; `None`: detect it by a forward hook before the first step. Pass it if the
            model is compiled in place (`model.compile()`) or if you call its methods instead of the module itself.
        process_group: the processes that train the model together, if that is not inferred from DDP or `fully_shard`.
        options: settings of [`gradline.searches.Angle`][gradline.searches.Angle], such as `step_first`, the first step
            that is tried. None needs to be changed.
    """

    def __init__(
        self,
        params: Any,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        lr_scale: float = 1.0,
        average: bool = True,
        model: nn.Module | None = None,
        process_group: Any = None,
        **options: Any,
    ) -> None:
        check_params(params)
        if "direction" in options:
            raise TypeError(
                f"direction must not be given (Angle is Schedule-Free AdamW): along another optimizer's updates use "
                f"gradline.LineSearchOptimizer(params, gradline.searches.Angle(), direction=...), got "
                f"{options['direction']!r}"
            )
        if type(average) is not bool:
            raise TypeError(f"average must be True or False (whether eval() uses an average), got {average!r}")
        defaults = {"lr": 0.0, "betas": betas, "eps": eps, "weight_decay": weight_decay, "lr_scale": lr_scale}
        if not isinstance(params, Tensor):
            params = without_lrs(params)
        search = search_of(AngleSearch, options, "Angle")
        context = ModuleContext(self._parameters, model, process_group)
        super().__init__(params, defaults, search, context, average=average)
        self.param_groups[0][SEARCH] = repr(self.search)  # checkpoints load only existing keys
        self._show(0.0)

    @property
    def probing(self) -> bool:
        """Whether `eval()` would move the parameters: after the first gradient, and while not in `eval()`."""
        return self._phase is not Phase.START and (self._between or not self._evaluating)

    @step_method
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step with the current gradients, or with those that the closure computes.

        If the closure raises, nothing is changed. If gradients are not finite, no step is taken; if that repeats, the
        last step is halved. The same happens, once for a step, if a gradient is more than ten times as long as usual
        and the loss increases along the last step.

        Args:
            closure: clears the gradients, computes the loss of a mini-batch, calls `backward()` on it and returns it.

        Returns:
            The closure's loss, which is that before the step, or `None` without a closure.
        """
        if self._context.stepping:
            self._refuse_in_closure("step()")
        if self._evaluating:
            self._forget_scaler()
            raise RuntimeError("the parameters are set for evaluation: call optimizer.train() before step()")
        loss = None
        if closure is not None:
            self._refuse_closure_of_scaler()
            if self._unsettled:
                self._settle()
            loss = self._evaluate(closure)
        try:
            self._advance()
        except BaseException:
            self._forget_scaler()
            raise
        return loss

    def _evaluate(self, closure: Callable[[], Any]) -> Any:
        context = self._context
        try:
            context.stepping = True
            if not context.known:
                context.discover()
            set_grad(True)
            if context.known and context.ranks.size == 1:
                return closure()
            with context.failing_together():
                return closure()
        except BaseException:
            set_grad(False)
            context.statistics.put_back()
            raise
        finally:
            context.stepping = False  # first: after the call below, an interrupt may be raised
            set_grad(False)

    @torch.no_grad()
    def restart(self) -> None:
        """Begin anew with a first search, keeping Adam's second moments.

        For a new stage of training: another data distribution, a stage of fine-tuning, parameters set to other values.
        The step, the displacement and the average are forgotten.
        """
        self._refuse_in_closure("restart()")
        self.train()
        if self._phase is Phase.FIRST:  # the parameters are at a probe
            for parameter in self._known():
                local(parameter).copy_(local(self.state[parameter][ORIGIN]))
        self._begin_anew()

    def refresh(self) -> None:
        """Search for the model again, and nothing else: this optimizer keeps no gradients."""
        self._refuse_in_closure("refresh()")
        self._context.listen()

    @torch.no_grad()
    def continue_from_here(self) -> None:
        """Begin anew from the current parameters, if other code has set them in `eval()`; else `train()` goes back."""
        self._refuse_in_closure("continue_from_here()")
        if self._evaluating and self._phase is not Phase.START:
            self._context.statistics.keep()
            self._points = {}
            self._begin_anew()

    @torch.inference_mode(False)  # train() must be able to change what is stored here
    @torch.no_grad()
    def eval(self) -> ExitStack:
        """Set the parameters to the average (without one: the last accepted point) until `train()`.

        Also a context manager: `with optimizer.eval(): ...` restores the previous mode at its end. With sharded
        parameters, call `eval()` and `train()` in all processes.
        """
        self._refuse_in_closure("eval()")
        previously = self._evaluating and not self._between
        if not previously:
            if not self._evaluating:
                self._begin_evaluation()
            try:
                self._move_to_evaluated()
            except BaseException:
                self.train()
                raise
        return self._until_exit(previously)

    @torch.no_grad()
    def train(self) -> None:
        """End `eval()`: set the parameters back to where training continues."""
        self._refuse_in_closure("train()")
        if self._evaluating:
            self._move_to_points()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group; its parameters move from the next step on."""
        self._refuse_in_closure("add_param_group()")
        param_group = ignoring_lr(param_group)
        super().add_param_group(param_group)
        try:
            check_group(self.param_groups[-1])
        except ValueError:
            self.param_groups.pop()
            raise
        self._refuse_complex(param_group)
        self._show_step()
        self._context.listen()
