"""Matrices: numpy.linalg's names and meaning. Batches may be sharded; a matrix is factorised on one device."""

from cleave import _core
from cleave._core import UserError

globals().update({name: getattr(_core.linalg, name) for name in dir(_core.linalg) if not name.startswith("_")})


def norm(x, ord=None, axis=None, keepdims=False):
    """Norms of vectors, and Frobenius' of matrices."""
    from cleave.tensors import asarray

    x = asarray(x)
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    if ord is None or (ord == "fro" and len(axes) == 2):
        return vector_norm(x, axis=axis, keepdims=keepdims)  # noqa: F821
    if len(axes) != 1:
        raise UserError(f"norm: ord={ord!r} of matrices is not there; use linalg.svdvals, or vector_norm for all elements")
    return vector_norm(x, axis=axis, keepdims=keepdims, ord=float(ord))  # noqa: F821
