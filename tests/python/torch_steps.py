"""Models for planned steps, small and in f64, and what every rank does with them in the tests."""

import copy
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode

import cleave.torch as ct
from cleave import UserError

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/torch"))
import gpt  # noqa: E402
import moe  # noqa: E402
import resnet  # noqa: E402


class ViT(nn.Module):
    """Patches, plain layers of torch.nn, a learned position, a class token."""

    def __init__(self, d=32, heads=4, size=16, patch=4, classes=7):
        super().__init__()
        self.patches = nn.Conv2d(3, d, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, d) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, d) * 0.02)
        layer = nn.TransformerEncoderLayer(d, heads, 2 * d, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, classes)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(len(x), -1, -1), x), 1) + self.positions
        return self.head(self.norm(self.layers(x))[:, 0])


class MLP(nn.Module):
    def __init__(self, sizes=(12, 20, 8), tied=False):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        if tied:
            self.back = nn.Linear(sizes[-1], sizes[-2], bias=False)
            self.back.weight = self.layers[-1].weight = nn.Parameter(torch.randn(sizes[-1], sizes[-1]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


def images(step, size, classes=7):
    random = torch.Generator().manual_seed(step)
    return torch.randn(size, 3, 16, 16, generator=random, dtype=torch.float64), torch.randint(classes, (size,), generator=random)


def vectors(step, size):
    random = torch.Generator().manual_seed(step)
    x = torch.randn(size, 12, generator=random, dtype=torch.float64)
    return x, torch.randint(8, (size,), generator=random)


def sized(batch):
    return lambda step, size: tuple(one.double() if one.is_floating_point() else one for one in batch(step, size))


# By name: the model, its loss, a batch by step and size.
MODELS = {
    "gpt": (gpt.GPT, gpt.loss_fn, sized(gpt.batch)),
    "moe": (moe.Model, moe.loss_fn, lambda step, size: moe.batch(step)),
    "resnet": (lambda: resnet.ResNet(8), F.cross_entropy, sized(resnet.batch)),
    "vit": (ViT, F.cross_entropy, images),
    "mlp": (MLP, F.cross_entropy, vectors),
}
AXES = {(4,): ("x",), (2, 2): ("data", "model")}


def made(name, seed=0):
    torch.manual_seed(seed)
    build, loss_fn, batch = MODELS[name]
    return build().double(), loss_fn, batch


SHARES = (0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def planned(name, shape, size, tight=0, **options):
    """The module, its plan and its mesh. `tight`: within as little memory as there is a plan for, or the next larger share of what
    it takes unless something has to be split, and so on."""
    model, loss_fn, batch = made(name)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=AXES[shape])
    options = {"machine": "h100", "memory_share": 1.0, "time_limit": 2, **options}

    def plan_within(memory):
        return ct.plan(model, loss_fn, batch(0, size), mesh=shape, axes=AXES[shape], **options, memory=memory)
    plan = plan_within(None)
    if not tight:
        return model, plan, mesh
    most, fitting = plan.memory_bytes, 0
    for share in SHARES:
        try:
            plan = plan_within(int(share * most))
            fitting += 1
        except UserError:
            continue
        if fitting == tight:
            break
    return model, plan, mesh


def optimizer_of(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def trained(model, loss_of, batch, size, steps):
    optimizer, losses = optimizer_of(model), []
    for i in range(steps):
        loss = loss_of(*batch(i, size))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def difference(model, plain):
    """The largest difference of parameters and buffers, by the largest number of each."""
    found = 0.0
    for (name, a), (other, b) in zip(model.state_dict().items(), plain.state_dict().items()):
        assert name == other
        a = whole(a)
        if a.is_floating_point():
            found = max(found, float((a - b).detach().abs().max() / b.detach().abs().max().clamp(min=1e-3)))
        else:
            assert torch.equal(a, b), name
    return found


def steps_as_plain(name, shape, size, options, steps=10):
    """Ten steps beside the plain module: differences of losses and of what is left; what is split; collectives as counted by
    PyTorch and as planned."""
    model, plan, mesh = planned(name, shape, size, **options)
    plain = copy.deepcopy(model)
    _, loss_fn, batch = MODELS[name]
    model = ct.parallelize(model, plan, mesh)
    report = model.check(*batch(0, size))
    assert report.good
    with CommDebugMode() as counted:
        model(*batch(0, size)).backward()
    for parameter in model.parameters():
        parameter.grad = None
    losses = trained(model, model, batch, size, steps)
    expected = trained(plain, lambda x, y: loss_fn(plain(x), y), batch, size, steps)
    split = sum(any(p.is_shard() for p in parameter.placements) for parameter in model.parameters())
    # The plain module has taken no other steps than those, and batch norm counts them.
    off = max(abs(a - b) for a, b in zip(losses, expected))
    return {"losses": off, "split": split, "counted": counted.get_total_counts(), "rows": report.rows,
            "parameters": max(float((whole(a) - b).detach().abs().max()) for a, b in zip(model.parameters(), plain.parameters())),
            "bytes": plan.received_bytes}


def checkpoint_between_meshes(folder):
    """Two steps on 2x2, saved, loaded on 4, two more; beside four steps of the plain module."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    _, loss_fn, batch = MODELS["gpt"]
    first, plan, mesh = planned("gpt", (2, 2), 8, tight=1)
    plain = copy.deepcopy(first)
    first = ct.parallelize(first, plan, mesh)

    def stepped(model, optimizer, loss_of, numbers):
        for i in numbers:
            loss_of(*batch(i, 8)).backward()
            optimizer.step()
            optimizer.zero_grad()
    optimizer = optimizer_of(first)
    stepped(first, optimizer, first, (0, 1))
    model_state, optimizer_state = get_state_dict(first, optimizer)
    dcp.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=folder)

    second, plan, mesh = planned("gpt", (4,), 8, tight=2)
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.zero_()
    second = ct.parallelize(second, plan, mesh)
    optimizer = optimizer_of(second)
    stepped(second, optimizer, second, (5,))  # so that there is a state to load into
    model_state, optimizer_state = get_state_dict(second, optimizer)
    state = {"model": model_state, "optimizer": optimizer_state}
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(second, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    stepped(second, optimizer, second, (2, 3))
    stepped(plain, optimizer_of(plain), lambda x, y: loss_fn(plain(x), y), (0, 1, 2, 3))
    return difference(second, plain)
