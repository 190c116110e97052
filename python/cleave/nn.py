"""Layers, activations and losses. Names that jax.nn has mean the same; images have channels last unless `channels_first`."""

from cleave import _core

globals().update({name: getattr(_core.nn, name) for name in dir(_core.nn) if not name.startswith("_")})
