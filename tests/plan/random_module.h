#pragma once

#include <fmt/format.h>

#include <random>
#include <string>
#include <vector>

// Random modules of matrices, as text: what JAX prints has matmuls, elementwise ops, changes of
// type, dead code, loops and branches, and so have these.
namespace cleave::plan::test {

class RandomModule {
 public:
  explicit RandomModule(uint64_t seed, bool with_flow = true)
      : random_(seed), with_flow_(with_flow) {}

  std::string text(int num_ops) {
    for (int i = 0; i < 2; ++i) values_.push_back(argument(size(), size(), "f32"));
    for (int i = 0; i < num_ops; ++i) add_op();
    const Value last = values_.back(), other = values_[values_.size() / 2];
    return fmt::format("func.func @main({}) -> ({}, {}) {{\n{}  return {}, {} : {}, {}\n}}\n",
                       arguments_, last.type(), other.type(), body_, last.name, other.name,
                       last.type(), other.type());
  }

 private:
  struct Value {
    std::string name;
    int64_t rows, columns;
    std::string dtype;
    std::string type() const { return fmt::format("tensor<{}x{}x{}>", rows, columns, dtype); }
  };

  uint64_t below(uint64_t n) { return random_() % n; }
  int64_t size() {
    static constexpr int64_t kSizes[] = {1024, 4096, 96, 4096, 7};
    return kSizes[below(5)];
  }
  std::string fresh() { return fmt::format("%v{}", count_++); }
  Value pick() { return values_[values_.size() - 1 - below(std::min<size_t>(4, values_.size()))]; }

  Value argument(int64_t rows, int64_t columns, const std::string& dtype) {
    Value value{fmt::format("%a{}", num_arguments_++), rows, columns, dtype};
    arguments_ += (arguments_.empty() ? "" : ", ") + value.name + ": " + value.type();
    return value;
  }

  void line(const std::string& text) { body_ += indent_ + text + "\n"; }

