"""Models whose modules JAX prints, for tests of the text and of everything behind it.

    python tests/reference/jax_models.py OUTDIR [NAME...]

writes OUTDIR/NAME.mlir for every model (or the named ones): train steps (loss, gradients, AdamW) of a
transformer with and without scan, of a mixture of experts and of a ResNet, a diffusion U-Net block with
its gradient, and forward passes. Nothing runs on a device: functions are traced and lowered only.
"""

import functools
import os
import sys

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P


def shaped(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


# --- AdamW over any tree of parameters.


def adamw(params, grads, first, second, step, rate=1e-3, b1=0.9, b2=0.95, eps=1e-8, decay=0.1):
    step = step + 1.0

    def update(p, g, m, v):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        direction = (m / (1 - b1**step)) / (jnp.sqrt(v / (1 - b2**step)) + eps)
        return p - rate * (direction + decay * p), m, v

    flat = jax.tree.map(update, params, grads, first, second)
    pick = lambda i: jax.tree.map(lambda t: t[i], flat, is_leaf=lambda t: isinstance(t, tuple))
    return pick(0), pick(1), pick(2), step


def train_step(loss):
    def step_fn(params, first, second, step, *batch):
        value, grads = jax.value_and_grad(loss)(params, *batch)
        params, first, second, step = adamw(params, grads, first, second, step)
        return params, first, second, step, value

    return step_fn


def train_arguments(params, *batch):
    return (params, params, params, shaped(), *batch)


# --- Transformer.


def norm(x, scale):
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def attention(x, layer):
    q = jnp.einsum("btd,dhk->bthk", x, layer["query"])
    k = jnp.einsum("btd,dhk->bthk", x, layer["key"])
    v = jnp.einsum("btd,dhk->bthk", x, layer["value"])
    scores = jnp.einsum("bthk,bshk->bhts", q, k) / (q.shape[-1] ** 0.5)
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    return jnp.einsum("bhts,bshk,hkd->btd", weights, v, layer["out"])


def dense_mlp(x, layer):
    return jax.nn.gelu(x @ layer["up"]) @ layer["down"]


def transformer_layer(x, layer, mlp=dense_mlp):
    x = x + attention(norm(x, layer["attention_norm"]), layer)
    return x + mlp(norm(x, layer["mlp_norm"]), layer)


def layer_shapes(d, heads, ff, prefix=()):
    s = lambda *shape: shaped(*prefix, *shape)
    return dict(query=s(d, heads, d // heads), key=s(d, heads, d // heads),
                value=s(d, heads, d // heads), out=s(heads, d // heads, d), up=s(d, ff),
                down=s(ff, d), attention_norm=s(d), mlp_norm=s(d))


def cross_entropy(logits, labels):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1))


def transformer(layers=2, scan=False, d=64, heads=4, ff=256, vocab=256, batch=8, time=32):
    def loss(params, tokens):
        x = params["embedding"][tokens[:, :-1]]
        if scan:
            x, _ = lax.scan(lambda x, layer: (transformer_layer(x, layer), None), x,
                            params["layers"])
        else:
            for layer in params["layers"]:
                x = transformer_layer(x, layer)
        return cross_entropy(norm(x, params["final_norm"]) @ params["embedding"].T, tokens[:, 1:])

    stack = (layer_shapes(d, heads, ff, (layers,)) if scan else
             [layer_shapes(d, heads, ff) for _ in range(layers)])
    params = dict(embedding=shaped(vocab, d), final_norm=shaped(d), layers=stack)
    return train_step(loss), train_arguments(params, shaped(batch, time + 1, dtype=jnp.int32))


# --- Mixture of experts: top-2 routing with a capacity, as einsums over one-hot masks.


def experts_mlp(x, layer, capacity=16):
    batch, time, d = x.shape
    tokens = x.reshape(batch * time, d)
    gates = jax.nn.softmax(tokens @ layer["router"])
    weights, chosen = lax.top_k(gates, 2)
    weights = weights / jnp.sum(weights, axis=-1, keepdims=True)
    expert_mask = jax.nn.one_hot(chosen, gates.shape[-1])
    position = jnp.cumsum(expert_mask.reshape(-1, gates.shape[-1]), axis=0).reshape(
        expert_mask.shape) - 1
    kept = expert_mask * (position < capacity)
    slots = jax.nn.one_hot(position.astype(jnp.int32), capacity) * kept[..., None]
    combine = jnp.einsum("nk,nkec->nec", weights, slots)
    dispatched = jnp.einsum("nec,nd->ecd", (combine > 0).astype(x.dtype), tokens)
    hidden = jax.nn.silu(jnp.einsum("ecd,edf->ecf", dispatched, layer["up"]))
    result = jnp.einsum("ecf,efd->ecd", hidden, layer["down"])
    return jnp.einsum("nec,ecd->nd", combine, result).reshape(x.shape)


def mixture_of_experts(layers=2, d=64, heads=4, ff=128, experts=8, vocab=256, batch=4, time=16):
    def loss(params, tokens):
        x = params["embedding"][tokens[:, :-1]]
        for layer in params["layers"]:
            x = transformer_layer(x, layer, experts_mlp)
        return cross_entropy(norm(x, params["final_norm"]) @ params["embedding"].T, tokens[:, 1:])

    def layer():
        shapes = layer_shapes(d, heads, ff)
        shapes.update(router=shaped(d, experts), up=shaped(experts, d, ff),
                      down=shaped(experts, ff, d))
        return shapes

    params = dict(embedding=shaped(vocab, d), final_norm=shaped(d),
                  layers=[layer() for _ in range(layers)])
    return train_step(loss), train_arguments(params, shaped(batch, time + 1, dtype=jnp.int32))


# --- ResNet.


def convolve(x, kernel, stride=1):
    return lax.conv_general_dilated(x, kernel, (stride, stride), "SAME",
                                    dimension_numbers=("NHWC", "HWIO", "NHWC"))


def batch_norm(x, p):
    mean = jnp.mean(x, axis=(0, 1, 2))
    variance = jnp.var(x, axis=(0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * p["scale"] + p["offset"]


def residual_block(x, p, stride):
    y = jax.nn.relu(batch_norm(convolve(x, p["first"], stride), p["first_norm"]))
    y = batch_norm(convolve(y, p["second"]), p["second_norm"])
    shortcut = convolve(x, p["project"], stride) if "project" in p else x
    return jax.nn.relu(y + shortcut)


def resnet(batch=8, size=32, classes=10, widths=(16, 32, 64)):
    norm_shapes = lambda width: dict(scale=shaped(width), offset=shaped(width))

    def block(channels, width):
        p = dict(first=shaped(3, 3, channels, width), second=shaped(3, 3, width, width),
                 first_norm=norm_shapes(width), second_norm=norm_shapes(width))
        if channels != width:
            p["project"] = shaped(1, 1, channels, width)
        return p

    pairs = list(zip((widths[0], *widths), widths))
    params = dict(stem=shaped(7, 7, 3, widths[0]), stem_norm=norm_shapes(widths[0]),
                  blocks=[block(a, b) for a, b in pairs], head=shaped(widths[-1], classes))

    def loss(params, images, labels):
        x = jax.nn.relu(batch_norm(convolve(images, params["stem"], 2), params["stem_norm"]))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for (channels, width), p in zip(pairs, params["blocks"]):
            x = residual_block(x, p, 1 if channels == width else 2)
        return cross_entropy(jnp.mean(x, axis=(1, 2)) @ params["head"], labels)

    return train_step(loss), train_arguments(params, shaped(batch, size, size, 3),
                                             shaped(batch, dtype=jnp.int32))


# --- A diffusion U-Net block: down, attention, up, with a time embedding; value and gradient.


def group_norm(x, p, groups=8):
    shape = x.shape
    x = x.reshape(*shape[:-1], groups, shape[-1] // groups)
    mean = jnp.mean(x, axis=(1, 2, 4), keepdims=True)
    variance = jnp.var(x, axis=(1, 2, 4), keepdims=True)
    return ((x - mean) * lax.rsqrt(variance + 1e-5)).reshape(shape) * p["scale"] + p["offset"]


def time_embedding(t, width):
    frequencies = jnp.exp(-jnp.arange(width // 2) * (jnp.log(10000.0) / (width // 2)))
    angles = t[:, None] * frequencies[None]
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def unet_block(batch=4, size=16, channels=32, width=64):
    norm_shapes = lambda n: dict(scale=shaped(n), offset=shaped(n))
    params = dict(
        inner=shaped(3, 3, channels, width), time=shaped(width, width),
        down=shaped(3, 3, width, width), up=shaped(3, 3, width, width),
        outer=shaped(3, 3, 2 * width, channels), inner_norm=norm_shapes(channels),
        outer_norm=norm_shapes(2 * width), attention_norm=shaped(width),
        attention={name: shaped(width, 4, width // 4) for name in ("query", "key", "value")}
        | dict(out=shaped(4, width // 4, width)))

    def apply(params, x, t):
        h = convolve(jax.nn.silu(group_norm(x, params["inner_norm"])), params["inner"])
        h = h + (jax.nn.silu(time_embedding(t, width)) @ params["time"])[:, None, None]
        small = convolve(h, params["down"], 2)
        flat = small.reshape(batch, -1, width)
        flat = flat + attention(norm(flat, params["attention_norm"]), params["attention"])
        up = lax.conv_transpose(flat.reshape(small.shape), params["up"], (2, 2), "SAME")
        joined = jax.nn.silu(group_norm(jnp.concatenate([h, up], axis=-1), params["outer_norm"]))
        return x + convolve(joined, params["outer"])

    def loss(params, x, t, noise):
        return jnp.mean((apply(params, x, t) - noise) ** 2)

    images = shaped(batch, size, size, channels)
    return jax.value_and_grad(loss), (params, images, shaped(batch), images)


# --- With shardings, as a user annotates them.


def sharded_transformer():
    mesh = Mesh(jax.devices()[:8], ("data",)) if len(jax.devices()) < 8 else jax.make_mesh(
        (2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    step, arguments = transformer(layers=2)
    replicated = jax.tree.map(lambda _: None, arguments)
    shard = lambda *spec: NamedSharding(mesh, P(*spec))
    params = dict(arguments[0])
    specs = jax.tree.map(lambda _: shard(), params)
    for layer in specs["layers"]:
        layer.update(query=shard(None, "model"), key=shard(None, "model"),
                     value=shard(None, "model"), up=shard(None, "model"), down=shard("model"))
    del replicated
    in_shardings = (specs, specs, specs, None, shard("data"))
    return functools.partial(jax.jit(step, in_shardings=in_shardings).lower), arguments


MODELS = {
    "transformer": lambda: transformer(),
    "transformer_scan": lambda: transformer(scan=True, layers=4),
    "transformer_12": lambda: transformer(layers=12, d=128, heads=8, ff=512),
    "transformer_scan_12": lambda: transformer(layers=12, scan=True, d=128, heads=8, ff=512),
    "transformer_bfloat16": lambda: in_bfloat16(transformer()),
    "mixture_of_experts": lambda: mixture_of_experts(),
    "resnet": lambda: resnet(),
    "unet_block": lambda: unet_block(),
}


def in_bfloat16(model):
    step, arguments = model
    narrow = lambda s: shaped(*s.shape, dtype=jnp.bfloat16) if s.dtype == jnp.float32 else s
    return step, jax.tree.map(narrow, arguments)


def module_text(name):
    """The module of a model as JAX prints it."""
    if name == "transformer_sharded":
        lower, arguments = sharded_transformer()
        return lower(*arguments).as_text()
    step, arguments = MODELS[name]()
    return jax.jit(step).lower(*arguments).as_text()


def main():
    directory, *names = sys.argv[1:]
    os.makedirs(directory, exist_ok=True)
    for name in names or [*MODELS, "transformer_sharded"]:
        text = module_text(name)
        with open(os.path.join(directory, name + ".mlir"), "w") as file:
            file.write(text)
        print(f"{name}: {text.count(chr(10))} lines")


if __name__ == "__main__":
    main()
