"""Random numbers as functions of a key and a place, whatever the layout. Signatures are those of jax.random; the numbers are
Cleave's own."""

from cleave import _core

globals().update({name: getattr(_core.random, name) for name in dir(_core.random) if not name.startswith("_")})
