#include "cleave/ops/families.h"

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
    return r;
  }();
  return registry;
}

}  // namespace cleave
