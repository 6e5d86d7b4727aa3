"""Arguments of `gradline.Angle`: errors name the argument, the rule, the reason and the value."""

import math

import pytest
import torch
from torch import nn

import gradline


def parameters():
    return [nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))]


BAD = [
    ("betas", (0.9,), r"two numbers in \[0, 1\) \(Schedule-Free's interpolation"),
    ("betas", (0.9, 1.0), "two numbers"),
    ("betas", (-0.1, 0.9), "two numbers"),
    ("betas", ("a", 0.9), "two numbers"),
    ("betas", 0.9, "two numbers"),
    *(
        (name, value, r"a finite number of at least 0 \(it ")
        for name in ("eps", "weight_decay", "lr_scale")
        for value in (-1.0, math.nan, math.inf, None, "0.1")
    ),
]


@pytest.mark.parametrize(("name", "value", "rule"), BAD)
def test_bad_values_are_refused(name, value, rule):
    with pytest.raises(ValueError, match=rf"^{name} must be {rule}.*, got ") as caught:
        gradline.Angle(parameters(), **{name: value})
    assert str(caught.value).endswith(f"got {value!r}")
    with pytest.raises(ValueError, match=rf"^{name} must be"):
        gradline.Angle([{"params": parameters(), name: value}])


def test_a_bad_group_is_not_added():
    optimizer = gradline.Angle(parameters())
    for bad in ({"weight_decay": -1.0}, {"betas": ("a", "b")}, {"lr_scale": None}):
        with pytest.raises(ValueError, match="must be"):
            optimizer.add_param_group({"params": parameters(), **bad})
    with pytest.raises(TypeError, match="parameters must be real"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2, dtype=torch.complex64))]})
    assert len(optimizer.param_groups) == 1


def test_a_learning_rate_is_refused():
    for build in (
        lambda: gradline.Angle(parameters(), lr=0.1),
        lambda: gradline.Angle([{"params": parameters(), "lr": 0.1}]),
    ):
        with pytest.raises(
            ValueError, match=r"^lr.* must be None or not given \(the search finds the step; .*got 0\.1"
        ):
            build()
    assert gradline.Angle(parameters(), lr=None).param_groups[0]["lr"] == 0.0


@pytest.mark.parametrize("build", [gradline.Angle, gradline.GOLSI])
def test_the_learning_rate_of_an_added_group_has_no_effect_and_a_warning_says_so(build):
    """Trainers pass one that nobody has chosen."""
    optimizer = build(parameters())
    given = {"params": parameters(), "lr": 0.1}
    with pytest.warns(
        UserWarning, match=r"lr of an added parameter group has no effect .* set lr_scale, .*got 0\.1$"
    ) as told:
        optimizer.add_param_group(given)
    assert told[0].filename == __file__
    assert given["lr"] == 0.1
    optimizer.add_param_group({"params": parameters(), "lr": None})
    assert [group["lr"] for group in optimizer.param_groups] == [0.0] * 3


def test_another_direction_is_refused_with_a_hint():
    with pytest.raises(TypeError, match=r"^direction must not be given .*LineSearchOptimizer\(params, .*direction="):
        gradline.Angle(parameters(), direction=torch.optim.SGD)


@pytest.mark.parametrize("name", ["momentum", "amsgrad", "maximize", "foreach", "fused", "capturable", "power"])
@pytest.mark.parametrize("build", [gradline.Angle, gradline.GOLSI, gradline.PrLS])
def test_unknown_options_are_refused(build, name):
    rule = "given to a direction" if name == "momentum" and build is not gradline.Angle else "left out"
    with pytest.raises(TypeError, match=rf"^{name} must be {rule} \(.*\).*, got 1$") as caught:
        build(parameters(), **{name: 1})
    assert rule != "left out" or f"{build.__name__} has no such option" in str(caught.value)
    assert rule != "left out" or "step_" in str(caught.value) or "max_probes" in str(caught.value)


