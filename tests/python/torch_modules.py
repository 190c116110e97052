"""Modules of many kinds from plain torch.nn, small, each with arguments: what users bring."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

MODULES = {}


def module(function):
    """Registers a function that returns a module and its arguments."""
    MODULES[function.__name__] = function
    return function


def example(name):
    torch.manual_seed(0)
    return MODULES[name]()


# Vision.


class ResidualBlock(nn.Module):
    def __init__(self, width, out, stride):
        super().__init__()
        self.a, self.b = nn.Conv2d(width, out, 3, stride, 1, bias=False), nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm_a, self.norm_b = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.short = nn.Sequential(nn.Conv2d(width, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.norm_b(self.b(F.relu(self.norm_a(self.a(x)))))
        return F.relu(y + self.short(x))


def small_resnet():
    return nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1), ResidualBlock(8, 16, 2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


@module
def resnet_train():
    return small_resnet().train(), (torch.randn(4, 3, 32, 32),)


@module
def resnet_eval():
    return small_resnet().eval(), (torch.randn(4, 3, 32, 32),)


class ViT(nn.Module):
    def __init__(self, width=32, heads=4, depth=2, patch=8, size=32):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width))
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, 0.0, F.gelu, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


@module
def vit():
    return ViT(), (torch.randn(4, 3, 32, 32),)


class ConvNeXtBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depth = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        y = self.depth(x).permute(0, 2, 3, 1)
        y = self.scale * self.down(F.gelu(self.up(self.norm(y))))
        return x + y.permute(0, 3, 1, 2)


@module
def convnext():
    return nn.Sequential(nn.Conv2d(3, 8, 4, 4), ConvNeXtBlock(8), ConvNeXtBlock(8)), (torch.randn(4, 3, 32, 32),)


class UNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.a, self.b, self.c = (nn.Conv2d(i, o, 3, padding=1) for i, o in ((3, width), (width, 2 * width), (3 * width, width)))
        self.up = nn.ConvTranspose2d(2 * width, 2 * width, 2, 2)
        self.norm = nn.InstanceNorm2d(width, affine=True)
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        one = F.relu(self.norm(self.a(x)))
        two = F.relu(self.b(F.max_pool2d(one, 2)))
        return self.head(F.relu(self.c(torch.cat([self.up(two), one], 1))))


@module
def unet():
    return UNet(), (torch.randn(4, 3, 16, 16),)


class InvertedResidual(nn.Module):
    def __init__(self, width, grow=4):
        super().__init__()
        inner = width * grow
        self.body = nn.Sequential(nn.Conv2d(width, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU6(),
                                  nn.Conv2d(inner, inner, 3, 1, 1, groups=inner, bias=False), nn.BatchNorm2d(inner),
                                  nn.Hardswish(), nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width))
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, 4, 1), nn.ReLU(), nn.Conv2d(4, width, 1),
                                     nn.Hardsigmoid())

    def forward(self, x):
        y = self.body(x)
        return x + y * self.squeeze(y)


@module
def mobilenet():
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), InvertedResidual(8), InvertedResidual(8)).eval(), (torch.randn(4, 3, 16, 16),)


@module
def vgg():
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(True), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(True),
              nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(144, 32), nn.ReLU(True), nn.Dropout(),
              nn.Linear(32, 10)]
    return nn.Sequential(*layers).eval(), (torch.randn(4, 3, 16, 16),)


class MixerBlock(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.norm_a, self.norm_b = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.width = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU("tanh"), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.tokens(self.norm_a(x).mT).mT
        return x + self.width(self.norm_b(x))


@module
def mixer():
    return nn.Sequential(MixerBlock(16, 24), MixerBlock(16, 24)), (torch.randn(4, 16, 24),)


@module
def dcgan():
    body = nn.Sequential(nn.ConvTranspose2d(16, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
                         nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.LeakyReLU(0.2),
                         nn.ConvTranspose2d(8, 3, 3, 2, 1, output_padding=1), nn.Tanh())
    return body, (torch.randn(4, 16, 1, 1),)


# Language.


def rotary(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


class GPTBlock(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm_a, self.norm_b = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.kv = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up, self.down = nn.Linear(width, 48, False), nn.Linear(width, 48, False), nn.Linear(48, width, False)

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        y = self.norm_a(x)
        q = self.q(y).view(batch, length, self.heads, self.size).transpose(1, 2)
        k, v = self.kv(y).view(batch, length, 2 * self.groups, self.size).transpose(1, 2).chunk(2, 1)
        q, k = rotary(q, cos, sin), rotary(k, cos, sin)
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(y)
        y = self.norm_b(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class GPT(nn.Module):
    def __init__(self, vocabulary=64, width=32, heads=4, groups=2, depth=2, length=16):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(GPTBlock(width, heads, groups) for _ in range(depth))
        self.norm = nn.RMSNorm(width)
        size = width // heads
        angles = torch.arange(length)[:, None] * 10000 ** (-torch.arange(0, size, 2) / size)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return F.linear(self.norm(x), self.embed.weight)


@module
def gpt():
    return GPT(), (torch.randint(0, 64, (4, 16)),)


class Bert(nn.Module):
    def __init__(self, vocabulary=50, width=32):
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width, padding_idx=0), nn.Embedding(12, width)
        self.norm = nn.LayerNorm(width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.norm(self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device)))
        mask = torch.zeros(tokens.shape, device=tokens.device).masked_fill(tokens == 0, -1e9)
        return self.head(self.encoder(x, src_key_padding_mask=mask))


@module
def bert():
    return Bert(), (torch.randint(0, 50, (4, 12)),)


class Translator(nn.Module):
    """Queries of one sequence look at another, with a table of relative places as bias."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.cross_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.bias = nn.Embedding(8, 1)
        self.up, self.down = nn.Linear(width, 64), nn.Linear(64, width)

    def forward(self, x, memory):
        n = x.shape[1]
        places = (torch.arange(n)[:, None] - torch.arange(n)[None]).clamp(0, 7)
        bias = self.bias(places).squeeze(-1) + torch.full((n, n), -1e9).triu(1)
        x = x + self.self_attention(*[self.norms[0](x)] * 3, attn_mask=bias, need_weights=False)[0]
        y, weights = self.cross_attention(self.norms[1](x), memory, memory)
        return x + y + self.down(F.relu(self.up(self.norms[2](x + y)))), weights


