"""What PyTorch has one kernel for, found again in a graph of single ops: softmax, its logarithm, silu, and the gradients of these.

A kernel holds no values between its ops, and is launched once. It is put in only if no other op reads what is inside; a
softmax that is split along its dimension has collectives inside, and stays as it is.
"""

import torch

aten = torch.ops.aten


def with_kernels(module):
    """The module, changed in place."""
    graph = module.graph
    for node in list(graph.nodes):
        for match in (log_softmax, softmax, softmax_gradient, silu_gradient, silu):
            found = match(node)
            if found:
                put_in(graph, node, *found)
                break
    # Collectives stay, used or not: other ranks wait for them.
    graph.eliminate_dead_code(lambda node: node.is_impure() or getattr(node.target, "namespace", None) == "_c10d_functional")
    module.recompile()
    return module


def put_in(graph, node, target, args):
    with graph.inserting_before(node):
        made = graph.call_function(target, args)
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)
    graph.erase_node(node)


def is_call(node, target, operands=2):
    return isinstance(node, torch.fx.Node) and node.op == "call_function" and node.target is target and len(node.args) >= operands


def value(node):
    return node.meta["val"]


def kept(node, like):
    """(x, d) if the node is a reduction of x along d alone, viewed with that dimension as 1 beside `like`."""
    if not is_call(node, aten.view.default):
        return None
    reduced = node.args[0]
    if not isinstance(reduced, torch.fx.Node) or reduced.op != "call_function" or len(reduced.args) < 2:
        return None
    dims = reduced.args[1]
    if not isinstance(dims, (list, tuple)) or len(dims) != 1 or (len(reduced.args) > 2 and reduced.args[2]):
        return None
    shape = list(value(like).shape)
    d = dims[0] % len(shape) if shape else 0
    if not shape or list(value(node).shape) != shape[:d] + [1] + shape[d + 1:] or list(value(reduced.args[0]).shape) != shape:
        return None
    return reduced, d


def total_of(node, like):
    found = kept(node, like)
    if found and found[0].target is aten.sum.dim_IntList and value(found[0]).dtype == value(like).dtype:
        return found[0].args[0], found[1]
    return None


def less_its_largest(node):
    """(x, d) if the node is x - amax(x, d)."""
    if not is_call(node, aten.sub.Tensor) or node.kwargs:
        return None
    x, largest = node.args[:2]
    found = kept(largest, x) if isinstance(x, torch.fx.Node) else None
    if found and found[0].target is aten.amax.default and found[0].args[0] is x:
        return x, found[1]
    return None


def log_softmax(node):
    if not is_call(node, aten.sub.Tensor) or node.kwargs or not is_call(node.args[1], aten.log.default, 1):
        return None
    shifted = node.args[0]
    found, total = less_its_largest(shifted), total_of(node.args[1].args[0], shifted)
    if found and total and found[1] == total[1] and is_call(total[0], aten.exp.default, 1) and total[0].args[0] is shifted:
        return aten._log_softmax.default, (found[0], found[1], False)
    return None


def softmax(node):
    if not is_call(node, aten.div.Tensor) or node.kwargs or not is_call(node.args[0], aten.exp.default, 1):
        return None
    powers = node.args[0]
    found, total = less_its_largest(powers.args[0]), total_of(node.args[1], powers)
    if found and total and total == (powers, found[1]):
        return aten._softmax.default, (found[0], found[1], False)
    return None


def softmax_gradient(node):
    """g - exp(y) * sum(g) of the logarithm y, and g * y - y * sum(g * y) of the softmax y itself."""
    if not is_call(node, aten.sub.Tensor) or node.kwargs or not is_call(node.args[1], aten.mul.Tensor):
        return None
    first, (y, total) = node.args[0], node.args[1].args[:2]
    found = total_of(total, first) if isinstance(first, torch.fx.Node) and isinstance(total, torch.fx.Node) else None
    if not found or found[0] is not first:
        return None
    if is_call(y, aten.exp.default, 1):
        return aten._log_softmax_backward_data.default, (first, y.args[0], found[1], value(node).dtype)
    if is_call(first, aten.mul.Tensor) and y in first.args and isinstance(y, torch.fx.Node):
        g = first.args[1] if first.args[0] is y else first.args[0]
        if isinstance(g, torch.fx.Node) and value(g).shape == value(y).shape == value(first).shape:
            return aten._softmax_backward_data.default, (g, y, found[1], value(node).dtype)
    return None


def silu_gradient(node):
    """(g * s) * (x * (1 - s) + 1), s the sigmoid of x."""
    if not is_call(node, aten.mul.Tensor):
        return None
    for scaled, slope in (node.args[:2], node.args[1::-1]):
        if not is_call(scaled, aten.mul.Tensor) or not is_call(slope, aten.add.Tensor) or slope.args[1] != 1 or slope.kwargs:
            continue
        product = slope.args[0]
        if not is_call(product, aten.mul.Tensor):
            continue
        for x, rest in (product.args[:2], product.args[1::-1]):
            if not is_call(rest, aten.rsub.Scalar) or rest.args[1] != 1 or len(rest.args) > 2:
                continue
            s = rest.args[0]
            if is_call(s, aten.sigmoid.default, 1) and s.args[0] is x and s in scaled.args:
                g = scaled.args[1] if scaled.args[0] is s else scaled.args[0]
                if isinstance(g, torch.fx.Node) and value(g).shape == value(x).shape and value(g).dtype == value(x).dtype:
                    return aten.silu_backward.default, (g, x)
    return None


def silu(node):
    if not is_call(node, aten.mul.Tensor):
        return None
    x, y = node.args[:2]
    for x, y in ((x, y), (y, x)):
        if is_call(y, aten.sigmoid.default, 1) and y.args[0] is x and len(y.users) == 1:
            return aten.silu.default, (x,)
    return None
