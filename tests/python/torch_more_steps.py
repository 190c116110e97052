"""What people do with planned modules, on every rank. A case is a function that raises."""

import copy
import io
import pickle

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch_steps import MLP, difference, vectors

import cleave.torch as ct
from cleave import UserError

ROWS = {"layers.0.weight": ("model", None), "layers.0.bias": ("model",), "layers.1.weight": (None, "model")}  # Megatron's
H100 = dict(machine="h100", time_limit=2)
CASES = []


def case(function):
    CASES.append(function.__name__)
    return function


def mesh22():
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))


def mlp(**options):
    torch.manual_seed(0)
    return MLP(**options).double()


def loss_fn(output, target):
    return F.cross_entropy(output, target)


def gradients(model):
    return {name: p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad for name, p in model.named_parameters()
            if p.grad is not None}


def as_plain(model, plain, run, run_plain):
    """The results and gradients of one step of both."""
    a, b = run(model), run_plain(plain)
    a = a.full_tensor() if isinstance(a, DTensor) else a
    assert torch.allclose(a, b, rtol=1e-10), (a, b)
    a.sum().backward()
    b.sum().backward()
    found, expected = gradients(model), gradients(plain)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert torch.allclose(found[name], gradient, rtol=1e-9, atol=1e-12), name


def planned_mlp(batch, model=None, loss=loss_fn, **options):
    model = model or mlp()
    plain, mesh = copy.deepcopy(model), mesh22()
    plan = ct.plan(model, loss, batch, mesh=mesh, **{**H100, "pins": ROWS, **options})
    return ct.parallelize(model, plan, mesh), plain, plan, mesh


@case
def placements_are_those_of_pins():
    batch = vectors(0, 8)
    model, plain, plan, _ = planned_mlp(batch)
    assert model.layers[0].weight.placements == (Replicate(), Shard(0))
    assert model.layers[1].weight.placements == (Replicate(), Shard(1))
    assert plan.placements["layers.0.bias"] == (Replicate(), Shard(0))
    as_plain(model, plain, lambda m: m(*batch), lambda m: loss_fn(m(batch[0]), batch[1]))
    assert isinstance(model, MLP) and list(model.state_dict()) == list(plain.state_dict())


@case
def ways_to_give_a_batch():
    batch = vectors(0, 8)
    model, plain, plan, mesh = planned_mlp(batch, pins=ROWS | {"batch.*": None, "batch.0": ("data", None), "batch.1": ("data",)})
    expected = loss_fn(plain(batch[0]), batch[1])
    row = mesh.get_coordinate()[0]
    own = tuple(one.chunk(2)[row] for one in batch)
    placed = model.place(*batch)
    assert placed[0].placements == (Shard(0), Replicate())
    elsewhere = tuple(DTensor.from_local(one, mesh, [Replicate(), Replicate()]) for one in batch)
    for given in (batch, own, placed, elsewhere):
        assert torch.allclose(model(*given), expected, rtol=1e-12)


@case
def loss_functions_of_the_module():
    batch = vectors(0, 8)

    def whole(model, x, y):
        return F.cross_entropy(model(x), y) + 1e-2 * sum((p * p).sum() for p in model.parameters())
    model, plain, _, _ = planned_mlp(batch, loss=whole)
    as_plain(model, plain, lambda m: m(*batch), lambda m: whole(m, *batch))


@case
def losses_with_something_beside():
    batch = vectors(0, 8)

    def loss(output, target):
        return {"loss": F.cross_entropy(output, target), "right": (output.argmax(-1) == target).sum(), "scores": output, "name": "it", "none": None}

    def first(found):
        return found["loss"]
    model, plain, _, _ = planned_mlp(batch, loss=loss)
    found, expected = model(*batch), loss(plain(batch[0]), batch[1])
    assert found["name"] == "it" and found["none"] is None and found["right"] == expected["right"] and not found["right"].requires_grad
    scores = found["scores"].full_tensor() if isinstance(found["scores"], DTensor) else found["scores"]
    assert torch.allclose(scores, expected["scores"])
    as_plain(model, plain, lambda m: first(m(*batch)), lambda m: first(loss(m(batch[0]), batch[1])))


