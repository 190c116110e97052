"""Graphs of ATen ops as StableHLO."""

from cleave.torch.lowering.graph import DEFAULT_OPAQUE, Lowered, covered, is_known, lower_graph

__all__ = ["DEFAULT_OPAQUE", "Lowered", "covered", "is_known", "lower_graph"]
