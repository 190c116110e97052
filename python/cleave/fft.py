"""Fourier transforms along one dimension, as numpy.fft has them."""

from cleave import _core


def _along(function, a, axis, *more):
    from cleave.tensors import asarray

    a = asarray(a)
    if axis % a.ndim == a.ndim - 1:
        return function(a, *more)
    return _core.numpy.swapaxes(function(_core.numpy.swapaxes(a, axis, -1), *more), axis, -1)


def fft(a, axis=-1):
    return _along(_core.fft.fft, a, axis)


def ifft(a, axis=-1):
    return _along(_core.fft.ifft, a, axis)


def rfft(a, axis=-1):
    return _along(_core.fft.rfft, a, axis)


def irfft(a, n=None, axis=-1):
    return _along(_core.fft.irfft, a, axis, n)
