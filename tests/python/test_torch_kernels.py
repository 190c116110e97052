"""Kernels of PyTorch that are found again in graphs of single ops."""

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx

from cleave.torch.execution.kernels import with_kernels

aten = torch.ops.aten


def along(x, op, d):
    shape = list(x.shape)
    shape[d] = 1
    return op(x, [d]).view(shape)


def log_softmax(x, g):
    shifted = aten.sub.Tensor(x, along(x, aten.amax.default, 1))
    return aten.sub.Tensor(shifted, aten.log.default(along(aten.exp.default(shifted), aten.sum.dim_IntList, 1)))


def softmax(x, g):
    powers = aten.exp.default(aten.sub.Tensor(x, along(x, aten.amax.default, 0)))
    return aten.div.Tensor(powers, along(powers, aten.sum.dim_IntList, 0))


def log_softmax_gradient(y, g):
    return aten.sub.Tensor(g, aten.mul.Tensor(aten.exp.default(y), along(g, aten.sum.dim_IntList, 1)))


def softmax_gradient(y, g):
    part = aten.mul.Tensor(g, y)
    return aten.sub.Tensor(part, aten.mul.Tensor(y, along(part, aten.sum.dim_IntList, 1)))


def silu(x, g):
    return aten.mul.Tensor(x, aten.sigmoid.default(x))


def silu_gradient(x, g):
    s = aten.sigmoid.default(x)
    return aten.mul.Tensor(aten.mul.Tensor(g, s), aten.add.Tensor(aten.mul.Tensor(x, aten.rsub.Scalar(s, 1.0)), 1.0))


FOUND = {log_softmax: aten._log_softmax.default, softmax: aten._softmax.default,
         log_softmax_gradient: aten._log_softmax_backward_data.default, softmax_gradient: aten._softmax_backward_data.default,
         silu: aten.silu.default, silu_gradient: aten.silu_backward.default}


def calls(graph):
    return [node.target for node in graph.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("function", FOUND, ids=lambda function: function.__name__)
def test_one_kernel_is_left(function):
    x, g = torch.randn(5, 5, dtype=torch.float64), torch.randn(5, 5, dtype=torch.float64)
    graph = make_fx(function, tracing_mode="fake")(x, g)
    expected = function(x, g)
    with_kernels(graph)
    assert calls(graph) == [FOUND[function]]
    assert torch.allclose(graph(x, g), expected, rtol=1e-12)


def other_dimension(x, g):
    """The largest of columns, the sum of rows: no softmax."""
    powers = aten.exp.default(aten.sub.Tensor(x, along(x, aten.amax.default, 0)))
    return aten.div.Tensor(powers, along(powers, aten.sum.dim_IntList, 1))


def of_another(x, g):
    """The sum of other numbers than those that are divided."""
    powers = aten.exp.default(aten.sub.Tensor(x, along(x, aten.amax.default, 0)))
    return aten.div.Tensor(powers, along(aten.exp.default(g), aten.sum.dim_IntList, 0))


def slope_of_two(x, g):
    s = aten.sigmoid.default(x)
    return aten.mul.Tensor(aten.mul.Tensor(g, s), aten.add.Tensor(aten.mul.Tensor(x, aten.rsub.Scalar(s, 1.0)), 2.0))


@pytest.mark.parametrize("function", [other_dimension, of_another, slope_of_two], ids=lambda function: function.__name__)
def test_what_is_like_one_stays(function):
    x, g = torch.randn(5, 5, dtype=torch.float64), torch.randn(5, 5, dtype=torch.float64)
    graph = make_fx(function, tracing_mode="fake")(x, g)
    before, expected = calls(graph), function(x, g)
    with_kernels(graph)
    assert calls(graph) == before
    assert torch.equal(graph(x, g), expected)


def test_collectives_that_a_rank_does_not_need_are_run_all_the_same():
    """Other ranks wait for them: here one that nothing reads, of the forward pass, and one of the backward pass."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from cleave.torch import local_graph, tracing

    graph, c10d = torch.fx.Graph(), torch.ops._c10d_functional
    mode = FakeTensorMode()
    x, tangent = graph.placeholder("x"), graph.placeholder("tangent")
    with mode:
        x.meta["val"], tangent.meta["val"] = torch.empty(4), torch.empty(())

    def call(target, *args):
        node = graph.call_function(target, args)
        node.meta["val"] = x.meta["val"]
        return node
    call(c10d.all_reduce.default, x, "sum", "g")
    gradient = call(aten.mul.Tensor, x, tangent)
    call(c10d.all_reduce.default, gradient, "sum", "g")
    loss = graph.call_function(aten.sum.default, (x,))
    loss.meta["val"] = tangent.meta["val"]
    graph.output((loss, gradient))
    inputs = [tracing.Input("batch", 0, (4,), torch.float32), tracing.Input("tangent", 0, (), torch.float32)]
    outputs = [tracing.Output("result", 0), tracing.Output("gradient", 0)]
    module = with_kernels(torch.fx.GraphModule(torch.nn.Module(), graph))
    forward, backward, count = local_graph.split(module, tracing.Traced(module, inputs, outputs, [(), (4,)], None))
    assert count == 2
    for one in (forward, backward):
        assert calls(one).count(c10d.all_reduce.default) == calls(one).count(c10d.wait_tensor.default) == 1
