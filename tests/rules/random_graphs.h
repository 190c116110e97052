#pragma once

#include <fmt/format.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

namespace cleave {

// Text of a function of random elementwise ops, matmuls, transposes, reshapes and reductions over
// values of [8, 16], [16, 8] and [128], with random shardings on its arguments over mesh a=2, b=4.
inline std::string random_function(const std::string& name) {
  static const char* const kTypes[] = {"tensor<8x16xf32>", "tensor<16x8xf32>", "tensor<128xf32>"};
  std::vector<std::string> values[3];
  auto sharding = [&](int kind) {
    const size_t rank = kind == 2 ? 1 : 2;
    std::vector<std::string> dims(rank);
    for (const char* axis : {"\"a\"", "\"b\""}) {
      const auto dim = *rc::gen::inRange<size_t>(0, rank + 1);
      if (dim < rank) dims[dim] += (dims[dim].empty() ? "" : ", ") + std::string(axis);
    }
    std::string text;
    for (std::string& dim : dims) {
      const bool open = *rc::gen::inRange(0, 3) != 0;
      if (open) dim += dim.empty() ? "?" : ", ?";
      text += (text.empty() ? "{" : ", {") + dim + "}";
    }
    return fmt::format(" {{sdy.sharding = #sdy.sharding<@mesh, [{}]>}}", text);
  };
  std::string arguments, body;
  for (int i = 0; i < 4; ++i) {
    const int kind = i < 3 ? i : 0;
    arguments += fmt::format("{}%arg{}: {}{}", i ? ", " : "", i, kTypes[kind],
                             *rc::gen::inRange(0, 2) ? sharding(kind) : std::string());
    values[kind].push_back(fmt::format("%arg{}", i));
  }
  auto pick = [&](int kind) {
    return values[kind][*rc::gen::inRange<size_t>(0, values[kind].size())];
  };
  const int ops = *rc::gen::inRange(1, 15);
  std::string last = "%arg0";
  int last_kind = 0;
  for (int i = 0; i < ops; ++i) {
    const int kind = *rc::gen::inRange(0, 3);
    const std::string result = fmt::format("%v{}", i), type = kTypes[kind];
    switch (*rc::gen::inRange(0, 4)) {
      case 0:
        body += fmt::format("  {} = stablehlo.tanh {} : {}\n", result, pick(kind), type);
        break;
      case 1:
        body +=
            fmt::format("  {} = stablehlo.add {}, {} : {}\n", result, pick(kind), pick(kind), type);
        break;
      case 2:
        if (kind == 2) {
          body +=
              fmt::format("  {} = stablehlo.reshape {} : (tensor<8x16xf32>) -> tensor<128xf32>\n",
                          result, pick(0));
        } else {
          body += fmt::format("  {} = stablehlo.transpose {}, dims = [1, 0] : ({}) -> {}\n", result,
                              pick(1 - kind), kTypes[1 - kind], type);
        }
        break;
      default:
        if (kind == 0) {
          body += fmt::format(
              "  %s{0} = stablehlo.dot_general {2}, {3}, contracting_dims = [1] x [0] : "
              "(tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>\n"
              "  {1} = stablehlo.dot_general %s{0}, {4}, contracting_dims = [1] x [0] : "
              "(tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>\n",
              i, result, pick(0), pick(1), pick(0));
        } else {
          body += fmt::format("  {} = stablehlo.reshape {} : (tensor<128xf32>) -> {}\n", result,
                              pick(2), type);
          if (kind == 2) {
            last = result;
            last_kind = 2;
          }
        }
    }
    values[kind].push_back(result);
    last = result;
    last_kind = kind;
  }
  return fmt::format("func.func @{}({}) -> {} {{\n{}  return {} : {}\n}}\n", name, arguments,
                     kTypes[last_kind], body, last, kTypes[last_kind]);
}

}  // namespace cleave
