"""Layouts, dtypes and arrays in all the ways in which a user has them, as Cleave reads them."""

from cleave._core import UserError

WAYS = """P("data", None), '[{"data"}, {}]' or ["data", None]"""


def spec_text(spec, rank=None):
    """[{"data"}, {}] of a P of Cleave or JAX, a Sharding, text, or a list of axes by dimension."""
    if spec is None:
        if rank is None:
            raise UserError(f"Sharding: None says nothing without a rank; {WAYS}")
        return "[" + ", ".join(["{}"] * rank) + "]"
    if isinstance(spec, str):
        if not spec.lstrip().startswith("["):
            raise UserError(f'"{spec}" is no layout; P("{spec}") splits the first dimension over an axis of that name; {WAYS}')
        return spec
    if hasattr(spec, "spec") and hasattr(spec, "mesh"):  # a NamedSharding of JAX
        spec = spec.spec
    text = getattr(spec, "text", None)
    if isinstance(text, str):  # a P or a Sharding of Cleave
        return padded_text(text, len(spec) if hasattr(spec, "__len__") else rank, rank)
    if callable(text):
        return text(rank)
    try:
        entries = list(spec)
    except TypeError:
        raise UserError(f"{spec!r} is no layout; {WAYS}") from None
    if rank is not None and len(entries) > rank:
        raise UserError(f"{spec!r} is for {len(entries)} dimensions or more, and there are {rank}")
    entries += [None] * ((rank or 0) - len(entries))
    text = "[" + ", ".join(entry_text(entry, spec) for entry in entries) + "]"
    # JAX's PartitionSpec has these beside its entries.
    if getattr(spec, "reduced", None):
        raise UserError(f"{spec!r}: reduced axes have no counterpart")
    pending = sorted(getattr(spec, "unreduced", ()) or ())
    return text + (", unreduced={" + ", ".join(f'"{axis}"' for axis in pending) + "}" if pending else "")


def padded_text(text, count, rank):
    """With whole dimensions after the `count` that the text has: [{"x"}], replicated={"y"} -> [{"x"}, {}], replicated={"y"}"""
    if rank is None or count == rank:
        return text
    if count > rank:
        raise UserError(f"{text} is for {count} dimensions, and there are {rank}")
    quoted = False
    for at, letter in enumerate(text):
        quoted ^= letter == '"'
        if letter == "]" and not quoted:
            return text[:at] + ", ".join([""] * (count > 0) + ["{}"] * (rank - count)) + text[at:]
    return text


def entry_text(entry, spec):
    if entry is None:
        return "{}"
    if isinstance(entry, str):
        return f'{{"{entry}"}}'
    if isinstance(entry, (tuple, list)) and all(isinstance(axis, str) for axis in entry):
        return "{" + ", ".join(f'"{axis}"' for axis in entry) + "}"
    if entry is Ellipsis or type(entry).__name__ == "UnconstrainedSingleton":
        return "{?}"
    raise UserError(f"{spec!r}: {entry!r} is no axis; a dimension has a name, several names or None")


def placements_text(placements):
    """S(0), R, P(sum): of text, a list of such words, or placements of torch.distributed.tensor."""
    if isinstance(placements, str):
        return placements
    return ", ".join(one if isinstance(one, str) else placement_text(one) for one in placements)


def placement_text(placement):
    if hasattr(placement, "split_factor"):
        return f"SS({placement.dim},{placement.split_factor})"
    if hasattr(placement, "is_shard"):
        if placement.is_shard():
            return f"S({placement.dim})"
        if placement.is_replicate():
            return "R"
        if placement.is_partial():
            return f"P({ {'product': 'prod'}.get(placement.reduce_op, placement.reduce_op) })"
    raise UserError(f"{placement!r} is no placement; S(0), R and P(sum) are")


def torch_placements(sharding):
    """The placements of a sharding as objects of PyTorch."""
    from torch.distributed.tensor import Partial, Replicate, Shard

    made = []
    for text in sharding.placements:
        kind, _, inside = text.rstrip(")").partition("(")
        if kind == "R":
            made.append(Replicate())
        elif kind == "S":
            made.append(Shard(int(inside)))
        elif kind == "P":
            made.append(Partial({"prod": "product"}.get(inside, inside)))
        else:
            from torch.distributed.tensor.placement_types import _StridedShard

            dim, factor = inside.split(",")
            made.append(_StridedShard(int(dim), split_factor=int(factor)))
    return tuple(made)


DTYPES = {"bool": "i1", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
          "complex64": "complex<f32>", "complex128": "complex<f64>"}
for _bits in (2, 4, 8, 16, 32, 64):
    DTYPES[f"int{_bits}"], DTYPES[f"uint{_bits}"] = f"i{_bits}", f"ui{_bits}"
for _name in ("e3m4", "e4m3", "e4m3fn", "e4m3fnuz", "e4m3b11fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"):
    DTYPES[f"float8_{_name}"] = "f8" + _name.upper()
NUMPY_NAMES = {text: name for name, text in DTYPES.items()}


def dtype_name(dtype):
    """f32 of "f32", "float32", numpy.float32, jax.numpy.float32 or torch.float32."""
    if isinstance(dtype, str):
        return DTYPES.get(dtype, dtype)
    for name in (getattr(dtype, "name", None), getattr(dtype, "__name__", None), str(dtype)):
        if isinstance(name, str) and name.removeprefix("torch.") in DTYPES:
            return DTYPES[name.removeprefix("torch.")]
    if dtype in (float, int, complex):
        return {float: "f64", int: "i64", complex: "complex<f64>"}[dtype]
    inner = getattr(dtype, "dtype", None)  # of jax.numpy.float32
    if inner is not None and inner is not dtype and hasattr(inner, "name"):
        return dtype_name(inner)
    raise UserError(f"{dtype!r} is no dtype that Cleave knows; float32 is one")


def array_parts(array):
    """dtype, shape and bytes of anything that NumPy takes."""
    import numpy as np

    whole = np.asarray(array)
    if whole.dtype.kind == "O":
        raise UserError(f"{type(array).__name__} is no array of numbers")
    shape = whole.shape
    return dtype_name(whole.dtype), list(shape), np.ascontiguousarray(whole).reshape(-1).view(np.uint8)


def array_of_parts(dtype, shape, data):
    import numpy as np

    name = NUMPY_NAMES.get(dtype)
    if name is None:
        raise UserError(f"NumPy has no array of {dtype}")
    try:
        found = np.dtype(name)
    except TypeError:
        try:
            import ml_dtypes
        except ImportError:
            raise UserError(f"arrays of {name} need the package ml_dtypes: pip install ml_dtypes") from None
        found = np.dtype(getattr(ml_dtypes, name))
    return data.view(found).reshape(shape)