@case
def modules_that_return_their_loss():
    class WithLoss(MLP):
        def forward(self, x, labels=None):
            return F.cross_entropy(super().forward(x), labels)
    x, y = vectors(0, 8)
    torch.manual_seed(0)
    model, plain, _, _ = planned_mlp({"x": x, "labels": y}, model=WithLoss().double(), loss=None)
    as_plain(model, plain, lambda m: m(x=x, labels=y), lambda m: m(x=x, labels=y))


@case
def the_forward_pass_alone():
    x = vectors(0, 8)[0]
    model, plain, plan, _ = planned_mlp((x,), model=mlp().eval(), loss=None, optimizer=None)
    with torch.no_grad():
        found = model(x)
    found = found.full_tensor() if isinstance(found, DTensor) else found
    assert torch.allclose(found, plain(x)) and not found.requires_grad


@case
def frozen_and_shared_parameters():
    batch = vectors(0, 8)
    frozen = mlp()
    frozen.layers[0].weight.requires_grad_(False)
    model, plain, _, _ = planned_mlp(batch, model=frozen)
    as_plain(model, plain, lambda m: m(*batch), lambda m: loss_fn(m(batch[0]), batch[1]))
    assert model.layers[0].weight.grad is None

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(12, 16), nn.Linear(16, 12, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens):
            return self.head(torch.tanh(self.embed(tokens)))
    torch.manual_seed(0)
    tokens = torch.randint(12, (8,)), torch.randint(12, (8,))
    model, plain, _, _ = planned_mlp(tokens, model=Shared().double(), pins={"embed.weight": ("model", None)})
    assert model.head.weight is model.embed.weight and isinstance(model.head.weight, DTensor)
    as_plain(model, plain, lambda m: m(*tokens), lambda m: loss_fn(m(tokens[0]), tokens[1]))


@case
def gradients_add_up_and_are_clipped():
    first, second = vectors(0, 8), vectors(1, 8)
    model, plain, _, _ = planned_mlp(first)
    for x, y in (first, second):
        model(x, y).backward()
        loss_fn(plain(x), y).backward()
    found = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    expected = torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.1)
    assert torch.allclose(found.full_tensor(), expected)
    for name, gradient in gradients(plain).items():
        assert torch.allclose(gradients(model)[name], gradient)


@case
def half_precision():
    x, y = vectors(0, 8)
    torch.manual_seed(0)
    model, plain, _, _ = planned_mlp((x.bfloat16(), y), model=MLP().bfloat16())
    loss = model(x.bfloat16(), y)
    assert loss.dtype == torch.bfloat16
    assert torch.allclose(loss.float(), loss_fn(plain(x.bfloat16()), y).float(), rtol=2e-2)
    loss.backward()


@case
def mixed_precision_by_autocast():
    x, y = vectors(0, 8)
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16):
        model, plain, _, _ = planned_mlp((x.float(), y), model=MLP())
        loss, expected = model(x.float(), y), loss_fn(plain(x.float()), y)
    assert loss.dtype == expected.dtype and torch.allclose(loss, expected, rtol=1e-2)
    loss.backward()
    expected.backward()
    for name, gradient in gradients(plain).items():
        assert gradients(model)[name].dtype == gradient.dtype == torch.float32
        assert torch.allclose(gradients(model)[name], gradient, atol=2e-2 * float(gradient.abs().max())), name
    with pytest.raises(UserError, match="planned under torch.autocast with bfloat16, and is run without"):
        model(x.float(), y)


@case
def dropout_does_not_depend_on_the_mesh():
    class Dropped(MLP):
        def forward(self, x):
            return F.dropout(super().forward(x), 0.5, self.training)
    x, y = vectors(0, 400)
    torch.manual_seed(0)
    model, plain, _, _ = planned_mlp((x, y), model=Dropped().double(), loss=lambda out, target: {"loss": F.cross_entropy(out, target),
                                                                                                 "out": out})
    a, b = model(x, y)["out"], model(x, y)["out"]
    a, b = (one.full_tensor() if isinstance(one, DTensor) else one for one in (a, b))
    whole = plain.eval()(x)
    kept = a != 0
    assert torch.allclose(a[kept], 2 * whole[kept]) and 0.45 < kept.double().mean() < 0.55
    assert (kept != (b != 0)).double().mean() > 0.4  # every step draws anew
    gathered = [torch.empty_like(a) for _ in range(4)]
    torch.distributed.all_gather(gathered, a.detach().contiguous())
    assert all(torch.equal(one, a) for one in gathered)


