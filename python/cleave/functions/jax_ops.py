"""Functions of JAX: jax.numpy, jax.lax, jitted functions, kernels of Pallas."""

import contextlib

import numpy as np

from cleave.functions.target import Target

ARRAYS = {"a", "b", "x", "y", "v", "m", "arr", "x1", "x2", "operand", "indices", "condition", "lhs", "rhs", "logits", "labels", "ary", "p", "xp",
          "fp", "bins", "keys", "f", "array", "pred", "on_true", "on_false"}


class JaxTarget(Target):
    framework = "jax"

    def is_tensor(self, parameter):
        module = getattr(self.function, "__module__", "") or ""
        if module.split(".")[0].startswith("jax"):
            return parameter.name in ARRAYS and parameter.default in (parameter.empty, None)
        return super().is_tensor(parameter)

    def versions(self):
        import jax

        return {"jax": jax.__version__, "numpy": np.__version__}

    def run(self, *arrays, **attrs):
        with wide_numbers():
            return super().run(*arrays, **attrs)

    def arguments(self, tensors, attrs):
        """Lists are no static arguments."""
        return super().arguments(tensors, {name: tuple(v) if isinstance(v, list) else v for name, v in attrs.items()})

    def tensor_of(self, array):
        import jax.numpy as jnp

        return jnp.asarray(np.array(array))

    def array_of(self, result):
        return np.asarray(result)


def wide_numbers():
    """Numbers of 64 bits, whatever the process has set."""
    import jax

    if hasattr(jax, "enable_x64") and callable(jax.enable_x64):
        return jax.enable_x64(True)
    try:
        from jax.experimental import enable_x64

        return enable_x64()
    except ImportError:
        return contextlib.nullcontext()
