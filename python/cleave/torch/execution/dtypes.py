"""Dtypes of StableHLO, and those of torch that hold their values.

Torch computes little with unsigned integers that are wider than 8 bits. Their values are held by signed ones: ui16 by
int32, ui32 by int64, both always in range; ui64 by the int64 with the same bits."""

import torch

from cleave._core import UserError

CARRIERS = {
    "i1": torch.bool, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "ui8": torch.uint8, "ui16": torch.int32, "ui32": torch.int64, "ui64": torch.int64,
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
    "complex<f32>": torch.complex64, "complex<f64>": torch.complex128,
    "f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2,
    "f8E4M3FNUZ": torch.float8_e4m3fnuz, "f8E5M2FNUZ": torch.float8_e5m2fnuz, "f8E8M0FNU": torch.float8_e8m0fnu,
}  # fmt: skip

BORDER = {"ui16": torch.uint16, "ui32": torch.uint32, "ui64": torch.uint64}
MASKS = {"ui16": 0xFFFF, "ui32": 0xFFFFFFFF}
BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "ui8": 8, "ui16": 16, "ui32": 32, "ui64": 64}


def carrier(dtype):
    """The dtype of torch that values are held in."""
    if dtype not in CARRIERS:
        raise UserError(f"PyTorch has no tensors of {dtype}")
    return CARRIERS[dtype]


def border(dtype):
    """The dtype of torch of arguments and results."""
    return BORDER.get(dtype) or carrier(dtype)


def is_float(dtype):
    return carrier(dtype).is_floating_point


def is_complex(dtype):
    return carrier(dtype).is_complex


def is_integer(dtype):
    return dtype in BITS and dtype != "i1"


def lowest(dtype):
    """What no element is less than."""
    if is_float(dtype):
        return float("-inf")
    if dtype.startswith("ui"):
        return 0
    return False if dtype == "i1" else -(1 << (BITS[dtype] - 1))


def highest(dtype):
    if is_float(dtype):
        return float("inf")
    if dtype == "ui64":
        return -1
    if dtype.startswith("ui"):
        return (1 << BITS[dtype]) - 1
    return True if dtype == "i1" else (1 << (BITS[dtype] - 1)) - 1
