"""Types of StableHLO, values of a function that is being written, and literals."""

import math
from collections import namedtuple
from dataclasses import dataclass

import torch

Type = namedtuple("Type", "dtype shape")  # of a result; (None, None) for one that is no tensor

ELEMENTS = {
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64", torch.bool: "i1",
    torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "ui8", torch.uint16: "ui16",
    torch.uint32: "ui32", torch.uint64: "ui64", torch.complex64: "complex<f32>", torch.complex128: "complex<f64>",
}

# What halves are computed in, as PyTorch's kernels do.
WIDE = {torch.float16: torch.float32, torch.bfloat16: torch.float32}

_HEX = {torch.float16: 4, torch.bfloat16: 4, torch.float32: 8, torch.float64: 16}


@dataclass(frozen=True)
class Value:
    """An SSA value: its name with the percent sign, and its type."""

    name: str
    dtype: torch.dtype
    shape: tuple

    @property
    def rank(self):
        return len(self.shape)

    @property
    def numel(self):
        return math.prod(self.shape)

    @property
    def type(self):
        return type_text(self.dtype, self.shape)

    @property
    def is_float(self):
        return self.dtype.is_floating_point

    @property
    def is_complex(self):
        return self.dtype.is_complex

    def stand_in(self):
        """A tensor without data of the same type, to ask PyTorch about promotion."""
        return torch.empty(self.shape, dtype=self.dtype, device="meta")


def type_text(dtype, shape):
    return "tensor<" + "".join(f"{size}x" for size in shape) + ELEMENTS[dtype] + ">"


def scalar_text(value, dtype):
    """A number as an element of a dense literal."""
    if dtype.is_complex:
        part = torch.float32 if dtype == torch.complex64 else torch.float64
        value = complex(value)
        return f"({scalar_text(value.real, part)}, {scalar_text(value.imag, part)})"
    if dtype == torch.bool:
        return "true" if value else "false"
    if not dtype.is_floating_point:
        bits = torch.iinfo(dtype)
        value = int(value)
        if not bits.min <= value <= bits.max:
            value = (value - bits.min) % (1 << bits.bits) + bits.min
        return str(value)
    value = torch.tensor(float(value), dtype=torch.float64).to(dtype).item()
    if math.isnan(value) or math.isinf(value):
        return "0x" + bits_text(value, dtype)
    if dtype == torch.float32:
        value = float(value)
    text = repr(value)
    return text if "." in text or "e" not in text else text.replace("e", ".0e")


def bits_text(value, dtype):
    whole = torch.tensor(value, dtype=dtype).reshape(1).view(torch.uint8)
    return bytes(whole.tolist()[::-1]).hex().upper()


def dense_text(tensor):
    """The literal of a constant tensor; large ones are written as bytes."""
    tensor = tensor.detach().cpu()
    flat = tensor.reshape(-1)
    if flat.numel() and bool((flat == flat[0]).all()):
        return scalar_text(flat[0].item(), tensor.dtype)
    if flat.numel() > 64 and tensor.dtype not in (torch.bool,):
        return '"0x' + bytes(flat.contiguous().view(torch.uint8).tolist()).hex().upper() + '"'
    if not flat.numel():
        return ""

    def nested(part):
        if part.dim() == 0:
            return scalar_text(part.item(), tensor.dtype)
        return "[" + ", ".join(nested(one) for one in part) + "]"
    return nested(tensor)
