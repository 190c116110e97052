"""Serves a Python function to `cleave discover --command`: an operator in NumPy, PyTorch or anything else.

    from black_box import serve
    serve(lambda a, b, dim: numpy.cross(a, b, axis=dim))

The function takes and returns NumPy arrays (one, or a list) and gets the attributes as keywords. What it raises is
"the operator does not accept these operands". Lines go over standard input and output as JSON; docs/guide/discovery.md.
"""

import json
import sys
import warnings

import numpy

DTYPES = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "i64": "<i8", "i32": "<i4", "i16": "<i2", "i8": "<i1",
          "ui64": "<u8", "ui32": "<u4", "ui16": "<u2", "ui8": "<u1", "i1": "?"}
NAMES = {numpy.dtype(code): name for name, code in DTYPES.items()}


def decode(operand):
    data = numpy.frombuffer(bytes.fromhex(operand["data"]), DTYPES[operand["dtype"]])
    return data.reshape(operand["shape"]).copy()


def encode(result):
    array = numpy.ascontiguousarray(result).reshape(numpy.shape(result))
    return {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data": array.tobytes().hex()}


def serve(function):
    numpy.seterr(all="ignore")  # NaN and infinities are among the inputs
    warnings.simplefilter("ignore")
    answers, sys.stdout = sys.stdout, sys.stderr  # what the function prints is no answer
    for line in sys.stdin:
        call = json.loads(line)
        try:
            results = function(*map(decode, call["operands"]), **call["attrs"])
            results = results if isinstance(results, (list, tuple)) else [results]
            answer = {"results": [encode(result) for result in results]}
        except Exception as error:  # noqa: BLE001: whatever the operator says
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
