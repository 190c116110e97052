#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <set>

#include "random_program.h"

namespace cleave::soak {

inline std::string type_text(DType dtype, const Shape& shape) {
  std::string text = "tensor<";
  for (const int64_t size : shape) text += fmt::format("{}x", size);
  return text + std::string(name(dtype)) + ">";
}
inline std::string type_text(const Value& value) { return type_text(value.dtype, value.shape); }

inline std::string list_text(const std::vector<int64_t>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}
inline std::string array_text(const std::vector<int64_t>& numbers) {
  return numbers.empty() ? "array<i64>" : fmt::format("array<i64: {}>", fmt::join(numbers, ", "));
}

inline bool is_float_type(DType dtype) { return cleave::is_float(dtype); }

// The largest whole number up to which all are exact, and so are their sums.
inline double limit_of(DType dtype) {
  switch (dtype) {
    case DType::BF16:
      return 128;
    case DType::F16:
      return 1024;
    case DType::F32:
      return 1 << 22;
    case DType::F64:
      return 1LL << 40;
    default:
      return INFINITY;  // integers wrap around, which is exact too
  }
}

inline constexpr int64_t kMostElements = 4000;

// Writes random steps, each over values that are there.
class Writer {
 public:
  explicit Writer(uint64_t seed) : random_(seed) {
    for (int i = 0; i < 16; ++i) random_.next();
  }

  RandomProgram write() {
    const int64_t args = 2 + random_.below(4);
    for (int64_t i = 0; i < args; ++i) add_arg();
    const int64_t steps = 2 + random_.below(14);
    for (int64_t i = 0; i < steps; ++i) step();
    std::set<std::string> returned;
    const int64_t results = 1 + random_.below(3);
    for (int64_t i = 0; i < results; ++i) {
      const Value& value = i == 0 ? values_.back() : any();
      if (returned.insert(value.name).second) program_.results.push_back(value);
    }
    return std::move(program_);
  }

 private:
  bool chance(double p) { return random_.chance(p); }
  template <typename T>
  T pick(const std::vector<T>& list) {
    return list[random_.below(static_cast<int64_t>(list.size()))];
  }
  int64_t size() {
    static const std::vector<int64_t> kSizes = {1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 12};
    return chance(0.02) ? 0 : pick(kSizes);
  }
  DType dtype() {
    static const std::vector<DType> kTypes = {DType::F32, DType::F32,  DType::F32, DType::F32,
                                              DType::F64, DType::BF16, DType::F16, DType::I32,
                                              DType::I32, DType::I64,  DType::I8,  DType::U8,
                                              DType::U32, DType::I16,  DType::Bool};
    return pick(kTypes);
  }
  const Value& any() { return values_[random_.below(static_cast<int64_t>(values_.size()))]; }
  // A value that holds; the latest ones more often. Nothing where none was found.
  const Value* find(const std::function<bool(const Value&)>& holds) {
    for (int attempt = 0; attempt < 12; ++attempt) {
      const int64_t count = static_cast<int64_t>(values_.size());
      const int64_t back =
          chance(0.5) ? random_.below(std::min<int64_t>(count, 4)) : random_.below(count);
      const Value& value = values_[count - 1 - back];
      if (value.whole && holds(value)) return &value;
    }
    return nullptr;
  }
  const Value* number() {
    return find([](const Value& v) { return v.dtype != DType::Bool; });
  }
  std::string fresh() { return fmt::format("%{}", next_++); }

  void add_arg(std::optional<DType> as = {}, std::optional<Shape> shape = {}) {
    Value value;
    value.name = fmt::format("%arg{}", program_.args.size());
    value.dtype = as ? *as : dtype();
    if (shape) {
      value.shape = *shape;
    } else {
      const int64_t rank = pick<int64_t>({0, 1, 1, 2, 2, 2, 3, 3, 4});
      for (int64_t i = 0; i < rank; ++i) value.shape.push_back(size());
    }
    // What `random_arguments` fills them with.
    value.bound = is_float_type(value.dtype) ? 5 : 10;
    program_.args.push_back(value);
    values_.push_back(value);
  }
  // A value of this type: one that is there, or a new argument.
  Value like(DType dtype, const Shape& shape) {
    const Value* found = find([&](const Value& v) { return v.dtype == dtype && v.shape == shape; });
    if (found && chance(0.8)) return *found;
    if (chance(0.4)) return constant(dtype, shape, random_.below(5));
    add_arg(dtype, shape);
    return values_.back();
  }

