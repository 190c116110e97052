"""An operator of PyTorch by its name, as a black box:

cleave discover cross --command 'python3 examples/discover/torch_op.py linalg.cross'
cleave discover logcumsumexp --command 'python3 examples/discover/torch_op.py logcumsumexp' \
    --shape 4x7 --attr dim=0,1
"""

import functools
import sys

import torch
from black_box import serve

torch.set_num_threads(1)
operator = functools.reduce(getattr, sys.argv[1].split("."), torch)


def run(*operands, **attrs):
    results = operator(*map(torch.from_numpy, operands), **attrs)
    results = results if isinstance(results, (list, tuple)) else [results]
    return [result.numpy() for result in results]


serve(run)
