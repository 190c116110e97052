"""A GPT with grouped-query attention and rotary positions: plain, planned, checked.

    python examples/torch/gpt.py --steps 10                    # four processes of this host
    torchrun --nproc-per-node 8 examples/torch/gpt.py          # or as many as there are

The model is plain torch.nn and says nothing about devices. `plan` finds the layout of every tensor of a train step for
H100s with little memory each; `parallelize` makes its parameters DTensors, and a step runs on the parts of every rank
with the planned collectives. Look at three things: the loop is an ordinary one; the losses are those of the plain
model; the check sets what was sent beside what was planned.
"""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

import cleave.torch as ct
from launching import launched, mesh_of, say

LAYERS, D, HEADS, KV_HEADS, HIDDEN, VOCAB, BATCH, LENGTH = 2, 128, 8, 4, 384, 256, 16, 64
HEAD = D // HEADS


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(D))

    def forward(self, x):
        return self.scale * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Attention(nn.Module):
    """Every HEADS / KV_HEADS queries share one head of keys and values."""

    def __init__(self):
        super().__init__()
        self.q, self.o = nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False)
        self.k, self.v = (nn.Linear(D, KV_HEADS * HEAD, bias=False) for _ in range(2))

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape

        def heads(linear):
            return linear(x).view(batch, length, -1, HEAD).transpose(1, 2)

        q, k, v = heads(self.q), heads(self.k), heads(self.v)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (t.repeat_interleave(HEADS // KV_HEADS, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))


def rotate(x, cos, sin):
    """Rotary positions: pairs of numbers turn by an angle that grows with the position."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention, self.norm2 = Norm(), Attention(), Norm()
        self.gate, self.up = nn.Linear(D, HIDDEN, bias=False), nn.Linear(D, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, D, bias=False)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.norm1(x), cos, sin)
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, D)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = Norm(), nn.Linear(D, VOCAB, bias=False)
        angles = torch.arange(LENGTH)[:, None] * 1e4 ** (-torch.arange(HEAD // 2) / (HEAD // 2))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.head(self.norm(x))


def loss_fn(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def batch(step, size=BATCH):
    """Sequences that count in steps of 1 to 4, the same on all ranks."""
    random = torch.Generator().manual_seed(step)
    first, by = torch.randint(VOCAB, (size, 1), generator=random), torch.randint(1, 5, (size, 1), generator=random)
    tokens = (first + by * torch.arange(LENGTH + 1)) % VOCAB
    return tokens[:, :-1], tokens[:, 1:].contiguous()


def train(model, loss_of, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for i in range(steps):
        loss = loss_of(*batch(i))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def main(steps):
    torch.manual_seed(0)
    model = GPT()
    plain = copy.deepcopy(model)
    mesh = mesh_of(("data", "model"))
    plan = ct.plan(model, loss_fn, batch(0), mesh=mesh, machine="h100", memory="12MiB", memory_share=1.0, time_limit=3)
    model = ct.parallelize(model, plan, mesh)
    say(plan)

    losses = train(model, model, steps)
    expected = train(plain, lambda x, y: loss_fn(plain(x), y), steps)
    for i, (loss, other) in enumerate(zip(losses, expected)):
        say(f"step {i}  loss {loss:.4f}  of the plain model {other:.4f}")
    say(f"\nquery weights lie as {model.layers[0].attention.q.weight.placements}")
    report = model.check(*batch(0))
    say(report)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    launched(main, parser.parse_args().steps)
