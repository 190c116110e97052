"""What a call of a function is to jax.jit: which of its arguments are static, which are donated, under which settings."""

from collections.abc import Iterable

import jax

from cleave.jax.traced import parameter_names

Numbers = int | Iterable[int] | None
Words = str | Iterable[str] | None

# What a trace depends on beside its arguments.
SETTINGS = ("jax_enable_x64", "jax_numpy_dtype_promotion", "jax_default_matmul_precision", "jax_threefry_partitionable",
            "jax_default_prng_impl")


def settings():
    """JAX's, as they are set here and now."""
    return tuple(getattr(jax.config, name) for name in SETTINGS)


def as_tuple(value):
    return () if value is None else (value,) if isinstance(value, (int, str)) else tuple(value)


class Signature:
    """Which arguments of a function are static and which are donated."""

    def __init__(self, fn, static_argnums, static_argnames, donate_argnums, donate_argnames):
        self.fn = fn
        self.jit_options = dict(static_argnums=static_argnums, static_argnames=static_argnames, donate_argnums=donate_argnums,
                                donate_argnames=donate_argnames)
        jax.jit(fn, **self.jit_options)  # JAX checks them
        self._static = {}  # by the number of positional arguments and the names of others
        self.static_numbers, self.static_names = as_tuple(static_argnums), as_tuple(static_argnames)
        self.donated_numbers, self.donated_names = as_tuple(donate_argnums), as_tuple(donate_argnames)

    def static_of(self, count, keywords):
        """Positions and names of static arguments of a call with `count` positional arguments and these keywords."""
        found = self._static.get((count, keywords))
        if found is None:
            names = parameter_names(self.fn, count)
            positions = {n % count for n in self.static_numbers if -count <= n < count}
            positions |= {names.index(name) for name in self.static_names if name in names}
            named = {name for name in keywords if name in self.static_names}
            named |= {name for name in keywords if self._number_of(name) in self.static_numbers}
            found = self._static[count, keywords] = positions, named
        return found

    def split(self, args, kwargs):
        """Positions and names of static arguments, and positions and names of donated ones, of a call."""
        names = parameter_names(self.fn, len(args))
        positions, named = self.static_of(len(args), tuple(kwargs))
        donated = {n % len(args) for n in self.donated_numbers if args and -len(args) <= n < len(args)}
        donated |= {names.index(name) for name in self.donated_names if name in names}
        donated_names = {name for name in kwargs if name in self.donated_names}
        if self.jit_options["donate_argnames"] is None:  # as jax.jit has it
            donated_names |= {name for name in kwargs if self._number_of(name) in self.donated_numbers} - named
        return (positions, named), (donated - positions, donated_names)

    def _number_of(self, name):
        names = parameter_names(self.fn, 64)
        return names.index(name) if name in names else None
