"""A mixture of experts with a fixed capacity, in a small language model: plain, planned, checked.

    python examples/torch/moe.py --steps 10

Every token goes to two of eight experts. Tokens are put into the places of their experts by `index_add` and taken from
there by indices, so that all shapes are known. Look at where the plan puts the experts' weights.
"""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

import cleave.torch as ct
from launching import launched, mesh_of, say

D, HIDDEN, EXPERTS, CHOSEN, VOCAB, BATCH, LENGTH = 64, 256, 8, 2, 128, 8, 32
CAPACITY = BATCH * LENGTH * CHOSEN // EXPERTS * 3 // 2


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(D, EXPERTS, bias=False)
        self.up = nn.Parameter(torch.randn(EXPERTS, D, HIDDEN) * D**-0.5)
        self.down = nn.Parameter(torch.randn(EXPERTS, HIDDEN, D) * HIDDEN**-0.5)

    def forward(self, x):
        tokens = x.reshape(-1, D)
        weights, experts = self.router(tokens).softmax(-1).topk(CHOSEN, -1)
        chosen = F.one_hot(experts.reshape(-1), EXPERTS)
        place = (chosen.cumsum(0) * chosen).sum(-1) - 1  # among those of the same expert
        slot = torch.where(place < CAPACITY, experts.reshape(-1) * CAPACITY + place, EXPERTS * CAPACITY)
        slots = tokens.new_zeros(EXPERTS * CAPACITY + 1, D).index_add(0, slot, tokens.repeat_interleave(CHOSEN, 0))
        h = torch.bmm(F.gelu(torch.bmm(slots[:-1].view(EXPERTS, CAPACITY, D), self.up)), self.down).reshape(-1, D)
        y = torch.cat((h, h.new_zeros(1, D)))[slot] * weights.reshape(-1, 1)
        return y.view(-1, CHOSEN, D).sum(1).view(x.shape)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(VOCAB, D), nn.LayerNorm(D)
        self.experts, self.head = Experts(), nn.Linear(D, VOCAB)

    def forward(self, tokens):
        x = self.embed(tokens)
        return self.head(x + self.experts(self.norm(x)))


def loss_fn(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def batch(step):
    random = torch.Generator().manual_seed(step)
    tokens = torch.randint(VOCAB, (BATCH, LENGTH), generator=random)
    return tokens, (tokens * 5 + 3) % VOCAB


def train(model, loss_of, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for i in range(steps):
        loss = loss_of(*batch(i))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def main(steps):
    torch.manual_seed(0)
    model = Model()
    plain = copy.deepcopy(model)
    mesh = mesh_of(("data", "expert"))
    plan = ct.plan(model, loss_fn, batch(0), mesh=mesh, machine="h100", memory="3MiB", memory_share=1.0, time_limit=3)
    model = ct.parallelize(model, plan, mesh)
    say(plan)
    losses = train(model, model, steps)
    expected = train(plain, lambda x, y: loss_fn(plain(x), y), steps)
    for i, (loss, other) in enumerate(zip(losses, expected)):
        say(f"step {i}  loss {loss:.4f}  of the plain model {other:.4f}")
    say(f"\nexperts' weights lie as {model.experts.up.placements}")
    say(model.check(*batch(0)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    launched(main, parser.parse_args().steps)