  Value unary(const Value& x) {
    static constexpr const char* kOps[] = {"tanh", "exponential", "negate", "abs"};
    Value y{fresh(), x.rows, x.columns, x.dtype};
    line(fmt::format("{} = stablehlo.{} {} : {}", y.name, kOps[below(4)], x.name, x.type()));
    return y;
  }
  Value binary(const Value& x) {
    Value z = argument(x.rows, x.columns, x.dtype);
    for (const Value& other : values_)
      if (other.type() == x.type() && below(2)) z = other;
    Value y{fresh(), x.rows, x.columns, x.dtype};
    line(fmt::format("{} = stablehlo.{} {}, {} : {}", y.name, below(2) ? "add" : "multiply", x.name,
                     z.name, x.type()));
    return y;
  }
  Value matmul(const Value& x) {
    const Value w = argument(x.columns, size(), x.dtype);
    Value y{fresh(), x.rows, w.columns, x.dtype};
    line(fmt::format(
        "{} = stablehlo.dot_general {}, {}, contracting_dims = [1] x [0] : ({}, {}) -> {}", y.name,
        x.name, w.name, x.type(), w.type(), y.type()));
    return y;
  }
  Value transpose(const Value& x) {
    Value y{fresh(), x.columns, x.rows, x.dtype};
    line(fmt::format("{} = stablehlo.transpose {}, dims = [1, 0] : ({}) -> {}", y.name, x.name,
                     x.type(), y.type()));
    return y;
  }
  Value convert(const Value& x) {
    Value y{fresh(), x.rows, x.columns, x.dtype == "f32" ? "bf16" : "f32"};
    line(fmt::format("{} = stablehlo.convert {} : ({}) -> {}", y.name, x.name, x.type(), y.type()));
    return y;
  }
  // The sum over rows, spread over them again.
  Value normalize(const Value& x) {
    const std::string zero = fresh(), sum = fresh(), scalar = fmt::format("tensor<{}>", x.dtype);
    const std::string row = fmt::format("tensor<{}x{}>", x.columns, x.dtype);
    Value y{fresh(), x.rows, x.columns, x.dtype};
    line(fmt::format("{} = stablehlo.constant dense<0.0> : {}", zero, scalar));
    line(
        fmt::format("{} = stablehlo.reduce({} init: {}) applies stablehlo.add across dimensions = "
                    "[0] : ({}, {}) -> {}",
                    sum, x.name, zero, x.type(), scalar, row));
    line(fmt::format("{} = stablehlo.broadcast_in_dim {}, dims = [1] : ({}) -> {}", y.name, sum,
                     row, y.type()));
    return y;
  }
  Value branch(const Value& x) {
    const std::string which = fmt::format("%a{}", num_arguments_++);
    arguments_ += ", " + which + ": tensor<i32>";
    Value y{fresh(), x.rows, x.columns, x.dtype};
    line(fmt::format("{} = \"stablehlo.case\"({}) ({{", y.name, which));
    for (int b = 0; b < 2; ++b) {
      indent_ += "  ";
      Value z = x;
      for (uint64_t n = below(3); n > 0; --n) z = below(3) ? unary(z) : binary(z);
      if (below(2)) z = transpose(transpose(z));
      line(fmt::format("stablehlo.return {} : {}", z.name, z.type()));
      indent_.resize(indent_.size() - 2);
      line(b == 0 ? "}, {" : fmt::format("}}) : (tensor<i32>) -> {}", y.type()));
    }
    return y;
  }
  // Three trips; with `hidden`, nobody can tell before it runs.
  Value loop(const Value& x, bool hidden) {
    const std::string zero = fresh(), one = fresh(), three = fresh(), done = fresh(), r = fresh();
    const std::string i = fresh(), v = fresh(), f = fresh(), t = x.type();
    line(fmt::format("{} = stablehlo.constant dense<0> : tensor<i32>", zero));
    line(fmt::format("{} = stablehlo.constant dense<1> : tensor<i32>", one));
    line(fmt::format("{} = stablehlo.constant dense<3> : tensor<i32>", three));
    line(fmt::format("{} = stablehlo.constant dense<false> : tensor<i1>", done));
    line(fmt::format(
        "{}:3 = stablehlo.while({} = {}, {} = {}, {} = {}) : tensor<i32>, {}, tensor<i1>", r, i,
        zero, v, x.name, f, done, t));
    const std::string test = fresh(), open = fresh(), both = fresh(), next = fresh();
    line("cond {");
    line(
        fmt::format("  {} = stablehlo.compare LT, {}, {}, SIGNED : (tensor<i32>, tensor<i32>) -> "
                    "tensor<i1>",
                    test, i, three));
    if (hidden) {
      line(fmt::format("  {} = stablehlo.not {} : tensor<i1>", open, f));
      line(fmt::format("  {} = stablehlo.and {}, {} : tensor<i1>", both, test, open));
    }
    line(fmt::format("  stablehlo.return {} : tensor<i1>", hidden ? both : test));
    line("} do {");
    indent_ += "  ";
    Value y = unary(Value{v, x.rows, x.columns, x.dtype});
    if (below(2)) y = binary(y);
    line(fmt::format("{} = stablehlo.add {}, {} : tensor<i32>", next, i, one));
    line(fmt::format("stablehlo.return {}, {}, {} : tensor<i32>, {}, tensor<i1>", next, y.name, f,
                     t));
    indent_.resize(indent_.size() - 2);
    line("}");
    return {r + "#1", x.rows, x.columns, x.dtype};
  }

  void add_op() {
    const Value x = pick();
    Value y;
    switch (below(with_flow_ ? 12 : 9)) {
      case 0:
      case 1:
        y = unary(x);
        break;
      case 2:
        y = binary(x);
        break;
      case 3:
      case 4:
        y = matmul(x);
        break;
      case 5:
        y = transpose(x);
        break;
      case 6:
        y = convert(x);
        break;
      case 7:
        y = normalize(x);
        break;
      case 8:
        (void)(below(2) ? unary(x) : matmul(x));
        return;  // nobody uses it
      case 9:
        y = branch(x);
        break;
      default:
        y = loop(x, below(2));
        break;
    }
    values_.push_back(y);
  }

  std::mt19937_64 random_;
  bool with_flow_;
  int count_ = 0, num_arguments_ = 0;
  std::string arguments_, body_, indent_ = "  ";
  std::vector<Value> values_;
};

}  // namespace cleave::plan::test
