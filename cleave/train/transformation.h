#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cleave/runtime/tensor.h"
#include "cleave/transforms/tree.h"

// What a transformation of gradients is, for those who write one. Those who use them begin with
// optimizer.h.
namespace cleave::train {

// The leaves of a tree.
struct NamedLeaves {
  std::vector<std::string> names;  // "layers[0].w"
  std::vector<Tensor> values;

  size_t size() const { return values.size(); }
};

template <typename T>
NamedLeaves named_leaves(const T& tree) {
  return {leaf_names(tree), leaves(tree)};
}

// Parameters by name. A star is any text, also none; a pattern that begins with "*." also takes
// names without a dot.
//
//   Mask{.only = {"layers*.w"}}              these alone
//   Mask{.except = {"*.norm", "*.b"}}        all others
//   Mask{.min_rank = 2}                      no vectors, whatever their names are
//
// All that is said must hold. Without anything: all parameters.
struct Mask {
  std::vector<std::string> only = {}, except = {};
  int64_t min_rank = 0, max_rank = 64;

  bool takes(const std::string& name, const Tensor& param) const;
};
bool matches_pattern(const std::string& pattern, const std::string& name);

// What one transformation remembers: Tensors in slots. A slot holds one Tensor, or one for each
// parameter. Reads come from the state before the step; writes go to the one after it.
class StateSlots {
 public:
  using Map = std::map<std::string, Tensor>;

  StateSlots(const Map* before, Map* after) : before_(before), after_(after) {}
  // The slots of a part of a chain: `names` says what they are called in the whole.
  StateSlots(StateSlots& whole, const std::map<std::string, std::string>& names)
      : before_(whole.before_), after_(whole.after_), whole_(&whole), names_(&names) {}

  Tensor get(const std::string& slot) const;
  Tensor get(const std::string& slot, const std::string& leaf) const;
  void set(const std::string& slot, Tensor value);
  void set(const std::string& slot, const std::string& leaf, Tensor value);

  const Map* before() const { return before_; }
  Map* after() const { return after_; }
  // Other maps, the same names: to try a step that may be dropped.
  StateSlots on(const Map* before, Map* after) const;

 private:
  std::string name_of(const std::string& slot) const;

  const Map* before_;
  Map* after_;
  const StateSlots* whole_ = nullptr;
  const std::map<std::string, std::string>* names_ = nullptr;
};

class Transformation {
 public:
  virtual ~Transformation() = default;
  // The names of all slots that it uses.
  virtual std::vector<std::string> slots() const { return {}; }
  // Sets every slot.
  virtual void init(const NamedLeaves&, StateSlots&) const {}
  // The updates after this transformation, one for each parameter, of f32 (f64 for parameters of
  // f64), which is how `grads` come too. Sets every slot.
  virtual std::vector<Tensor> update(std::vector<Tensor> grads, const NamedLeaves& params,
                                     StateSlots& state) const = 0;
};
using TransformationPtr = std::shared_ptr<const Transformation>;

// The type in which updates are computed: f64 for f64, otherwise f32.
DType wide_type(DType dtype);
Tensor to_wide(const Tensor& x);
// Zeros of the wide type with the shape and layout of a parameter.
Tensor wide_zeros(const Tensor& param);
// A number of i32 that is 0 and lies on the mesh of the parameters, as it will after a step.
Tensor zero_step(const NamedLeaves& params);
// The same for any number of f32.
Tensor number_beside(double value, const NamedLeaves& params);

}  // namespace cleave::train
