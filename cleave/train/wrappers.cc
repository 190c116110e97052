#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/train/step_choice.h"
#include "cleave/train/transformations.h"

// Transformations that hold others.
namespace cleave::train {
namespace {

using SlotNames = std::map<std::string, std::string>;

// The leaves that an inner transformation has: a part of all of them.
struct Subset {
  std::vector<size_t> places;
  NamedLeaves params;

  std::vector<Tensor> of(const std::vector<Tensor>& all) const {
    std::vector<Tensor> some;
    for (size_t place : places) some.push_back(all[place]);
    return some;
  }
};

class Partition : public Transformation {
 public:
  // `rest`: parameters that no part takes pass unchanged.
  Partition(std::vector<Part> parts, bool prefix, bool rest)
      : parts_(std::move(parts)), rest_(rest) {
    for (const Part& part : parts_) {
      SlotNames& names = names_.emplace_back();
      for (const std::string& slot : part.optimizer.transformation()->slots())
        names[slot] = prefix ? part.name + "." + slot : slot;
    }
  }

  std::vector<std::string> slots() const override {
    std::vector<std::string> all;
    for (const SlotNames& names : names_)
      for (const auto& [own, name] : names) all.push_back(name);
    return all;
  }

  void init(const NamedLeaves& params, StateSlots& state) const override {
    const std::vector<Subset> subsets = divide(params);
    for (size_t i = 0; i < parts_.size(); ++i) {
      StateSlots own(state, names_[i]);
      parts_[i].optimizer.transformation()->init(subsets[i].params, own);
    }
  }

  std::vector<Tensor> update(std::vector<Tensor> grads, const NamedLeaves& params,
                             StateSlots& state) const override {
    const std::vector<Subset> subsets = divide(params);
    for (size_t i = 0; i < parts_.size(); ++i) {
      StateSlots own(state, names_[i]);
      const Subset& subset = subsets[i];
      const std::vector<Tensor> updates =
          parts_[i].optimizer.transformation()->update(subset.of(grads), subset.params, own);
      for (size_t j = 0; j < updates.size(); ++j) grads[subset.places[j]] = updates[j];
    }
    return grads;
  }

 private:
  std::vector<Subset> divide(const NamedLeaves& params) const {
    std::vector<Subset> subsets(parts_.size());
    for (size_t i = 0; i < params.size(); ++i) {
      const std::string& name = params.names[i];
      const auto part = std::find_if(parts_.begin(), parts_.end(), [&](const Part& p) {
        return p.mask.takes(name, params.values[i]);
      });
      if (part == parts_.end() && rest_) continue;
      if (part == parts_.end())
        throw_user("partition: no part takes the parameter '{}'; end with one that takes all",
                   name);
      Subset& subset = subsets[static_cast<size_t>(part - parts_.begin())];
      subset.places.push_back(i);
      subset.params.names.push_back(name);
      subset.params.values.push_back(params.values[i]);
    }
    return subsets;
  }

  std::vector<Part> parts_;
  std::vector<SlotNames> names_;
  bool rest_;
};

class MultiSteps : public Transformation {
 public:
  MultiSteps(TransformationPtr inner, int64_t every) : inner_(std::move(inner)), every_(every) {
    for (const std::string& slot : inner_->slots()) names_[slot] = slot;
  }
  std::vector<std::string> slots() const override {
    std::vector<std::string> all = inner_->slots();
    all.insert(all.end(), {"gathered", "micro_step"});
    return all;
  }
  void init(const NamedLeaves& params, StateSlots& state) const override {
    StateSlots own(state, names_);
    inner_->init(params, own);
    for (size_t i = 0; i < params.size(); ++i)
      state.set("gathered", params.names[i], wide_zeros(params.values[i]));
    state.set("micro_step", zero_step(params));
  }
  std::vector<Tensor> update(std::vector<Tensor> grads, const NamedLeaves& params,
                             StateSlots& state) const override {
    const Tensor micro = state.get("micro_step");
    const Tensor now = equal(micro, every_ - 1);
    const Tensor count = cast(micro + 1, DType::F32);
    for (size_t i = 0; i < grads.size(); ++i) {
      const Tensor before = state.get("gathered", params.names[i]);
      grads[i] = before + (grads[i] - before) / cast(count, before.dtype());
      state.set("gathered", params.names[i], where(now, zeros_like(before), grads[i]));
    }
    state.set("micro_step", remainder(micro + 1, every_));
    return step_if(now, *inner_, names_, std::move(grads), params, state);
  }

