"""Communication by the names of axes: collectives inside `shard_map`, changes of layout on whole tensors.

    all_reduce(x, axes, op="sum")      all_gather(x, axes, axis=0)      reduce_scatter(x, axes, axis=0)
    all_to_all(x, axes, from_axis, to_axis)      ppermute(x, axis, pairs)      axis_index(axes)
"""

from cleave import _core

globals().update({name: getattr(_core.comm, name) for name in dir(_core.comm) if not name.startswith("_")})