  // A step with one result. False, and nothing is written, where numbers could grow too large.
  bool emit(DType dtype, Shape shape, double bound, const std::vector<Value>& operands,
            const std::string& text, bool whole = true) {
    if (!is_float_type(dtype) && !(bound <= 100)) bound = INFINITY;
    if (is_float_type(dtype) && bound > limit_of(dtype)) return false;
    int64_t elements = 1;
    for (const int64_t d : shape) elements *= d;
    if (elements > kMostElements || shape.size() > 6) return false;
    Step step;
    step.result = {fresh(), dtype, std::move(shape), bound, whole};
    for (const Value& operand : operands) step.operands.push_back(operand.name);
    step.text = fmt::format("  {} = {}\n", step.result.name, text);
    values_.push_back(step.result);
    program_.steps.push_back(std::move(step));
    return true;
  }
  Value constant(DType dtype, const Shape& shape, int64_t value) {
    if (dtype == DType::Bool) value = value % 2;
    const std::string number = dtype == DType::Bool   ? (value ? "true" : "false")
                               : is_float_type(dtype) ? fmt::format("{}.0", value)
                                                      : fmt::format("{}", value);
    if (!emit(dtype, shape, static_cast<double>(value), {},
              fmt::format("stablehlo.constant dense<{}> : {}", number, type_text(dtype, shape))))
      add_arg(dtype, shape);  // too large for a step
    return values_.back();
  }
  bool same_type(const char* op, const Value& a, double bound, bool whole = true) {
    return emit(a.dtype, a.shape, bound, {a}, fmt::format("{} {} : {}", op, a.name, type_text(a)),
                whole);
  }
  bool same_type(const char* op, const Value& a, const Value& b, double bound) {
    return emit(a.dtype, a.shape, bound, {a, b},
                fmt::format("{} {}, {} : {}", op, a.name, b.name, type_text(a)));
  }
  // Keeps numbers small.
  void clamp(const Value& x) {
    const Value low = constant(x.dtype, {}, 0), high = constant(x.dtype, {}, 3);
    emit(x.dtype, x.shape, 3, {low, x, high},
         fmt::format("stablehlo.clamp {}, {}, {} : ({}, {}, {}) -> {}", low.name, x.name, high.name,
                     type_text(low), type_text(x), type_text(high), type_text(x)));
  }

  void step() {
    using Family = void (Writer::*)();
    static const std::vector<Family> kFamilies = {&Writer::binary,
                                                  &Writer::binary,
                                                  &Writer::unary,
                                                  &Writer::logic,
                                                  &Writer::convert,
                                                  &Writer::iota,
                                                  &Writer::reshape,
                                                  &Writer::transpose,
                                                  &Writer::broadcast,
                                                  &Writer::slice,
                                                  &Writer::pad,
                                                  &Writer::concatenate,
                                                  &Writer::reverse,
                                                  &Writer::reduce,
                                                  &Writer::reduce,
                                                  &Writer::arg_reduce,
                                                  &Writer::dot,
                                                  &Writer::dot,
                                                  &Writer::convolution,
                                                  &Writer::gather,
                                                  &Writer::scatter,
                                                  &Writer::dynamic,
                                                  &Writer::window,
                                                  &Writer::cumulative,
                                                  &Writer::sort,
                                                  &Writer::top_k,
                                                  &Writer::loop,
                                                  &Writer::branch,
                                                  &Writer::call,
                                                  &Writer::function,
                                                  &Writer::select_and_scatter};
    (this->*pick(kFamilies))();
  }

  // One for each family of ops.
  void binary();
  void unary();
  void logic();
  void convert();
  void iota();
  void reshape();
  void transpose();
  void broadcast();
  void slice();
  void pad();
  void concatenate();
  void reverse();
  std::vector<int64_t> some_dims(const Value& x, Shape& shape, int64_t& count);
  void reduce();
  void arg_reduce();
  void dot();
  void convolution();
  void gather();
  void scatter();
  void dynamic();
  std::string reduce_window_text(const Value& x, const Value& init, const char* op,
                                 const std::vector<int64_t>& window,
                                 const std::vector<int64_t>& strides,
                                 const std::vector<std::string>& padding, const Shape& shape);
  void window();
  void cumulative();
  void select_and_scatter();
  void sort();
  void top_k();
  void loop();
  void branch();
  void call();
  void function();

  RandomSource random_;
  RandomProgram program_;
  std::vector<Value> values_;
  int next_ = 0;
};

}  // namespace cleave::soak
