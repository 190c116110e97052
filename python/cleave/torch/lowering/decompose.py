"""Ops without a row: PyTorch's own decompositions, traced and lowered in their place."""

import functools

import torch
from torch._decomp import core_aten_decompositions, global_decomposition_table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import dispatch_functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from cleave.torch.lowering import table
from cleave.torch.lowering.values import Value


@functools.cache
def decompositions():
    """Those of ops without a row."""
    table.load()
    known = {**global_decomposition_table["post_autograd"], **core_aten_decompositions()}
    return {op: function for op, function in known.items() if op not in table.ROWS}


def has(op):
    return op in decompositions() or op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)


def traced(op, args, kwargs):
    """The graph of the op's decomposition, and the Values that are its arguments; None if there is none, or if it does not lead
    anywhere."""
    leaves, spec = pytree.tree_flatten((list(args), dict(kwargs)), is_leaf=lambda v: isinstance(v, Value))
    values = [leaf for leaf in leaves if isinstance(leaf, Value)]
    with FakeTensorMode(allow_non_fake_inputs=True):
        fakes = [torch.empty(v.shape, dtype=v.dtype) for v in values]

        def call(*tensors):
            given = iter(tensors)
            filled = [next(given) if isinstance(leaf, Value) else leaf for leaf in leaves]
            args, kwargs = pytree.tree_unflatten(filled, spec)
            return op(*args, **kwargs)
        graph = make_fx(dispatch_functionalize(call), decomposition_table=decompositions())(*fakes)
    graph.graph.eliminate_dead_code()
    if any(node.target is op for node in graph.graph.nodes):
        return None
    return graph, values
