#include "cleave/core/error.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/train/step_choice.h"
#include "cleave/train/transformations.h"

namespace cleave::train {
namespace {

constexpr const char* kScale = "loss_scale";

Tensor all_finite(const std::vector<Tensor>& grads) {
  std::vector<Tensor> bad;
  for (const Tensor& g : grads) bad.push_back(sum(cast(logical_not(is_finite(g)), DType::F32)));
  return equal(sum_at_once(std::move(bad)), 0.0);
}

class LossScaled : public Transformation {
 public:
  LossScaled(TransformationPtr inner, LossScaleOptions options)
      : inner_(std::move(inner)), options_(options) {
    for (const std::string& slot : inner_->slots()) names_[slot] = slot;
  }
  std::vector<std::string> slots() const override {
    std::vector<std::string> all = inner_->slots();
    all.insert(all.end(), {kScale, "good_steps"});
    return all;
  }
  void init(const NamedLeaves& params, StateSlots& state) const override {
    StateSlots own(state, names_);
    inner_->init(params, own);
    state.set(kScale, number_beside(options_.initial, params));
    state.set("good_steps", zero_step(params));
  }

  std::vector<Tensor> update(std::vector<Tensor> grads, const NamedLeaves& params,
                             StateSlots& state) const override {
    const Tensor scale = state.get(kScale);
    if (grads.empty()) throw_user("loss_scaled: there is no parameter");
    for (Tensor& g : grads) g = g / cast(scale, g.dtype());
    const Tensor good = all_finite(grads);
    adjust(good, scale, state);
    return step_if(good, *inner_, names_, std::move(grads), params, state);
  }

 private:
  void adjust(const Tensor& good, const Tensor& scale, StateSlots& state) const {
    const Tensor steps = state.get("good_steps");
    if (!options_.dynamic) {
      state.set(kScale, scale);
      state.set("good_steps", where(good, steps + 1, zeros_like(steps)));
      return;
    }
    const Tensor grows = logical_and(good, equal(steps, options_.period - 1));
    const Tensor larger = minimum(scale * options_.growth, options_.largest);
    const Tensor smaller = maximum(scale * options_.shrink, options_.smallest);
    state.set(kScale, where(grows, larger, where(good, scale, smaller)));
    const Tensor counts = logical_and(good, logical_not(grows));
    state.set("good_steps", where(counts, steps + 1, zeros_like(steps)));
  }

  TransformationPtr inner_;
  LossScaleOptions options_;
  std::map<std::string, std::string> names_;
};

const Tensor& scale_in(const OptState& state) {
  const auto found = state.find(kScale);
  if (found == state.end())
    throw_user("scale_loss: the state has no '{}'; take the optimizer loss_scaled(...)", kScale);
  return found->second;
}

}  // namespace

Optimizer loss_scaled(Optimizer inner, LossScaleOptions options) {
  if (!(options.initial > 0) || !(options.growth >= 1) || !(options.shrink > 0) ||
      !(options.shrink <= 1) || options.period < 1)
    throw_user(
        "loss_scaled: a scale of {} that grows by {} after {} good steps and shrinks by {}; take a "
        "scale above 0, growth of at least 1, shrinking in (0, 1] and a period of at least 1",
        options.initial, options.growth, options.period, options.shrink);
  return Optimizer(std::make_shared<LossScaled>(inner.transformation(), options));
}

Tensor scale_loss(const Tensor& loss, const OptState& state) {
  return to_wide(loss) * cast(scale_in(state), wide_type(loss.dtype()));
}
Tensor unscale_loss(const Tensor& loss, const OptState& state) {
  return to_wide(loss) / cast(scale_in(state), wide_type(loss.dtype()));
}

}  // namespace cleave::train
