"""Graphs of ATen ops as StableHLO: borders, names, attention kept whole, optimizers, unknown ops, errors."""

import contextlib
import re
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn as nn
import torch.nn.functional as F
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors

import cleave
import cleave.torch as ct
from cleave import UserError
from cleave.torch.exporting import decompositions, exported, forward_graph
from cleave.torch.lowering import covered, lower_graph, unknown
from torch_modules import GPT, Experts, example, small_resnet
from torch_samples import as_numpy, call, difference, traced

aten = torch.ops.aten


class Loss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, target):
        return F.cross_entropy(self.model(x).flatten(0, -2), target.flatten())


def train_steps():
    torch.manual_seed(0)
    tokens = torch.randint(0, 64, (4, 16))
    mixture = nn.Sequential(nn.Embedding(32, 16), Experts(), nn.Linear(16, 32))
    return {"gpt": (Loss(GPT()), (tokens, tokens.roll(1, 1))),
            "mixture": (Loss(mixture), (tokens % 32, tokens.roll(1, 1) % 32)),
            "resnet": (Loss(small_resnet()), (torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,))))}


def joint(module, args):
    with contextlib.ExitStack() as stack:
        return aot_export_joint_with_descriptors(stack, module, args, decompositions=decompositions()).graph_module


def real_inputs(module, args):
    tensors = [p.detach() for p in module.parameters()] + [b.detach().clone() for b in module.buffers()] + list(args)
    return [as_numpy(t).copy() for t in tensors]


def gradients(module, args):
    module.zero_grad()
    module(*args).backward()
    return [p.grad for p in module.parameters()]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("name", ["gpt", "mixture", "resnet"])
def test_train_steps(name, whole):
    module, args = train_steps()[name]
    graph = joint(module, args)
    lowered = lower_graph(graph) if whole else lower_graph(graph, opaque=())
    assert len(lowered.opaque) == (2 if whole and name == "gpt" else 0)
    inputs = real_inputs(module, args) + [np.ones((), np.float32)]
    expected = gradients(module, args)
    for how in ({}, {"mesh": "x=2,y=2", "shard": "random:3"}):
        got = cleave.run(lowered.text, *inputs, **how)[-len(expected):]
        assert difference(got, expected) is None


def test_gradients_by_export():
    module, args = train_steps()["resnet"]
    lowered = exported(module, args, grad=True)
    assert re.search(r'test_torch_export.py":\d+', lowered.text) and re.search(r'torch_modules.py":\d+', lowered.text)
    names = [name for name, *_ in lowered.results]
    assert names[1:1 + len(list(module.parameters()))] == [f"grad.{name}" for name, _ in module.named_parameters()]
    assert "model.1.running_mean" in names
    got = cleave.run(lowered.text, *real_inputs(module, args))
    expected = gradients(module, args)
    assert difference(got[1:1 + len(expected)], expected) is None


def optimized(slots):
    torch.manual_seed(0)
    module, args = Loss(nn.Linear(8, 6)), (torch.randn(4, 8), torch.randint(0, 6, (4,)))
    graph = joint(module, args)
    return module, args, lower_graph(graph, names=["model.weight", "model.bias"],
                                     optimizer=[(0, 1, slots), (1, 2, slots)])


def test_state_of_an_optimizer_counts():
    module, args, lowered = optimized(2)
    assert [shape for _, shape, _ in lowered.arguments[:2]] == [(3, 6, 8), (3, 6)]
    assert [shape for _, shape, _ in lowered.results] == [(), (3, 6, 8), (3, 6)]
    assert lowered.donated == {0: 1, 1: 2}
    parameters = [p.detach().numpy() for p in module.parameters()]
    stacked = [np.stack([p, p * 0, p * 0]) for p in parameters]
    inputs = stacked + [a.numpy() for a in args] + [np.ones((), np.float32)]
    got = cleave.run(lowered.text, *inputs)
    for result, start, grad in zip(got[1:], stacked, gradients(module, args)):
        assert np.allclose(result[0], start[0] - grad.numpy(), atol=1e-5)
        assert np.allclose(result[1], grad.numpy(), atol=1e-5)
    split = cleave.run(lowered.text, *inputs, mesh="x=2,y=2", shard="random:1")
    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(got, split))
    plan = cleave.plan(lowered.text, mesh=cleave.Mesh(x=2))
    assert {"model.weight", "model.bias"} <= set(plan.data["values"])
    plan.verify()


def test_no_state_is_a_plain_parameter():
    _, _, lowered = optimized(0)
    assert [shape for _, shape, _ in lowered.arguments[:2]] == [(6, 8), (6,)]
    assert "cleave.optimizer" in lowered.text


def test_plans_of_attention_verify():
    module, args = train_steps()["gpt"]
    lowered = lower_graph(joint(module, args))
    assert lowered.opaque == ["aten._scaled_dot_product_flash_attention_for_cpu.default",
                              "aten._scaled_dot_product_flash_attention_for_cpu_backward.default"]
    cleave.plan(lowered.text, mesh=cleave.Mesh(data=2, model=2)).verify()


