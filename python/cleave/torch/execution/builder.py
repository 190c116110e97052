"""A torch.fx graph in the making.

What the ops of a module compute is held as `Value`s. A Value has the type of StableHLO and `t`, of a shape that
broadcasts to that of the type: broadcasts cost nothing until an op needs all elements (`full`). `t` is a node of the
graph, or a torch.Tensor if it is known while the graph is made. `call` of an op on Tensors alone computes it there and
then, which folds all constants, and what follows from the number of the partition."""

import operator

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from cleave.torch.execution.attributes import Kind
from cleave.torch.execution.dtypes import MASKS, border, carrier

aten = torch.ops.aten
FOLDED_BYTES = 4 << 20  # constants that are larger are computed by the graph

VIEWS = {
    aten.view.default, aten.permute.default, aten.expand.default, aten.unsqueeze.default, aten.slice.Tensor,
    aten.transpose.int, aten.squeeze.dims, aten.unfold.default, aten._unsafe_view.default,
}  # fmt: skip


class Value:
    __slots__ = ("dtype", "shape", "t")

    def __init__(self, t, shape, dtype):
        self.t, self.shape, self.dtype = t, tuple(shape), dtype

    @property
    def kind(self):
        return Kind(self.shape, self.dtype)

    @property
    def is_constant(self):
        return isinstance(self.t, torch.Tensor)

    @property
    def scalar(self):
        """The Python number that all elements are, or None if that is not known."""
        if isinstance(self.t, torch.Tensor) and self.t.numel() == 1:
            return self.t.item()
        return None


