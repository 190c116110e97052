#include "cleave/ops/eval.h"

#include <cstring>

#include "cleave/core/error.h"

namespace cleave {

std::vector<Array> EvalContext::map_region(RegionId region, std::span<const Array> args) {
  const Shape& shape = args[0].shape();
  std::vector<Array> packed;
  for (const Array& arg : args) packed.push_back(arg.contiguous());
  const int64_t n = num_elements(shape);
  std::vector<Array> results;
  const Node& terminator = graph_.node(graph_.terminator(region));
  for (ValueId value : terminator.operands) results.emplace_back(graph_.type(value).dtype, shape);
  std::vector<Array> scalars(args.size());
  for (int64_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < packed.size(); ++k)
      scalars[k] = Array::from_bytes(packed[k].dtype(), {},
                                     packed[k].raw() + i * byte_size(packed[k].dtype()));
    const std::vector<Array> out = run_region(region, scalars);
    for (size_t k = 0; k < results.size(); ++k) {
      const auto size = static_cast<size_t>(byte_size(results[k].dtype()));
      std::memcpy(results[k].raw() + i * static_cast<int64_t>(size), out[k].raw(), size);
    }
  }
  return results;
}

Transport& EvalContext::transport() {
  throw UserError("this op talks to other devices, and it is evaluated where there are none");
}
Array EvalContext::transfer(const Node&, const Array&) {
  throw UserError("cleave.transfer: it is part of a partitioned program, and runs only in one");
}
void EvalContext::run_parallel(DeviceGrid, std::vector<std::string>,
                               const std::function<void(EvalContext&)>&) {
  throw UserError("this op runs on several devices, and it is evaluated where there is only one");
}
std::vector<Array> EvalContext::infeed() {
  throw UserError("stablehlo.infeed: nothing feeds this device");
}
void EvalContext::outfeed(std::span<const Array>) {}
void EvalContext::print(std::string_view) {}
void EvalContext::probe(std::string_view, const Array&) {}
Array EvalContext::probed(std::string_view name, int64_t iteration) {
  throw_user("check.expect_serialized_eq: no probe '{}' was kept for iteration {}", name,
             iteration);
}

}  // namespace cleave