 private:
  TransformationPtr inner_;
  int64_t every_;
  SlotNames names_;
};

class AverageWeights : public Transformation {
 public:
  AverageWeights(double decay, AverageOptions options)
      : decay_(decay), options_(std::move(options)), weight_(options_.name + "_weight") {}
  std::vector<std::string> slots() const override {
    if (options_.debias) return {options_.name, weight_};
    return {options_.name};
  }
  void init(const NamedLeaves& params, StateSlots& state) const override {
    for (size_t i = 0; i < params.size(); ++i) {
      const Tensor& p = params.values[i];
      // A copy: parameters and state may both be donated, and must not be one Tensor.
      const Tensor start = options_.debias ? wide_zeros(p) : wide_zeros(p) + to_wide(p);
      state.set(options_.name, params.names[i], start);
    }
    if (options_.debias) state.set(weight_, number_beside(0, params));
  }
  std::vector<Tensor> update(std::vector<Tensor> grads, const NamedLeaves& params,
                             StateSlots& state) const override {
    for (size_t i = 0; i < grads.size(); ++i) {
      const Tensor average = state.get(options_.name, params.names[i]);
      const Tensor next = to_wide(apply_update(params.values[i], grads[i]));
      state.set(options_.name, params.names[i], next * (1 - decay_) + average * decay_);
    }
    if (options_.debias) state.set(weight_, state.get(weight_) * decay_ + (1 - decay_));
    return grads;
  }

 private:
  double decay_;
  AverageOptions options_;
  std::string weight_;  // the slot with the sum of the weights of what was averaged
};

}  // namespace

std::vector<Tensor> step_if(const Tensor& condition, const Transformation& inner,
                            const std::map<std::string, std::string>& names,
                            std::vector<Tensor> grads, const NamedLeaves& params,
                            StateSlots& state) {
  OptState tried;
  StateSlots trial = state.on(state.before(), &tried);
  StateSlots own(trial, names);
  std::vector<Tensor> updates = inner.update(std::move(grads), params, own);
  for (const auto& [name, value] : tried)
    (*state.after())[name] = where(condition, value, state.before()->at(name));
  for (Tensor& u : updates) u = where(condition, u, zeros_like(u));
  return updates;
}

Optimizer masked(Optimizer inner, Mask mask) {
  return Optimizer(std::make_shared<Partition>(
      std::vector<Part>{{"", std::move(mask), std::move(inner)}}, false, true));
}

Optimizer partition(const std::vector<Part>& parts) {
  return Optimizer(std::make_shared<Partition>(parts, true, false));
}

Optimizer multi_steps(Optimizer inner, int64_t every) {
  if (every < 1) throw_user("multi_steps: gradients of {} steps; take at least 1", every);
  return Optimizer(std::make_shared<MultiSteps>(inner.transformation(), every));
}

NamedLeaves averaged_leaves(const OptState& state, const NamedLeaves& params,
                            const std::string& name) {
  NamedLeaves averages{params.names, {}};
  StateSlots slots(&state, nullptr);
  const auto weight = state.find(name + "_weight");
  for (size_t i = 0; i < params.size(); ++i) {
    Tensor average = slots.get(name, params.names[i]);
    if (weight != state.end()) average = average / cast(weight->second, average.dtype());
    averages.values.push_back(cast(average, params.values[i].dtype()));
  }
  return averages;
}

Optimizer average_weights(double decay, AverageOptions options) {
  if (!(decay >= 0 && decay < 1))
    throw_user("average_weights: the decay is {}; it must be in [0, 1)", decay);
  return Optimizer(std::make_shared<AverageWeights>(decay, std::move(options)));
}

}  // namespace cleave::train
