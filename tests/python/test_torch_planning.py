"""Plans of PyTorch modules without processes: what a batch may have, what optimizers keep, and what is refused in one line."""

import functools

import pytest

torch = pytest.importorskip("torch")

import torch.nn as nn
import torch.nn.functional as F

import cleave.torch as ct
from cleave import UserError

BATCH = torch.randn(8, 12), torch.randint(7, (8,))
MESH = dict(mesh=(2, 2), axes=("data", "model"), time_limit=2)


class Net(nn.Module):
    """A layer, and a function of it and of what it is given."""

    def __init__(self, function=lambda own, *given: own.layer(*given)):
        super().__init__()
        self.layer, self.function = nn.Linear(12, 7), function

    def forward(self, *given):
        return self.function(self, *given)


def planned(model=None, loss=F.cross_entropy, batch=BATCH, **options):
    return ct.plan(Net() if model is None else model, loss, batch, **{**MESH, **options})


def refused(words, *args, **options):
    with pytest.raises(UserError, match=words) as found:
        planned(*args, **options)
    assert "\n" not in str(found.value)


def with_range(own, x):
    with torch.profiler.record_function("the layer"):
        return own.layer(x)


def test_ranges_of_the_profiler_are_left_out():
    assert planned(Net(with_range)).placements.keys() == planned().placements.keys()
    assert "profiler" not in ct.export(Net(with_range), BATCH[:1])


def test_constants_of_a_batch_are_part_of_the_step():
    def loss(model, x, target, weight, mask, kind):
        assert mask is None and kind == "sum"
        return weight * F.cross_entropy(model(x), target, reduction=kind)
    found = planned(loss=loss, batch=(*BATCH, 2.0, None, "sum"))
    assert [name for name in found.placements if name.startswith("batch")] == ["batch.0", "batch.1"]
    step = found._traced.step
    assert step.tensors_of([*BATCH, 2.0, None, "sum"]) == list(BATCH)
    for wrong, words in (((*BATCH, 3.0, None, "sum"), "leaf 2 of the batch was planned as 2.0, which is a part of the step, and is now 3.0"),
                         ((*BATCH, 2.0, BATCH[0], "sum"), "leaf 3 of the batch was planned as None, .* is now a tensor"),
                         ((*BATCH, 2, None, "sum"), "leaf 2 .* is now 2:")):
        with pytest.raises(UserError, match=words):
            step.tensors_of(list(wrong))
    refused("leaf 2 of the example batch is a dict_keys; a step takes tensors", loss=lambda model, x, y, k: 0, batch=(*BATCH, {}.keys()))


def test_what_optimizers_keep():
    def kept(optimizer):
        return ct.planning.slots_of(optimizer)
    parameters = [nn.Parameter(torch.zeros(2))]
    optim = torch.optim
    assert [kept(one) for one in ("adamw", optim.SGD, None, 5, optim.Rprop, optim.ASGD)] == [2, 0, 0, 5, 2, 1]
    assert [kept(one) for one in (optim.AdamW(parameters), optim.AdamW(parameters, amsgrad=True), optim.SGD(parameters, momentum=0.9),
                                  optim.RMSprop(parameters), optim.RMSprop(parameters, momentum=0.1, centered=True))] == [2, 3, 1, 1, 3]
    assert kept(functools.partial(optim.SGD, lr=0.1, momentum=0.9)) == 1 and kept(functools.partial(optim.Adam, lr=0.1)) == 2
    refused("the optimizer lbfgs is not known", optimizer=optim.LBFGS)


def test_hidden_parameters_are_constants_of_a_forward_pass_alone():
    hidden = torch.ones(7, requires_grad=True)
    model = Net(lambda own, x: own.layer(x) * hidden)
    refused(r"uses a tensor \[7\] that requires a gradient and is no parameter of the model; make it one", model)
    assert planned(model.eval(), loss=None, batch=BATCH[:1]).placements


def test_modules_that_are_wrapped_are_refused():
    refused(r"was compiled already; plan the module itself \(model._orig_mod\)", torch.compile(Net()))
    refused(r"a DataParallel splits the batch itself; plan the module in it \(model.module\)", nn.DataParallel(Net()))


def test_what_depends_on_numbers_is_refused():
    def branches(own, x):
        y = own.layer(x)
        return y if y.sum() > 0 else -y
    hint = r"a size or a decision depends on the numbers of a tensor .* use masks \(torch.where\) or known sizes$"
    refused(hint, Net(branches))
    refused(hint, Net(lambda own, x: own.layer(x[x[:, 0] > 0])), loss=lambda output, target: output.sum())


def test_changes_in_place_are_refused_by_name():
    def changes(own, x):
        x.add_(1)
        return own.layer(x)
    refused("the step changes batch.0 in place, .* let it change a copy", Net(changes))
    refused("the step changes layer.weight in place", Embeds(), batch=(BATCH[1], BATCH[1]))


class Embeds(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Embedding(7, 7, max_norm=1.0)

    def forward(self, tokens):
        return self.layer(tokens)


def test_arguments_of_another_kind_are_refused(tmp_path):
    refused("pins are layouts by the names of parameters, .* not a list", pins=[("layer.weight", None)])
    refused('the pin of layer.weight names the axis "tensor", and the mesh has data, model$', pins={"layer.weight": ("tensor", None)})
    refused('the pin of layer.\\* names the axis "model" twice', pins={"layer.*": (("data", "model"), "model")})
    planned(mesh=(4,), axes=("x",)).save(str(tmp_path / "plan.json"))
    refused("plan.json is for the mesh x=4, and the mesh is data=2, model=2; plan again", plan=tmp_path / "plan.json")
    assert planned(mesh="x=4", axes=None, plan=tmp_path / "plan.json").mesh_shape == (4,)
