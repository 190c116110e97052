#include "random_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

namespace cleave::soak {
namespace {

std::string type_text(DType dtype, const Shape& shape) {
  std::string text = "tensor<";
  for (const int64_t size : shape) text += fmt::format("{}x", size);
  return text + std::string(name(dtype)) + ">";
}
std::string type_text(const Value& value) { return type_text(value.dtype, value.shape); }

std::string list_text(const std::vector<int64_t>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}
std::string array_text(const std::vector<int64_t>& numbers) {
  return numbers.empty() ? "array<i64>" : fmt::format("array<i64: {}>", fmt::join(numbers, ", "));
}

bool is_float_type(DType dtype) { return cleave::is_float(dtype); }

// The largest whole number up to which all are exact, and so are their sums.
double limit_of(DType dtype) {
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

constexpr int64_t kMostElements = 4000;

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

  void binary() {
    const Value* found = number();
    if (!found) return add_arg(DType::F32);
    const Value x = *found, y = like(x.dtype, x.shape);
    switch (random_.below(5)) {
      case 0:
        if (same_type("stablehlo.add", x, y, x.bound + y.bound)) return;
        break;
      case 1:
        if (x.dtype != DType::U8 && x.dtype != DType::U32 &&
            same_type("stablehlo.subtract", x, y, x.bound + y.bound))
          return;
        break;
      case 2:
        if (same_type("stablehlo.multiply", x, y, x.bound * y.bound)) return;
        break;
      case 3:
        same_type("stablehlo.maximum", x, y, std::max(x.bound, y.bound));
        return;
      default:
        same_type("stablehlo.minimum", x, y, std::max(x.bound, y.bound));
        return;
    }
    clamp(x);
  }
  void unary() {
    const Value* found = number();
    if (!found) return;
    const Value x = *found;
    if (!is_float_type(x.dtype)) {
      if (x.dtype == DType::U8 || x.dtype == DType::U32) {
        same_type("stablehlo.not", x, INFINITY);
      } else if (chance(0.2)) {
        same_type("stablehlo.not", x, INFINITY);
      } else {
        same_type(pick<const char*>({"stablehlo.negate", "stablehlo.abs", "stablehlo.sign"}), x,
                  x.bound);
      }
      return;
    }
    switch (random_.below(4)) {
      case 0:
        same_type("stablehlo.negate", x, x.bound);
        return;
      case 1:
        same_type("stablehlo.abs", x, x.bound);
        return;
      case 2:
        same_type("stablehlo.sign", x, 1);
        return;
      default: {  // a function with fractions, and whole numbers of it
        if (!same_type(pick<const char*>({"stablehlo.tanh", "stablehlo.sine", "stablehlo.cosine",
                                          "stablehlo.logistic"}),
                       x, 1, false))
          return;
        const Value y = values_.back();
        const Value three = constant(x.dtype, x.shape, 3);
        emit(x.dtype, x.shape, 3, {y, three},
             fmt::format("stablehlo.multiply {}, {} : {}", y.name, three.name, type_text(x)),
             false);
        const Value scaled = values_.back();
        same_type("stablehlo.round_nearest_even", scaled, 3);
      }
    }
  }
  void logic() {
    const Value* found = number();
    if (!found) return;
    const Value x = *found, y = like(x.dtype, x.shape);
    if (!emit(DType::Bool, x.shape, 1, {x, y},
              fmt::format("stablehlo.compare {}, {}, {} : ({}, {}) -> {}",
                          pick<const char*>({"LT", "LE", "EQ", "NE", "GT", "GE"}), x.name, y.name,
                          type_text(x), type_text(y), type_text(DType::Bool, x.shape))))
      return;
    const Value predicate = values_.back();
    if (chance(0.3)) {
      const Value other = like(DType::Bool, x.shape);
      same_type(pick<const char*>({"stablehlo.and", "stablehlo.or", "stablehlo.xor"}), predicate,
                other, 1);
      return;
    }
    emit(x.dtype, x.shape, std::max(x.bound, y.bound), {predicate, x, y},
         fmt::format("stablehlo.select {}, {}, {} : {}, {}", predicate.name, x.name, y.name,
                     type_text(predicate), type_text(x)));
  }
  void convert() {
    const Value* found = find([](const Value&) { return true; });
    if (!found) return;
    const Value x = *found;
    const DType to = dtype();
    if (is_float_type(x.dtype)) {
      if (to == DType::U8 || to == DType::U32) return;  // of negative numbers: undefined
      if (to == DType::I8 && x.bound > 100) return;
      if (to == DType::I16 && x.bound > 30000) return;
    } else if (is_float_type(to) && std::isinf(x.bound)) {
      return clamp(x);
    }
    emit(to, x.shape, x.dtype == DType::Bool ? 1 : x.bound, {x},
         fmt::format("stablehlo.convert {} : ({}) -> {}", x.name, type_text(x),
                     type_text(to, x.shape)));
  }
  void iota() {
    const Value& x = any();
    if (x.shape.empty() || x.dtype == DType::Bool) return;
    const int64_t dim = random_.below(static_cast<int64_t>(x.shape.size()));
    emit(x.dtype, x.shape, static_cast<double>(x.shape[dim]), {},
         fmt::format("stablehlo.iota dim = {} : {}", dim, type_text(x)));
  }
  void reshape() {
    const Value* found = find([](const Value& v) { return !v.shape.empty(); });
    if (!found) return;
    const Value x = *found;
    Shape shape;
    int64_t left = 1;
    for (const int64_t d : x.shape) left *= d;
    if (left == 0) {
      shape = x.shape;
      std::reverse(shape.begin(), shape.end());
    } else {
      std::vector<int64_t> factors;
      for (int64_t p = 2; p <= left;) {
        if (left % p == 0) {
          factors.push_back(p);
          left /= p;
        } else {
          ++p;
        }
      }
      shape.assign(1 + random_.below(3), 1);
      for (const int64_t factor : factors)
        shape[random_.below(static_cast<int64_t>(shape.size()))] *= factor;
    }
    emit(x.dtype, shape, x.bound, {x},
         fmt::format("stablehlo.reshape {} : ({}) -> {}", x.name, type_text(x),
                     type_text(x.dtype, shape)));
  }
  void transpose() {
    const Value* found = find([](const Value& v) { return v.shape.size() >= 2; });
    if (!found) return;
    const Value x = *found;
    std::vector<int64_t> order(x.shape.size());
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random_.below(i + 1)]);
    Shape shape;
    for (const int64_t d : order) shape.push_back(x.shape[d]);
    emit(x.dtype, shape, x.bound, {x},
         fmt::format("stablehlo.transpose {}, dims = {} : ({}) -> {}", x.name, list_text(order),
                     type_text(x), type_text(x.dtype, shape)));
  }
  void broadcast() {
    const Value* found = find([](const Value& v) { return v.shape.size() <= 3; });
    if (!found) return;
    const Value x = *found;
    Shape shape = x.shape;
    std::vector<int64_t> dims(x.shape.size());
    std::iota(dims.begin(), dims.end(), 0);
    for (int64_t& d : shape)
      if (d == 1 && chance(0.6)) d = size();
    const size_t at = random_.below(static_cast<int64_t>(shape.size()) + 1);
    shape.insert(shape.begin() + at, size());
    for (size_t i = at; i < dims.size(); ++i) ++dims[i];
    emit(x.dtype, shape, x.bound, {x},
         fmt::format("stablehlo.broadcast_in_dim {}, dims = {} : ({}) -> {}", x.name,
                     list_text(dims), type_text(x), type_text(x.dtype, shape)));
  }
  void slice() {
    const Value* found = find([](const Value& v) { return !v.shape.empty(); });
    if (!found) return;
    const Value x = *found;
    Shape shape;
    std::vector<std::string> ranges;
    for (const int64_t d : x.shape) {
      const int64_t begin = random_.below(d + 1), end = begin + random_.below(d - begin + 1);
      const int64_t stride = chance(0.7) ? 1 : 1 + random_.below(3);
      if (chance(0.4) || (begin == end && chance(0.8))) {
        ranges.push_back(fmt::format("0:{}", d));
        shape.push_back(d);
        continue;
      }
      ranges.push_back(stride == 1 ? fmt::format("{}:{}", begin, end)
                                   : fmt::format("{}:{}:{}", begin, end, stride));
      shape.push_back((end - begin + stride - 1) / stride);
    }
    emit(x.dtype, shape, x.bound, {x},
         fmt::format("stablehlo.slice {} [{}] : ({}) -> {}", x.name, fmt::join(ranges, ", "),
                     type_text(x), type_text(x.dtype, shape)));
  }
  void pad() {
    const Value* found = find([](const Value& v) { return !v.shape.empty(); });
    if (!found) return;
    const Value x = *found, zero = like(x.dtype, {});
    std::vector<int64_t> low, high, interior;
    Shape shape;
    for (const int64_t d : x.shape) {
      low.push_back(chance(0.5) ? 0 : random_.below(5) - 2);
      high.push_back(chance(0.5) ? 0 : random_.below(5) - 2);
      interior.push_back(chance(0.8) ? 0 : random_.below(3));
      const int64_t spread = d == 0 ? 0 : d + (d - 1) * interior.back();
      shape.push_back(spread + low.back() + high.back());
      if (shape.back() < 0) return;
    }
    emit(x.dtype, shape, std::max(x.bound, zero.bound), {x, zero},
         fmt::format("stablehlo.pad {}, {}, low = {}, high = {}, interior = {} : ({}, {}) -> {}",
                     x.name, zero.name, list_text(low), list_text(high), list_text(interior),
                     type_text(x), type_text(zero), type_text(x.dtype, shape)));
  }
  void concatenate() {
    const Value* found = find([](const Value& v) { return !v.shape.empty(); });
    if (!found) return;
    const Value x = *found;
    const size_t dim = random_.below(static_cast<int64_t>(x.shape.size()));
    const Value* second = find([&](const Value& v) {
      if (v.dtype != x.dtype || v.shape.size() != x.shape.size()) return false;
      for (size_t i = 0; i < v.shape.size(); ++i)
        if (i != dim && v.shape[i] != x.shape[i]) return false;
      return true;
    });
    const Value y = second ? *second : x;
    Shape shape = x.shape;
    shape[dim] += y.shape[dim];
    emit(x.dtype, shape, std::max(x.bound, y.bound), {x, y},
         fmt::format("stablehlo.concatenate {}, {}, dim = {} : ({}, {}) -> {}", x.name, y.name, dim,
                     type_text(x), type_text(y), type_text(x.dtype, shape)));
  }
  void reverse() {
    const Value* found = find([](const Value& v) { return !v.shape.empty(); });
    if (!found) return;
    const Value x = *found;
    std::vector<int64_t> dims;
    for (size_t i = 0; i < x.shape.size(); ++i)
      if (chance(0.5)) dims.push_back(static_cast<int64_t>(i));
    emit(
        x.dtype, x.shape, x.bound, {x},
        fmt::format("stablehlo.reverse {}, dims = {} : {}", x.name, list_text(dims), type_text(x)));
  }
  // Some of the dimensions; sets `shape` to the others and `count` to the elements of each sum.
  std::vector<int64_t> some_dims(const Value& x, Shape& shape, int64_t& count) {
    std::vector<int64_t> dims;
    count = 1;
    for (size_t i = 0; i < x.shape.size(); ++i) {
      if (chance(0.5)) {
        dims.push_back(static_cast<int64_t>(i));
        count *= x.shape[i];
      } else {
        shape.push_back(x.shape[i]);
      }
    }
    return dims;
  }
  void reduce() {
    const Value* found = find([](const Value& v) { return !v.shape.empty(); });
    if (!found) return;
    const Value x = *found;
    Shape shape;
    int64_t count = 1;
    const std::vector<int64_t> dims = some_dims(x, shape, count);
    const char* op = x.dtype == DType::Bool
                         ? pick<const char*>({"stablehlo.and", "stablehlo.or"})
                         : pick<const char*>({"stablehlo.add", "stablehlo.add", "stablehlo.add",
                                              "stablehlo.maximum", "stablehlo.minimum"});
    const bool sums = std::string_view(op) == "stablehlo.add";
    const Value init = constant(x.dtype, {}, chance(0.7) ? 0 : random_.below(3));
    const double bound =
        sums ? x.bound * static_cast<double>(count) + 3 : std::max(x.bound, init.bound);
    if (emit(x.dtype, shape, bound, {x, init},
             fmt::format("stablehlo.reduce({} init: {}) applies {} across dimensions = {} : "
                         "({}, {}) -> {}",
                         x.name, init.name, op, list_text(dims), type_text(x), type_text(init),
                         type_text(x.dtype, shape))))
      return;
    clamp(x);
  }
  // The largest element and where it stands: a reduction of two operands.
  void arg_reduce() {
    const Value* found = find([](const Value& v) {
      return !v.shape.empty() && (v.dtype == DType::F32 || v.dtype == DType::I32);
    });
    if (!found) return;
    const Value x = *found;
    const int64_t dim = random_.below(static_cast<int64_t>(x.shape.size()));
    Shape shape = x.shape;
    shape.erase(shape.begin() + dim);
    const std::string t = type_text(x.dtype, {}), i = type_text(DType::I32, {});
    const std::string index = type_text(DType::I32, x.shape);
    const std::string inner = fmt::format(
        "\"stablehlo.iota\"() <{{iota_dimension = {} : i64}}> : () -> {}\n", dim, index);
    const std::string id = fresh().substr(1);
    // The iota is part of the step, so that the step stands by itself.
    const std::string text = fmt::format(
        "  %i{0} = {1}"
        "  %a{0} = stablehlo.constant dense<-100> : {2}\n"
        "  %x{0} = stablehlo.convert %a{0} : ({2}) -> {3}\n"
        "  %z{0} = stablehlo.constant dense<0> : {2}\n"
        "  %r{0}:2 = stablehlo.reduce({4} init: %x{0}), (%i{0} init: %z{0}) across dimensions = "
        "[{5}] : ({6}, {7}, {3}, {2}) -> ({8}, {9})\n"
        "    reducer(%p{0}: {3}, %q{0}: {3}) (%s{0}: {2}, %t{0}: {2}) {{\n"
        "      %c{0} = stablehlo.compare GT, %p{0}, %q{0} : ({3}, {3}) -> tensor<i1>\n"
        "      %e{0} = stablehlo.compare EQ, %p{0}, %q{0} : ({3}, {3}) -> tensor<i1>\n"
        "      %l{0} = stablehlo.compare LT, %s{0}, %t{0} : ({2}, {2}) -> tensor<i1>\n"
        "      %el{0} = stablehlo.and %e{0}, %l{0} : tensor<i1>\n"
        "      %g{0} = stablehlo.or %c{0}, %el{0} : tensor<i1>\n"
        "      %v{0} = stablehlo.select %g{0}, %p{0}, %q{0} : tensor<i1>, {3}\n"
        "      %w{0} = stablehlo.select %g{0}, %s{0}, %t{0} : tensor<i1>, {2}\n"
        "      stablehlo.return %v{0}, %w{0} : {3}, {2}\n"
        "    }}\n",
        id, inner, i, t, x.name, dim, type_text(x), index, type_text(x.dtype, shape),
        type_text(DType::I32, shape));
    if (emit(
            DType::I32, shape, INFINITY, {x},
            fmt::format("stablehlo.add %r{}#1, %r{}#1 : {}", id, id, type_text(DType::I32, shape))))
      program_.steps.back().text = text + program_.steps.back().text;
  }
  void dot() {
    const Value* found = find([](const Value& v) {
      return !v.shape.empty() && v.shape.size() <= 4 && v.dtype != DType::Bool;
    });
    if (!found) return;
    const Value x = *found;
    std::vector<int64_t> batch_x, batch_y, sum_x, sum_y;
    Shape y_shape, shape, free_x;
    int64_t count = 1;
    for (size_t i = 0; i < x.shape.size(); ++i) {
      const int64_t kind = random_.below(3), d = static_cast<int64_t>(i);
      if (kind == 0 && batch_x.size() < 2) {
        batch_x.push_back(d);
      } else if (kind == 1 && sum_x.size() < 2) {
        sum_x.push_back(d);
        count *= x.shape[i];
      } else {
        free_x.push_back(x.shape[i]);
      }
    }
    // The second operand: its batch, contracted and free dimensions in a random order.
    std::vector<std::pair<int, int64_t>> order;
    for (const int64_t d : batch_x) order.push_back({0, d});
    for (const int64_t d : sum_x) order.push_back({1, d});
    const int64_t free = random_.below(3);
    for (int64_t i = 0; i < free; ++i) order.push_back({2, 0});
    for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random_.below(i + 1)]);
    batch_y.resize(batch_x.size());
    sum_y.resize(sum_x.size());
    Shape free_y;
    for (size_t i = 0; i < order.size(); ++i) {
      const auto [kind, d] = order[i];
      y_shape.push_back(kind == 2 ? size() : x.shape[d]);
      if (kind == 2) free_y.push_back(y_shape.back());
      if (kind == 0)
        batch_y[std::find(batch_x.begin(), batch_x.end(), d) - batch_x.begin()] =
            static_cast<int64_t>(i);
      if (kind == 1)
        sum_y[std::find(sum_x.begin(), sum_x.end(), d) - sum_x.begin()] = static_cast<int64_t>(i);
    }
    for (const int64_t d : batch_x) shape.push_back(x.shape[d]);
    shape.insert(shape.end(), free_x.begin(), free_x.end());
    shape.insert(shape.end(), free_y.begin(), free_y.end());
    const Value y = like(x.dtype, y_shape);
    if (emit(x.dtype, shape, x.bound * y.bound * static_cast<double>(std::max<int64_t>(count, 1)),
             {x, y},
             fmt::format("stablehlo.dot_general {}, {}, batching_dims = {} x {}, contracting_dims "
                         "= {} x {} : ({}, {}) -> {}",
                         x.name, y.name, list_text(batch_x), list_text(batch_y), list_text(sum_x),
                         list_text(sum_y), type_text(x), type_text(y), type_text(x.dtype, shape))))
      return;
    clamp(x);
  }
  void convolution() {
    const int64_t spatial = 1 + random_.below(2);
    const Value* found = find([&](const Value& v) {
      return static_cast<int64_t>(v.shape.size()) == spatial + 2 && v.dtype != DType::Bool;
    });
    const DType type = found ? found->dtype : DType::F32;
    Shape input = found ? found->shape : Shape{};
    if (!found)
      for (int64_t i = 0; i < spatial + 2; ++i) input.push_back(size());
    const Value x = like(type, input);
    const int64_t features = x.shape.back();
    if (features == 0) return;
    const int64_t groups = features % 2 == 0 && chance(0.3) ? 2 : 1;
    const int64_t out = groups * (1 + random_.below(4));
    Shape kernel_shape, shape = {x.shape[0]};
    std::vector<int64_t> strides, in_dilation, kernel_dilation;
    std::vector<std::string> padding;
    double taps = static_cast<double>(features / groups);
    for (int64_t i = 0; i < spatial; ++i) {
      const int64_t k = 1 + random_.below(3);
      kernel_shape.push_back(k);
      strides.push_back(1 + random_.below(2));
      in_dilation.push_back(chance(0.8) ? 1 : 2);
      kernel_dilation.push_back(chance(0.8) ? 1 : 2);
      const int64_t low = random_.below(3), high = random_.below(3);
      padding.push_back(fmt::format("[{}, {}]", low, high));
      const int64_t n = x.shape[i + 1];
      const int64_t wide = (n == 0 ? 0 : (n - 1) * in_dilation.back() + 1) + low + high;
      const int64_t window = (k - 1) * kernel_dilation.back() + 1;
      shape.push_back(wide < window ? 0 : (wide - window) / strides.back() + 1);
      taps *= static_cast<double>(k);
    }
    kernel_shape.push_back(features / groups);
    kernel_shape.push_back(out);
    shape.push_back(out);
    const Value kernel = like(x.dtype, kernel_shape);
    const std::string dims =
        spatial == 1 ? "[b, 0, f]x[0, i, o]->[b, 0, f]" : "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]";
    if (emit(x.dtype, shape, x.bound * kernel.bound * taps, {x, kernel},
             fmt::format("stablehlo.convolution({}, {}) dim_numbers = {}, window = {{stride = {}, "
                         "pad = [{}], lhs_dilate = {}, rhs_dilate = {}}} {{batch_group_count = 1 : "
                         "i64, feature_group_count = {} : i64}} : ({}, {}) -> {}",
                         x.name, kernel.name, dims, list_text(strides), fmt::join(padding, ", "),
                         list_text(in_dilation), list_text(kernel_dilation), groups, type_text(x),
                         type_text(kernel), type_text(x.dtype, shape))))
      return;
    clamp(x);
  }
  // Rows by index along one dimension; some indices lie outside, and are moved to the edge.
  void gather() {
    const Value* found = find([](const Value& v) { return !v.shape.empty(); });
    if (!found) return;
    const Value x = *found;
    const int64_t dim = random_.below(static_cast<int64_t>(x.shape.size()));
    if (x.shape[dim] == 0) return;
    const int64_t rows = size();
    const Value at = like(DType::I32, {rows, 1});
    std::vector<int64_t> offsets, sizes = {x.shape.begin(), x.shape.end()};
    sizes[dim] = 1;
    Shape shape = {rows};
    for (size_t i = 0; i < x.shape.size(); ++i) {
      if (static_cast<int64_t>(i) == dim) continue;
      offsets.push_back(static_cast<int64_t>(shape.size()));
      shape.push_back(x.shape[i]);
    }
    emit(x.dtype, shape, x.bound, {x, at},
         fmt::format("\"stablehlo.gather\"({}, {}) <{{dimension_numbers = "
                     "#stablehlo.gather<offset_dims = {}, collapsed_slice_dims = [{}], "
                     "start_index_map = [{}], index_vector_dim = 1>, indices_are_sorted = false, "
                     "slice_sizes = {}}}> : ({}, {}) -> {}",
                     x.name, at.name, list_text(offsets), dim, dim, array_text(sizes), type_text(x),
                     type_text(at), type_text(x.dtype, shape)));
  }
  // Adds rows to those that indices name; what lies outside is dropped.
  void scatter() {
    const Value* found =
        find([](const Value& v) { return !v.shape.empty() && v.dtype != DType::Bool; });
    if (!found) return;
    const Value x = *found;
    const int64_t dim = random_.below(static_cast<int64_t>(x.shape.size()));
    const int64_t rows = size();
    const Value at = like(DType::I32, {rows, 1});
    std::vector<int64_t> window;
    Shape shape = {rows};
    for (size_t i = 0; i < x.shape.size(); ++i) {
      if (static_cast<int64_t>(i) == dim) continue;
      window.push_back(static_cast<int64_t>(shape.size()));
      shape.push_back(x.shape[i]);
    }
    const Value updates = like(x.dtype, shape);
    const char* op = pick<const char*>({"stablehlo.add", "stablehlo.add", "stablehlo.maximum"});
    const std::string t = type_text(x.dtype, {});
    if (emit(x.dtype, x.shape, x.bound + updates.bound * static_cast<double>(rows),
             {x, at, updates},
             fmt::format("\"stablehlo.scatter\"({}, {}, {}) <{{scatter_dimension_numbers = "
                         "#stablehlo.scatter<update_window_dims = {}, inserted_window_dims = [{}], "
                         "scatter_dims_to_operand_dims = [{}], index_vector_dim = 1>}}> ({{\n"
                         "  ^bb0(%a: {}, %b: {}):\n"
                         "    %s = {} %a, %b : {}\n"
                         "    stablehlo.return %s : {}\n"
                         "  }}) : ({}, {}, {}) -> {}",
                         x.name, at.name, updates.name, list_text(window), dim, dim, t, t, op, t, t,
                         type_text(x), type_text(at), type_text(updates), type_text(x))))
      return;
    clamp(x);
  }
  void dynamic() {
    const Value* found = find([](const Value& v) { return !v.shape.empty(); });
    if (!found) return;
    const Value x = *found;
    std::vector<Value> operands = {x};
    Shape shape;
    for (const int64_t d : x.shape) shape.push_back(d == 0 ? 0 : 1 + random_.below(d));
    const bool update = chance(0.5);
    Value part;
    if (update) {
      part = like(x.dtype, shape);
      operands.push_back(part);
    }
    std::vector<std::string> starts, types;
    for (size_t i = 0; i < x.shape.size(); ++i) {
      const Value at = like(DType::I32, {});
      operands.push_back(at);
      starts.push_back(at.name);
      types.push_back(type_text(at));
    }
    if (update) {
      emit(x.dtype, x.shape, std::max(x.bound, part.bound), operands,
           fmt::format("stablehlo.dynamic_update_slice {}, {}, {} : ({}, {}, {}) -> {}", x.name,
                       part.name, fmt::join(starts, ", "), type_text(x), type_text(part),
                       fmt::join(types, ", "), type_text(x)));
    } else {
      emit(x.dtype, shape, x.bound, operands,
           fmt::format("stablehlo.dynamic_slice {}, {}, sizes = {} : ({}, {}) -> {}", x.name,
                       fmt::join(starts, ", "),
                       list_text(std::vector<int64_t>(shape.begin(), shape.end())), type_text(x),
                       fmt::join(types, ", "), type_text(x.dtype, shape)));
    }
  }
  std::string reduce_window_text(const Value& x, const Value& init, const char* op,
                                 const std::vector<int64_t>& window,
                                 const std::vector<int64_t>& strides,
                                 const std::vector<std::string>& padding, const Shape& shape) {
    const std::string t = type_text(x.dtype, {});
    return fmt::format(
        "\"stablehlo.reduce_window\"({}, {}) <{{window_dimensions = {}, window_strides = {}, "
        "padding = dense<[{}]> : tensor<{}x2xi64>}}> ({{\n"
        "  ^bb0(%a: {}, %b: {}):\n"
        "    %s = {} %a, %b : {}\n"
        "    stablehlo.return %s : {}\n"
        "  }}) : ({}, {}) -> {}",
        x.name, init.name, array_text(window), array_text(strides), fmt::join(padding, ", "),
        x.shape.size(), t, t, op, t, t, type_text(x), t, type_text(x.dtype, shape));
  }
  void window() {
    const Value* found = find([](const Value& v) {
      return !v.shape.empty() && v.shape.size() <= 3 && v.dtype != DType::Bool;
    });
    if (!found) return;
    const Value x = *found;
    const bool sums = chance(0.6);
    const Value init = constant(x.dtype, {}, 0);
    std::vector<int64_t> window, strides;
    std::vector<std::string> padding;
    Shape shape;
    double taps = 1;
    for (const int64_t d : x.shape) {
      const bool whole = chance(0.4);
      const int64_t k = whole ? 1 : 1 + random_.below(3);
      const int64_t low = whole ? 0 : random_.below(3), high = whole ? 0 : random_.below(3);
      window.push_back(k);
      strides.push_back(whole ? 1 : 1 + random_.below(2));
      padding.push_back(fmt::format("[{}, {}]", low, high));
      taps *= static_cast<double>(k);
      const int64_t wide = d + low + high;
      shape.push_back(wide < k ? 0 : (wide - k) / strides.back() + 1);
    }
    if (emit(x.dtype, shape, sums ? x.bound * taps : x.bound, {x, init},
             reduce_window_text(x, init, sums ? "stablehlo.add" : "stablehlo.maximum", window,
                                strides, padding, shape)))
      return;
    clamp(x);
  }
  void cumulative() {
    const Value* found = find([](const Value& v) {
      return !v.shape.empty() && v.shape.size() <= 3 && v.dtype != DType::Bool;
    });
    if (!found) return;
    const Value x = *found;
    const size_t dim = random_.below(static_cast<int64_t>(x.shape.size()));
    const int64_t n = x.shape[dim];
    if (n == 0) return;
    const Value init = constant(x.dtype, {}, 0);
    std::vector<int64_t> window(x.shape.size(), 1), strides(x.shape.size(), 1);
    std::vector<std::string> padding(x.shape.size(), "[0, 0]");
    window[dim] = n;
    padding[dim] = chance(0.5) ? fmt::format("[{}, 0]", n - 1) : fmt::format("[0, {}]", n - 1);
    if (emit(x.dtype, x.shape, x.bound * static_cast<double>(n), {x, init},
             reduce_window_text(x, init, "stablehlo.add", window, strides, padding, x.shape)))
      return;
    clamp(x);
  }
  void select_and_scatter() {
    const Value* found = find([](const Value& v) {
      return v.shape.size() == 2 && v.dtype == DType::F32 && v.shape[0] > 1 && v.shape[1] > 1;
    });
    if (!found) return;
    const Value x = *found;
    const Shape shape = {(x.shape[0] - 2) / 2 + 1, (x.shape[1] - 2) / 1 + 1};
    const Value source = like(x.dtype, shape), init = constant(x.dtype, {}, 0);
    const std::string t = type_text(x.dtype, {});
    emit(x.dtype, x.shape, source.bound * 4, {x, source, init},
         fmt::format("\"stablehlo.select_and_scatter\"({0}, {1}, {2}) <{{window_dimensions = "
                     "array<i64: 2, 2>, window_strides = array<i64: 2, 1>}}> ({{\n"
                     "  ^bb0(%a: {4}, %b: {4}):\n"
                     "    %s = stablehlo.compare GE, %a, %b : ({4}, {4}) -> tensor<i1>\n"
                     "    stablehlo.return %s : tensor<i1>\n"
                     "  }}, {{\n"
                     "  ^bb0(%a: {4}, %b: {4}):\n"
                     "    %s = stablehlo.add %a, %b : {4}\n"
                     "    stablehlo.return %s : {4}\n"
                     "  }}) : ({3}, {5}, {4}) -> {3}",
                     x.name, source.name, init.name, type_text(x), t, type_text(source)));
  }
  void sort() {
    const Value* found =
        find([](const Value& v) { return !v.shape.empty() && v.dtype != DType::Bool; });
    if (!found) return;
    const Value x = *found;
    const int64_t dim = random_.below(static_cast<int64_t>(x.shape.size()));
    const std::string t = type_text(x.dtype, {});
    const char* direction = chance(0.5) ? "LT" : "GT";
    if (chance(0.5)) {
      emit(x.dtype, x.shape, x.bound, {x},
           fmt::format("\"stablehlo.sort\"({}) <{{dimension = {} : i64, is_stable = true}}> ({{\n"
                       "  ^bb0(%a: {}, %b: {}):\n"
                       "    %s = stablehlo.compare {}, %a, %b : ({}, {}) -> tensor<i1>\n"
                       "    stablehlo.return %s : tensor<i1>\n"
                       "  }}) : ({}) -> {}",
                       x.name, dim, t, t, direction, t, t, type_text(x), type_text(x)));
      return;
    }
    // By key, with a second operand that follows.
    const Value y = like(chance(0.5) ? x.dtype : DType::I32, x.shape);
    const std::string u = type_text(y.dtype, {});
    const std::string id = fresh().substr(1);
    const std::string text = fmt::format(
        "  %q{0}:2 = \"stablehlo.sort\"({1}, {2}) <{{dimension = {3} : i64, is_stable = true}}> "
        "({{\n"
        "  ^bb0(%a: {4}, %b: {4}, %c: {5}, %d: {5}):\n"
        "    %s = stablehlo.compare {6}, %a, %b : ({4}, {4}) -> tensor<i1>\n"
        "    stablehlo.return %s : tensor<i1>\n"
        "  }}) : ({7}, {8}) -> ({7}, {8})\n",
        id, x.name, y.name, dim, t, u, direction, type_text(x), type_text(y));
    if (emit(y.dtype, y.shape, y.bound, {x, y},
             fmt::format("stablehlo.optimization_barrier %q{}#1 : {}", id, type_text(y))))
      program_.steps.back().text = text + program_.steps.back().text;
  }
  void top_k() {
    const Value* found = find([](const Value& v) {
      return !v.shape.empty() && v.shape.back() > 0 &&
             (v.dtype == DType::F32 || v.dtype == DType::I32);
    });
    if (!found) return;
    const Value x = *found;
    const int64_t k = 1 + random_.below(x.shape.back());
    Shape shape = x.shape;
    shape.back() = k;
    const std::string id = fresh().substr(1);
    const std::string text =
        fmt::format("  %k{0}:2 = chlo.top_k({1}, k = {2}) : {3} -> ({4}, {5})\n", id, x.name, k,
                    type_text(x), type_text(x.dtype, shape), type_text(DType::I32, shape));
    const bool values = chance(0.5);
    const DType type = values ? x.dtype : DType::I32;
    if (emit(type, shape, x.bound, {x},
             fmt::format("stablehlo.optimization_barrier %k{}#{} : {}", id, values ? 0 : 1,
                         type_text(type, shape))))
      program_.steps.back().text = text + program_.steps.back().text;
  }
  // A few rounds of maximum and reverse, with a counter.
  void loop() {
    const Value* found = number();
    if (!found) return;
    const Value x = *found, y = like(x.dtype, x.shape);
    const std::string id = fresh().substr(1), t = type_text(x);
    const std::string move =
        x.shape.empty() ? fmt::format("stablehlo.maximum %v, %w : {}", t)
                        : fmt::format("stablehlo.reverse %v, dims = [{}] : {}",
                                      random_.below(static_cast<int64_t>(x.shape.size())), t);
    const std::string text = fmt::format(
        "  %n{0} = stablehlo.constant dense<0> : tensor<i32>\n"
        "  %l{0}:3 = stablehlo.while(%i = %n{0}, %v = {1}, %w = {2}) : tensor<i32>, {3}, {3}\n"
        "  cond {{\n"
        "    %m = stablehlo.constant dense<{4}> : tensor<i32>\n"
        "    %c = stablehlo.compare LT, %i, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "    stablehlo.return %c : tensor<i1>\n"
        "  }} do {{\n"
        "    %o = stablehlo.constant dense<1> : tensor<i32>\n"
        "    %j = stablehlo.add %i, %o : tensor<i32>\n"
        "    %a = {5}\n"
        "    %b = stablehlo.maximum %a, %w : {3}\n"
        "    stablehlo.return %j, %b, %v : tensor<i32>, {3}, {3}\n"
        "  }}\n",
        id, x.name, y.name, t, random_.below(4), move);
    if (emit(x.dtype, x.shape, std::max(x.bound, y.bound), {x, y},
             fmt::format("stablehlo.minimum %l{}#1, %l{}#2 : {}", id, id, t)))
      program_.steps.back().text = text + program_.steps.back().text;
  }
  void branch() {
    const Value* found = number();
    if (!found) return;
    const Value x = *found, y = like(x.dtype, x.shape);
    const std::string id = fresh().substr(1), t = type_text(x);
    if (chance(0.5)) {
      const Value which = like(DType::I32, {});
      emit(x.dtype, x.shape, std::max(x.bound, y.bound), {which, x, y},
           fmt::format("\"stablehlo.case\"({}) ({{\n"
                       "    stablehlo.return {} : {}\n"
                       "  }}, {{\n"
                       "    %a = stablehlo.maximum {}, {} : {}\n"
                       "    stablehlo.return %a : {}\n"
                       "  }}, {{\n"
                       "    stablehlo.return {} : {}\n"
                       "  }}) : (tensor<i32>) -> {}",
                       which.name, x.name, t, x.name, y.name, t, t, y.name, t, t));
      return;
    }
    const Value which = like(DType::Bool, {});
    emit(x.dtype, x.shape, std::max(x.bound, y.bound), {which, x, y},
         fmt::format("\"stablehlo.if\"({}) ({{\n"
                     "    %a = stablehlo.minimum {}, {} : {}\n"
                     "    stablehlo.return %a : {}\n"
                     "  }}, {{\n"
                     "    stablehlo.return {} : {}\n"
                     "  }}) : (tensor<i1>) -> {}",
                     which.name, x.name, y.name, t, t, y.name, t, t));
  }
  void call() {
    const Value* found = number();
    if (!found) return;
    const Value x = *found, y = like(x.dtype, x.shape);
    const std::string t = type_text(x), function = fmt::format("@f{}", next_++);
    program_.functions += fmt::format(
        "func.func private {0}(%a: {1}, %b: {1}) -> {1} {{\n"
        "  %0 = stablehlo.maximum %a, %b : {1}\n"
        "  %1 = stablehlo.minimum %0, %a : {1}\n"
        "  return %1 : {1}\n}}\n",
        function, t);
    const double bound = std::max(x.bound, y.bound);
    emit(x.dtype, x.shape, bound, {x, y},
         fmt::format("call {}({}, {}) : ({}, {}) -> {}", function, x.name, y.name, t, t, t));
    if (chance(0.5)) {
      const Value z = values_.back();
      emit(x.dtype, x.shape, bound, {z, x},
           fmt::format("call {}({}, {}) : ({}, {}) -> {}", function, z.name, x.name, t, t, t));
    }
  }
  // Functions whose results have fractions, and which are only returned.
  void function() {
    const Value* found =
        find([](const Value& v) { return v.dtype == DType::F32 || v.dtype == DType::F64; });
    if (!found) return;
    const Value x = *found;
    same_type(
        pick<const char*>({"stablehlo.exponential", "stablehlo.tanh", "stablehlo.log_plus_one",
                           "stablehlo.cbrt", "stablehlo.rsqrt", "stablehlo.sqrt", "stablehlo.tan",
                           "stablehlo.exponential_minus_one"}),
        x, 1, false);
  }

  RandomSource random_;
  RandomProgram program_;
  std::vector<Value> values_;
  int next_ = 0;
};

}  // namespace

std::string RandomProgram::text() const {
  std::string text = functions, list;
  for (const Value& arg : args)
    list += fmt::format("{}{}: {}", list.empty() ? "" : ", ", arg.name, type_text(arg));
  std::vector<std::string> names, types;
  for (const Value& result : results) {
    names.push_back(result.name);
    types.push_back(type_text(result));
  }
  text += fmt::format("func.func @main({}) -> ({}) {{\n", list, fmt::join(types, ", "));
  for (const Step& step : steps) text += step.text;
  return text +
         fmt::format("  return {} : {}\n}}\n", fmt::join(names, ", "), fmt::join(types, ", "));
}

RandomProgram random_program(uint64_t seed) { return Writer(seed).write(); }

}  // namespace cleave::soak