def attention(q, k, v, mask=None, causal=False):
    return aten._scaled_dot_product_flash_attention_for_cpu.default(q, k, v, 0.0, causal, attn_mask=mask)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_is_split_by_its_rule(causal, masked):
    if causal and masked:
        pytest.skip("PyTorch takes one of them")
    torch.manual_seed(0)
    q, k, v = torch.randn(4, 4, 6, 8), torch.randn(4, 4, 10, 8), torch.randn(4, 4, 10, 8)
    mask = torch.randn(4, 1, 6, 10) if masked else None
    tensors = [q, k, v] + ([mask] if masked else [])
    graph = traced(lambda *t: attention(*t[:3], t[3] if masked else None, causal), tensors)
    lowered = lower_graph(graph)
    assert len(lowered.opaque) == 1
    expected = list(attention(q, k, v, mask, causal))
    for seed in range(4):
        got = cleave.run(lowered.text, *[t.numpy() for t in tensors], mesh="x=2,y=2", shard=f"random:{seed}")
        assert difference(got, expected) is None
    got, expected, _ = call(lambda *t: attention(*t[:3], t[3] if masked else None, causal), tensors)
    assert difference(got, expected) is None


def test_names_and_places_survive():
    module, args = example("gpt")
    lowered = exported(module, args)
    assert lowered.arguments[0][0] == "embed.weight" and "layers.1.gate.weight" in [a[0] for a in lowered.arguments]
    assert cleave.Module.parse(lowered.text).argument_names("main")[0] == "embed.weight"
    places = re.findall(r'loc\("(\w+)"\("([^"]+)":(\d+):0\)\)', lowered.text)
    assert any(path.endswith("torch_modules.py") for _, path, _ in places)
    assert lowered.text.count("func.func private") < lowered.text.count("stablehlo.composite") / 2  # they are shared


def test_decompositions_in_place_name_the_line():
    module, args = train_steps()["gpt"]
    lowered = lower_graph(joint(module, args), composites=False, opaque=())
    assert "composite" not in lowered.text and lowered.text.count("func.func") == 1
    expected = gradients(module, args)
    got = cleave.run(lowered.text, *real_inputs(module, args), np.ones((), np.float32))
    assert difference(got[-len(expected):], expected) is None
    forward, _, _, _ = forward_graph(module, args, {})
    text = lower_graph(forward, composites=False, opaque=()).text
    assert "(torch_modules.py:" in cleave.plan(text, mesh=cleave.Mesh(x=2)).explain()


def test_random_numbers_do_not_depend_on_the_mesh():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Dropout(0.25), nn.Dropout(0.5)).train()
    lowered = exported(module, (torch.ones(64, 64),))
    assert lowered.seed_index == 1 and lowered.arguments[1][0] == "seed"
    inputs = [np.ones((64, 64), np.float32), np.array(5, np.int64)]
    (one,) = cleave.run(lowered.text, *inputs)
    (other,) = cleave.run(lowered.text, *inputs, mesh="x=2,y=4", shard="random:1")
    assert np.array_equal(one, other)
    assert abs((one != 0).mean() - 0.375) < 0.03 and np.allclose(one[one != 0], 1 / 0.375)
    (third,) = cleave.run(lowered.text, inputs[0], np.array(6, np.int64))
    assert not np.array_equal(one, third)


@pytest.mark.parametrize("draw, mean, deviation", [
    (lambda x: torch.rand_like(x), 0.5, 12 ** -0.5), (lambda x: torch.randn_like(x), 0, 1),
    (lambda x: torch.bernoulli(torch.full_like(x, 0.3)), 0.3, 0.21 ** 0.5),
    (lambda x: torch.randint(2, 12, x.shape).to(x.dtype), 6.5, (99 / 12) ** 0.5),
    (lambda x: torch.empty_like(x).exponential_(2.0), 0.5, 0.5), (lambda x: torch.normal(1.0, 2.0, x.shape), 1, 2),
    (lambda x: torch.rand(x.shape, dtype=torch.float64).to(x.dtype), 0.5, 12 ** -0.5)])
def test_distributions(draw, mean, deviation):
    got, _, lowered = call(draw, (torch.ones(200, 200),))
    assert lowered.seed_index is not None
    assert abs(got[0].mean() - mean) < 0.03 * max(deviation, 1) and abs(got[0].std() - deviation) < 0.03 * max(deviation, 1)


def test_a_permutation():
    got, _, _ = call(lambda x: torch.randperm(100) + 0 * x, (torch.zeros(100, dtype=torch.int64),))
    assert sorted(got[0].tolist()) == list(range(100)) and got[0].tolist() != list(range(100))


