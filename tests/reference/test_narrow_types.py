"""Floats of 4, 6 and 8 bits and integers of 2 and 4: every value, against JAX and ml_dtypes."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from cleave_runs import run_text

FLOATS = {
    "f4E2M1FN": "float4_e2m1fn", "f6E2M3FN": "float6_e2m3fn", "f6E3M2FN": "float6_e3m2fn", "f8E3M4": "float8_e3m4",
    "f8E4M3": "float8_e4m3", "f8E4M3FN": "float8_e4m3fn", "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E4M3B11FNUZ": "float8_e4m3b11fnuz", "f8E5M2": "float8_e5m2", "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E8M0FNU": "float8_e8m0fnu",
}
INTEGERS = {"i4": "int4", "ui4": "uint4", "i2": "int2", "ui2": "uint2"}


def convert(source, via, values, *options):
    """The bits of `values` in the narrow type `via`, and their values as float32."""
    text = f"""
func.func @main(%x: tensor<{values.size}x{source}>) -> (tensor<{values.size}xf32>, tensor<{values.size}xf64>) {{
  %0 = stablehlo.convert %x : (tensor<{values.size}x{source}>) -> tensor<{values.size}x{via}>
  %1 = stablehlo.convert %0 : (tensor<{values.size}x{via}>) -> tensor<{values.size}xf32>
  %2 = stablehlo.convert %0 : (tensor<{values.size}x{via}>) -> tensor<{values.size}xf64>
  return %1, %2 : tensor<{values.size}xf32>, tensor<{values.size}xf64>
}}"""
    single, double = run_text(text, [values], *options)
    np.testing.assert_array_equal(single.astype(np.float64), double)
    return single


def neighbours(values):
    """All values, the middles between them, and what lies next to either."""
    values = np.unique(values[np.isfinite(values)].astype(np.float64))
    middles = (values[1:] + values[:-1]) / 2
    largest = values[-1]
    beyond = np.array([1, 1.01, 1.03, 1.0625, 1.07, 1.125, 1.2, 1.25, 1.3, 1.5, 1.6, 2, 1e3, np.inf]) * largest
    all_values = np.concatenate([values, middles, beyond, -beyond, [np.nan, 0.0, -0.0, 1e-45, -1e-45]])
    close = [np.nextafter(all_values.astype(np.float32), np.float32(t)) for t in (np.inf, -np.inf)]
    return np.concatenate([all_values.astype(np.float32), *close])


@pytest.mark.parametrize("name", FLOATS)
def test_floats_round_as_ml_dtypes_does(name):
    dtype = getattr(ml_dtypes, FLOATS[name])
    bits = np.arange(1 << (4 if "f4" in name else 6 if "f6" in name else 8), dtype=np.uint8)
    x = neighbours(bits.view(dtype).astype(np.float32))
    expected = x.astype(dtype).astype(np.float32)
    actual = convert("f32", name, x)
    np.testing.assert_array_equal(np.where(np.isnan(x), 0, actual), np.where(np.isnan(x), 0, expected))
    signs = ~np.isnan(expected) & ~np.isnan(x)
    np.testing.assert_array_equal(np.signbit(actual)[signs], np.signbit(expected)[signs])
    np.testing.assert_array_equal(convert("f64", name, x.astype(np.float64)), actual)
    np.testing.assert_array_equal(convert("f16", name, np.float16([1.1, -3.3, 0.2])), np.float16([1.1, -3.3, 0.2]).astype(dtype).astype(np.float32))


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_wrap_and_floats_saturate_as_in_jax(name):
    dtype = getattr(jnp, INTEGERS[name])
    through = jax.jit(lambda x: lax.convert_element_type(lax.convert_element_type(x, dtype), jnp.float32))
    for source, values in [("i8", np.arange(-128, 128, dtype=np.int8)), ("i32", np.int32([0, 1, -1, 7, 8, 255, 1 << 30])),
                           ("f32", np.float32([0.5, -0.5, 1.9, 7.9, 8.1, 15.5, 16.5, 100, -8.9, -9.5, np.nan, np.inf, -np.inf, 1e20]))]:
        np.testing.assert_array_equal(convert(source, name, values), np.asarray(through(values)))


def lowered(function, *args):
    return jax.jit(function).lower(*args).as_text()


PAIRS = {
    "add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y,
    "maximum": jnp.maximum, "minimum": jnp.minimum, "negate": lambda x, y: -x,
    "select": lambda x, y: jnp.where(x < y, x, y), "sort": lambda x, y: lax.sort(x), "slice": lambda x, y: x[3:],
    "concatenate": lambda x, y: jnp.concatenate([y, x]), "gather": lambda x, y: x[jnp.array([3, 1, 2])],
}


@pytest.mark.parametrize("options", [[], ["--no-compile"], ["--mesh", "a=3", "--shard", "random:3", "--verify"]])
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "int4", "uint4"])
def test_arithmetic_is_that_of_jax(name, options):
    dtype = getattr(jnp, name)

    def body(x, y):
        x, y = x.astype(dtype), y.astype(dtype)
        return [f(x, y).astype(jnp.float32) for f in PAIRS.values()]

    random = np.random.RandomState(0)
    x, y = np.float32(random.uniform(-7, 7, 64)), np.float32(random.uniform(-7, 7, 64))
    expected = jax.jit(body)(x, y)
    for op, actual, wanted in zip(PAIRS, run_text(lowered(body, x, y), [x, y], *options), expected):
        np.testing.assert_array_equal(actual, np.asarray(wanted), err_msg=op)


@pytest.mark.parametrize("options", [[], ["--mesh", "a=2", "--shard", "random:1"]])
def test_products_of_narrow_types(options):
    random = np.random.RandomState(1)
    x, y = np.float32(random.randn(6, 8)), np.float32(random.randn(8, 5))

    def floats(x, y):
        x, y = x.astype(jnp.float8_e4m3fn), y.astype(jnp.float8_e4m3fn)
        return lax.dot(x, y, preferred_element_type=jnp.float32)

    actual, = run_text(lowered(floats, x, y), [x, y], *options)
    np.testing.assert_allclose(actual, np.asarray(jax.jit(floats)(x, y)), rtol=1e-6)

    def integers(x, y):
        return lax.dot(x.astype(jnp.int4), y.astype(jnp.int4), preferred_element_type=jnp.int32)

    actual, = run_text(lowered(integers, x, y), [4 * x, 4 * y], *options)  # which JAX refuses on CPUs
    cut = [np.clip(np.trunc(4 * z), -8, 7).astype(np.int32) for z in (x, y)]
    np.testing.assert_array_equal(actual, cut[0] @ cut[1])


def test_narrow_arguments_and_results_are_files():
    x = np.arange(16, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)
    actual, = run_text(lowered(lambda x: x + x, x), [x])
    np.testing.assert_array_equal(actual.view(np.uint8), np.asarray(x + x).view(np.uint8))
