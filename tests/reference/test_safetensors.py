"""Files of safetensors against the Python package, both ways: what it writes is read and written again by
cleave/train.h, and what that wrote is read by the package."""

import json
import os
import pathlib
import struct
import subprocess
import time

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
import safetensors.torch
import torch

PROGRAM = pathlib.Path(os.environ["CLEAVE_COMMAND"]).parent / "tests" / "train_reference"
TORCH_TYPES = {
    "bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "f64": torch.float64, "i8": torch.int8,
    "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "u16": torch.uint16,
    "u32": torch.uint32, "u64": torch.uint64, "bool": torch.bool, "f8_e4m3": torch.float8_e4m3fn,
    "f8_e5m2": torch.float8_e5m2, "c64": torch.complex64,
}


def copy(source, target):
    done = subprocess.run([str(PROGRAM), "copy", str(source), str(target)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def same_bits(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    return a.contiguous().view(torch.uint8).equal(b.contiguous().view(torch.uint8)) if a.ndim else a.equal(b)


def test_every_type_of_torch(tmp_path):
    generator = torch.Generator().manual_seed(3)
    tensors = {}
    for name, dtype in TORCH_TYPES.items():
        bits = torch.randint(0, 2 if dtype is torch.bool else 256, (5, 7, 16), dtype=torch.uint8, generator=generator)
        tensors[f"{name}.weight"] = bits.view(dtype) if dtype is not torch.bool else bits.to(torch.bool)
    tensors["number"] = torch.tensor(2.5)
    tensors["empty"] = torch.zeros(0, 3)
    safetensors.torch.save_file(tensors, tmp_path / "a.safetensors", {"format": "pt", "note": 'with "quotes" and ü'})
    copy(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    back = safetensors.torch.load_file(tmp_path / "b.safetensors")
    assert back.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert same_bits(back[name], tensor), name
    with safetensors.safe_open(tmp_path / "b.safetensors", "pt") as opened:
        assert opened.metadata() == {"format": "pt", "note": 'with "quotes" and ü'}


def test_bfloat16_of_ml_dtypes(tmp_path):
    values = np.arange(-8, 8, 0.25).astype(ml_dtypes.bfloat16).reshape(8, 8)
    safetensors.numpy.save_file({"x": values}, tmp_path / "a.safetensors")
    copy(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    back = safetensors.numpy.load_file(tmp_path / "b.safetensors")["x"]
    assert back.dtype == values.dtype and (back == values).all()


def test_elements_are_aligned(tmp_path):
    tensors = {"a": torch.ones(3, dtype=torch.int8), "b": torch.ones(3, dtype=torch.float64), "c": torch.ones(1)}
    safetensors.torch.save_file(tensors, tmp_path / "a.safetensors")
    copy(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    raw = (tmp_path / "b.safetensors").read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + length])
    assert length % 8 == 0
    assert all(entry["data_offsets"][0] % size == 0 for entry, size in ((header["b"], 8), (header["c"], 4)))


def damaged_files():
    def file(header, data=b"", length=None):
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        return struct.pack("<Q", len(text) if length is None else length) + text + data

    one = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    yield "short", b"\x01\x02", "it has 2 bytes"
    yield "length", file({}, length=1 << 40), "its header is said to have 1099511627776 bytes"
    yield "json", file(b"{nothing", b""), "its header is not JSON"
    yield "list", file([1]), "its header is not JSON"
    yield "cut", file({"a": one}, b"1234"), "cut short: its tensors take 8 bytes, and it has 4"
    yield "more", file({"a": one}, b"123456789"), "1 bytes follow the last tensor"
    yield "overlap", file({"a": one, "b": {**one, "data_offsets": [4, 12]}}, b"1" * 12), "'a' and 'b' overlap"
    yield "gap", file({"a": one, "b": {**one, "data_offsets": [12, 20]}}, b"1" * 20), "nothing lies in the bytes 8 to 12"
    yield "size", file({"a": {**one, "shape": [3]}}, b"1" * 8), "takes 12 bytes, and has the offsets [0,8]"
    yield "type", file({"a": {**one, "dtype": "F31"}}, b"1" * 8), 'the unknown type "F31"'
    yield "negative", file({"a": {**one, "shape": [-2]}}, b"1" * 8), "has the shape [-2]"
    yield "huge", file({"a": {**one, "shape": [1 << 40, 1 << 40]}}, b"1" * 8), "too large"
    yield "offsets", file({"a": {**one, "data_offsets": [8, 0]}}, b"1" * 8), "has the offsets [8,0]"
    yield "missing", file({"a": {"dtype": "F32", "shape": [2]}}, b"1" * 8), "has no 'data_offsets'"
    yield "twice", file(b'{"a":%s,"a":%s}' % ((json.dumps(one).encode(),) * 2), b"1" * 8), "names 'a' twice"
    yield "metadata", file({"__metadata__": {"a": 1}}), "its metadata 'a' is not text"


@pytest.mark.parametrize("name,raw,expected", list(damaged_files()), ids=lambda value: value if isinstance(value, str) else "")
def test_damaged_files(name, raw, expected, tmp_path):
    source = tmp_path / f"{name}.safetensors"
    source.write_bytes(raw)
    if name != "twice":  # the format forbids it, and the package does not notice
        with pytest.raises(safetensors.SafetensorError):
            safetensors.torch.load_file(source)
    done = subprocess.run([str(PROGRAM), "copy", str(source), str(tmp_path / "out")], capture_output=True, text=True)
    assert done.returncode == 1 and expected in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1 and not (tmp_path / "out").exists()


def test_a_killed_save_leaves_a_whole_checkpoint(tmp_path):
    """Killed at twenty different moments: the latest checkpoint is complete, and not older than the last that was told."""
    saved = 0
    for attempt in range(20):
        process = subprocess.Popen([str(PROGRAM), "save", str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(1 + attempt % 3):
            saved = int(process.stdout.readline())
        time.sleep(0.0004 * attempt)
        process.kill()
        for line in process.stdout:
            saved = int(line)
        process.wait()
        done = subprocess.run([str(PROGRAM), "check", str(tmp_path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) in (saved, saved + 1)
    assert len([name for name in os.listdir(tmp_path) if name.startswith("step_")]) <= 3
