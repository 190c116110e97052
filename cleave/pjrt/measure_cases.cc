#include "cleave/pjrt/measure_cases.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "cleave/core/error.h"

namespace cleave::pjrt {
namespace {

std::string text(DType dtype, const Shape& shape) { return to_string(Type::tensor(dtype, shape)); }

// Writes the ops of a case one after the other, each a line.
class Body {
 public:
  explicit Body(MeasureCase& measured) : measured_(measured) {}

  std::string argument(DType dtype, Shape shape) {
    measured_.arguments.push_back(Type::tensor(dtype, std::move(shape)));
    return fmt::format("%a{}", measured_.arguments.size() - 1);
  }
  std::string op(const std::string& written) {
    const std::string name = fmt::format("%v{}", next_++);
    measured_.body += fmt::format("  {} = {}\n", name, written);
    return name;
  }
  // "stablehlo.add %a, %b : tensor<...>"
  std::string same(const char* name, const std::vector<std::string>& operands, DType dtype,
                   const Shape& shape) {
    return op(
        fmt::format("stablehlo.{} {} : {}", name, fmt::join(operands, ", "), text(dtype, shape)));
  }
  std::string constant(double value, DType dtype, const Shape& shape) {
    return op(fmt::format("stablehlo.constant dense<{:e}> : {}", value, text(dtype, shape)));
  }
  std::string convert(const std::string& x, DType from, DType to, const Shape& shape) {
    if (from == to) return x;
    return op(
        fmt::format("stablehlo.convert {} : ({}) -> {}", x, text(from, shape), text(to, shape)));
  }
  // Over one dimension, in f32.
  std::string reduce(const char* with, const std::string& x, const Shape& shape, int64_t dim) {
    const bool is_sum = std::string(with) == "add";
    const std::string zero = op(
        fmt::format("stablehlo.constant dense<{}> : tensor<f32>", is_sum ? "0.0" : "0xFF800000"));
    Shape rest = shape;
    rest.erase(rest.begin() + dim);
    return op(fmt::format(
        "stablehlo.reduce({} init: {}) applies stablehlo.{} across dimensions = [{}] : ({}, "
        "tensor<f32>) -> {}",
        x, zero, with, dim, text(DType::F32, shape), text(DType::F32, rest)));
  }
  // A value for every row, in every column.
  std::string across(const std::string& x, const Shape& shape) {
    return op(fmt::format("stablehlo.broadcast_in_dim {}, dims = [0] : ({}) -> {}", x,
                          text(DType::F32, {shape[0]}), text(DType::F32, shape)));
  }
  void result(const std::string& value, DType dtype, const Shape& shape) {
    measured_.returns.push_back(value);
    measured_.results.push_back(Type::tensor(dtype, shape));
  }

