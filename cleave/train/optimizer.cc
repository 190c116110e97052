#include "cleave/train/optimizer.h"

#include <set>

#include "cleave/core/error.h"
#include "cleave/runtime/ops_elementwise.h"

namespace cleave::train {
namespace {

class Chain : public Transformation {
 public:
  explicit Chain(const std::vector<Optimizer>& parts) {
    std::set<std::string> taken;
    for (const Optimizer& part : parts) {
      Named& named = parts_.emplace_back();
      named.how = part.transformation();
      for (const std::string& slot : named.how->slots()) {
        std::string name = slot;
        for (int n = 2; !taken.insert(name).second; ++n) name = fmt::format("{}_{}", slot, n);
        named.names[slot] = name;
        slots_.push_back(name);
      }
    }
  }

  std::vector<std::string> slots() const override { return slots_; }

  void init(const NamedLeaves& params, StateSlots& state) const override {
    for (const Named& part : parts_) {
      StateSlots own(state, part.names);
      part.how->init(params, own);
    }
  }

  std::vector<Tensor> update(std::vector<Tensor> grads, const NamedLeaves& params,
                             StateSlots& state) const override {
    for (const Named& part : parts_) {
      StateSlots own(state, part.names);
      grads = part.how->update(std::move(grads), params, own);
    }
    return grads;
  }

 private:
  struct Named {
    TransformationPtr how;
    std::map<std::string, std::string> names;  // of its slots in the chain
  };
  std::vector<Named> parts_;
  std::vector<std::string> slots_;
};

void check_leaves(const std::vector<Tensor>& grads, const NamedLeaves& params) {
  if (grads.size() != params.size())
    throw_user("an optimizer got {} gradients for {} parameters", grads.size(), params.size());
  for (size_t i = 0; i < grads.size(); ++i)
    if (grads[i].shape() != params.values[i].shape())
      throw_user("an optimizer got a gradient tensor<{}> for the parameter '{}', a tensor<{}>",
                 to_string(grads[i].shape()), params.names[i], to_string(params.values[i].shape()));
}

void check_floats(const NamedLeaves& params) {
  for (size_t i = 0; i < params.size(); ++i)
    if (!is_float(params.values[i].dtype()))
      throw_user(
          "an optimizer got the parameter '{}' of {}; only floats have gradients, so keep other "
          "values out of the tree",
          params.names[i], name(params.values[i].dtype()));
}

}  // namespace

OptState Optimizer::init_leaves(const NamedLeaves& params) const {
  check_floats(params);
  OptState state;
  StateSlots slots(nullptr, &state);
  transformation_->init(params, slots);
  return state;
}

std::pair<std::vector<Tensor>, OptState> Optimizer::update_leaves(std::vector<Tensor> grads,
                                                                  const OptState& state,
                                                                  const NamedLeaves& params) const {
  check_floats(params);
  check_leaves(grads, params);
  for (size_t i = 0; i < grads.size(); ++i)
    grads[i] = cast(grads[i], wide_type(params.values[i].dtype()));
  OptState next;
  StateSlots slots(&state, &next);
  grads = transformation_->update(std::move(grads), params, slots);
  for (const auto& [name, value] : state)
    if (!next.contains(name))
      throw_user("the state of the optimizer has '{}', which this optimizer does not know", name);
  return {std::move(grads), std::move(next)};
}

Optimizer chain(const std::vector<Optimizer>& parts) {
  return Optimizer(std::make_shared<Chain>(parts));
}

Tensor apply_update(const Tensor& p, const Tensor& u) { return cast(to_wide(p) + u, p.dtype()); }

}  // namespace cleave::train
