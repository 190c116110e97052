"""Scaled dot product attention and its gradient as plain StableHLO, for those who do not keep it one op."""

import math

import torch

from cleave._core import UserError
from cleave.torch.lowering.table import lowers

aten = torch.ops.aten
FORWARD = (aten._scaled_dot_product_flash_attention_for_cpu.default, aten._scaled_dot_product_flash_attention.default,
           aten._scaled_dot_product_efficient_attention.default, aten._scaled_dot_product_cudnn_attention.default,
           aten._scaled_dot_product_fused_attention_overrideable.default)
BACKWARD = (aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
            aten._scaled_dot_product_flash_attention_backward.default,
            aten._scaled_dot_product_efficient_attention_backward.default,
            aten._scaled_dot_product_cudnn_attention_backward.default,
            aten._scaled_dot_product_fused_attention_overrideable_backward.default)


def by_name(op, args, kwargs):
    """Arguments by the names of the schema, with defaults."""
    values = {}
    for i, argument in enumerate(op._schema.arguments):
        values[argument.name] = args[i] if i < len(args) else kwargs.get(argument.name, argument.default_value)
    return values


def repeated(b, x, heads):
    """Heads of keys and values, for groups of queries."""
    n, h, s, e = x.shape
    if h == heads:
        return x
    return b.reshape(b.broadcast(x, (n, h, heads // h, s, e), [0, 1, 3, 4]), (n, heads, s, e))


def summed(b, x, heads):
    """The gradient of `repeated`."""
    n, h, s, e = x.shape
    return x if h == heads else b.reduce("add", b.reshape(x, (n, heads, h // heads, s, e)), [2])


def scores(b, q, k, mask, causal, scale):
    """Scaled, masked products of queries and keys."""
    y = b.mul(b.dot(q, k, ([3], [3]), ([0, 1], [0, 1])), scale)
    if causal:
        keep = b.compare("LE", b.iota(torch.int64, y.shape, 3), b.iota(torch.int64, y.shape, 2))
        y = b.select(keep, y, b.like(-math.inf, y))
    if mask is not None:
        if mask.dtype == torch.bool:
            y = b.select(b.expand(mask, y.shape), y, b.like(-math.inf, y))
        else:
            y = b.add(y, b.expand(b.cast(mask, y.dtype), y.shape))
    return y


def refuse_dropout(op, args, kwargs):
    if op in (*FORWARD, *BACKWARD) and by_name(op, args, kwargs)["dropout_p"]:
        raise UserError(f"{op}: dropout of attention draws numbers inside of the op, which no plan can repeat: set dropout_p = 0, or "
                        "run the module under torch.nn.attention.sdpa_kernel(SDPBackend.MATH)")


def parts(b, args, kwargs):
    v = by_name(b.op, args, kwargs)
    refuse_dropout(b.op, args, kwargs)
    scale = v["scale"] if v["scale"] is not None else 1 / math.sqrt(v["query"].shape[-1])
    q, k, w = (b.wide(v[name]) for name in ("query", "key", "value"))
    heads = q.shape[1]
    mask = v.get("attn_mask", v.get("attn_bias"))
    return v, q, repeated(b, k, heads), repeated(b, w, heads), mask, scale


@lowers(*FORWARD)
def attention(b, *args, **kwargs):
    v, q, k, w, mask, scale = parts(b, args, kwargs)
    s = scores(b, q, k, mask, v["is_causal"], scale)
    big = b.reduce("maximum", s, [3], True)
    big = b.select(b.compare("EQ", big, -math.inf), b.like(0, big), big)
    powers = b.unary("exponential", b.sub(s, b.expand(big, s.shape)))
    whole = b.reduce("add", powers, [3], True)
    nothing = b.compare("EQ", whole, 0)  # a row whose keys are all masked
    p = b.div(powers, b.expand(b.select(nothing, b.like(1, whole), whole), powers.shape))
    out = b.dot(p, w, ([3], [2]), ([0, 1], [0, 1]))
    lse = b.reshape(b.add(b.unary("log", whole), big), s.shape[:3])
    results = [out]
    for dtype, shape in b.out[1:]:
        if len(results) == 1 and shape and shape[:2] == s.shape[:2]:
            results.append(b.pad(lse, [0] * 3, [0, 0, shape[2] - s.shape[2]], value=math.inf) if len(shape) == 3 else lse)
        else:
            results.append(None if dtype is None else b.const(0, dtype, shape))
    return tuple(results)


@lowers(*BACKWARD)
def attention_backward(b, *args, **kwargs):
    v, q, k, w, mask, scale = parts(b, args, kwargs)
    grad, out = (b.wide(v[name]) for name in ("grad_out" if "grad_out" in v else "grad_out_", "out"))
    s = scores(b, q, k, mask, v["is_causal"], scale)
    lse = b.slice(b.cast(v["logsumexp"], s.dtype), [0] * 3, s.shape[:3])
    lse = b.select(b.compare("EQ", b.unary("abs", lse), math.inf), b.like(0, lse), lse)
    p = b.unary("exponential", b.sub(s, b.broadcast(lse, s.shape, [0, 1, 2])))
    batch = ([0, 1], [0, 1])
    dw = b.dot(p, grad, ([2], [2]), batch)
    dp = b.dot(grad, w, ([3], [3]), batch)
    delta = b.reduce("add", b.mul(grad, out), [3])
    ds = b.mul(p, b.sub(dp, b.broadcast(delta, dp.shape, [0, 1, 2])))
    dq = b.mul(b.dot(ds, k, ([3], [2]), batch), scale)
    dk = b.mul(b.dot(ds, q, ([2], [2]), batch), scale)
    heads = v["key"].shape[1]
    results = [dq, summed(b, dk, heads), summed(b, dw, heads)]
    if len(b.out) == 4:
        bias = None
        if b.out[3][0] is not None and mask is not None:
            shape = (1,) * (4 - mask.rank) + mask.shape
            dims = [d for d in range(4) if shape[d] == 1 and ds.shape[d] != 1]
            bias = b.reshape(b.reduce("add", ds, dims, True), mask.shape)
        results.append(bias)
    return tuple(results)