 private:
  MeasureCase& measured_;
  int next_ = 0;
};

MeasureCase make_case(MeasuredKind kind, DType dtype, bool check) {
  MeasureCase measured;
  measured.row.kind = kind;
  measured.row.dtype = dtype;
  measured.row.is_check = check;
  return measured;
}

// m x k by k x n, `count` at once.
MeasureCase product(DType dtype, int64_t m, int64_t k, int64_t n, int64_t count = 1,
                    bool check = false, bool exact = false) {
  MeasureCase measured = make_case(MeasuredKind::Product, dtype, check);
  measured.row.products = {.count = static_cast<double>(count),
                           .m = static_cast<double>(m),
                           .k = static_cast<double>(k),
                           .n = static_cast<double>(n)};
  measured.row.products.channels = static_cast<double>(n);
  if (dtype == DType::TF32) dtype = DType::F32;
  Body body(measured);
  const Shape x = count > 1 ? Shape{count, m, k} : Shape{m, k};
  const Shape w = count > 1 ? Shape{count, k, n} : Shape{k, n};
  const Shape y = count > 1 ? Shape{count, m, n} : Shape{m, n};
  const std::string a = body.argument(dtype, x), b = body.argument(dtype, w);
  const std::string how = exact ? "HIGHEST" : "DEFAULT";
  body.result(body.op(fmt::format(
                  "stablehlo.dot_general {}, {}, {}contracting_dims = [{}] x [{}], precision = "
                  "[{}, {}] : ({}, {}) -> {}",
                  a, b, count > 1 ? "batching_dims = [0] x [0], " : "", x.size() - 1, x.size() - 2,
                  how, how, text(dtype, x), text(dtype, w), text(dtype, y))),
              dtype, y);
  return measured;
}

enum class ConvolutionOf { Result, Input, Kernel };

// Of images with as many features as channels or others, stride 1, or one of the gradients: as a
// product of pixels, what each is made of, and features.
MeasureCase convolution(DType dtype, int64_t images, int64_t size, int64_t channels,
                        int64_t features, int64_t window, ConvolutionOf of, bool check = false) {
  MeasureCase measured = make_case(MeasuredKind::Convolution, dtype, check);
  const Shape x{images, size, size, channels}, w{window, window, channels, features},
      y{images, size, size, features};
  const auto pixels = static_cast<double>(images * size * size);
  const auto taps = static_cast<double>(window * window);
  const auto c = static_cast<double>(channels), f = static_cast<double>(features);
  OpCost::Products& p = measured.row.products;
  p.count = 1;
  Body body(measured);
  const int64_t edge = window / 2;
  const auto write = [&](const Shape& lhs, const Shape& rhs, const Shape& out, const char* dims,
                         bool reversed) {
    const std::string a = body.argument(dtype, lhs), b = body.argument(dtype, rhs);
    body.result(
        body.op(fmt::format(
            "stablehlo.convolution({}, {}) dim_numbers = {}, window = {{pad = [[{}, {}], [{}, "
            "{}]]{}}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({}, {}) -> "
            "{}",
            a, b, dims, edge, edge, edge, edge, reversed ? ", reverse = [true, true]" : "",
            text(dtype, lhs), text(dtype, rhs), text(dtype, out))),
        dtype, out);
  };
  if (of == ConvolutionOf::Result) {
    p.m = pixels, p.k = taps * c, p.n = f, p.channels = std::min(c, f);
    write(x, w, y, "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", false);
  } else if (of == ConvolutionOf::Input) {
    p.m = pixels, p.k = taps * f, p.n = c, p.channels = c;
    write(y, w, x, "[b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f]", true);
  } else {
    p.m = taps * c, p.k = pixels, p.n = f, p.channels = f;
    write(x, y, w, "[f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f]", false);
  }
  measured.row.bytes = measured.bytes();
  return measured;
}

enum class Fused { Add, TanhTimes, AdamW, SiluTimes };

MeasureCase elementwise(Fused kind, DType dtype, int64_t n, bool check = false) {
  MeasureCase measured = make_case(MeasuredKind::Elementwise, dtype, check);
  Body body(measured);
  const Shape shape{n};
  const auto arg = [&] { return body.argument(dtype, shape); };
  const auto op = [&](const char* name, std::vector<std::string> operands) {
    return body.same(name, operands, dtype, shape);
  };
  const auto number = [&](double value) { return body.constant(value, dtype, shape); };
  if (kind == Fused::Add) {
    const std::string a = arg(), b = arg();
    body.result(op("add", {a, b}), dtype, shape);
  } else if (kind == Fused::TanhTimes) {
    const std::string a = arg(), b = arg(), c = arg();
    body.result(op("multiply", {op("tanh", {op("add", {a, b})}), c}), dtype, shape);
  } else if (kind == Fused::SiluTimes) {
    const std::string a = arg(), b = arg();
    body.result(op("multiply", {op("multiply", {a, op("logistic", {a})}), b}), dtype, shape);
  } else {
    const std::string p = arg(), m = arg(), v = arg(), g = arg();
    const std::string new_m =
        op("add", {op("multiply", {number(0.9), m}), op("multiply", {number(0.1), g})});
    const std::string new_v = op("add", {op("multiply", {number(0.99), v}),
                                         op("multiply", {number(0.01), op("multiply", {g, g})})});
    const std::string root = op("add", {op("sqrt", {op("abs", {new_v})}), number(1e-8)});
    const std::string step = op("divide", {op("multiply", {number(1e-3), new_m}), root});
    body.result(op("subtract", {p, step}), dtype, shape);
    body.result(new_m, dtype, shape);
    body.result(new_v, dtype, shape);
  }
  measured.row.bytes = measured.bytes();
  return measured;
}

MeasureCase reduction(DType dtype, const Shape& shape, int64_t dim, bool check) {
  MeasureCase measured = make_case(MeasuredKind::Reduction, dtype, check);
  Body body(measured);
  const std::string x = body.convert(body.argument(dtype, shape), dtype, DType::F32, shape);
  body.result(body.reduce("add", x, shape, dim), DType::F32, {shape[1 - dim]});
  measured.row.bytes = measured.bytes();
  return measured;
}

MeasureCase softmax(DType dtype, const Shape& shape, bool check) {
  MeasureCase measured = make_case(MeasuredKind::Rows, dtype, check);
  Body body(measured);
  const DType f32 = DType::F32;
  const std::string x = body.convert(body.argument(dtype, shape), dtype, f32, shape);
  const std::string most = body.across(body.reduce("maximum", x, shape, 1), shape);
  const std::string e =
      body.same("exponential", {body.same("subtract", {x, most}, f32, shape)}, f32, shape);
  const std::string sum = body.across(body.reduce("add", e, shape, 1), shape);
  body.result(body.convert(body.same("divide", {e, sum}, f32, shape), f32, dtype, shape), dtype,
              shape);
  measured.row.bytes = measured.bytes();
  return measured;
}

MeasureCase rms_norm(DType dtype, const Shape& shape, bool check) {
  MeasureCase measured = make_case(MeasuredKind::Rows, dtype, check);
  Body body(measured);
  const DType f32 = DType::F32;
  const std::string x = body.convert(body.argument(dtype, shape), dtype, f32, shape);
  const std::string sum = body.reduce("add", body.same("multiply", {x, x}, f32, shape), shape, 1);
  const Shape rows{shape[0]};
  const std::string mean = body.same(
      "multiply", {sum, body.constant(1.0 / static_cast<double>(shape[1]), f32, rows)}, f32, rows);
  const std::string scale = body.same(
      "rsqrt", {body.same("add", {mean, body.constant(1e-6, f32, rows)}, f32, rows)}, f32, rows);
  const std::string y = body.same("multiply", {x, body.across(scale, shape)}, f32, shape);
  body.result(body.convert(y, f32, dtype, shape), dtype, shape);
  measured.row.bytes = measured.bytes();
  return measured;
}

MeasureCase transpose(MeasuredKind kind, DType dtype, const Shape& shape, const Shape& order,
                      bool check = false) {
  MeasureCase measured = make_case(kind, dtype, check);
  Body body(measured);
  Shape moved;
  for (int64_t d : order) moved.push_back(shape[d]);
  const std::string x = body.argument(dtype, shape);
  body.result(body.op(fmt::format("stablehlo.transpose {}, dims = [{}] : ({}) -> {}", x,
                                  fmt::join(order, ", "), text(dtype, shape), text(dtype, moved))),
              dtype, moved);
  measured.row.bytes = measured.bytes();
  return measured;
}

// So many ops on each element that memory does not matter: 16 times the nine of a gelu.
MeasureCase arithmetic(int64_t n) {
  const DType f32 = DType::F32;
  MeasureCase measured = make_case(MeasuredKind::Arithmetic, f32, false);
  Body body(measured);
  const Shape shape{n};
  std::string x = body.argument(f32, shape);
  const auto op = [&](const char* name, std::vector<std::string> operands) {
    return body.same(name, operands, f32, shape);
  };
  const auto number = [&](double value) { return body.constant(value, f32, shape); };
  for (int i = 0; i < 16; ++i) {
    const std::string cube = op("multiply", {x, op("multiply", {x, x})});
    const std::string inner = op("add", {x, op("multiply", {number(0.044715), cube})});
    const std::string tanh = op("tanh", {op("multiply", {number(0.79788), inner})});
    x = op("multiply", {op("multiply", {x, number(0.5)}), op("add", {number(1), tanh})});
  }
  body.result(x, f32, shape);
  measured.row.ops = 16.0 * 9 * static_cast<double>(n);
  return measured;
}

std::vector<MeasureCase> products(bool small, DType f32, DType bf16) {
  std::vector<MeasureCase> cases;
  if (small) {
    for (DType dtype : {bf16, DType::F32})
      for (int64_t n : {128, 256, 512, 768}) cases.push_back(product(dtype, n, n, n, 1, n == 256));
    cases.push_back(product(DType::F32, 64, 1024, 1024));
    cases.push_back(product(DType::F32, 1024, 64, 256, 4));
    return cases;
  }
  const int64_t sizes[][3] = {{256, 1024, 1024},  {128, 4096, 4096},  {512, 4096, 512},
                              {8192, 768, 768},   {8192, 768, 3072},  {768, 8192, 3072},
                              {4096, 2048, 8192}, {4096, 4096, 4096}, {8192, 8192, 4096},
                              {8192, 768, 50304}, {4096, 4096, 4095}};
  for (const auto& [m, k, n] : sizes) cases.push_back(product(bf16, m, k, n));
  cases.push_back(product(bf16, 1024, 64, 1024, 96));
  cases.push_back(product(bf16, 2048, 2048, 128, 32));
  const int64_t checks[][3] = {
      {1024, 1024, 1024}, {8192, 3072, 768}, {1024, 8192, 1024}, {4096, 4096, 14336}};
  for (const auto& [m, k, n] : checks) cases.push_back(product(bf16, m, k, n, 1, true));
  cases.push_back(product(bf16, 1024, 1024, 64, 96, true));
  cases.push_back(product(f32, 2048, 2048, 2048));
  cases.push_back(product(f32, 8192, 768, 3072));
  cases.push_back(product(f32, 4096, 4096, 4096, 1, true));
  if (f32 != DType::F32) cases.push_back(product(DType::F32, 2048, 2048, 2048, 1, false, true));
  return cases;
}

std::vector<MeasureCase> convolutions(bool small, DType dtype) {
  using enum ConvolutionOf;
  if (small)
    return {convolution(dtype, 2, 28, 32, 32, 3, Result),
            convolution(dtype, 2, 28, 32, 32, 3, Input),
            convolution(dtype, 2, 28, 32, 32, 3, Kernel),
            convolution(dtype, 2, 14, 64, 64, 3, Result, true)};
  return {convolution(dtype, 64, 56, 64, 64, 3, Result),
          convolution(dtype, 64, 14, 256, 256, 3, Result),
          convolution(dtype, 64, 28, 512, 128, 1, Result),
          convolution(dtype, 64, 28, 128, 128, 3, Input),
          convolution(dtype, 64, 28, 128, 128, 3, Kernel),
          convolution(dtype, 64, 28, 128, 128, 3, Result, true),
          convolution(dtype, 64, 7, 512, 512, 3, Result, true),
          convolution(dtype, 64, 14, 256, 256, 3, Kernel, true)};
}

std::vector<MeasureCase> memory_kernels(bool small, DType bf16) {
  const DType f32 = DType::F32;
  const int64_t n = small ? 1 << 20 : 1 << 25;
  std::vector<MeasureCase> cases = {
      elementwise(Fused::Add, f32, n), elementwise(Fused::TanhTimes, bf16, n),
      elementwise(Fused::AdamW, f32, n), elementwise(Fused::Add, bf16, 2 * n, true),
      elementwise(Fused::SiluTimes, bf16, 2 * n, true)};
  for (const bool check : {false, true}) {
    const Shape shape = small ? (check ? Shape{256, 2048} : Shape{2048, 512})
                              : (check ? Shape{8192, 4096} : Shape{65536, 1024});
    cases.push_back(reduction(f32, shape, 0, check));
    cases.push_back(reduction(bf16, shape, 0, check));
    cases.push_back(reduction(bf16, shape, 1, check));
    cases.push_back(softmax(bf16, shape, check));
    cases.push_back(softmax(f32, shape, check));
    cases.push_back(rms_norm(bf16, shape, check));
  }
  using enum MeasuredKind;
  cases.push_back(small ? transpose(Transpose, bf16, {4, 256, 16, 64}, {0, 2, 1, 3})
                        : transpose(Transpose, bf16, {32, 1024, 16, 64}, {0, 2, 1, 3}));
  cases.push_back(small ? transpose(Transpose, bf16, {1024, 1024}, {1, 0})
                        : transpose(Transpose, bf16, {8192, 8192}, {1, 0}));
  const int64_t rows = small ? 1 << 18 : 1 << 23;  // of 8 bytes; longer ones take less
  cases.push_back(transpose(Strided, bf16, {rows, 4}, {1, 0}));
  cases.push_back(transpose(Strided, f32, {rows, 4}, {1, 0}, true));
  cases.push_back(arithmetic(small ? 1 << 18 : 1 << 23));
  return cases;
}

}  // namespace

double MeasureCase::bytes() const {
  double sum = 0;
  for (const auto* list : {&arguments, &results})
    for (const Type& type : *list) sum += static_cast<double>(type.byte_count());
  return sum;
}

std::vector<MeasureCase> measure_cases(bool small, bool tensor_float, DType bf16) {
  std::vector<MeasureCase> computing =
      products(small, tensor_float ? DType::TF32 : DType::F32, bf16);
  for (MeasureCase& each : convolutions(small, bf16)) computing.push_back(std::move(each));
  std::vector<MeasureCase> moving = memory_kernels(small, bf16);
  // By turns: a device that computes all the time takes more power than it may.
  std::vector<MeasureCase> cases;
  for (size_t i = 0; i < std::max(computing.size(), moving.size()); ++i) {
    if (i < computing.size()) cases.push_back(std::move(computing[i]));
    if (i < moving.size()) cases.push_back(std::move(moving[i]));
  }
  std::vector<MeasureCase> different;  // those of two types may be the same now
  for (MeasureCase& each : cases) {
    const auto same = [&](const MeasureCase& other) {
      return other.body == each.body && other.arguments == each.arguments;
    };
    if (std::none_of(different.begin(), different.end(), same))
      different.push_back(std::move(each));
  }
  return different;
}

std::string repeated_module(const MeasureCase& measured, int64_t times) {
  const size_t args = measured.arguments.size(), results = measured.results.size();
  std::string parameters, body, returned, types;
  std::vector<std::string> result_types, arg_types;
  for (const Type& type : measured.arguments) arg_types.push_back(to_string(type));
  for (const Type& type : measured.results) result_types.push_back(to_string(type));
  for (int64_t t = 0; t < times; ++t) {
    std::vector<std::string> own;
    for (size_t i = 0; i < args; ++i) {
      own.push_back(fmt::format("%x{}_{}", t, i));
      parameters += fmt::format("{}{}: {}", parameters.empty() ? "" : ", ", own[i], arg_types[i]);
    }
    if (t > 0) {  // it waits for the one before
      std::vector<std::string> all = own, all_types = arg_types;
      for (size_t i = 0; i < results; ++i) {
        all.push_back(fmt::format("%y{}#{}", t - 1, i));
        all_types.push_back(result_types[i]);
      }
      if (results == 1) all.back() = fmt::format("%y{}", t - 1);
      body += fmt::format("  %w{}:{} = stablehlo.optimization_barrier {} : {}\n", t, all.size(),
                          fmt::join(all, ", "), fmt::join(all_types, ", "));
      for (size_t i = 0; i < args; ++i) own[i] = fmt::format("%w{}#{}", t, i);
    }
    body += fmt::format("  %y{}{} = func.call @kernel({}) : ({}) -> ({})\n", t,
                        results == 1 ? "" : fmt::format(":{}", results), fmt::join(own, ", "),
                        fmt::join(arg_types, ", "), fmt::join(result_types, ", "));
    for (size_t i = 0; i < results; ++i) {
      returned += fmt::format("{}%y{}{}", returned.empty() ? "" : ", ", t,
                              results == 1 ? "" : fmt::format("#{}", i));
      types += (types.empty() ? "" : ", ") + result_types[i];
    }
  }
  std::string kernel_parameters;
  for (size_t i = 0; i < args; ++i)
    kernel_parameters += fmt::format("{}%a{}: {}", i ? ", " : "", i, arg_types[i]);
  return fmt::format(
      "func.func public @main({}) -> ({}) {{\n{}  return {} : {}\n}}\n"
      "func.func private @kernel({}) -> ({}) {{\n{}  return {} : {}\n}}\n",
      parameters, types, body, returned, types, kernel_parameters, fmt::join(result_types, ", "),
      measured.body, fmt::join(measured.returns, ", "), fmt::join(result_types, ", "));
}

std::string numbers_module(const Type& type) {
  const Shape flat{num_elements(type.shape)};
  const std::string row = text(DType::F32, flat), shaped = text(DType::F32, type.shape);
  return fmt::format(
      "func.func public @main() -> {2} {{\n"
      "  %0 = stablehlo.iota dim = 0 : {0}\n"
      "  %1 = stablehlo.constant dense<12.9898> : {0}\n"
      "  %2 = stablehlo.multiply %0, %1 : {0}\n"
      "  %3 = stablehlo.sine %2 : {0}\n"
      "  %4 = stablehlo.reshape %3 : ({0}) -> {1}\n"
      "  %5 = stablehlo.convert %4 : ({1}) -> {2}\n"
      "  return %5 : {2}\n}}\n",
      row, shaped, to_string(type));
}

std::string launches_module(int64_t links, int64_t size) {
  const std::string x = "tensor<64x64xf32>", row = "tensor<64xf32>";
  const std::string a = text(DType::BF16, {size, size});
  std::string body;
  std::string last = "%b#0";
  for (int64_t i = 0; i < links; ++i) {
    body += fmt::format(
        "  %h{0} = stablehlo.multiply {1}, %half : {2}\n"
        "  %s{0} = stablehlo.reduce({1} init: %zero) applies stablehlo.add across dimensions = [0] "
        ": ({2}, tensor<f32>) -> {3}\n"
        "  %t{0} = stablehlo.multiply %s{0}, %small : {3}\n"
        "  %u{0} = stablehlo.broadcast_in_dim %t{0}, dims = [1] : ({3}) -> {2}\n"
        "  %x{0} = stablehlo.add %h{0}, %u{0} : {2}\n",
        i, last, x, row);
    last = fmt::format("%x{}", i);
  }
  return fmt::format(
      "func.func public @main(%x: {0}, %a: {2}) -> ({0}, {2}) {{\n"
      "  %half = stablehlo.constant dense<0.5> : {0}\n"
      "  %small = stablehlo.constant dense<0.01> : {1}\n"
      "  %zero = stablehlo.constant dense<0.0> : tensor<f32>\n"
      "  %p = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : ({2}, {2}) -> {2}\n"
      "  %q = stablehlo.dot_general %p, %a, contracting_dims = [1] x [0] : ({2}, {2}) -> {2}\n"
      "  %b:2 = stablehlo.optimization_barrier %x, %q : {0}, {2}\n"
      "{3}  return {4}, %b#1 : {0}, {2}\n}}\n",
      x, row, a, body, last);
}

std::string arguments_module(int64_t count) {
  const std::string type = "tensor<8xf32>";
  std::string parameters;
  std::vector<std::string> names, kept, types;
  for (int64_t i = 0; i < count; ++i) {
    parameters +=
        fmt::format("{}%a{}: {} {{tf.aliasing_output = {} : i32}}", i ? ", " : "", i, type, i);
    types.push_back(type);
    if (i > 0) names.push_back(fmt::format("%a{}", i));
    if (i > 0) kept.push_back(count > 2 ? fmt::format("%b#{}", i - 1) : "%b");
  }
  return fmt::format(
      "func.func public @main({0}) -> ({1}) {{\n"
      "  %one = stablehlo.constant dense<1.0> : {2}\n"
      "  %c = stablehlo.add %a0, %one : {2}\n"
      "  %b{3} = stablehlo.optimization_barrier {4} : {5}\n"
      "  return %c, {6} : {1}\n}}\n",
      parameters, fmt::join(types, ", "), type,
      count > 2 ? fmt::format(":{}", count - 1) : std::string(), fmt::join(names, ", "),
      fmt::join(std::vector<std::string>(types.begin() + 1, types.end()), ", "),
      fmt::join(kept, ", "));
}

std::string collectives_module(CollectiveKind kind, int64_t ranks, int64_t elements,
                               int64_t links) {
  const std::string x = text(DType::F32, {elements});
  std::vector<int64_t> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  const std::string groups =
      fmt::format("replica_groups = dense<[[{}]]> : tensor<1x{}xi64>", fmt::join(all, ", "), ranks);
  const std::string sum =
      "({\n  ^bb0(%p: tensor<f32>, %q: tensor<f32>):\n    %s = stablehlo.add %p, %q : "
      "tensor<f32>\n    stablehlo.return %s : tensor<f32>\n  })";
  const std::string part = text(DType::F32, {elements / ranks});
  std::string body, last = "%x";
  for (int64_t i = 0; i < links; ++i) {
    const std::string channel =
        fmt::format("channel_handle = #stablehlo.channel_handle<handle = {}, type = 1>", i + 1);
    const std::string made = fmt::format("%c{}", i), next = fmt::format("%x{}", i);
    switch (kind) {
      case CollectiveKind::AllReduce:
        body += fmt::format(
            "  {0} = \"stablehlo.all_reduce\"({1}) <{{{2}, {3}, use_global_device_ids}}> {4} : "
            "({5}) "
            "-> {5}\n  {6} = stablehlo.multiply {0}, %share : {5}\n",
            made, last, channel, groups, sum, x, next);
        break;
      case CollectiveKind::AllGather: {
        const std::string whole = text(DType::F32, {elements * ranks});
        body += fmt::format(
            "  {0} = \"stablehlo.all_gather\"({1}) <{{all_gather_dim = 0 : i64, {2}, {3}, "
            "use_global_device_ids}}> : ({4}) -> {5}\n"
            "  %f{6} = stablehlo.slice {0} [0:{7}] : ({5}) -> {4}\n"
            "  {8} = stablehlo.add {1}, %f{6} : {4}\n",
            made, last, channel, groups, x, whole, i, elements, next);
        break;
      }
      case CollectiveKind::ReduceScatter:
        body += fmt::format(
            "  {0} = \"stablehlo.reduce_scatter\"({1}) <{{{2}, {3}, scatter_dimension = 0 : i64, "
            "use_global_device_ids}}> {4} : ({5}) -> {6}\n"
            "  {7} = stablehlo.dynamic_update_slice {1}, {0}, %zero : ({5}, {6}, tensor<i32>) -> "
            "{5}\n",
            made, last, channel, groups, sum, x, part, next);
        break;
      case CollectiveKind::AllToAll:
        body += fmt::format(
            "  {0} = \"stablehlo.all_to_all\"({1}) <{{{2}, concat_dimension = 0 : i64, {3}, "
            "split_count = {4} : i64, split_dimension = 0 : i64}}> : ({5}) -> {5}\n"
            "  {6} = stablehlo.add {0}, %share : {5}\n",
            made, last, channel, groups, ranks, x, next);
        break;
      default: {
        std::string pairs;
        for (int64_t d = 0; d < ranks; ++d)
          pairs += fmt::format("{}[{}, {}]", d ? ", " : "", d, (d + 1) % ranks);
        body += fmt::format(
            "  {0} = \"stablehlo.collective_permute\"({1}) <{{{2}, source_target_pairs = "
            "dense<[{3}]> : tensor<{4}x2xi64>}}> : ({5}) -> {5}\n"
            "  {6} = stablehlo.add {0}, %share : {5}\n",
            made, last, channel, pairs, ranks, x, next);
      }
    }
    last = next;
  }
  return fmt::format(
      "func.func public @main(%x: {0}) -> {0} {{\n"
      "  %zero = stablehlo.constant dense<0> : tensor<i32>\n"
      "  %share = stablehlo.constant dense<{1:e}> : {0}\n"
      "{2}  return {3} : {0}\n}}\n",
      x, 1.0 / static_cast<double>(ranks), body, last);
}

}  // namespace cleave::pjrt
