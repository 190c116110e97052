// Families that compute.
#include "writer.h"

namespace cleave::soak {

void Writer::binary() {
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

void Writer::unary() {
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
           fmt::format("stablehlo.multiply {}, {} : {}", y.name, three.name, type_text(x)), false);
      const Value scaled = values_.back();
      same_type("stablehlo.round_nearest_even", scaled, 3);
    }
  }
}

void Writer::logic() {
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

void Writer::convert() {
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

// Some of the dimensions; sets `shape` to the others and `count` to the elements of each sum.
std::vector<int64_t> Writer::some_dims(const Value& x, Shape& shape, int64_t& count) {
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

void Writer::reduce() {
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
void Writer::arg_reduce() {
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
  const std::string inner =
      fmt::format("\"stablehlo.iota\"() <{{iota_dimension = {} : i64}}> : () -> {}\n", dim, index);
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
  if (emit(DType::I32, shape, INFINITY, {x},
           fmt::format("stablehlo.add %r{}#1, %r{}#1 : {}", id, id, type_text(DType::I32, shape))))
    program_.steps.back().text = text + program_.steps.back().text;
}

void Writer::dot() {
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

void Writer::convolution() {
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

std::string Writer::reduce_window_text(const Value& x, const Value& init, const char* op,
                                       const std::vector<int64_t>& window,
                                       const std::vector<int64_t>& strides,
                                       const std::vector<std::string>& padding,
                                       const Shape& shape) {
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

void Writer::window() {
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

void Writer::cumulative() {
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

void Writer::select_and_scatter() {
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

// Functions whose results have fractions, and which are only returned.
void Writer::function() {
  const Value* found =
      find([](const Value& v) { return v.dtype == DType::F32 || v.dtype == DType::F64; });
  if (!found) return;
  const Value x = *found;
  same_type(pick<const char*>({"stablehlo.exponential", "stablehlo.tanh", "stablehlo.log_plus_one",
                               "stablehlo.cbrt", "stablehlo.rsqrt", "stablehlo.sqrt",
                               "stablehlo.tan", "stablehlo.exponential_minus_one"}),
            x, 1, false);
}

}  // namespace cleave::soak
