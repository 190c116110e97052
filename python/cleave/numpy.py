"""Functions over Tensors with NumPy's names and meaning; those that NumPy lacks have JAX's or Cleave's.

Dtypes are promoted as in JAX: a Python number takes the dtype of the tensor that it meets, float32 with int32 is float32.
"""

import builtins
import math

from cleave import _core, dtypes
from cleave._core import UserError

globals().update({name: getattr(_core.numpy, name) for name in dir(_core.numpy) if not name.startswith("_")})
_np = _core.numpy

pi, e, inf, nan, newaxis = math.pi, math.e, math.inf, math.nan, None
ndarray = _core.Tensor


def array(object, dtype=None):
    """A Tensor of numbers, lists or arrays: `cleave.tensor`."""
    from cleave.tensors import tensor

    return tensor(object, dtype)


def asarray(a, dtype=None):
    from cleave.tensors import asarray

    return asarray(a, dtype)


def shape(a):
    return asarray(a).shape


def identity(n, dtype="float32"):
    return _np.eye(n, None, dtype)


def empty(shape, dtype="float32"):
    """Zeros: there is no tensor without values."""
    return _np.zeros(shape, dtype)


def dot(a, b):
    """The product over the last dimension of a and the second to last of b."""
    a, b = asarray(a), asarray(b)
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    if b.ndim <= 2:
        return _np.matmul(a, b)
    return tensordot(a, b, ((-1,), (-2,)))


def tensordot(a, b, axes=2):
    """The product over pairs of dimensions: the last of a with the first of b, or those that `axes` names."""
    a, b = asarray(a), asarray(b)
    if isinstance(axes, int):
        left, right = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        left, right = ([side] if isinstance(side, int) else list(side) for side in axes)
    if len(left) != len(right):
        raise UserError(f"tensordot: {len(left)} dimensions of a and {len(right)} of b")
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    first = [next(letters) for _ in range(a.ndim)]
    second = [next(letters) for _ in range(b.ndim)]
    left, right = [axis % a.ndim for axis in left], [axis % b.ndim for axis in right]
    for i, j in zip(left, right):
        second[j] = first[i]
    rest = [c for i, c in enumerate(first) if i not in left] + [c for j, c in enumerate(second) if j not in right]
    return _np.einsum(f"{''.join(first)},{''.join(second)}->{''.join(rest)}", a, b)


def expand_dims(a, axis):
    a = asarray(a)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    rank = a.ndim + len(axes)
    for place in sorted(one % rank for one in axes):
        a = _np.expand_dims(a, place)
    return a


def moveaxis(a, source, destination):
    a = asarray(a)
    if isinstance(source, int):
        return _np._move_axis(a, source, destination)
    source, destination = [s % a.ndim for s in source], [d % a.ndim for d in destination]
    order = [axis for axis in range(a.ndim) if axis not in source]
    for to, axis in sorted(zip(destination, source)):
        order.insert(to, axis)
    return _np.transpose(a, order)


def pad(array, pad_width, mode="constant", *, constant_values=0):
    """`pad_width` is a number, a pair for all dimensions, or a pair for each."""
    array = asarray(array)
    if isinstance(pad_width, int):
        pad_width = (pad_width, pad_width)
    pairs = [(pair, pair) if isinstance(pair, int) else tuple(pair) for pair in pad_width]
    if len(pairs) == 2 and builtins.all(isinstance(item, int) for item in pad_width):
        pairs = [tuple(pad_width)] * array.ndim
    if len(pairs) == 1:
        pairs *= array.ndim
    if len(pairs) != array.ndim or builtins.any(len(pair) != 2 for pair in pairs):
        raise UserError(f"pad: {len(pairs)} pairs for a tensor of {array.ndim} dimensions")
    return _np._pad(array, [low for low, _ in pairs], [high for _, high in pairs], mode, constant_values)


def take_along_axis(arr, indices, axis=-1):
    """One element for every index; other dimensions broadcast. Indices beyond the ends take the nearest."""
    arr, indices = asarray(arr), asarray(indices)
    if arr.ndim != indices.ndim:
        raise UserError(f"take_along_axis: a tensor of {arr.ndim} dimensions, and indices of {indices.ndim}")
    axis %= arr.ndim
    sizes = [builtins.max(a, b) if d != axis else 0 for d, (a, b) in enumerate(zip(arr.shape, indices.shape))]

    def spread(x):
        shape = [size if d == axis else sizes[d] for d, size in enumerate(x.shape)]
        return x if list(x.shape) == shape else _np.broadcast_to(x, shape)

    return _np.take_along_axis(spread(arr), spread(indices), axis)


def round(a, decimals=0):
    """Halves go to the even neighbour."""
    a = asarray(a)
    if decimals == 0:
        return _np.rint(a) if not a.dtype_name.startswith(("int", "uint", "bool")) else a
    return _np.rint(a * 10.0**decimals) / 10.0**decimals


def meshgrid(*xi, indexing="xy"):
    if indexing not in ("xy", "ij"):
        raise UserError(f"meshgrid: indexing is 'xy' or 'ij', not {indexing!r}")
    return _np._meshgrid([asarray(x) for x in xi], indexing == "xy")


def bincount(x, weights=None, minlength=0, *, length=None):
    """How often each number occurs. Without `length` the result ends with the largest, which is read for it."""
    x = asarray(x)
    if length is None:
        length = builtins.max(_np.max(x).item() + 1 if x.size else 0, minlength)
    return _np._bincount(x, length, weights)


def vstack(tup):
    return _np.concatenate([asarray(x) if asarray(x).ndim > 1 else asarray(x)[None] for x in tup], 0)


def hstack(tup):
    tup = [asarray(x) for x in tup]
    return _np.concatenate(tup, 0 if tup[0].ndim == 1 else 1)


def __getattr__(name):
    """Dtypes by name, and the namespaces of NumPy."""
    if name in ("linalg", "fft"):
        import importlib

        return importlib.import_module(f"cleave.{name}")
    if name in dtypes.NUMPY - {"bool"} or name.startswith(("bfloat16", "float8", "int4", "uint4")):
        return dtypes.numpy_dtype(name)
    if name == "bool_":
        return dtypes.numpy_dtype("bool")
    raise AttributeError(f"module 'cleave.numpy' has no attribute {name!r}")
