"""A ResNet with batch norm on images: plain, planned, checked.

    python examples/torch/resnet.py --steps 10

Batch norm takes its mean over the whole batch, on however many devices that lies, so that the planned model is the
plain one, running statistics included. Look at what is sent: sums of statistics, and gradients.
"""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

import cleave.torch as ct
from launching import launched, mesh_of, say

BATCH, SIZE, CLASSES = 16, 16, 10


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.short = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))) + self.short(x))


class ResNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(Block(width, width, 1), Block(width, 2 * width, 2))
        self.head = nn.Linear(2 * width, CLASSES)

    def forward(self, x):
        return self.head(F.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1).flatten(1))


loss_fn = F.cross_entropy


def batch(step, size=BATCH):
    """Images of stripes, by the direction and the width of which their class is known."""
    random = torch.Generator().manual_seed(step)
    label = torch.randint(CLASSES, (size,), generator=random)
    grid = torch.arange(SIZE) / SIZE * 6.28
    waves = torch.sin(grid[None, :] * (label[:, None] % 5 + 1))
    images = torch.where(label[:, None, None] < 5, waves[:, None, :], waves[:, :, None]).expand(size, SIZE, SIZE)
    return images[:, None] + 0.3 * torch.randn(size, 3, SIZE, SIZE, generator=random), label


def train(model, loss_of, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
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
    model = ResNet()
    plain = copy.deepcopy(model)
    mesh = mesh_of(("data", "model"))
    plan = ct.plan(model, loss_fn, batch(0), mesh=mesh, machine="h100", memory="1500KiB", memory_share=1.0, optimizer="momentum",
                   time_limit=3)
    model = ct.parallelize(model, plan, mesh)
    say(plan)
    losses = train(model, model, steps)
    expected = train(plain, lambda x, y: loss_fn(plain(x), y), steps)
    for i, (loss, other) in enumerate(zip(losses, expected)):
        say(f"step {i}  loss {loss:.4f}  of the plain model {other:.4f}")
    off = (model.stem[1].running_mean - plain.stem[1].running_mean).abs().max()
    say(f"\nrunning means differ by {off:.1e}; the kernels of the last block lie as {model.blocks[1].conv2.weight.placements}")
    say(model.check(*batch(0)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    launched(main, parser.parse_args().steps)
