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
  // FSDP gathers all parameters of a layer at once, and scatters their gradients at once: 400 MB in
  // bf16 for a layer of a 7B model.
  constexpr double kLayerBytes = 512.0 * 1024 * 1024;
  return {true, 1, kPrefetchShare, kDdpBucketBytes, kLayerBytes};
}

double combine_limit(CollectiveKind kind, int64_t ranks, const ExecutorProfile& executor) {
  const bool is_combined = kind == CollectiveKind::AllGather || kind == CollectiveKind::AllReduce ||
                           kind == CollectiveKind::ReduceScatter;
  const OverlapRules rules = overlap_rules(executor);
  if (!is_combined || rules.combine_bytes <= 0) return 0;
  if (rules.layer_bytes > 0 && kind != CollectiveKind::AllReduce) return rules.layer_bytes;
  return combine_limit(kind, rules.combine_bytes, ranks);
}

}  // namespace cleave
