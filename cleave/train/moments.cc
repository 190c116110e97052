#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/train/transformations.h"

// Scaling, moments and decay: transformations of one leaf at a time.
namespace cleave::train {
namespace {

// One that remembers nothing: f(update, parameter, name).
template <typename F>
class LeafWise : public Transformation {
 public:
  explicit LeafWise(F f) : f_(std::move(f)) {}
  std::vector<Tensor> update(std::vector<Tensor> grads, const NamedLeaves& params,
                             StateSlots&) const override {
    for (size_t i = 0; i < grads.size(); ++i)
      grads[i] = f_(grads[i], params.values[i], params.names[i]);
    return grads;
  }

 private:
  F f_;
};
template <typename F>
Optimizer leaf_wise(F f) {
  return Optimizer(std::make_shared<LeafWise<F>>(std::move(f)));
}

// By a rate that changes with the step.
class ScaleByRate : public Transformation {
 public:
  ScaleByRate(Rate rate, double factor) : rate_(std::move(rate)), factor_(factor) {}
  std::vector<std::string> slots() const override { return {"rate_step"}; }
  void init(const NamedLeaves& params, StateSlots& state) const override {
    state.set("rate_step", zero_step(params));
  }
  std::vector<Tensor> update(std::vector<Tensor> grads, const NamedLeaves&,
                             StateSlots& state) const override {
    const Tensor count = state.get("rate_step");
    const Tensor rate = rate_.at(cast(count, DType::F32)) * factor_;
    for (Tensor& g : grads) g = g * cast(rate, g.dtype());
    state.set("rate_step", count + 1);
    return grads;
  }

 private:
  Rate rate_;
  double factor_;
};

Optimizer scale_by(const Rate& rate, double factor) {
  if (rate.is_schedule()) return Optimizer(std::make_shared<ScaleByRate>(rate, factor));
  return leaf_wise([rate, factor](const Tensor& g, const Tensor&, const std::string&) {
    return rate.times(g, {}, factor);
  });
}

class Adam : public Transformation {
 public:
  explicit Adam(MomentOptions options) : options_(options) {}
  std::vector<std::string> slots() const override { return {"m", "v", "step"}; }
  void init(const NamedLeaves& params, StateSlots& state) const override {
    for (size_t i = 0; i < params.size(); ++i) {
      state.set("m", params.names[i], wide_zeros(params.values[i]));
      state.set("v", params.names[i], wide_zeros(params.values[i]));
    }
    state.set("step", zero_step(params));
  }

  std::vector<Tensor> update(std::vector<Tensor> grads, const NamedLeaves& params,
                             StateSlots& state) const override {
    const auto& [beta1, beta2, epsilon, epsilon_root, nesterov] = options_;
    const Tensor count = state.get("step") + 1;
    const Tensor step = cast(count, DType::F32);
    const Tensor first = 1.0 - pow(beta1, step), second = 1.0 - pow(beta2, step);
    const Tensor ahead = nesterov ? 1.0 - pow(beta1, step + 1.0) : first;
    for (size_t i = 0; i < grads.size(); ++i) {
      const Tensor g = grads[i];
      const DType type = g.dtype();
      const Tensor m = g * (1 - beta1) + state.get("m", params.names[i]) * beta1;
      const Tensor v = square(g) * (1 - beta2) + state.get("v", params.names[i]) * beta2;
      Tensor direction = m / cast(ahead, type);
      if (nesterov) direction = direction * beta1 + g / cast(first, type) * (1 - beta1);
      Tensor scale = v / cast(second, type);
      if (epsilon_root != 0) scale = scale + epsilon_root;
      grads[i] = direction / (sqrt(scale) + epsilon);
      state.set("m", params.names[i], m);
      state.set("v", params.names[i], v);
    }
    state.set("step", count);
    return grads;
  }