@case
def a_plan_from_a_file():
    import tempfile

    batch, folder = vectors(0, 8), [tempfile.mkdtemp() if torch.distributed.get_rank() == 0 else None]
    torch.distributed.broadcast_object_list(folder)
    model, mesh = mlp(), mesh22()
    plan = ct.plan(model, loss_fn, batch, mesh=mesh, pins=ROWS, **H100)
    if torch.distributed.get_rank() == 0:
        plan.save(f"{folder[0]}/plan.json")
    torch.distributed.barrier()
    again = ct.plan(mlp(), loss_fn, batch, mesh=mesh, plan=f"{folder[0]}/plan.json")
    assert again.placements == plan.placements
    assert ct.parallelize(model, again, mesh).check(*batch).good


@case
def modules_without_numbers():
    """Planned and laid out on the device meta, then given numbers."""
    batch = vectors(0, 8)
    with torch.device("meta"):
        model = MLP().double()
        example = tuple(torch.empty_like(one, device="meta") for one in batch)
    mesh, plain = mesh22(), mlp()
    model = ct.parallelize(model, ct.plan(model, loss_fn, example, mesh=mesh, pins=ROWS, **H100), mesh)
    assert model.layers[0].weight.placements == (Replicate(), Shard(0)) and model.layers[0].weight.is_meta
    model.to_empty(device="cpu")
    with torch.no_grad():
        for parameter, source in zip(model.parameters(), plain.parameters()):
            parameter.copy_(distribute_tensor(source.detach(), mesh, parameter.placements, src_data_rank=None))
    as_plain(model, plain, lambda m: m(*batch), lambda m: loss_fn(m(batch[0]), batch[1]))


@case
def what_a_step_keeps_is_freed_as_it_goes_back():
    """Each of the kept tensors after its last use, and not all of them at the end."""
    batch = vectors(0, 8)
    model, _, _, _ = planned_mlp(batch)
    forward, backward = model._planned.passes
    own = {StorageWeakRef(tensor.untyped_storage()) for tensor in (*batch, *(p.to_local() for p in model.parameters()))}
    counts = []

    def watched(arguments):
        kept = {StorageWeakRef(one.untyped_storage()) for one in arguments if isinstance(one, torch.Tensor)} - own
        results = backward(arguments)
        counts.append((len(kept), sum(one.expired() for one in kept)))
        return results
    model._planned.passes = [forward, watched]
    model(*batch).backward()
    model(*batch).backward(retain_graph=True)
    (kept, freed), (_, retained) = counts
    assert kept >= 3 and freed >= kept - 1 and retained == 0, counts  # the gradient of the loss is the caller's


@case
def buffers_that_the_module_assigns():
    """In the place of what was there, instead of in place."""
    class Averages(MLP):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(12))
            self.register_buffer("steps", torch.zeros((), dtype=torch.long))
            self.last = None

        def forward(self, x):
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
            self.steps = self.steps + 1
            self.last = super().forward(x - self.mean)
            return self.last
    batch = vectors(0, 8)
    torch.manual_seed(0)
    for pins in (ROWS, {"*": None}):
        model, plain, plan, _ = planned_mlp(batch, model=Averages().double(), pins=pins)
        assert model.last is None and int(model.steps) == 0  # a plan changes nothing
        for step in range(2):
            x, y = vectors(step, 8)
            as_plain(model, plain, lambda m: m(x, y), lambda m: loss_fn(m(x), y))
            assert torch.allclose(model.mean, plain.mean, rtol=1e-12) and int(model.steps) == step + 1


@case
def tensors_that_the_module_keeps_between_steps_are_refused():
    class Remembers(MLP):
        def __init__(self):
            super().__init__()
            self.before = torch.zeros(8, 12).double()

        def forward(self, x):
            mixed, self.before = x + 0.5 * self.before, x
            return super().forward(mixed)
    with pytest.raises(UserError, match=r"assigns the tensor before, which is neither a parameter nor a buffer; register_buffer") as found:
        ct.plan(Remembers().double(), loss_fn, vectors(0, 8), mesh=mesh22(), **H100)
    assert "\n" not in str(found.value)


