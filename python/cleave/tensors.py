"""Tensors from and to the arrays of Python: NumPy, and all that speak DLPack."""

import collections
import sys

from cleave import _core, dtypes
from cleave._core import Tensor, UserError
from cleave.specs import P, mesh_of, mesh_text, spec_text


def tensor(x: object, dtype: object = None) -> Tensor:
    """A Tensor of a number, nested lists, a NumPy array, or anything with `__dlpack__` (JAX, PyTorch); a Tensor itself.

    Elements are copied, except for those of arrays that nobody writes to (JAX's), which are shared. Python's numbers are
    bool, int32, float32 or complex64 without a dtype.
    """
    return _made(x, dtype)


asarray = tensor  # NumPy's name: a Tensor is returned as it is


def from_dlpack(x: object) -> Tensor:
    """A Tensor that shares the memory of an array in this host's memory. It sees what is written to that memory until it
    is computed with; an array that is not packed is copied."""
    if isinstance(x, Tensor):
        return x
    return _from_dlpack(x, share=True)


def _made(x, dtype):
    if isinstance(x, Tensor):
        made = x
    elif isinstance(x, (bool, int, float, complex)) and type(x).__module__ == "builtins":
        return _core.filled(x, "" if dtype is None else _core.dtype_name(dtype))
    elif _is_numpy(x):
        made = _from_numpy(x)
    elif hasattr(x, "__dlpack__"):
        made = _from_dlpack(x, share=False)
    elif hasattr(x, "__array__"):
        made = _from_numpy(x.__array__())
    elif isinstance(x, (list, tuple, range)):
        made = _from_list(x, dtype)
    else:
        raise UserError(f"a {type(x).__name__} has no elements that a Tensor could have")
    if dtype is None:
        return made
    wanted = _core.dtype_name(dtype)
    return made if made.dtype_name == wanted else _core.numpy.astype(made, wanted)


def _is_numpy(x):
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, (numpy.ndarray, numpy.generic))


def _from_numpy(x):
    import numpy

    x = numpy.asarray(x)
    if x.dtype.byteorder in "<>" and not x.dtype.isnative:
        x = x.astype(x.dtype.newbyteorder("="))
    if x.dtype.name in dtypes.NUMPY:
        return _core.from_array(x)
    name = x.dtype.name
    try:
        _core.dtype_name(name)
    except UserError:
        raise UserError(f"NumPy's dtype {name} is none of Cleave's") from None
    carrier = {1: numpy.uint8, 2: numpy.uint16}[x.dtype.itemsize]
    return _core.from_array(numpy.ascontiguousarray(x).reshape(x.shape).view(carrier), name)


def _from_dlpack(x, share):
    try:
        kind, _ = x.__dlpack_device__()
    except BufferError:  # an array of JAX that lies on several devices
        if share or not hasattr(x, "__array__"):
            raise
        return _from_numpy(x.__array__())
    if kind not in (1, 3, 11, 13):  # the host's memory, and what it can read
        raise UserError(f"an array on a device of DLPack's type {kind} is not in host memory; copy it there first")
    if getattr(x, "requires_grad", False):
        x = x.detach()
    if type(x).__module__.startswith("jax") and str(x.dtype).startswith(("int4", "uint4", "int2", "uint2", "float4")):
        return _from_numpy(x.__array__())
    try:
        return _core.from_array(x, copy=not (share or _is_immutable(x)))
    except TypeError:  # what DLPack can not say
        if hasattr(x, "__array__"):
            return _from_numpy(x.__array__())
        raise


def _is_immutable(x):
    return type(x).__module__.startswith("jax")


def _from_list(x, dtype):
    """Nested lists of numbers, and of arrays."""
    shape, flat = [], list(x)
    shape.append(len(flat))
    while flat and all(isinstance(item, (list, tuple, range)) for item in flat):
        lengths = {len(item) for item in flat}
        if len(lengths) > 1:
            raise UserError(f"lists of different lengths side by side: {sorted(lengths)}")
        shape.append(lengths.pop())
        flat = [number for item in flat for number in item]
    if any(isinstance(item, (list, tuple, range)) for item in flat):
        raise UserError("numbers and lists side by side")
    if all(type(item) in (bool, int, float, complex) for item in flat):
        return _from_numbers(flat, shape, dtype)
    rows = _core.numpy.stack([_made(item, dtype) for item in flat])
    return _core.numpy.reshape(rows, (*shape, *rows.shape[1:]))


def _from_numbers(flat, shape, dtype):
    import numpy

    ranks = [bool, int, float, complex]
    kind = max(map(type, flat), key=ranks.index) if flat else float
    name = dtypes.PYTHON[kind] if dtype is None else _core.dtype_name(dtype)
    if kind is int and not name.startswith(("float", "bfloat", "complex", "bool")):
        for number in flat:
            _core.filled(number, name)  # refuses what the dtype does not hold
        return _from_numpy(numpy.array(flat, dtype=dtypes.numpy_dtype(name)).reshape(shape))
    wide = numpy.array(flat, dtype={bool: bool, int: "float64", float: "float64", complex: "complex128"}[kind])
    made = _from_numpy(wide.reshape(shape))
    return made if made.dtype_name == name else _core.numpy.astype(made, name)


class Shard(collections.namedtuple("Shard", "device index data")):
    """What one device holds: the part of the whole as slices, and its elements (of a pending sum, its share)."""

    __slots__ = ()


