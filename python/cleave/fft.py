"""Fourier transforms along one dimension, as numpy.fft has them."""

from cleave import _core


def _along(function, a, n, axis, *more):
    """Along an axis, of which n elements are taken: it is cut, or zeros are put behind it."""
    from cleave.tensors import asarray

    np = _core.numpy
    a = asarray(a)
    is_last = axis % a.ndim == a.ndim - 1
    x = a if is_last else np.swapaxes(a, axis, -1)
    if n is not None and n != x.shape[-1]:
        x = x[..., :n] if n < x.shape[-1] else np._pad(x, [0] * x.ndim, [0] * (x.ndim - 1) + [n - x.shape[-1]], "constant", 0)
    made = function(x, *more)
    return made if is_last else np.swapaxes(made, axis, -1)


def fft(a, n=None, axis=-1):
    return _along(_core.fft.fft, a, n, axis)


def ifft(a, n=None, axis=-1):
    return _along(_core.fft.ifft, a, n, axis)


def rfft(a, n=None, axis=-1):
    return _along(_core.fft.rfft, a, n, axis)


def irfft(a, n=None, axis=-1):
    """`n` real numbers; without it, twice one less than the elements along the axis."""
    return _along(_core.fft.irfft, a, None if n is None else n // 2 + 1, axis, n)
