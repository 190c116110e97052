"""StableHLO programs as torch.fx graphs of ATen ops: what one device of a plan runs."""

from cleave.torch.execution.groups import Groups, NamedGroups
from cleave.torch.execution.ranks import Ranks
from cleave.torch.execution.translation import to_fx

__all__ = ["Groups", "NamedGroups", "Ranks", "to_fx"]