@pytest.mark.parametrize("build", [gradline.Angle, gradline.GOLSI])
@pytest.mark.parametrize("wrong", [nn.Linear, parameters(), "model"])
def test_a_model_must_be_a_module(build, wrong):
    with pytest.raises(TypeError, match=r"^model must be a module, the one called in training, or None \(.*\), got "):
        build(parameters(), model=wrong)


def test_settings_of_the_search_are_checked():
    with pytest.raises(ValueError, match=r"step_first must be between .* got 0"):
        gradline.Angle(parameters(), step_first=0.0)
    assert gradline.Angle(parameters(), step_first=0.5).search == gradline.searches.Angle(step_first=0.5)


def test_average_is_true_or_false():
    with pytest.raises(TypeError, match=r"^average must be True or False \(.*\), got 1$"):
        gradline.Angle(parameters(), average=1)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (nn.Linear(2, 1), TypeError, r"not a model: write model\.parameters\(\)"),
        (torch.optim.SGD(parameters(), lr=0.1), TypeError, "not an optimizer"),
        ([], ValueError, "empty parameter list"),
        (torch.ones(2), TypeError, "params argument given to the optimizer should be an iterable"),
        ([torch.ones(2)[0] * parameters()[0]], ValueError, "non-leaf"),
        ([nn.Parameter(torch.ones(2, dtype=torch.complex64))], TypeError, "parameters must be real"),
        ([1.0], TypeError, "optimizer can only optimize Tensors"),
    ],
)
def test_parameters_of_wrong_kinds_are_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        gradline.Angle(wrong)


def test_groups_take_the_defaults_and_names_may_be_given():
    first, second = parameters()
    optimizer = gradline.Angle(
        [{"params": [("a", first)], "weight_decay": 0.5}, {"params": [("b", second)], "lr_scale": 0.1}],
        betas=(0.5, 0.6),
    )
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.5, 0.01]  # AdamW's default
    assert [group["lr_scale"] for group in optimizer.param_groups] == [1.0, 0.1]
    assert {group["betas"] for group in optimizer.param_groups} == {(0.5, 0.6)}
    assert "lr_scale: 0.1" in repr(optimizer)
    assert "weight_decay: 0.5" in repr(optimizer)


def test_setting_the_learning_rate_does_nothing_and_one_warning_tells():
    optimizer = gradline.Angle(parameters())

    def step():
        for parameter in optimizer.param_groups[0]["params"]:
            parameter.grad = parameter.detach().clone()
        optimizer.step()

    with pytest.warns(UserWarning, match=r"something set group\['lr'\]"):
        optimizer.param_groups[0]["lr"] = 3.0
    assert optimizer.param_groups[0]["lr"] == 0.0
    step()
    optimizer.param_groups[0]["lr"] = 3.0
    assert optimizer.param_groups[0]["lr"] == optimizer.last.step


def test_sparse_gradients_and_none_are_refused():
    layer = nn.Embedding(4, 2, sparse=True)
    optimizer = gradline.Angle(layer.parameters())
    with pytest.raises(RuntimeError, match="no parameter has a gradient"):
        optimizer.step()
    layer(torch.tensor([1])).sum().backward()
    with pytest.raises(TypeError, match=r"gradients must be dense .* use sparse=False"):
        optimizer.step()
    assert optimizer.evaluations == 0


def test_a_flat_loss_is_told_once():
    optimizer = gradline.Angle(parameters())

    def steps(count, value):
        for _ in range(count):
            for parameter in optimizer.param_groups[0]["params"]:
                parameter.grad = torch.full_like(parameter, value)
            optimizer.step()

    steps(19, 0.0)
    steps(1, 1.0)  # counted anew after each gradient
    steps(19, 0.0)
    with pytest.warns(RuntimeWarning, match=r"last 20 gradients were exactly zero.*frozen, detached") as told:
        steps(1, 0.0)
    assert told[0].filename == __file__
    steps(100, 0.0)
    assert optimizer.evaluations == 121
