#!/usr/bin/env python3
"""GPT-2 planned for a mesh of one GPU and compiled, beside the plain compiled module, in turns.

    bench/torch_speed.py [--steps 20] [--layers 12]

Parameters in f32, autocast to bf16, fused AdamW, 8 x 1024 tokens. Prints the median of the steps of each, and the ratio.
"""

import argparse
import copy
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

import cleave.torch as ct


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        batch, length, d = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, d))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, layers, d, heads, vocab, length):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, d), nn.Embedding(length, d)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, vocab, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss_fn(logits, targets):
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def main(options):
    on_gpu = torch.cuda.is_available()
    device = "cuda" if on_gpu else "cpu"
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29555")
    dist.init_process_group("nccl" if on_gpu else "gloo", rank=0, world_size=1)
    mesh = dist.device_mesh.init_device_mesh(device, (1,), mesh_dim_names=("x",))
    sizes = dict(d=768, heads=12, vocab=50304, length=1024) if on_gpu else dict(d=64, heads=4, vocab=256, length=32)
    torch.manual_seed(0)
    plain = GPT2(options.layers, **sizes).to(device)
    tokens = torch.randint(sizes["vocab"], (8, sizes["length"] + 1), device=device)
    batch = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    planned = copy.deepcopy(plain)
    with torch.autocast(device, torch.bfloat16):
        plan = ct.plan(planned, loss_fn, batch, mesh=mesh, machine="h200")
    planned = ct.parallelize(planned, plan, mesh, compile=True)
    compiled = torch.compile(lambda x, y: loss_fn(plain(x), y))
    ways = {"plain": lambda: compiled(*batch), "planned": lambda: planned(*batch)}
    optimizers = {"plain": torch.optim.AdamW(plain.parameters(), 1e-4, fused=True),
                  "planned": torch.optim.AdamW(planned.parameters(), 1e-4, fused=True)}
    times, losses = {way: [] for way in ways}, {}
    for i in range(options.steps + 4):
        for way, run in ways.items():
            begin = time.perf_counter()
            with torch.autocast(device, torch.bfloat16):
                loss = run()
            loss.backward()
            optimizers[way].step()
            optimizers[way].zero_grad(set_to_none=True)
            if on_gpu:
                torch.cuda.synchronize()
            if i >= 4:
                times[way].append(time.perf_counter() - begin)
            losses[way] = float(loss.detach())
    medians = {way: 1e3 * sorted(found)[len(found) // 2] for way, found in times.items()}
    name = torch.cuda.get_device_name() if on_gpu else "CPU"
    print(f"{name}, torch {torch.__version__}: plain {medians['plain']:.2f} ms, planned {medians['planned']:.2f} ms, "
          f"{medians['planned'] / medians['plain']:.3f} of it; losses after {options.steps + 4} steps {losses['plain']:.5f} and "
          f"{losses['planned']:.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--layers", type=int, default=12)
    main(parser.parse_args())