@module
def t5():
    return Translator(), (torch.randn(4, 6, 32), torch.randn(4, 10, 32))


class Experts(nn.Module):
    """Top-2 experts of a fixed capacity."""

    def __init__(self, width=16, inner=32, experts=4):
        super().__init__()
        self.experts, self.gate = experts, nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, inner) * 0.1)
        self.down = nn.Parameter(torch.randn(experts, inner, width) * 0.1)

    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        count, capacity = tokens.shape[0], tokens.shape[0]
        weight, expert = self.gate(tokens).softmax(-1).topk(2, -1)
        hot = F.one_hot(expert.reshape(-1), self.experts)
        place = (hot.cumsum(0) * hot).sum(-1) - 1
        slot = torch.where(place < capacity, expert.reshape(-1) * capacity + place, self.experts * capacity)
        inputs = tokens.new_zeros(self.experts * capacity + 1, x.shape[-1]).index_add(0, slot, tokens.repeat_interleave(2, 0))
        y = torch.bmm(F.gelu(torch.bmm(inputs[:-1].view(self.experts, capacity, -1), self.up)), self.down)
        y = torch.cat((y.reshape(-1, x.shape[-1]), tokens.new_zeros(1, x.shape[-1])))[slot] * weight.reshape(-1, 1)
        return y.view(count, 2, -1).sum(1).view_as(x)


@module
def mixture_of_experts():
    return Experts(), (torch.randn(4, 8, 16),)


