"""The private names of other packages: each does what is asked of it, and each is in one file."""

import re
from pathlib import Path

import pytest
import torch

import gradline
from gradline.torch import private

SOURCES = sorted(Path(gradline.__file__).parent.rglob("*.py"))
PRIVATE = re.compile(
    r"(?<![.\w])torch\._[a-z]|\bfrom torch[\w.]*(\._| import _)|\._(version|modules|parameters|buffers|BatchNorm"
    r"|execution_engine|pre_forward|post_forward|logger_connector|skip_backward)\b"
)


def test_no_private_name_of_torch_or_lightning_is_used_elsewhere():
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in SOURCES
        if "private" not in path.name
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if PRIVATE.search(line) and "self._" not in line
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ["copy_", "add_", "sub_", "mul_", "div_", "neg_", "zero_", "lerp_"])
def test_a_kernel_for_many_tensors_does_what_the_method_of_one_does(name):
    tensors, others = [torch.rand(3), torch.rand(2, 2)], [torch.rand(3), torch.rand(2, 2)]
    operands = {"neg_": (), "zero_": (), "mul_": (0.5,), "div_": (0.5,), "lerp_": (others, 0.25)}.get(name, (others,))
    options = {"alpha": 0.3} if name == "add_" else {}
    mine = [tensor.clone() for tensor in tensors]
    getattr(private, f"foreach_{name}")(mine, *operands, **options)
    for place, tensor in enumerate(tensors):
        own = [operand[place] if isinstance(operand, list) else operand for operand in operands]
        torch.testing.assert_close(mine[place], getattr(tensor.clone(), name)(*own, **options))


def test_lengths():
    tensors = [torch.rand(3), torch.rand(2, 2)]
    expected = list(map(torch.linalg.vector_norm, tensors))
    torch.testing.assert_close(private.foreach_norm(tensors, torch.float32), expected)


def test_a_version_grows_with_in_place_operations():
    x = torch.zeros(2)
    before = private.version(x)
    x.add_(1.0)
    assert private.version(x) > before


def test_versions_are_set_back():
    x = torch.zeros(2)
    before = private.version(x)
    with private.same_versions((x,)):
        x.add_(1.0)
    assert private.version(x) == before
    assert private.same_versions((x,)).prev_versions == (before,)


def test_batch_norms_have_one_class():
    assert issubclass(torch.nn.BatchNorm1d, private.BatchNorm)
    assert issubclass(torch.nn.SyncBatchNorm, private.BatchNorm)
    assert not issubclass(torch.nn.GroupNorm, private.BatchNorm)


def test_what_happens_when_a_backward_pass_ends():
    x, ended = torch.ones(2, requires_grad=True), []
    y = x * 2
    y.register_hook(lambda _: private.when_backward_ends(lambda: ended.append(x.grad is not None)))
    y.sum().backward()
    assert ended == [True]


def test_leaves_of_a_nest():
    assert list(private.leaves({"a": [1, (2, 3)], "b": 4})) == [1, 2, 3, 4]


def test_a_function_that_is_not_compiled():
    calls = []
    function = private.not_compiled(lambda: calls.append(torch.compiler.is_compiling()))
    torch.compile(lambda: function(), backend="eager")()
    assert calls == [False]


def test_gradients_are_switched_on_and_off():
    before = torch.is_grad_enabled()
    try:
        for enabled in (False, True):
            private.set_grad(enabled)
            assert torch.is_grad_enabled() is enabled
    finally:
        torch.set_grad_enabled(before)
