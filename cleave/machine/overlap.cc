#include "cleave/machine/overlap.h"

#include "cleave/machine/combine.h"

namespace cleave {

OverlapRules overlap_rules(const ExecutorProfile& executor) {
  if (!executor.overlaps) return {};
  // FSDP lets two gathered layers be alive: two layers of a 70B model in bf16, 3.4 GB, are 4% of an
  // 80 GB device.
  constexpr double kPrefetchShare = 0.05;
  // XLA's scheduler moves kernels, about as far as a layer of a transformer is long. PyTorch
  // launches them in the order of the program.
  if (executor.name.starts_with("xla")) return {true, 64, kPrefetchShare, kXlaCombineBytes};
  return {true, 1, kPrefetchShare, kDdpBucketBytes};
}

double combine_limit(CollectiveKind kind, int64_t ranks, const ExecutorProfile& executor) {
  const bool is_combined = kind == CollectiveKind::AllGather || kind == CollectiveKind::AllReduce ||
                           kind == CollectiveKind::ReduceScatter;
  const double most = overlap_rules(executor).combine_bytes;
  return is_combined && most > 0 ? combine_limit(kind, most, ranks) : 0;
}

}  // namespace cleave