class Mamba(nn.Module):
    """A selective state space, whose scan is a cumulative sum in logarithms."""

    def __init__(self, width=16, states=4):
        super().__init__()
        self.into, self.conv = nn.Linear(width, 2 * width), nn.Conv1d(width, width, 4, padding=3, groups=width)
        self.step, self.b, self.c = nn.Linear(width, width), nn.Linear(width, states), nn.Linear(width, states)
        self.rate = nn.Parameter(torch.randn(width, states) * 0.1)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        x, gate = self.into(x).chunk(2, -1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2))
        step = F.softplus(self.step(x))
        decay = -(step[..., None] * torch.exp(self.rate))
        total = decay.cumsum(1)
        inputs = step[..., None] * self.b(x)[:, :, None, :] * x[..., None]
        states = torch.exp(total) * (inputs * torch.exp(-total)).cumsum(1)
        return self.out((states * self.c(x)[:, :, None, :]).sum(-1) * F.silu(gate))


@module
def mamba():
    return Mamba(), (torch.randn(4, 8, 16),)


class Recurrent(nn.Module):
    def __init__(self, kind, vocabulary=40, width=16, **options):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.cells = kind(width, width, batch_first=True, **options)
        self.head = nn.Linear(width * (2 if options.get("bidirectional") else 1), vocabulary)

    def forward(self, tokens):
        return self.head(self.cells(self.embed(tokens))[0])


@module
def lstm_language_model():
    return Recurrent(nn.LSTM, num_layers=2), (torch.randint(0, 40, (4, 6)),)


@module
def rnn():
    return Recurrent(nn.RNN), (torch.randint(0, 40, (4, 6)),)


@module
def gru():
    return Recurrent(nn.GRU), (torch.randint(0, 40, (4, 6)),)


@module
def lstm_bidirectional():
    return Recurrent(nn.LSTM, bidirectional=True), (torch.randint(0, 40, (4, 5)),)


class CharCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 8)
        self.convs = nn.ModuleList(nn.Conv1d(8, 12, k) for k in (2, 3, 4))
        self.head = nn.Linear(36, 5)

    def forward(self, tokens):
        x = self.embed(tokens).transpose(1, 2)
        return F.log_softmax(self.head(torch.cat([F.relu(conv(x)).amax(-1) for conv in self.convs], 1)), -1)


@module
def char_cnn():
    return CharCNN(), (torch.randint(0, 30, (4, 12)),)


# Audio.


@module
def wav_encoder():
    layers = [nn.Conv1d(1, 8, 10, 5), nn.GroupNorm(4, 8), nn.GELU(), nn.Conv1d(8, 16, 3, 2, padding=1), nn.GELU(),
              nn.Conv1d(16, 16, 3, 2, dilation=2), nn.GELU()]
    return nn.Sequential(*layers), (torch.randn(4, 1, 160),)


class SpectrogramCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, (3, 5), (1, 2), (1, 2)), nn.BatchNorm2d(8), nn.ELU(), nn.AvgPool2d(2, ceil_mode=True),
                                  nn.Conv2d(8, 8, 3, padding="same", padding_mode="zeros"), nn.SiLU(), nn.AdaptiveMaxPool2d((1, 1)))
        self.head = nn.Linear(8, 6)

    def forward(self, wave):
        frames = wave.unfold(-1, 16, 8)
        power = torch.log1p((frames * torch.hann_window(16)).abs())
        return self.head(self.body(power.transpose(1, 2)[:, None]).flatten(1))


@module
def spectrogram_cnn():
    return SpectrogramCNN(), (torch.randn(4, 128),)


