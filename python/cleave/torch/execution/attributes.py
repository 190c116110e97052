"""MLIR's spelling of types and attributes, read into Python values.

    tensor<8x16xf32>                         -> Kind((8, 16), "f32")
    array<i64: 1, 2>                         -> [1, 2]
    dense<[[0, 1]]> : tensor<1x2xi64>        -> a torch.Tensor
    {dim = 1 : i64, mode = "mean"}           -> {"dim": 1, "mode": "mean"}
    #stablehlo.dot<lhs_batching_dimensions = [0], ...>   -> {"lhs_batching_dimensions": [0], ...}
    #stablehlo<comparison_direction LT>      -> "LT"
"""

import re
from typing import NamedTuple

import numpy as np
import torch

from cleave._core import UserError
from cleave.torch.execution.dtypes import carrier


class Kind(NamedTuple):
    """The type of a tensor: its shape, and the name of its dtype in StableHLO."""

    shape: tuple
    dtype: str


def kind_of(text):
    match = re.fullmatch(r"tensor<((?:\d+x)*)([^,]+?)(?:,.*)?>", text.strip())
    if not match:
        raise UserError(f"a value of type {text} can not be run by PyTorch, only tensors of fixed sizes")
    return Kind(tuple(int(n) for n in match[1].split("x")[:-1]), match[2].strip())


def type_text(kind):
    return f"tensor<{''.join(f'{n}x' for n in kind.shape)}{kind.dtype}>"


TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|dense<|array<|#[\w.]+<|->|[-+]?0x[0-9a-fA-F]+|[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?'
                   r'|[@!]?[A-Za-z_][\w.$]*|.)')


class Reader:
    """A recursive-descent reader of one attribute."""

    def __init__(self, text):
        self.text, self.at = text, 0

    def peek(self):
        match = TOKEN.match(self.text, self.at)
        return match[1] if match else ""

    def next(self):
        match = TOKEN.match(self.text, self.at)
        if not match:
            return ""
        self.at = match.end()
        return match[1]

    def until_closed(self):
        """The text to the ">" that closes what is open."""
        depth, begin = 1, self.at
        while depth:
            token = self.next()
            if not token:
                raise UserError(f"the attribute {self.text[:60]} does not end")
            depth += token.endswith("<") - (token == ">")
        return self.text[begin : self.at - 1].strip()

    def kind(self):
        """A type after a colon, if there is one."""
        if self.peek() != ":":
            return None
        self.next()
        name = self.next()
        if self.peek() != "<":
            return name
        self.next()
        return f"{name}<{self.until_closed()}>"

    def list(self, close):
        values = []
        while self.peek() != close:
            values.append(self.value())
            if self.peek() == ",":
                self.next()
        self.next()
        return values

    def pairs(self, close):
        found = {}
        while self.peek() != close:
            key = self.next().strip('"')
            if self.peek() == "=":
                self.next()
                found[key] = self.value()
            else:
                found[key] = True
            if self.peek() == ",":
                self.next()
        self.next()
        return found

    def value(self):
        token = self.next()
        if token == "dense<":
            body = self.until_closed()
            kind = kind_of(self.kind())
            return dense(body, kind).expand(kind.shape)
        if token == "array<":
            inner = self.until_closed()
            return read_attribute(f"[{inner.partition(':')[2]}]")
        if token == "[":
            return self.list("]")
        if token == "{":
            return self.pairs("}")
        if token.startswith("#"):
            return dialect_attribute(token, self.until_closed())
        if token.startswith('"'):
            self.kind()
            return re.sub(r"\\(.)", r"\1", token[1:-1])
        if token in ("true", "false"):
            return token == "true"
        if token == "unit":
            return True
        if re.match(r"[-+]?\d", token):
            kind = self.kind() or ""
            return number(token, kind)
        self.kind()
        return token


def number(token, kind):
    if kind[:1] in ("f", "b") and token.startswith("0x"):
        return element_of_bits(int(token, 16), kind)
    if kind.startswith(("f", "bf")) or re.search(r"\.|\d[eE]", token) and not token.startswith("0x"):
        return float(token)
    return int(token, 0)


def dialect_attribute(token, body):
    if re.fullmatch(r"\w+\s+[\w.]+", body):  # #stablehlo<comparison_direction LT>
        return body.split()[1]
    if "stablehlo.conv" in token:
        return body
    if "=" in body or not body:
        return Reader(body + ">").pairs(">")
    return body


def read_attribute(text):
    return Reader(text).value()


def element_of_bits(bits, dtype):
    kind = carrier(dtype)
    width = torch.empty((), dtype=kind).element_size()
    return torch.frombuffer(bytearray(bits.to_bytes(width, "little")), dtype=kind)[0].item()


NARROW = {"ui16": np.uint16, "ui32": np.uint32, "ui64": np.uint64}


def from_bytes(raw, kind):
    if kind.dtype in NARROW:
        wide = np.frombuffer(raw, NARROW[kind.dtype]).astype(np.int64 if kind.dtype != "ui16" else np.int32)
        return torch.from_numpy(wide)
    return torch.frombuffer(bytearray(raw), dtype=carrier(kind.dtype))


def dense(body, kind):
    """The tensor of dense<body>; the shape of a splat is []."""
    dtype = carrier(kind.dtype)
    if body.startswith('"'):
        values = from_bytes(bytes.fromhex(body.strip('"')[2:]), kind)
        return values[0] if values.numel() == 1 else values.reshape(kind.shape)
    complex_ = kind.dtype.startswith("complex")
    tokens = re.findall(r"[^\s,\[\]()]+", body)
    if not tokens:
        return torch.empty(kind.shape, dtype=dtype)
    element = kind.dtype[8:-1] if complex_ else kind.dtype
    if kind.dtype == "i1":
        numbers = [token == "true" or token == "1" for token in tokens]
    elif carrier(element).is_floating_point:
        numbers = [element_of_bits(int(t, 16), element) if t.startswith("0x") else float(t) for t in tokens]
    else:
        numbers = [int(t, 0) for t in tokens]
        if kind.dtype == "ui64":
            numbers = [n - (1 << 64) if n >> 63 else n for n in numbers]
    if complex_:
        numbers = [complex(a, b) for a, b in zip(numbers[::2], numbers[1::2])]
    if len(numbers) == 1 and not body.startswith("["):
        return torch.tensor(numbers[0], dtype=dtype)
    return torch.tensor(numbers, dtype=dtype).reshape(kind.shape)