def _viewed(array, dtype_name):
    dtype = dtypes.numpy_dtype(dtype_name)
    if isinstance(dtype, str):
        raise UserError(f"NumPy has no {dtype_name} without the package ml_dtypes; install it, or cast the tensor")
    return array if array.dtype == dtype else array.view(dtype)


def _array(self, dtype=None, copy=None):
    array = _viewed(_core.host_view(self), self.dtype_name)
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError(f"a copy is needed to make {dtype} of {array.dtype}")
        return array.astype(dtype)
    return array.copy() if copy else array


def _dlpack(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    if dl_device is not None and tuple(dl_device) != (1, 0):
        raise BufferError(f"Tensors are exported in host memory, not on {dl_device}")
    can_tell = max_version is not None and max_version[0] >= 1
    if copy is False and not can_tell:
        raise BufferError("a reader that knows no memory that is not to be written gets a copy")
    made = _core.dlpack_of(self, bool(copy) or not can_tell)
    return made.__dlpack__(max_version=max_version) if can_tell else made.__dlpack__()


def _single(self, what):
    if self.size != 1:
        raise UserError(f"{what}: tensor<{'x'.join(map(str, self.shape))}> has {self.size} elements, not one")
    return self.item()


def _index(self):
    if not self.dtype_name.startswith(("int", "uint")):
        raise TypeError(f"a Tensor of {self.dtype_name} is no index")
    return int(_single(self, "index"))


def _shards(self):
    return [Shard(device, tuple(slice(o, o + n) for o, n in zip(offsets, sizes)), _viewed(data, self.dtype_name))
            for device, offsets, sizes, data in _core.shards_of(self)]


def _reshape(self, *shape):
    return _core.numpy.reshape(self, shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)


def _transpose(self, *axes):
    if len(axes) == 1 and not isinstance(axes[0], int):
        axes = axes[0]
    return _core.numpy.transpose(self, axes or None)


def evaluate(tree):
    """Computes all Tensors of a tree together, and returns it."""
    from cleave import tree as trees

    _core.evaluate([leaf for leaf in trees.leaves(tree) if isinstance(leaf, Tensor)])
    return tree


def _method(function):
    def method(self, *args, **options):
        return function(self, *args, **options)

    method.__name__ = method.__qualname__ = function.__name__
    method.__doc__ = f"cleave.numpy.{function.__name__} of this tensor."
    return method


METHODS = """sum prod mean var std max min any all argmax argmin cumsum cumprod sort argsort clip squeeze ravel repeat take
dot diagonal trace swapaxes astype conj round""".split()


def _complete(cls):
    """The parts of the class that have a natural form in Python."""
    cls.dtype = property(lambda self: dtypes.numpy_dtype(self.dtype_name), doc="NumPy's dtype.")
    cls.sharding = property(lambda self: P.parse(self.spec_text), doc="The layout, as P; a pending sum is `unreduced`.")
    cls.mesh = property(lambda self: mesh_of(self.mesh_text), doc="The mesh; None if the tensor is whole on one device.")
    cls.T = property(lambda self: _core.numpy.transpose(self))
    cls.mT = property(lambda self: _core.numpy.swapaxes(self, -1, -2))
    cls.real = property(lambda self: _core.numpy.real(self))
    cls.imag = property(lambda self: _core.numpy.imag(self))
    cls.nbytes = property(lambda self: self.size * dtypes.numpy_dtype(self.dtype_name).itemsize)
    cls.shard = lambda self, mesh, spec: self._shard(mesh_text(mesh), spec_text(spec))
    cls.shard.__doc__ = "The tensor on a mesh, in the layout P(...)."
    cls.with_sharding = lambda self, spec: self._with_sharding(spec_text(spec))
    cls.reshard = lambda self, spec: self._reshard(spec_text(spec))
    cls.addressable_shards = property(_shards, doc="What the devices of this process hold.")
    cls.item = lambda self: _single_item(self)
    cls.tolist = lambda self: _array(self).tolist()
    cls.numpy = lambda self: _array(self, copy=True)
    cls.evaluate = evaluate
    cls.reshape, cls.transpose = _reshape, _transpose
    cls.flatten = lambda self: _core.numpy.ravel(self)
    cls.__array__, cls.__dlpack__ = _array, _dlpack
    cls.__dlpack_device__ = lambda self: (1, 0)
    cls.__bool__ = lambda self: bool(_single(self, "bool"))
    cls.__int__ = lambda self: int(_single(self, "int"))
    cls.__float__ = lambda self: float(_single(self, "float"))
    cls.__complex__ = lambda self: complex(_single(self, "complex"))
    cls.__index__ = _index
    cls.__format__ = lambda self, form: format(self.item() if form and self.size == 1 else repr(self), form)
    cls.__copy__ = lambda self: self
    cls.__deepcopy__ = lambda self, memo: self
    cls.__reduce__ = lambda self: (tensor, (_array(self),))
    from cleave import numpy

    for name in METHODS:
        setattr(cls, name, _method(getattr(numpy, name)))


def _single_item(self):
    if self.size != 1:
        raise UserError(f"item: tensor<{'x'.join(map(str, self.shape))}> has {self.size} elements, not one")
    return _array(self).reshape(()).item()


_complete(Tensor)
