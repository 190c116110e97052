"""Dtypes: those of NumPy, and bfloat16, float8, int4, ... of ml_dtypes if it is installed."""

import functools
import importlib

# What NumPy itself has.
NUMPY = {
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
}  # fmt: skip
PYTHON = {bool: "bool", int: "int32", float: "float32", complex: "complex64"}


def name(dtype):
    """The name of what stands for a dtype: "bfloat16", np.float32, np.dtype("f4"), jnp.bfloat16, torch.float32, float."""
    if isinstance(dtype, str):
        return dtype
    if dtype in PYTHON:
        return PYTHON[dtype]
    if hasattr(dtype, "name"):
        return dtype.name
    text = str(dtype)
    if text.startswith("torch."):
        return text.removeprefix("torch.")
    if isinstance(dtype, type) or hasattr(dtype, "dtype"):
        import numpy

        return numpy.dtype(dtype).name
    raise TypeError(f"{dtype!r} is no dtype")


@functools.cache
def numpy_dtype(dtype_name):
    """NumPy's dtype of a name; the name itself if only ml_dtypes has it, and is not installed."""
    import numpy

    if dtype_name in NUMPY:
        return numpy.dtype(dtype_name)
    try:
        return numpy.dtype(getattr(importlib.import_module("ml_dtypes"), dtype_name))
    except (ImportError, AttributeError):
        return dtype_name