class Conformer(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.feed = nn.Sequential(nn.Linear(width, 32), nn.SiLU(), nn.Dropout(0.1), nn.Linear(32, width))
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.wide, self.depth, self.out = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 3, padding=1, groups=width), nn.Conv1d(width, width, 1)
        self.batch = nn.BatchNorm1d(width)

    def forward(self, x):
        x = x + 0.5 * self.feed(self.norms[0](x))
        y = self.norms[1](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = F.glu(self.wide(self.norms[2](x).transpose(1, 2)), 1)
        return x + self.out(F.silu(self.batch(self.depth(y)))).transpose(1, 2)


@module
def conformer():
    return Conformer().eval(), (torch.randn(4, 10, 16),)


# Graphs.


class GCN(nn.Module):
    def __init__(self, width=8, out=6):
        super().__init__()
        self.weight = nn.Linear(width, out)

    def forward(self, x, edges):
        source, target = edges
        degree = torch.zeros(x.shape[0]).index_add(0, target, torch.ones(target.shape[0])).clamp(min=1)
        messages = self.weight(x)[source] / (degree[source] * degree[target]).sqrt()[:, None]
        return F.relu(torch.zeros(x.shape[0], messages.shape[1]).index_add(0, target, messages))


def graph_arguments():
    return torch.randn(12, 8), torch.randint(0, 12, (2, 40))


@module
def gcn():
    return GCN(), graph_arguments()


class GAT(nn.Module):
    def __init__(self, width=8, out=6):
        super().__init__()
        self.weight, self.attention = nn.Linear(width, out, bias=False), nn.Linear(2 * out, 1)

    def forward(self, x, edges):
        source, target = edges
        h = self.weight(x)
        score = F.leaky_relu(self.attention(torch.cat([h[source], h[target]], -1))).squeeze(-1)
        most = torch.full((x.shape[0],), -1e9).scatter_reduce(0, target, score, "amax")
        power = (score - most[target]).exp()
        total = torch.zeros(x.shape[0]).scatter_add(0, target, power)
        weight = power / total[target].clamp(min=1e-9)
        return F.elu(torch.zeros_like(h).index_add(0, target, h[source] * weight[:, None]))


@module
def gat():
    return GAT(), graph_arguments()


class MessagePassing(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.message, self.update = nn.Linear(2 * width, width), nn.GRUCell(width, width)

    def forward(self, x, edges):
        for _ in range(2):
            m = F.relu(self.message(torch.cat([x[edges[0]], x[edges[1]]], -1)))
            mean = torch.zeros_like(x).scatter_reduce(0, edges[1][:, None].expand_as(m), m, "mean", include_self=False)
            x = self.update(mean, x)
        return x.mean(0)


@module
def message_passing():
    return MessagePassing(), graph_arguments()


# Recommenders, diffusion, others.


class DLRM(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(20, width, mode=mode) for mode in ("sum", "mean"))
        self.dense, self.top = nn.Linear(6, width), nn.Linear(width + 3, 1)

    def forward(self, dense, *sparse):
        parts = [F.relu(self.dense(dense))] + [bag(index) for bag, index in zip(self.bags, sparse)]
        stacked = torch.stack(parts, 1)
        products = torch.bmm(stacked, stacked.mT)
        rows, columns = torch.triu_indices(3, 3, 1)
        return torch.sigmoid(self.top(torch.cat([parts[0], products[:, rows, columns]], 1)))


@module
def dlrm():
    return DLRM(), (torch.randn(8, 6), torch.randint(0, 20, (8, 4)), torch.randint(0, 20, (8, 3)))


class DiffusionBlock(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.norm_a, self.norm_b = nn.GroupNorm(4, width), nn.GroupNorm(2, width)
        self.a, self.b = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, width))

    def forward(self, x, step):
        rates = torch.exp(-math.log(10000) * torch.arange(8) / 8)
        angles = step[:, None].float() * rates
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        y = self.a(F.silu(self.norm_a(x))) + time[:, :, None, None]
        y = x + self.b(F.silu(self.norm_b(y)))
        return F.interpolate(y, scale_factor=2, mode="nearest") + F.interpolate(x, size=16, mode="bilinear", align_corners=False)


@module
def diffusion():
    return DiffusionBlock(), (torch.randn(4, 8, 8, 8), torch.randint(0, 100, (4,)))


@module
def autoencoder():
    layers = [nn.Flatten(), nn.Linear(36, 16), nn.Tanh(), nn.Linear(16, 4), nn.Linear(4, 16), nn.Softplus(), nn.Linear(16, 36),
              nn.Sigmoid(), nn.Unflatten(1, (6, 6))]
    return nn.Sequential(*layers), (torch.rand(8, 6, 6),)


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(12, 16), nn.PReLU(), nn.Linear(16, 8))
        self.loss = nn.CosineEmbeddingLoss(margin=0.2)

    def forward(self, one, other, same):
        a, b = self.tower(one), self.tower(other)
        return self.loss(a, b, same), F.cosine_similarity(a, b), F.pairwise_distance(a, b)


@module
def siamese():
    return Siamese(), (torch.randn(8, 12), torch.randn(8, 12), torch.randint(0, 2, (8,)) * 2 - 1)
