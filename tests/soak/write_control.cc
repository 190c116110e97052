// Loops, branches and calls.
#include "writer.h"

namespace cleave::soak {

// A few rounds of maximum and reverse, with a counter.
void Writer::loop() {
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

void Writer::branch() {
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

void Writer::call() {
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

}  // namespace cleave::soak
