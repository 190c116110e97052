// Families that move elements.
#include "writer.h"

namespace cleave::soak {

void Writer::iota() {
  const Value& x = any();
  if (x.shape.empty() || x.dtype == DType::Bool) return;
  const int64_t dim = random_.below(static_cast<int64_t>(x.shape.size()));
  emit(x.dtype, x.shape, static_cast<double>(x.shape[dim]), {},
       fmt::format("stablehlo.iota dim = {} : {}", dim, type_text(x)));
}

void Writer::reshape() {
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

void Writer::transpose() {
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

void Writer::broadcast() {
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
       fmt::format("stablehlo.broadcast_in_dim {}, dims = {} : ({}) -> {}", x.name, list_text(dims),
                   type_text(x), type_text(x.dtype, shape)));
}

void Writer::slice() {
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

void Writer::pad() {
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

void Writer::concatenate() {
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

void Writer::reverse() {
  const Value* found = find([](const Value& v) { return !v.shape.empty(); });
  if (!found) return;
  const Value x = *found;
  std::vector<int64_t> dims;
  for (size_t i = 0; i < x.shape.size(); ++i)
    if (chance(0.5)) dims.push_back(static_cast<int64_t>(i));
  emit(x.dtype, x.shape, x.bound, {x},
       fmt::format("stablehlo.reverse {}, dims = {} : {}", x.name, list_text(dims), type_text(x)));
}

// Rows by index along one dimension; some indices lie outside, and are moved to the edge.
void Writer::gather() {
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
void Writer::scatter() {
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
  if (emit(x.dtype, x.shape, x.bound + updates.bound * static_cast<double>(rows), {x, at, updates},
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

void Writer::dynamic() {
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

void Writer::sort() {
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

void Writer::top_k() {
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

}  // namespace cleave::soak