class Builder:
    def __init__(self, device, fake_mode=None):
        self.graph, self.device = torch.fx.Graph(), torch.device(device)
        self.mode = fake_mode or FakeTensorMode(allow_non_fake_inputs=True)
        self.attributes, self.by_bytes, self.views = {}, {}, {}

    # Nodes.

    def placeholder(self, name, kind):
        node = self.graph.placeholder(name)
        with self.mode:
            node.meta["val"] = torch.empty(kind.shape, dtype=border(kind.dtype), device=self.device)
        node.meta["tensor_meta"] = None
        t = node
        if border(kind.dtype) != carrier(kind.dtype):
            t = self.call(aten.view.dtype, node, torch.int64) if kind.dtype == "ui64" else \
                self.call(aten._to_copy.default, node, dtype=carrier(kind.dtype))  # fmt: skip
        return Value(t, kind.shape, kind.dtype)

    def attribute(self, tensor):
        """A node for a tensor that is known; equal ones share it."""
        tensor = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach())
        raw = tensor.reshape(-1).view(torch.uint8) if tensor.numel() else tensor.reshape(-1)
        key = tensor.dtype, tuple(tensor.shape), raw.numpy().tobytes()
        if key not in self.by_bytes:
            name = f"_constant{len(self.attributes)}"
            self.attributes[name] = tensor.to(self.device)
            node = self.graph.get_attr(name)
            with self.mode:
                node.meta["val"] = torch.empty(tensor.shape, dtype=tensor.dtype, device=self.device)
            self.by_bytes[key] = node
        return self.by_bytes[key]

    def val(self, t):
        return t if isinstance(t, torch.Tensor) else t.meta["val"]

    def shape(self, t):
        return tuple(self.val(t).shape)

    def call(self, op, *args, **kwargs):
        """op on nodes, Tensors and plain values: a node, or a Tensor if all tensors are known and the result is small."""
        leaves = [a for arg in args for a in (arg if isinstance(arg, (list, tuple)) else (arg,))]
        known = [a for a in leaves if isinstance(a, torch.Tensor)]
        if known and not any(isinstance(a, torch.fx.Node) for a in leaves):
            result = self._folded(op, args, kwargs, known)
            if result is not None:
                return result
        return self.emit(op, *args, **kwargs)

    def _folded(self, op, args, kwargs, known):
        limit = max(FOLDED_BYTES, sum(t.numel() * t.element_size() for t in known))
        if op not in VIEWS:
            with self.mode:
                fakes = [self._fake(a) for a in args]
                outs = op(*fakes, **kwargs)
            outs = outs if isinstance(outs, (list, tuple)) else [outs]
            if sum(o.numel() * o.element_size() for o in outs if o is not None) > limit:
                return None
        if "device" in kwargs:
            kwargs = kwargs | {"device": torch.device("cpu")}
        return op(*args, **kwargs)

    def _fake(self, arg):
        if isinstance(arg, (list, tuple)):
            return [self._fake(a) for a in arg]
        if isinstance(arg, torch.fx.Node):
            return arg.meta["val"]
        if isinstance(arg, torch.Tensor):
            return torch.empty_strided(arg.shape, arg.stride(), dtype=arg.dtype, device=self.device)
        return arg

    def _node(self, arg):
        if isinstance(arg, (list, tuple)):
            return [self._node(a) for a in arg]
        return self.attribute(arg) if isinstance(arg, torch.Tensor) else arg

    def emit(self, op, *args, **kwargs):
        """op as a node of the graph."""
        args = [self._node(a) for a in args]
        kwargs = {name: self._node(a) for name, a in kwargs.items()}
        key = None
        if op in VIEWS:
            key = op, tuple(tuple(a) if isinstance(a, list) else a for a in args)
            if key in self.views:
                return self.views[key]
        with self.mode:
            val = op(*[self._fake(a) for a in args], **{name: self._fake(a) for name, a in kwargs.items()})
        node = self.graph.call_function(op, tuple(args), kwargs)
        node.meta["val"] = val
        if isinstance(val, (list, tuple)):
            return [None if v is None else self._item(node, i, v) for i, v in enumerate(val)]
        if key:
            self.views[key] = node
        return node

    def _item(self, node, i, val):
        item = self.graph.call_function(operator.getitem, (node, i))
        item.meta["val"] = val
        return item

    # Values.

    def number(self, number, dtype, shape=()):
        """All elements are one number."""
        return Value(torch.tensor(number, dtype=carrier(dtype)), shape, dtype)

    def constant(self, tensor, shape, dtype):
        return Value(tensor, shape, dtype)

    def full(self, value):
        """All elements, as a node or Tensor of the whole shape."""
        if self.shape(value.t) == value.shape:
            return value.t
        if value.scalar is not None and not isinstance(value.scalar, complex):
            return self.filled(value.shape, value.scalar, value.dtype)
        return self.call(aten.expand.default, value.t, list(value.shape))

    def filled(self, shape, number, dtype):
        key = "full", tuple(shape), number, dtype, str(number)
        if key not in self.views:
            self.views[key] = self.emit(aten.full.default, list(shape), number, dtype=carrier(dtype), device=self.device,
                                        pin_memory=False)
        return self.views[key]

    def known(self, value):
        """The constant with all its elements, as a Tensor, or None if it is not known."""
        return value.t.expand(value.shape) if value.is_constant else None

    def arange(self, n):
        return torch.arange(n)

    def ranked(self, value):
        """t with as many dimensions as the type; 1 where it broadcasts."""
        shape = self.shape(value.t)
        if len(shape) == len(value.shape):
            return value.t
        return self.view(value.t, (1,) * (len(value.shape) - len(shape)) + shape)

    # Layout.

    def view(self, t, shape):
        """Another shape; a copy only if the strides demand it."""
        shape = [int(n) for n in shape]
        t = seen_before(t, shape)
        val = self.val(t)
        if tuple(val.shape) == tuple(shape):
            return t
        if not can_view(val, shape):
            return self.call(aten._unsafe_view.default, self.contiguous(t), shape)
        return self.call(aten.view.default, t, shape)

    def permute(self, t, order):
        order = [int(i) for i in order]
        if isinstance(t, torch.fx.Node) and t.target is aten.permute.default:
            order, t = [t.args[1][i] for i in order], t.args[0]
        return t if order == sorted(order) else self.call(aten.permute.default, t, order)

    def contiguous(self, t):
        if self.val(t).is_contiguous():
            return t
        return self.call(aten.clone.default, t, memory_format=torch.contiguous_format)

    def convert(self, t, dtype):
        """To a dtype of torch."""
        return t if self.val(t).dtype == dtype else self.call(aten._to_copy.default, t, dtype=dtype)

    def wrapped(self, t, dtype):
        """Back into the range of an unsigned type after arithmetic."""
        mask = MASKS.get(dtype)
        return t if mask is None else self.call(aten.bitwise_and.Scalar, t, mask)


def seen_before(t, shape):
    """What t is a view of, as long as the shape is a view of that, too."""
    while isinstance(t, torch.fx.Node) and t.target in (aten.view.default, aten._unsafe_view.default):
        inner = t.args[0].meta["val"]
        if tuple(inner.shape) != tuple(shape) and not can_view(inner, shape):
            break
        t = t.args[0]
    return t


def can_view(val, shape):
    """Whether val can be seen in a shape without a copy."""
    if val.numel() == 0 or val.is_contiguous():
        return True
    try:
        torch.empty_strided(val.shape, val.stride(), device="meta").view(shape)
        return True
    except RuntimeError:
        return False
