"""Find known layers in the autograd graph of per-sample losses, with operations between them that do not mix samples.

No model is needed, and weights that are used twice, inside another function or not at all are detected. Operations are
allowed by name, each with a rule which ensures that rows (dimension 0) are samples and do not mix. An unknown operation
ends the search, so that a graph may be rejected needlessly but never accepted wrongly. BatchNorm in training mode,
which mixes samples, is found in any graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gradline.torch.moments.layers import Convolution, Dense, Layer
from gradline.torch.private import BatchNorm, version

_LEAF = "AccumulateGrad"
_REASON = (
    "in training mode it makes each loss depend on the whole batch, so per-sample slopes are not defined and their "
    "variance is not that of the mean"
)
_REMEDY = "put it in eval mode, or use GroupNorm or LayerNorm"


def find_layers(losses: Tensor, parameters: Sequence[Tensor]) -> list[Layer] | None:
    """Return the layers that contain all uses of the parameters, or `None` if the graph has unknown operations."""
    size = losses.shape[0]
    places = {id(parameter): place for place, parameter in enumerate(parameters)}
    layers: list[Layer] = []
    seen: set[Any] = set()
    waiting: list[tuple[Any, int]] = [(losses.grad_fn, 1)]  # a node and the dimensions its output must have (0: any)
    while waiting:
        node, dimensions = waiting.pop()
        name = type(node).__name__
        if name == _LEAF:
            if id(node.variable) in places:
                return None
            continue  # not one of our parameters, and a leaf
        shape = _shape(node)
        if not shape or shape[0] != size or (dimensions and len(shape) != dimensions):
            return None
        if node in seen:
            continue
        seen.add(node)
        if name in _LAYERS:
            layer = _layer(node, places)
            if layer is None:
                return None
            if layer.weight is not None or layer.bias is not None:
                layers.append(layer)
            source = node.next_functions[_LAYERS[name].source][0]
            if source is not None:
                waiting.append((source, len(shape)))
            continue
        rule = _RULES.get(name)
        if rule is None:
            return None
        for source, _ in node.next_functions:
            if source is not None:
                needed = rule(node, shape, source)
                if needed is None:
                    return None
                waiting.append((source, needed))
    return layers


def refuse_batch_norm(model: nn.Module) -> None:
    """Raise an error if a model has BatchNorm in training mode; for graphs that hide it, such as compiled ones."""
    for name, module in model.named_modules():
        if isinstance(module, BatchNorm) and (module.training or module.running_mean is None):
            raise ValueError(
                f"model must have no BatchNorm that is training ({_REASON}), but {name or 'it'} is a "
                f"{type(module).__name__}; {_REMEDY}"
            )


def find_batch_norm(losses: Tensor) -> str | None:
    """Return the name of a BatchNorm node that uses batch statistics in the graph of the losses, or `None`."""
    size = losses.shape[0]
    seen: set[Any] = set()
    waiting: list[Any] = [losses.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        name = type(node).__name__
        if "BatchNorm" in name and getattr(node, "_saved_training", True) and not _by_instance(node, size):
            return name
        waiting.extend(source for source, _ in node.next_functions)
    return None


def batch_norm_error(name: str) -> ValueError:
    """Return the error for losses whose samples mix."""
    return ValueError(
        f"losses must be computed without BatchNorm that is training ({_REASON}), but their graph has a {name}; "
        f"{_REMEDY}, or pass allow_batch_norm=True"
    )


def _by_instance(node: Any, size: int) -> bool:
    """Whether a node is InstanceNorm, which normalises one batch of B·C channels and does not mix samples."""
    shape = _shape(node)
    return size > 1 and len(shape) > 1 and shape[0] == 1 and shape[1] % size == 0


def _shape(node: Any) -> tuple[int, ...]:
    """Return the shape of the first output of a node; empty if unknown."""
    outputs: Sequence[Any] = getattr(node, "_input_metadata", ())
    return tuple(outputs[0].shape) if outputs else ()


def _leaf(node: Any, places: dict[int, int]) -> tuple[bool, int | None]:
    """Return whether an argument is a leaf or a constant, and its index if it is one of our parameters."""
    if node is None:
        return True, None
    if type(node).__name__ == _LEAF:
        return True, places.get(id(node.variable))
    return False, None


class _Operands(NamedTuple):
    """Places of a layer's operands among those of its node, and the name of its saved input."""

    source: int
    weight: int
    bias: int | None
    saved: str


