"""PyTorch: modules that run as planned, models as StableHLO, and DTensor's sharding rules, audited by execution."""

from cleave.torch.auditing import Audit, audit
from cleave.torch.checking import Collectives
from cleave.torch.exporting import export
from cleave.torch.parallel import parallelize
from cleave.torch.planning import TorchPlan, plan

__all__ = ["Audit", "Collectives", "TorchPlan", "audit", "export", "parallelize", "plan"]
