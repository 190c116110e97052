#include <algorithm>
#include <numeric>
#include <optional>

#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/train/optimizers.h"

namespace cleave::train {
namespace {

// The two largest dimensions of a parameter; the last one wins among equals.
struct FactoredDims {
  int64_t second, largest;
};

// Zeros with the shape and layout of the parameter without a dimension.
Tensor zeros_without(const Tensor& param, int64_t dim) {
  Shape shape = param.shape();
  shape.erase(shape.begin() + dim);
  const Tensor zero = zeros(shape, wide_type(param.dtype()));
  if (!param.mesh()) return zero;
  ShardingSpec spec = param.sharding();
  spec.dims.erase(spec.dims.begin() + dim);
  return zero.with_sharding(spec);
}

class FactoredRms : public Transformation {
 public:
  explicit FactoredRms(AdafactorOptions options) : options_(std::move(options)) {}
  std::vector<std::string> slots() const override { return {"v", "v_row", "v_column", "step"}; }
  void init(const NamedLeaves& params, StateSlots& state) const override {
    for (size_t i = 0; i < params.size(); ++i) {
      const Tensor& p = params.values[i];
      if (const auto dims = factored(p)) {
        state.set("v_row", params.names[i], zeros_without(p, dims->largest));
        state.set("v_column", params.names[i], zeros_without(p, dims->second));
      } else {
        state.set("v", params.names[i], wide_zeros(p));
      }
    }
    state.set("step", zero_step(params));
  }

  std::vector<Tensor> update(std::vector<Tensor> grads, const NamedLeaves& params,
                             StateSlots& state) const override {
    const Tensor count = state.get("step");
    const Tensor step = cast(count - options_.decay_offset + 1, DType::F32);
    const Tensor decay = 1.0 - pow(step, -options_.decay_rate);
    for (size_t i = 0; i < grads.size(); ++i) {
      const Tensor g = grads[i], keeps = cast(decay, g.dtype());
      const Tensor squares = square(g) + options_.epsilon;
      if (const auto dims = factored(params.values[i])) {
        grads[i] = factored_update(g, squares, keeps, *dims, params.names[i], state);
      } else {
        const Tensor v = keeps * state.get("v", params.names[i]) + (1.0 - keeps) * squares;
        grads[i] = g * rsqrt(v);
        state.set("v", params.names[i], v);
      }
    }
    state.set("step", count + 1);
    return grads;
  }

 private:
  std::optional<FactoredDims> factored(const Tensor& param) const {
    if (!options_.factored || param.rank() < 2) return std::nullopt;
    std::vector<int64_t> dims(static_cast<size_t>(param.rank()));
    std::iota(dims.begin(), dims.end(), 0);
    std::stable_sort(dims.begin(), dims.end(),
                     [&](int64_t a, int64_t b) { return param.dim(a) < param.dim(b); });
    const int64_t second = dims[dims.size() - 2];
    if (param.dim(second) < options_.smallest_factored) return std::nullopt;
    return FactoredDims{second, dims.back()};
  }

  static Tensor factored_update(const Tensor& g, const Tensor& squares, const Tensor& keeps,
                                const FactoredDims& dims, const std::string& name,
                                StateSlots& state) {
    const auto [second, largest] = dims;
    const Tensor row = keeps * state.get("v_row", name) + (1.0 - keeps) * mean(squares, {largest});
    const Tensor column =
        keeps * state.get("v_column", name) + (1.0 - keeps) * mean(squares, {second});
    state.set("v_row", name, row);
    state.set("v_column", name, column);
    const int64_t place = second > largest ? second - 1 : second;
    const Tensor row_factor = rsqrt(row / mean(row, {place}, true));
    return g * expand_dims(row_factor, largest) * expand_dims(rsqrt(column), second);
  }

  AdafactorOptions options_;
};

// Times the root mean square of the parameter, at least 0.001.
class ParameterScale : public Transformation {
 public:
  std::vector<Tensor> update(std::vector<Tensor> grads, const NamedLeaves& params,
                             StateSlots&) const override {
    for (size_t i = 0; i < grads.size(); ++i)
      grads[i] = grads[i] * maximum(sqrt(mean(square(to_wide(params.values[i])))), 1e-3);
    return grads;
  }
};

// The moving average of updates, from zero.
class AverageUpdates : public Transformation {
 public:
  explicit AverageUpdates(double decay) : decay_(decay) {}
  std::vector<std::string> slots() const override { return {"m"}; }
  void init(const NamedLeaves& params, StateSlots& state) const override {
    for (size_t i = 0; i < params.size(); ++i)
      state.set("m", params.names[i], wide_zeros(params.values[i]));
  }
  std::vector<Tensor> update(std::vector<Tensor> grads, const NamedLeaves& params,
                             StateSlots& state) const override {
    for (size_t i = 0; i < grads.size(); ++i) {
      grads[i] = grads[i] * (1 - decay_) + state.get("m", params.names[i]) * decay_;
      state.set("m", params.names[i], grads[i]);
    }
    return grads;
  }

 private:
  double decay_;
};

// Times the rate, whose sign stays.
Optimizer scale_by_positive(const Rate& rate) { return chain({scale_by_rate(rate), scale(-1)}); }

}  // namespace

Optimizer adafactor(AdafactorOptions options) {
  std::vector<Optimizer> parts{Optimizer(std::make_shared<FactoredRms>(options))};
  if (options.clip) parts.push_back(clip_by_block_rms(*options.clip));
  if (options.rate) parts.push_back(scale_by_positive(*options.rate));
  if (options.by_parameter_scale) parts.push_back(Optimizer(std::make_shared<ParameterScale>()));
  if (options.momentum)
    parts.push_back(Optimizer(std::make_shared<AverageUpdates>(*options.momentum)));
  if (options.weight_decay)
    parts.push_back(add_decayed_weights(*options.weight_decay, options.decay));
  parts.push_back(scale(-1));
  return chain(parts);
}

}  // namespace cleave::train
