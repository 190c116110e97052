"""What the tests of torch graphs share: random arguments, and torch beside Cleave's own engine."""

import cleave
import numpy as np
import torch
from cleave.torch.execution import to_fx

INTEGERS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "ui8": np.uint8, "ui16": np.uint16,
            "ui32": np.uint32, "ui64": np.uint64}  # fmt: skip
FLOATS = {"f32": np.float32, "f64": np.float64, "f16": np.float16}


def plain_dtype(dtype):
    short = {"float32": "f32", "float64": "f64", "float16": "f16", "bool": "i1", "bfloat16": "bf16"}
    return short.get(dtype) or dtype.replace("uint", "ui").replace("int", "i") if "int" in dtype else short.get(dtype, dtype)


def example(shape, dtype, rng):
    dtype = plain_dtype(dtype)
    if dtype in FLOATS:
        return np.asarray(rng.standard_normal(shape), dtype=FLOATS[dtype])
    if dtype == "i1":
        return np.asarray(rng.integers(0, 2, shape), dtype=bool)
    return np.asarray(rng.integers(0, 4, shape), dtype=INTEGERS[dtype])


def examples(module, seed):
    """Positive numbers where an optimizer keeps squares: all floats are, if the module has an argument that counts steps."""
    rng = np.random.default_rng(seed)
    made = [example(shape, dtype, rng) for shape, dtype in module.arguments()]
    trains = any(a.ndim == 0 and a.dtype == np.float32 for a in made)
    return [np.abs(a) * np.asarray(0.3, a.dtype) if trains and a.dtype.kind == "f" else a for a in made]


def close(actual, expected, exact=1e-4):
    if expected.dtype.kind not in "fc":
        return np.array_equal(actual, expected)
    finite = np.abs(expected[np.isfinite(expected)])
    scale = max(1e-3, float(np.max(finite, initial=0)))
    return np.allclose(actual, expected, rtol=exact, atol=exact / 10 * scale, equal_nan=True)


def run_one(module, *arguments, **options):
    """The results of torch's graph as NumPy arrays."""
    graph = to_fx(module, **options)
    return [t.numpy() if t.dtype != torch.bfloat16 else t.float().numpy() for t in graph(*map(as_torch, arguments))]


def as_torch(array):
    return torch.from_numpy(np.array(array))


def agree(text, *arguments, exact=1e-5):
    """torch gives what Cleave gives."""
    module = cleave.Module.parse(text)
    actual, expected = run_one(module, *arguments), cleave.run(module, *arguments)
    assert len(actual) == len(expected)
    for i, (a, e) in enumerate(zip(actual, expected)):
        e = np.asarray(e)
        assert a.shape == e.shape, f"result {i}: {a.shape} and not {e.shape}"
        assert close(a, e, exact), f"result {i}\ntorch {a}\ncleave {e}"
    return actual