@torch.library.custom_op("cleave_tests::double_softmax", mutates_args=())
def double_softmax(x: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.softmax(torch.softmax(x, -1) * factor, -1)


@double_softmax.register_fake
def _(x, factor):
    return torch.empty_like(x)


class UsesCustomOp(nn.Module):
    def forward(self, x):
        return double_softmax(x.relu(), 2.0) + 1


def test_an_unknown_op_runs_with_a_rule_that_was_found():
    x = torch.randn(6, 8)
    lowered = exported(UsesCustomOp(), (x,))
    assert lowered.opaque == ["cleave_tests.double_softmax.default"]
    expected = [UsesCustomOp()(x)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert difference(cleave.run(lowered.text, x.numpy()), expected) is None
        for seed in range(3):
            assert difference(cleave.run(lowered.text, x.numpy(), mesh="x=2,y=2", shard=f"random:{seed}"), expected) is None
    rules = [str(rule) for rule in cleave.Module.parse(lowered.text).rules()]
    assert "a b -> a c {b: need_replication; c: need_replication}" in unknown._rules.values()
    assert not any("no rule" in rule for rule in rules)


class Sorted(nn.Module):
    def forward(self, x):
        return torch.nanmedian(x)


def test_an_op_without_a_rule_is_replicated_with_a_warning():
    x = torch.randn(4, 6)
    lowered = exported(Sorted(), (x,))
    with pytest.warns(UserWarning, match="aten.nanmedian.default: PyTorch has no decomposition .* every device computes all of it"):
        got = cleave.run(lowered.text, x.numpy(), mesh="x=2,y=2", shard="random:1")
    assert difference(got, [Sorted()(x)]) is None


def test_rules_of_any_dimension_are_written_out():
    def rule(text):
        return type("Rule", (), {"implied": False, "condition": "", "text": text})
    report = type("Report", (), {"rules": [rule("S(d), S(d) -> S(d)"), rule("R, R -> R")]})
    assert unknown.notation_of(report, [2, 2], [2]) == "a b, a b -> a b"
    report.rules[0] = rule("S(d) -> S(d-1)")
    assert unknown.notation_of(report, [3], [2]) == "c a b -> a b {c: need_replication}"


class Factored(nn.Module):
    """Its ops check their operands, which PyTorch notes as an effect."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 1)

    def forward(self, x):
        matrix = x @ x.mT + torch.eye(3)
        return self.head(torch.linalg.solve(matrix, x.sum(-1))), torch.linalg.cholesky(matrix)


def test_ops_with_effects():
    module, x = Factored(), torch.randn(4, 3, 3)
    assert difference(cleave.run(exported(module, (x,)).text, *real_inputs(module, (x,))), [t.detach() for t in module(x)]) is None


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(9, 6), nn.Linear(6, 9, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.embed(tokens)).square().mean()


def test_a_shared_parameter_is_one_argument():
    module, tokens = Tied(), torch.randint(0, 9, (4, 5))
    for grad in (False, True):
        lowered = exported(module, (tokens,), grad=grad)
        assert [name for name, *_ in lowered.arguments][0] == "embed.weight" and len(lowered.arguments) == 2
        got = cleave.run(lowered.text, *real_inputs(module, (tokens,)))
        assert difference(got, [module(tokens).detach(), *(gradients(module, (tokens,)) if grad else [])]) is None


def test_an_op_without_a_row_or_a_decomposition():
    got, expected, lowered = call(lambda x: torch.lcm(x, x + 3), (torch.arange(1, 13).reshape(3, 4),))
    assert lowered.opaque == ["aten.lcm.default"]
    assert difference(got, expected) is None


class Masked(nn.Module):
    def forward(self, x):
        return x[x > 0].sum()


class Decides(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x


@pytest.mark.parametrize("module, words", [(Masked(), "depend on the numbers"), (Decides(), "depend on the numbers")])
def test_what_depends_on_numbers_is_refused(module, words):
    with pytest.raises(UserError, match=words) as error:
        ct.export(module, (torch.ones(3),))
    assert "\n" not in str(error.value)


def test_random_numbers_that_devices_cannot_draw_alike_are_refused():
    q = torch.randn(2, 2, 4, 8)
    graph = traced(lambda q: aten._scaled_dot_product_flash_attention_for_cpu.default(q, q, q, 0.1), [q])
    for how in ({}, {"opaque": ()}):
        with pytest.raises(UserError, match="dropout of attention draws numbers inside of the op"):
            lower_graph(graph, **how)
    with pytest.raises(UserError, match="aten.poisson.default: it draws random numbers"):
        call(lambda x: torch.poisson(x), (torch.ones(3),))


def test_dynamic_shapes_are_refused():
    program = torch.export.export(nn.Linear(4, 4), (torch.randn(3, 4),),
                                  dynamic_shapes={"input": {0: torch.export.Dim("n", min=2, max=10)}})
    with pytest.raises(UserError, match="symbolic; a plan is for certain sizes"):
        lower_graph(program.run_decompositions().graph_module)


def test_errors_say_what_is_wrong():
    with pytest.raises(UserError, match="a torch.nn.Module is expected"):
        ct.export(lambda x: x, (torch.ones(3),))
    with pytest.raises(UserError, match="one scalar loss"):
        ct.export(nn.Linear(2, 2), (torch.ones(3, 2),), grad=True)
    with pytest.raises(UserError, match="depends on how memory lies"):
        call(lambda x: torch.as_strided(x, (2, 2), (1, 1)), (torch.ones(4),))


def test_the_table_is_large():
    packets = {name.rsplit(".", 1)[0] for name in covered()}
    assert len(packets) >= 150
