"""Collectives of a compiled module from its protocol buffer, decoded by field numbers: no text is read."""

import math

import numpy as np

KINDS = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast"}
WIDTHS = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 2, 8: 4, 9: 8, 10: 2, 11: 4, 12: 8, 16: 2}  # by element type


def fields(data):
    """(number, value) of a message: integers, or bytes of what has a length."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
        elif kind == 2:
            size = varint()
            yield key >> 3, data[at:at + size]
            at += size
        else:
            size = {1: 8, 5: 4}[kind]
            yield key >> 3, data[at:at + size]
            at += size


def numbers(data, number):
    """A repeated integer, packed or not."""
    found = []
    for field, value in fields(data):
        if field == number:
            found += [value] if isinstance(value, int) else [v for _, v in unpacked(value)]
    return found


def unpacked(data):
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield None, value
            value = shift = 0


def one(data, number, default=b""):
    return next((value for field, value in fields(data) if field == number), default)


def shape_bytes(shape):
    parts = [shape_bytes(value) for field, value in fields(shape) if field == 4]
    return sum(parts) if parts else WIDTHS[one(shape, 2, 0)] * math.prod(numbers(shape, 3))


def iota_of(dims, order):
    return np.arange(math.prod(dims)).reshape(dims).transpose(order or range(len(dims)))


def group_lists(instruction):
    """Listed, as an iota with a transpose, or as axes of a mesh."""
    listed = [numbers(value, 1) for field, value in fields(instruction) if field == 49]
    iota, by_mesh = one(instruction, 92), one(instruction, 93)
    if iota:
        listed = iota_of(numbers(iota, 3), numbers(iota, 4)).reshape(one(iota, 1), one(iota, 2)).tolist()
    if by_mesh:
        mesh = one(by_mesh, 1)
        sizes = [one(value, 2) for field, value in fields(mesh) if field == 1]
        order = one(mesh, 3)
        devices = numbers(mesh, 2) or iota_of(numbers(order, 1) or sizes, numbers(order, 2))
        cut = list(sizes)  # an axis of which a part is taken has three: before it, it, and after it
        grid = np.reshape(devices, sizes)
        for value in (value for field, value in fields(by_mesh) if field == 2):
            axis, part = one(value, 1, 0), one(value, 2)
            before, size = (one(part, 1), one(part, 2)) if part else (1, sizes[axis])
            cut[axis] = [before, size, sizes[axis] // (before * size)]
        flat, chosen = [], []
        for size in cut:
            chosen += [len(flat) + 1] if isinstance(size, list) else []
            flat += size if isinstance(size, list) else [size]
        others = [a for a in range(len(flat)) if a not in chosen]
        listed = grid.reshape(flat).transpose(others + chosen).reshape(-1, math.prod(flat[a] for a in chosen)).tolist()
    return listed


def collectives(module):
    """By name: kind, bytes of operands, groups, pairs."""
    found = {}
    proto = module.as_serialized_hlo_module_proto()
    for computation in (value for field, value in fields(proto) if field == 3):
        instructions = [value for field, value in fields(computation) if field == 2]
        by_id = {one(i, 35): i for i in instructions}
        for i in instructions:
            kind = one(i, 2).decode()
            if kind in KINDS:
                size = sum(shape_bytes(one(by_id[operand], 3)) for operand in numbers(i, 36))
                pairs = sorted([one(value, 1, 0), one(value, 2, 0)] for field, value in fields(i) if field == 52)
                found[one(i, 1).decode()] = (kind, size, sorted(map(sorted, group_lists(i))), pairs)
    return found
