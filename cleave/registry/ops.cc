#include "cleave/core/error.h"
#include "cleave/ops/families.h"
#include "cleave/ops/op.h"
#include "cleave/ops/samples.h"

namespace cleave {

namespace {

constexpr const OpFamily* kFamilies[] = {
    &kElementwiseFamily, &kChloFamily,    &kShapeFamily,       &kIndexingFamily, &kReduceFamily,
    &kSortFamily,        &kDotFamily,     &kConvolutionFamily, &kLinalgFamily,   &kRandomFamily,
    &kCustomCallFamily,  &kControlFamily, &kCollectiveFamily,  &kSdyFamily,      &kCheckFamily,
};

}  // namespace

const OpRegistry& op_registry() {
  static const OpRegistry registry = [] {
    OpRegistry r;
    for (const OpFamily* family : kFamilies) family->define(r);
    for (const OpFamily* family : kFamilies)
      if (family->extend) family->extend(r);
    // Samples come last: they are of ops that all families have registered.
    add_shape_samples(r);
    add_elementwise_samples(r);
    add_dynamic_shape_samples(r);
    add_dot_samples(r);
    add_convolution_samples(r);
    add_reduction_samples(r);
    add_gather_scatter_samples(r);
    add_linalg_samples(r);
    add_chlo_samples(r);
    add_random_samples(r);
    add_custom_call_samples(r);
    add_normalize_samples(r);
    add_quantized_samples(r);
    return r;
  }();
  return registry;
}

const OpDef* find_op(std::string_view name) { return op_registry().find(name); }

const OpDef& required_op(std::string_view name) {
  const OpDef* def = find_op(name);
  if (!def) throw_internal("there is no op {}", name);
  return *def;
}

}  // namespace cleave