 private:
  MomentOptions options_;
};

class Momentum : public Transformation {
 public:
  Momentum(double decay, bool nesterov) : decay_(decay), nesterov_(nesterov) {}
  std::vector<std::string> slots() const override { return {"velocity"}; }
  void init(const NamedLeaves& params, StateSlots& state) const override {
    for (size_t i = 0; i < params.size(); ++i)
      state.set("velocity", params.names[i], wide_zeros(params.values[i]));
  }
  std::vector<Tensor> update(std::vector<Tensor> grads, const NamedLeaves& params,
                             StateSlots& state) const override {
    for (size_t i = 0; i < grads.size(); ++i) {
      const Tensor v = grads[i] + state.get("velocity", params.names[i]) * decay_;
      grads[i] = nesterov_ ? grads[i] + v * decay_ : v;
      state.set("velocity", params.names[i], v);
    }
    return grads;
  }

 private:
  double decay_;
  bool nesterov_;
};

class Lion : public Transformation {
 public:
  Lion(double beta1, double beta2) : beta1_(beta1), beta2_(beta2) {}
  std::vector<std::string> slots() const override { return {"m"}; }
  void init(const NamedLeaves& params, StateSlots& state) const override {
    for (size_t i = 0; i < params.size(); ++i)
      state.set("m", params.names[i], wide_zeros(params.values[i]));
  }
  std::vector<Tensor> update(std::vector<Tensor> grads, const NamedLeaves& params,
                             StateSlots& state) const override {
    for (size_t i = 0; i < grads.size(); ++i) {
      const Tensor m = state.get("m", params.names[i]), g = grads[i];
      grads[i] = sign(g * (1 - beta1_) + m * beta1_);
      state.set("m", params.names[i], g * (1 - beta2_) + m * beta2_);
    }
    return grads;
  }

 private:
  double beta1_, beta2_;
};

// Decay by a schedule: its step is its own.
class ScheduledDecay : public Transformation {
 public:
  ScheduledDecay(Rate decay, Mask mask) : decay_(std::move(decay)), mask_(std::move(mask)) {}
  std::vector<std::string> slots() const override { return {"decay_step"}; }
  void init(const NamedLeaves& params, StateSlots& state) const override {
    state.set("decay_step", zero_step(params));
  }
  std::vector<Tensor> update(std::vector<Tensor> grads, const NamedLeaves& params,
                             StateSlots& state) const override {
    const Tensor count = state.get("decay_step"), step = cast(count, DType::F32);
    for (size_t i = 0; i < grads.size(); ++i)
      if (mask_.takes(params.names[i], params.values[i]))
        grads[i] = grads[i] + decay_.times(to_wide(params.values[i]), step);
    state.set("decay_step", count + 1);
    return grads;
  }

 private:
  Rate decay_;
  Mask mask_;
};

}  // namespace

Optimizer scale(double factor) { return scale_by(factor, 1); }
Optimizer scale_by_schedule(Schedule schedule) { return scale_by(std::move(schedule), 1); }
Optimizer scale_by_rate(Rate rate) { return scale_by(rate, -1); }
Optimizer scale_by_adam(MomentOptions options) {
  return Optimizer(std::make_shared<Adam>(options));
}
Optimizer momentum(double decay, bool nesterov) {
  return Optimizer(std::make_shared<Momentum>(decay, nesterov));
}
Optimizer scale_by_lion(double beta1, double beta2) {
  return Optimizer(std::make_shared<Lion>(beta1, beta2));
}

Optimizer add_decayed_weights(Rate decay, Mask mask) {
  if (decay.is_schedule())
    return Optimizer(std::make_shared<ScheduledDecay>(std::move(decay), std::move(mask)));
  return leaf_wise([decay, mask](const Tensor& g, const Tensor& p, const std::string& name) {
    return mask.takes(name, p) ? g + decay.times(to_wide(p), {}) : g;
  });
}

Optimizer clip_by_value(double limit) {
  return leaf_wise([limit](const Tensor& g, const Tensor&, const std::string&) {
    return clip(g, -limit, limit);
  });
}

}  // namespace cleave::train