@case
def dropout_if_nothing_is_split():
    """All ranks draw the same numbers, whatever their own random states are."""
    class Dropped(MLP):
        def forward(self, x):
            return F.dropout(super().forward(x), 0.5, self.training)
    batch = vectors(0, 8)
    torch.manual_seed(0)
    model, _, plan, _ = planned_mlp(batch, model=Dropped().double(), pins={"*": None})
    torch.manual_seed(torch.distributed.get_rank())
    losses = torch.stack([model(*batch) for _ in range(3)]).detach()
    gathered = [torch.empty_like(losses) for _ in range(4)]
    torch.distributed.all_gather(gathered, losses)
    assert all(torch.equal(one, losses) for one in gathered) and len(losses.unique()) == 3


def held_beside():
    """A module and a loss that hold tensors which are neither parameters nor buffers: a scale, a table, weights of classes."""
    weights, shift = torch.linspace(0.5, 2, 8).double(), torch.arange(8).double()

    class Holds(MLP):
        def __init__(self):
            super().__init__()
            self.scale, self.table = torch.linspace(1, 2, 12).double(), torch.arange(8).flip(0)

        def forward(self, x):
            return super().forward(x * self.scale)[:, self.table]
    return Holds, lambda output, target: F.cross_entropy(output + shift, target, weight=weights)


@case
def tensors_that_the_model_or_the_loss_holds():
    batch, (holds, loss) = vectors(0, 8), held_beside()
    torch.manual_seed(0)
    model, plain, _, mesh = planned_mlp(batch, model=holds().double(), loss=loss)
    as_plain(model, plain, lambda m: m(*batch), lambda m: loss(m(batch[0]), batch[1]))
    assert model.check(*batch).good

    with torch.device("meta"):
        layers = MLP().double()
    torch.manual_seed(0)
    empty = holds().double()
    empty.layers = layers.layers
    plan = ct.plan(empty, loss, tuple(one.to("meta") for one in batch), mesh=mesh, pins=ROWS, **H100)
    torch.manual_seed(0)
    model = ct.parallelize(holds().double(), plan, mesh)
    plain.zero_grad()
    as_plain(model, plain, lambda m: m(*batch), lambda m: loss(m(batch[0]), batch[1]))


@case
def parameters_that_the_loss_holds_are_refused():
    batch = vectors(0, 8)
    temperature = torch.ones((), dtype=torch.float64, requires_grad=True)
    learned = nn.Linear(8, 8).double()
    for loss in (lambda output, target: F.cross_entropy(output * temperature, target), lambda output, target: F.cross_entropy(learned(output), target)):
        with pytest.raises(UserError, match=r"requires a gradient and is no parameter of the model; make it one") as found:
            ct.plan(mlp(), loss, batch, mesh=mesh22(), **H100)
        assert "\n" not in str(found.value)


@case
def compiled_passes():
    batch = vectors(0, 8)
    model, plain, _, _ = planned_mlp(batch)
    compiled = torch.compile(model)
    as_plain(model, plain, lambda m: compiled(*batch), lambda m: loss_fn(m(batch[0]), batch[1]))
    assert model._planned.compiled is not None


@case
def attention_with_a_mask():
    """PyTorch's layers pass a mask of padding by keyword."""
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(18, 3, 30, dropout=0.0, batch_first=True)
            self.layers, self.head = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), nn.Linear(18, 5)

        def forward(self, x, lengths):
            missing = torch.arange(x.shape[1]) >= lengths[:, None]
            return self.head(self.layers(x, src_key_padding_mask=missing)[:, 0])
    torch.manual_seed(0)
    batch = torch.randn(6, 7, 18).double(), torch.tensor([7, 3, 5, 1, 2, 6]), torch.randint(5, (6,))
    layer = "layers.layers.0"
    pins = {f"{layer}.self_attn.in_proj_weight": ("model", None), f"{layer}.linear1.weight": ("model", None), "batch.0": ("data", None, None)}
    model, plain, _, _ = planned_mlp(batch, model=Encoder().double(), pins=pins)
    as_plain(model, plain, lambda m: m(*batch), lambda m: loss_fn(m(*batch[:2]), batch[2]))
    assert model.check(*batch).good


