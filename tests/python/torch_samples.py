"""Calls of ATen ops, lowered and run by Cleave, and by PyTorch."""

import warnings

import numpy as np
import torch
from torch._subclasses.functional_tensor import dispatch_functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

import cleave
from cleave.torch.lowering import lower_graph

warnings.filterwarnings("ignore", module="torch")


def as_numpy(tensor):
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if tensor.dtype == torch.bfloat16:
        import ml_dtypes
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def traced(function, tensors, decompositions=None):
    """The graph of a function of tensors, without mutations."""
    return make_fx(dispatch_functionalize(function), decomposition_table=decompositions, tracing_mode="fake")(*tensors)


def tensors_of(tree):
    return [leaf for leaf in pytree.tree_leaves(tree) if torch.is_tensor(leaf)]


def call(function, args, kwargs=None, decompositions=None, **how):
    """Results of Cleave (NumPy) and of PyTorch (tensors)."""
    leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs or {})))
    tensors = [leaf for leaf in leaves if torch.is_tensor(leaf)]

    def flat(*given):
        rest = iter(given)
        a, k = pytree.tree_unflatten([next(rest) if torch.is_tensor(leaf) else leaf for leaf in leaves], spec)
        return tensors_of(function(*a, **k))
    with torch.no_grad():
        tensors = [t.detach() for t in tensors]
        graph = traced(flat, tensors, decompositions)
        lowered = lower_graph(graph, opaque=())
        expected = flat(*[t.clone() for t in tensors])
    inputs = [as_numpy(t) for t in tensors]
    if lowered.seed_index is not None:
        inputs.append(np.array(7, np.int64))
    return cleave.run(lowered.text, *inputs, **how), expected, lowered


def difference(got, expected, rtol=None, atol=None):
    """What is wrong, as a line; None if nothing is."""
    if len(got) != len(expected):
        return f"{len(got)} results in the place of {len(expected)}"
    for i, (one, other) in enumerate(zip(got, expected)):
        if one.shape != tuple(other.shape):
            return f"result {i} has shape {one.shape} in the place of {tuple(other.shape)}"
        wide = other.detach().resolve_conj().resolve_neg().to(torch.float64) if not other.is_complex() else other.to(torch.complex128)
        if str(one.dtype) != str(other.dtype).removeprefix("torch."):
            return f"result {i} has dtype {one.dtype} in the place of {other.dtype}"
        mine = torch.from_numpy(np.ascontiguousarray(one.astype(np.complex128 if other.is_complex() else np.float64)))
        wide = wide.resolve_conj()
        tight = other.dtype in (torch.float64, torch.complex128)
        bounds = dict(rtol=rtol or (1e-9 if tight else 1e-4), atol=atol or (1e-9 if tight else 1e-5))
        if not torch.allclose(mine.reshape(wide.shape), wide, equal_nan=True, **bounds):
            worst = (mine.reshape(wide.shape) - wide).abs().nan_to_num(nan=float("inf")).max().item() if wide.numel() else 0
            return f"result {i} of {other.dtype}{list(other.shape)} is off by {worst}"
    return None
