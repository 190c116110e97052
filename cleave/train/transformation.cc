#include "cleave/train/transformation.h"

#include "cleave/core/error.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/promotion.h"

namespace cleave::train {
namespace {

// With stars alone; the last star that was met takes one more letter when the rest does not fit.
bool fits_pattern(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, tried = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      tried = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++tried;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool any_pattern(const std::vector<std::string>& patterns, const std::string& name) {
  for (const std::string& pattern : patterns)
    if (matches_pattern(pattern, name)) return true;
  return false;
}

// A value that is no parameter lies on the mesh of the parameters, the same on all devices.
Tensor beside(Tensor number, const NamedLeaves& params) {
  for (const Tensor& p : params.values)
    if (p.mesh()) return number.shard(*p.mesh(), P());
  return number;
}

}  // namespace

bool matches_pattern(const std::string& pattern, const std::string& name) {
  return fits_pattern(pattern, name) ||
         (pattern.starts_with("*.") && fits_pattern(std::string_view(pattern).substr(2), name));
}

bool Mask::takes(const std::string& name, const Tensor& param) const {
  return param.rank() >= min_rank && param.rank() <= max_rank &&
         (only.empty() || any_pattern(only, name)) && !any_pattern(except, name);
}

std::string StateSlots::name_of(const std::string& slot) const {
  if (!names_) return slot;
  const auto found = names_->find(slot);
  if (found == names_->end())
    throw_internal("a transformation uses the slot '{}', which its slots() do not name", slot);
  return whole_->name_of(found->second);
}

Tensor StateSlots::get(const std::string& slot) const { return get(slot, {}); }

Tensor StateSlots::get(const std::string& slot, const std::string& leaf) const {
  const std::string name = name_of(slot);
  const std::string full = leaf.empty() ? name : tree_detail::joined(name, leaf);
  const auto found = before_->find(full);
  if (found == before_->end())
    throw_user(
        "the state of the optimizer has no '{}'; take the one that init of this optimizer gives "
        "for these parameters",
        full);
  return found->second;
}

void StateSlots::set(const std::string& slot, Tensor value) { set(slot, {}, std::move(value)); }

void StateSlots::set(const std::string& slot, const std::string& leaf, Tensor value) {
  const std::string name = name_of(slot);
  (*after_)[leaf.empty() ? name : tree_detail::joined(name, leaf)] = std::move(value);
}

StateSlots StateSlots::on(const Map* before, Map* after) const {
  StateSlots other = *this;
  other.before_ = before;
  other.after_ = after;
  return other;
}

DType wide_type(DType dtype) { return dtype == DType::F64 ? DType::F64 : DType::F32; }

Tensor to_wide(const Tensor& x) {
  const DType wide = wide_type(x.dtype());
  return x.dtype() == wide ? x : cast(x, wide);
}

Tensor wide_zeros(const Tensor& param) {
  const Tensor zero = zeros(param.shape(), wide_type(param.dtype()));
  return param.mesh() ? zero.with_sharding(param.sharding()) : zero;
}

Tensor zero_step(const NamedLeaves& params) { return beside(zeros({}, DType::I32), params); }

Tensor number_beside(double value, const NamedLeaves& params) {
  return beside(full({}, value, DType::F32), params);
}

}  // namespace cleave::train
