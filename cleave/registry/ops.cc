#include "cleave/core/error.h"
#include "cleave/ops/families.h"
#include "cleave/ops/op.h"

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

const OpDef* find_op(std::string_view name) { return op_registry().find(name); }

const OpDef& required_op(std::string_view name) {
  const OpDef* def = find_op(name);
  if (!def) throw_internal("there is no op {}", name);
  return *def;
}

}  // namespace cleave
