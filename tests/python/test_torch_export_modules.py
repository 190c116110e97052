"""Modules from plain torch.nn export, run in Cleave, and equal PyTorch, whole and split in random ways."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch.utils import _pytree as pytree

import cleave
from cleave.torch.exporting import exported
from torch_modules import MODULES, example
from torch_samples import as_numpy, difference


def inputs_of(module, args):
    tensors = [p.detach() for p in module.parameters()] + [b.detach().clone() for b in module.buffers()]
    return [as_numpy(t).copy() for t in tensors + [a for a in pytree.tree_leaves(args) if torch.is_tensor(a)]]


def expected_of(module, args):
    """What the module returns, and the buffers that it changed."""
    module = copy.deepcopy(module)
    before = [b.clone() for b in module.buffers()]
    with torch.no_grad():
        outs = [t for t in pytree.tree_leaves(module(*args)) if torch.is_tensor(t)]
    changed = [b for b, old in zip(module.buffers(), before) if not torch.equal(b, old)]
    return outs + changed


@pytest.mark.parametrize("name", sorted(MODULES))
def test_module_equals_pytorch(name):
    module, args = example(name)
    lowered = exported(module, args)
    arrays = inputs_of(module, args)
    expected = expected_of(module, args)
    assert lowered.opaque == []
    assert lowered.paths[:len(list(module.parameters()))] == [n for n, _ in module.named_parameters()]
    assert difference(cleave.run(lowered.text, *arrays), expected) is None
    for mesh, seed in (("x=2,y=4", 1), ("x=2,y=2,z=2", 2)):
        got = cleave.run(lowered.text, *arrays, mesh=mesh, shard=f"random:{seed}")
        assert difference(got, expected, rtol=1e-3, atol=1e-4) is None, mesh