@case
def parameters_and_buffers_called_by_numbers():
    """Those of nn.Sequential."""
    torch.manual_seed(0)
    batch = vectors(0, 6)
    built = nn.Sequential(nn.Linear(12, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Linear(20, 8)).double()
    model, plain, _, _ = planned_mlp(batch, model=built, pins={"0.weight": ("model", None), "3.*": None, "batch.0": ("data", None)})
    assert model[0].weight.placements == (Replicate(), Shard(0))
    as_plain(model, plain, lambda m: m(*batch), lambda m: loss_fn(m(batch[0]), batch[1]))
    assert torch.allclose(model[1].running_mean, plain[1].running_mean) and torch.allclose(model[1].running_var, plain[1].running_var)


@case
def ops_that_nobody_knows():
    """With lists of tensors, and gradients of their own."""
    @torch.library.custom_op("cleave_steps::weighted", mutates_args=())
    def weighted(tensors: list[torch.Tensor], weights: list[int]) -> torch.Tensor:
        return sum(torch.tanh(t) * w for t, w in zip(tensors, weights))

    @weighted.register_fake
    def _(tensors, weights):
        return torch.empty_like(tensors[0])

    @torch.library.custom_op("cleave_steps::weighted_backward", mutates_args=())
    def weighted_backward(grad: torch.Tensor, x: torch.Tensor, weight: int) -> torch.Tensor:
        return grad * weight * (1 - torch.tanh(x) ** 2)

    @weighted_backward.register_fake
    def _(grad, x, weight):
        return torch.empty_like(x)

    def save(ctx, inputs, output):
        ctx.save_for_backward(*inputs[0])
        ctx.weights = inputs[1]
    weighted.register_autograd(lambda ctx, grad: ([weighted_backward(grad, x, w) for x, w in zip(ctx.saved_tensors, ctx.weights)], None),
                               setup_context=save)

    class Uses(MLP):
        def forward(self, x):
            first = self.layers[0](x)
            return self.layers[1](weighted([first, first * 2], [1, 3]))
    torch.manual_seed(0)
    batch = vectors(0, 6)
    model, plain, _, _ = planned_mlp(batch, model=Uses().double())
    as_plain(model, plain, lambda m: m(*batch), lambda m: loss_fn(m(batch[0]), batch[1]))


@case
def meshes_of_some_ranks_in_any_order():
    batch = vectors(0, 8)
    rank = torch.distributed.get_rank()
    whole = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    columns = DeviceMesh("cpu", torch.tensor([[0, 2], [1, 3]]), mesh_dim_names=("data", "model"))
    for mesh in [columns, whole["model"]]:  # the last has two ranks, which plan and run beside the two others
        model, plain = mlp(), mlp()
        names = mesh.mesh_dim_names
        pins = {"layers.0.weight": (names[-1], None), "layers.1.weight": (names[0] if len(names) > 1 else None, names[-1])}
        plan = ct.plan(model, loss_fn, batch, mesh=mesh, pins=pins, **H100)
        model = ct.parallelize(model, plan, mesh)
        as_plain(model, plain, lambda m: m(*batch), lambda m: loss_fn(m(batch[0]), batch[1]))
        assert model.check(*batch).good, rank


@case
def what_changes_after_parallelize():
    batch = vectors(0, 8)

    def words(fragment, change, planned=None):
        model, _, _, _ = planned_mlp(batch, model=planned)
        change(model)
        with pytest.raises(UserError, match=fragment) as found:
            model(*batch)
        assert "\n" not in str(found.value)

    def replaced(model):
        model.layers[0] = nn.Linear(12, 20).double()

    def reassigned(model):
        model.layers[0].weight = nn.Parameter(torch.zeros(20, 12).double())
    frozen = mlp()
    frozen.layers[0].weight.requires_grad_(False)
    words("layers.0.weight was planned as torch.float64, and is torch.bfloat16", lambda model: model.bfloat16())
    words("layers.0 was replaced after parallelize", replaced)
    words("layers.0.weight was replaced after parallelize by a tensor that is no DTensor", reassigned)
    words("layers.0.weight was planned without a gradient", lambda model: model.requires_grad_(True), frozen)
    x = batch[0].clone().requires_grad_(True)
    model, _, _, _ = planned_mlp(batch)
    with pytest.raises(UserError, match="batch.0 was planned without a gradient"):
        model(x, batch[1])
    for call in (pickle.dumps, lambda one: torch.save(one, io.BytesIO())):
        with pytest.raises(UserError, match="is not pickled; save its state_dict"):
            call(model)


@case
def whole_state_dicts_are_split():
    batch = vectors(0, 8)
    torch.manual_seed(1)
    saved = MLP().double().state_dict()
    model, plain, _, _ = planned_mlp(batch)
    plain.load_state_dict(saved)
    assert model.load_state_dict(saved) == nn.modules.module._IncompatibleKeys([], [])
    assert model.layers[0].weight.placements == (Replicate(), Shard(0))
    as_plain(model, plain, lambda m: m(*batch), lambda m: loss_fn(m(batch[0]), batch[1]))
    with pytest.raises(RuntimeError, match="size mismatch for layers.0.weight"):
        model.load_state_dict(MLP((12, 24, 8)).double().state_dict())


@case
def wrong_use_says_what_is_wrong():
    batch = vectors(0, 8)
    x, y = batch

    def words(fragment, call, *args, **kwargs):
        with pytest.raises(UserError, match=fragment) as found:
            call(*args, **kwargs)
        assert "\n" not in str(found.value)
    model, plain, plan, mesh = planned_mlp(batch)
    flat = init_device_mesh("cpu", (4,), mesh_dim_names=("x",))
    words("the plan is for the mesh data=2, model=2, and the device mesh is x=4", ct.parallelize, mlp(), plan, flat)
    backwards = DeviceMesh("cpu", torch.tensor([[3, 2], [1, 0]]), mesh_dim_names=("data", "model"))
    words("ranks must grow along every dimension", ct.parallelize, mlp(), plan, backwards)
    words("not a tuple", ct.parallelize, mlp(), plan, (2, 2))
    words("not a function", ct.parallelize, loss_fn, plan, mesh)
    torch.manual_seed(torch.distributed.get_rank())
    words("layers.0.weight and 3 more are not the same on all ranks", ct.parallelize, MLP().double(), plan, mesh)
    words("0.weight has no shape yet", ct.plan, nn.Sequential(nn.LazyLinear(8)), loss_fn, (x.float(), y), mesh=mesh)
    words("it is .inductor. for a compiled step", ct.plan, plain, loss_fn, batch, mesh=mesh, executor="tensorrt")
    words("0 or more", ct.plan, plain, loss_fn, batch, mesh=mesh, optimizer=-1)
    words("layers.0.weight is", ct.parallelize, MLP((12, 24, 8)).double(), plan, mesh)
    words("has none of this name", ct.parallelize, nn.Linear(3, 3), plan, mesh)
    words("runs as planned already", ct.parallelize, model, plan, mesh)
    words("is not copied", copy.deepcopy, model)
    words("whole batch", model, x)
    words("planned with the shape", model, x[:3], y[:3])
    words("planned as torch.float64", model, x.float(), y)
    model.eval()
    words("planned in train mode", model, x, y)
    words("name the axes", ct.plan, plain, loss_fn, batch, mesh=(2, 2))
    words("give a mesh", ct.plan, plain, loss_fn, batch)
    words("is no function", ct.plan, plain, 3, batch, mesh=mesh)
    words("no parameter, buffer or tensor of the batch is called nothing", ct.plan, plain, loss_fn, batch, mesh=mesh, pins={"nothing.*": ()})
    words("optimizer", ct.plan, plain, loss_fn, batch, mesh=mesh, optimizer="shampoo")
    words("no way to call the loss function", ct.plan, plain, lambda out, target: out, batch, mesh=mesh)
    words("has no tensor", ct.plan, plain, loss_fn, (1, 2), mesh=mesh)
    words("no plan fits", ct.plan, plain, loss_fn, batch, mesh=mesh, memory="1KiB")
    assert difference(plain, plain) == 0