_LAYERS = {
    "AddmmBackward0": _Operands(1, 2, 0, "_saved_mat1"),
    "MmBackward0": _Operands(0, 1, None, "_saved_self"),
    "ConvolutionBackward0": _Operands(0, 1, 2, "_saved_input"),
}
_OPTIONS = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
_NOTHING = torch.empty(0)


def _layer(node: Any, places: dict[int, int]) -> Layer | None:
    """Return the layer of a node, or `None` if its weight or bias is neither a leaf nor a constant."""
    name = type(node).__name__
    form = _LAYERS[name]
    operands = [operand for operand, _ in node.next_functions]
    matrix: Any = operands[form.weight]
    bias: Any = None if form.bias is None else operands[form.bias]
    transposed = type(matrix).__name__ != "TBackward0"
    known, weight = _leaf(matrix if transposed else matrix.next_functions[0][0], places)
    plain, offset = _leaf(bias, places)
    inputs = _NOTHING if weight is None else getattr(node, form.saved)
    if not known or not plain or not isinstance(inputs, Tensor):
        return None
    common = node, inputs.detach(), weight, offset, version(inputs)
    if name == "ConvolutionBackward0":
        return Convolution(*common, tuple(getattr(node, f"_saved_{option}") for option in _OPTIONS))
    if any(getattr(node, f"_saved_{factor}", 1) != 1 for factor in ("alpha", "beta")):
        return None
    if offset is not None and bias.variable.shape != _shape(node)[1:]:
        return None  # a bias of another shape is summed differently
    return Dense(*common, transposed)


# Rules: given a node, the shape of its output and one of its inputs, how many dimensions that input must have (0: any,
# as long as the first one counts the samples); None: samples may mix.


def _pointwise(node: Any, shape: tuple[int, ...], source: Any) -> int | None:
    """Require the same number of dimensions, so that broadcasting keeps the first dimension."""
    return len(shape)


def _reshaped(node: Any, shape: tuple[int, ...], source: Any) -> int | None:
    """Require the same first dimension: views keep the order of elements, so samples stay in their rows."""
    return 0


def _along(node: Any, shape: tuple[int, ...], source: Any) -> int | None:
    """Require that the operation works along other dimensions than the first."""
    before = _shape(source)
    saved = node._saved_dim
    dims = saved if isinstance(saved, tuple) else (saved,)
    if not before or any(_signed(dim) % len(before) == 0 for dim in dims):
        return None
    return len(before)


def _sliced(node: Any, shape: tuple[int, ...], source: Any) -> int | None:
    """As `_along`, or a slice of all of its input."""
    return len(shape) if _shape(source) == shape else _along(node, shape, source)


def _signed(number: int) -> int:
    """Convert a dimension, which autograd saves as an unsigned 64-bit number, to a signed one."""
    return number - 2**64 if number >= 2**63 else number


def _named(rule: Callable[[Any, tuple[int, ...], Any], int | None], names: str) -> dict[str, Any]:
    return dict.fromkeys((f"{name}Backward{version}" for name in names.split() for version in range(5)), rule)


_RULES: dict[str, Callable[[Any, tuple[int, ...], Any], int | None]] = {
    **_named(
        _pointwise,
        "Relu Tanh Sigmoid LeakyRelu Elu Celu Selu Gelu Silu Mish Softplus LogSigmoid Hardtanh Hardswish Hardsigmoid "
        "Threshold Clamp ClampMin Exp Expm1 Log Log1P Neg Abs Sin Cos Sqrt Rsqrt Reciprocal Erf Pow Add Sub Rsub Mul "
        "Div NativeDropout Clone ToCopy MseLoss SmoothL1Loss HuberLoss SoftMarginLoss BinaryCrossEntropy "
        "BinaryCrossEntropyWithLogits KlDiv MaskedFill Where MaxPool2DWithIndices AvgPool2D AvgPool3D "
        "AdaptiveAvgPool2D",
    ),
    **_named(_reshaped, "View UnsafeView ReshapeAlias Squeeze Unsqueeze NllLoss NllLoss2D"),
    **_named(_along, "Sum Mean Logsumexp LogSoftmax Softmax Gather Select"),
    **_named(_sliced, "Slice"),
}
