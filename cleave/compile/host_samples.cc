#include "cleave/compile/host_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace cleave {
namespace {

using Sizes = std::vector<int64_t>;

std::string tensor(const std::vector<int64_t>& shape, const std::string& dtype) {
  std::string text = "tensor<";
  for (int64_t n : shape) text += fmt::format("{}x", n);
  return text + dtype + ">";
}

// A function of `args` (types of %a0, %a1, ...) that returns the values of `results`.
std::string function(const std::vector<std::string>& args, const std::string& body,
                     const std::vector<std::string>& results,
                     const std::vector<std::string>& types) {
  std::string in;
  for (size_t i = 0; i < args.size(); ++i)
    in += fmt::format("{}%a{}: {}", i ? ", " : "", i, args[i]);
  return fmt::format("func.func @main({}) -> ({}) {{\n{}  return {} : {}\n}}", in,
                     fmt::join(types, ", "), body, fmt::join(results, ", "),
                     fmt::join(types, ", "));
}

int copies_for(double bytes) { return bytes > 1e6 ? 1 : bytes > 1e4 ? 8 : 32; }

// op %a0, %a1 or op %a0, one after the other, on a vector of n elements.
HostSample elementwise(const std::string& op, const std::string& dtype, int64_t n, int operands,
                       KernelClass kernel = KernelClass::Elementwise) {
  const int copies = copies_for(static_cast<double>(n) * 4);
  const std::string type = tensor({n}, dtype);
  std::string body;
  for (int i = 0; i < copies; ++i)
    body += fmt::format("  %{0} = stablehlo.{1} {2}{3} : {4}\n", i, op,
                        i ? fmt::format("%{}", i - 1) : "%a0", operands == 2 ? ", %a1" : "", type);
  return {fmt::format("{} {} {}", op, dtype, n),
          function(std::vector<std::string>(static_cast<size_t>(operands), type), body,
                   {fmt::format("%{}", copies - 1)}, {type}),
          "stablehlo." + op, kernel};
}

HostSample convert(const std::string& from, const std::string& to, int64_t n) {
  const std::string a = tensor({n}, from), b = tensor({n}, to);
  return {
      fmt::format("convert {} to {} {}", from, to, n),
      function({a}, fmt::format("  %0 = stablehlo.convert %a0 : ({}) -> {}\n", a, b), {"%0"}, {b}),
      "stablehlo.convert"};
}

HostSample matmul(const std::string& dtype, int64_t m, int64_t k, int64_t n, int64_t batch = 1,
                  bool transposed = false) {
  const int copies = batch * m * k * n > (1 << 22) ? 1 : 8;
  auto shape = [&](int64_t rows, int64_t cols) {
    return batch > 1 ? Sizes{batch, rows, cols} : Sizes{rows, cols};
  };
  const std::string x = tensor(shape(m, k), dtype), y = tensor(shape(m, n), dtype);
  const std::string w = tensor(transposed ? shape(n, k) : shape(k, n), dtype);
  const int first = batch > 1;
  std::string body;
  std::vector<std::string> results, types;
  for (int i = 0; i < copies; ++i) {
    body += fmt::format(
        "  %{} = stablehlo.dot_general %a0, %a1, {}contracting_dims = [{}] x [{}] : ({}, {}) -> "
        "{}\n",
        i, batch > 1 ? "batching_dims = [0] x [0], " : "", first + 1, first + (transposed ? 1 : 0),
        x, w, y);
    results.push_back(fmt::format("%{}", i));
    types.push_back(y);
  }
  return {
      fmt::format("matmul {} {}{}x{}x{}{}", dtype, batch > 1 ? fmt::format("{} of ", batch) : "", m,
                  k, n, transposed ? " transposed" : ""),
      function({x, w}, body, results, types), "stablehlo.dot_general", KernelClass::Matmul};
}

HostSample convolution(const std::string& dtype, int64_t batch, int64_t size, int64_t in,
                       int64_t out, int64_t window) {
  const std::string x = tensor({batch, size, size, in}, dtype);
  const std::string w = tensor({window, window, in, out}, dtype);
  const std::string y = tensor({batch, size, size, out}, dtype);
  const int64_t pad = window / 2;
  return {fmt::format("convolution {} {}x{}x{}x{} by {}x{}x{}", dtype, batch, size, size, in,
                      window, window, out),
          function({x, w},
                   fmt::format("  %0 = stablehlo.convolution(%a0, %a1) dim_numbers = [b, 0, 1, "
                               "f]x[0, 1, i, o]->[b, 0, 1, f], window = {{pad = [[{0}, {0}], [{0}, "
                               "{0}]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : "
                               "i64}} : ({1}, {2}) -> {3}\n",
                               pad, x, w, y),
                   {"%0"}, {y}),
          "stablehlo.convolution", kConvolutionClass};
}

// The gradient of a convolution's kernel: examples take the place of input features.
HostSample kernel_gradient(int64_t batch, int64_t size, int64_t in, int64_t out) {
  const std::string x = tensor({batch, size, size, in}, "f32");
  const std::string g = tensor({batch, size, size, out}, "f32");
  const std::string w = tensor({3, 3, in, out}, "f32");
  return {
      fmt::format("convolution f32, gradient of 3x3x{}x{} on {}x{}x{}", in, out, batch, size, size),
      function({x, g},
               fmt::format("  %0 = stablehlo.convolution(%a0, %a1) dim_numbers = [f, 0, 1, "
                           "b]x[i, 0, 1, o]->[0, 1, b, f], window = {{pad = [[1, 1], [1, "
                           "1]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : "
                           "i64}} : ({0}, {1}) -> {2}\n",
                           x, g, w),
               {"%0"}, {w}),
      "stablehlo.convolution", kConvolutionClass};
}

HostSample reduction(const std::string& dtype, int64_t rows, int64_t cols, int dim) {
  const std::string x = tensor({rows, cols}, dtype), scalar = tensor({}, dtype);
  const std::string y = tensor({dim == 0 ? cols : rows}, dtype);
  return {fmt::format("sum {} of {}x{} over {}", dtype, rows, cols, dim == 0 ? "rows" : "columns"),
          function({x},
                   fmt::format("  %c = stablehlo.constant dense<0.0> : {2}\n"
                               "  %0 = stablehlo.reduce(%a0 init: %c) applies stablehlo.add across "
                               "dimensions = [{3}] : ({0}, {2}) -> {1}\n",
                               x, y, scalar, dim),
                   {"%0"}, {y}),
          "stablehlo.reduce", KernelClass::Reduction};
}

// A view alone moves nothing; what reads it does. Without it, the same read is straight.
HostSample transpose(const std::string& dtype, const Sizes& shape, const Sizes& order) {
  Sizes moved;
  for (int64_t d : order) moved.push_back(shape[static_cast<size_t>(d)]);
  const std::string x = tensor(shape, dtype), y = tensor(moved, dtype);
  return {fmt::format("transpose {} {}", dtype, fmt::join(shape, "x")),
          function({x},
                   fmt::format("  %0 = stablehlo.transpose %a0, dims = [{}] : ({}) -> {}\n"
                               "  %1 = stablehlo.negate %0 : {}\n",
                               fmt::join(order, ", "), x, y, y),
                   {"%1"}, {y}),
          "stablehlo.transpose", KernelClass::Transpose,
          function({x}, fmt::format("  %0 = stablehlo.negate %a0 : {}\n", x), {"%0"}, {x})};
}

// Rows of a table by number.
HostSample gather(int64_t rows, int64_t width) {
  const std::string x = tensor({kTableRows, width}, "f32"), i = tensor({rows, 1}, "i32");
  const std::string y = tensor({rows, width}, "f32");
  return {fmt::format("gather f32 {} rows of {}", rows, width),
          function({x, i},
                   fmt::format(
                       "  %0 = \"stablehlo.gather\"(%a0, %a1) {{dimension_numbers = "
                       "#stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], "
                       "start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, "
                       "{}>}} : ({}, {}) -> {}\n",
                       width, x, i, y),
                   {"%0"}, {y}),
          "stablehlo.gather", kIndexingClass};
}

HostSample scatter(int64_t rows, int64_t width) {
  const std::string x = tensor({kTableRows, width}, "f32"), i = tensor({rows, 1}, "i32");
  const std::string u = tensor({rows, width}, "f32");
  return {
      fmt::format("scatter f32 {} rows of {}", rows, width),
      function(
          {x, i, u},
          fmt::format("  %0 = \"stablehlo.scatter\"(%a0, %a1, %a2) ({{\n"
                      "  ^bb0(%p: tensor<f32>, %q: tensor<f32>):\n"
                      "    %s = stablehlo.add %p, %q : tensor<f32>\n"
                      "    stablehlo.return %s : tensor<f32>\n"
                      "  }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = "
                      "[1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
                      "index_vector_dim = 1>}} : ({0}, {1}, {2}) -> {0}\n",
                      x, i, u),
          {"%0"}, {x}),
      "stablehlo.scatter", kIndexingClass};
}

HostSample softmax(int64_t rows, int64_t cols) {
  const std::string x = tensor({rows, cols}, "f32"), r = tensor({rows}, "f32");
  const std::string body = fmt::format(
      "  %l = stablehlo.constant dense<-1.0e30> : tensor<f32>\n"
      "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
      "  %m = stablehlo.reduce(%a0 init: %l) applies stablehlo.maximum across dimensions = [1] : "
      "({0}, tensor<f32>) -> {1}\n"
      "  %mb = stablehlo.broadcast_in_dim %m, dims = [0] : ({1}) -> {0}\n"
      "  %s = stablehlo.subtract %a0, %mb : {0}\n"
      "  %e = stablehlo.exponential %s : {0}\n"
      "  %d = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [1] : ({0}, "
      "tensor<f32>) -> {1}\n"
      "  %db = stablehlo.broadcast_in_dim %d, dims = [0] : ({1}) -> {0}\n"
      "  %r = stablehlo.divide %e, %db : {0}\n",
      x, r);
  HostSample sample{fmt::format("softmax f32 {}x{}", rows, cols), function({x}, body, {"%r"}, {x}),
                    "", KernelClass::Softmax};
  sample.passes = kFusedPasses;
  return sample;
}

HostSample norm(int64_t rows, int64_t cols) {
  const std::string x = tensor({rows, cols}, "f32"), r = tensor({rows}, "f32");
  const std::string body = fmt::format(
      "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
      "  %q = stablehlo.multiply %a0, %a0 : {0}\n"
      "  %d = stablehlo.reduce(%q init: %z) applies stablehlo.add across dimensions = [1] : ({0}, "
      "tensor<f32>) -> {1}\n"
      "  %i = stablehlo.rsqrt %d : {1}\n"
      "  %b = stablehlo.broadcast_in_dim %i, dims = [0] : ({1}) -> {0}\n"
      "  %r = stablehlo.multiply %a0, %b : {0}\n",
      x, r);
  HostSample sample{fmt::format("rms norm f32 {}x{}", rows, cols), function({x}, body, {"%r"}, {x}),
                    "", KernelClass::Norm};
  sample.passes = kFusedPasses;
  return sample;
}

class Samples {
 public:
  void fit(HostSample sample) { all_.push_back(std::move(sample)); }
  void check(HostSample sample) {
    sample.is_check = true;
    all_.push_back(std::move(sample));
  }
  std::vector<HostSample> take() { return std::move(all_); }

 private:
  std::vector<HostSample> all_;
};

void add_elementwise(Samples& samples) {
  for (int64_t n : {64, 1024, 8192, 65536, 262144, 1048576, 4194304, 16777216})
    samples.fit(elementwise("add", "f32", n, 2));
  for (int64_t n : {64, 8192, 262144, 4194304}) samples.fit(elementwise("negate", "f32", n, 1));
  for (int64_t n : {64, 2048, 16384, 131072, 1048576, 8388608})
    samples.fit(elementwise("multiply", "bf16", n, 2));
  for (int64_t n : {64, 8192, 524288, 4194304}) samples.fit(elementwise("add", "f64", n, 2));
  for (int64_t n : {400, 20000, 500000, 6000000})
    samples.check(elementwise("subtract", "f32", n, 2));
  for (int64_t n : {5000, 50000, 3000000}) samples.check(elementwise("maximum", "bf16", n, 2));
  for (int64_t n : {50000, 2000000}) samples.check(convert("bf16", "f32", n));

  for (const char* dtype : {"f32", "bf16"})
    for (int64_t n : {64, 4096, 65536, 1048576, 4194304})
      for (const char* op : {"exponential", "tanh"})
        samples.fit(elementwise(op, dtype, n, 1, kFunctionClass));
  for (int64_t n : {1500, 30000, 700000})
    for (const char* op : {"logistic", "rsqrt"})
      samples.check(elementwise(op, "f32", n, 1, kFunctionClass));
}

void add_matmuls(Samples& samples) {
  using Three = std::array<int64_t, 3>;
  for (const char* dtype : {"f32", "bf16", "f64"})
    for (int64_t n : {8, 32, 64, 128, 256, 512, 1024})
      if (n < 1024 || std::string(dtype) == "f32") samples.fit(matmul(dtype, n, n, n));
  for (auto [m, k, n] : {Three{16, 512, 2048}, {512, 32, 512}, {2048, 256, 64}, {64, 1024, 256}})
    for (const char* dtype : {"f32", "bf16"}) samples.fit(matmul(dtype, m, k, n));
  samples.fit(matmul("f32", 64, 32, 64, 16));
  samples.fit(matmul("f32", 256, 64, 256, 8));
  for (int64_t n : {24, 96, 192, 384, 768}) samples.check(matmul("f32", n, n, n));
  for (int64_t n : {96, 384}) samples.check(matmul("bf16", n, n, n));
  for (auto [m, k, n] : {Three{128, 512, 1024}, {1024, 64, 256}, {32, 2048, 128}})
    samples.check(matmul("f32", m, k, n));
  samples.check(matmul("f32", 128, 32, 128, 8));
  samples.check(matmul("f32", 256, 512, 256, 1, true));

  for (auto [size, in, out] : {Three{8, 8, 8}, {16, 16, 32}, {32, 32, 32}, {16, 128, 128}})
    samples.fit(convolution("f32", 2, size, in, out, 3));
  samples.fit(convolution("f32", 4, 28, 64, 64, 1));
  samples.fit(kernel_gradient(2, 16, 64, 64));
  samples.fit(kernel_gradient(2, 32, 32, 32));
  samples.fit(kernel_gradient(8, 16, 32, 32));
  samples.check(kernel_gradient(4, 16, 32, 64));
  samples.check(convolution("f32", 4, 16, 32, 64, 3));
  samples.check(convolution("f32", 2, 28, 64, 64, 3));
}

void add_movers(Samples& samples) {
  using Two = std::pair<int64_t, int64_t>;
  for (const char* dtype : {"f32", "bf16"})
    for (auto [rows, cols] : {Two{16, 64}, {128, 128}, {1024, 256}, {2048, 2048}})
      for (int dim : {0, 1}) samples.fit(reduction(dtype, rows, cols, dim));
  for (int dim : {0, 1}) samples.check(reduction("f32", 512, 768, dim));
  for (auto [rows, cols] : {Two{16, 64}, {128, 256}, {1024, 256}, {2048, 1024}}) {
    samples.fit(softmax(rows, cols));
    samples.fit(norm(rows, cols));
  }
  samples.check(softmax(512, 512));
  samples.check(norm(512, 768));
  for (const char* dtype : {"f32", "bf16"})
    for (int64_t n : {32, 128, 512, 1024, 2048}) samples.fit(transpose(dtype, {n, n}, {1, 0}));
  samples.check(transpose("f32", {300, 700}, {1, 0}));
  samples.check(transpose("f32", {8, 128, 8, 64}, {0, 2, 1, 3}));
  for (auto [rows, width] : {Two{16, 16}, {256, 64}, {2048, 256}, {8192, 512}}) {
    samples.fit(gather(rows, width));
    samples.fit(scatter(rows / 2, width));
  }
  samples.check(gather(1024, 128));
  samples.check(scatter(512, 128));
}

}  // namespace

std::vector<HostSample> host_samples() {
  Samples samples;
  add_elementwise(samples);
  add_matmuls(samples);
  add_movers(samples);
  return samples.take();
}

namespace {

using Loops = std::vector<FusionTiming::Loop>;

// Lines of a function's body: every link is an op on what the last one left, and on an argument.
class Chain {
 public:
  Chain(std::string dtype, Sizes shape)
      : dtype_(std::move(dtype)), type_(tensor(shape, dtype_)), shape_(std::move(shape)) {}

  // `op` stands for a loop of `as`.
  void add(const std::string& op, const std::string& as) {
    const bool is_unary = as == op && op != "add" && op != "divide";
    line(fmt::format("stablehlo.{} {}{} : {}", op, last_, is_unary ? "" : ", " + other(), type_));
    count(as);
  }
  // Where it is larger than an argument, that argument.
  void choose() {
    const std::string before = last_, flags = tensor(shape_, "i1");
    line(fmt::format("stablehlo.compare GT, {}, {} : ({}, {}) -> {}", last_, other(), type_, type_,
                     flags));
    count("compare");
    line(fmt::format("stablehlo.select {}, {}, {} : {}, {}", last_, before, other(), flags, type_));
    count("select");
  }
  // To the other width and back.
  void convert() {
    const std::string there = tensor(shape_, dtype_ == "f32" ? "bf16" : "f32");
    line(fmt::format("stablehlo.convert {} : ({}) -> {}", last_, type_, there));
    line(fmt::format("stablehlo.convert {} : ({}) -> {}", last_, there, type_));
    count("convert");
    count("convert");
  }
  // Plus something smaller that is spread over dimension `dim` of a matrix.
  void spread(int dim, const std::string& as) {
    const std::string before = last_;
    const std::string small = tensor({shape_[static_cast<size_t>(1 - dim)]}, dtype_);
    smalls_.push_back(small);
    line(fmt::format("stablehlo.broadcast_in_dim %a{}, dims = [{}] : ({}) -> {}",
                     2 + smalls_.size(), 1 - dim, small, type_));
    line(fmt::format("stablehlo.add {}, {} : {}", before, last_, type_));
    count(as);
    if (dim == 1) loops_.push_back({"broadcast.row", static_cast<double>(shape_[0])});
    count("elementwise");
  }

  FusedSample done(const char* name, bool is_check) const {
    std::vector<std::string> args(3, type_);
    args.insert(args.end(), smalls_.begin(), smalls_.end());
    return {fmt::format("{} {} of {}", name, dtype_, fmt::join(shape_, "x")),
            function(args, body_, {last_}, {type_}), loops_, is_check};
  }

 private:
  void line(const std::string& text) {
    last_ = fmt::format("%{}", number_++);
    body_ += fmt::format("  {} = {}\n", last_, text);
  }
  std::string other() { return (turn_ = !turn_) ? "%a1" : "%a2"; }
  void count(const std::string& as) {
    double elements = 1;
    for (int64_t n : shape_) elements *= static_cast<double>(n);
    loops_.push_back({as, elements});
  }

  const std::string dtype_, type_;
  const Sizes shape_;
  std::string body_, last_ = "%a0";
  std::vector<std::string> smalls_;  // arguments beside the three whole ones
  Loops loops_;
  int number_ = 0;
  bool turn_ = false;
};

FusedSample arithmetic(const char* dtype, int64_t n, bool is_check) {
  Chain chain(dtype, {n});
  for (const char* op : {"add", "multiply", "subtract", "maximum", "multiply", "add", "multiply"})
    chain.add(op, "elementwise");
  return chain.done("arithmetic", is_check);
}

// One op, again and again, with arithmetic between that keeps values small.
FusedSample repeated(const char* dtype, const std::string& op, int64_t n) {
  Chain chain(dtype, {n});
  for (int i = 0; i < 3; ++i) {
    if (op == "choose")
      chain.choose();
    else if (op == "convert")
      chain.convert();
    else
      chain.add(op, op);
    chain.add("multiply", "elementwise");
  }
  return chain.done(op.c_str(), false);
}

FusedSample spread(const char* dtype, int64_t rows, int64_t cols, int dim, const char* as) {
  Chain chain(dtype, {rows, cols});
  for (int i = 0; i < 3; ++i) chain.spread(dim, as);
  return chain.done(as, false);
}

FusedSample mixed(const char* dtype, int64_t n) {
  Chain chain(dtype, {n});
  for (const char* op : {"multiply", "add"}) chain.add(op, "elementwise");
  chain.add("tanh", "tanh");
  chain.choose();
  chain.add("divide", "divide");
  for (const char* op : {"maximum", "multiply"}) chain.add(op, "elementwise");
  return chain.done("mixed", true);
}

// A convolution by itself; its loops are those of its node.
FusedSample convolved(const HostSample& sample, bool is_check) {
  return {sample.what, sample.text, {}, is_check};
}

// Features, rows and windows of all kinds.
void add_convolutions(std::vector<FusedSample>& samples) {
  using Four = std::array<int64_t, 4>;
  for (auto [batch, size, in, out] : {Four{2, 8, 8, 8},
                                      {4, 32, 32, 8},
                                      {4, 32, 32, 16},
                                      {4, 32, 8, 32},
                                      {2, 32, 32, 32},
                                      {4, 16, 64, 64}}) {
    samples.push_back(convolved(convolution("f32", batch, size, in, out, 3), false));
    samples.push_back(convolved(kernel_gradient(batch, size, in, out), false));
  }
  samples.push_back(convolved(convolution("f32", 4, 28, 64, 64, 1), false));
  samples.push_back(convolved(convolution("f32", 2, 16, 128, 128, 3), false));
  for (auto [batch, size, in, out] : {Four{8, 16, 64, 16}, {4, 16, 32, 64}, {2, 28, 64, 64}}) {
    samples.push_back(convolved(convolution("f32", batch, size, in, out, 3), true));
    samples.push_back(convolved(kernel_gradient(batch, size, in, out), true));
  }
}

// The sum of products over some dimensions, or the largest.
FusedSample folded(const std::string& dtype, const Sizes& shape, const Sizes& dims,
                   const std::string& as, bool is_check, const std::string& op = "add") {
  Sizes left;
  double n = 1, rows = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    n *= static_cast<double>(shape[d]);
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) == dims.end())
      left.push_back(shape[d]);
  }
  for (int64_t size : left) rows *= static_cast<double>(size);
  Loops loops{{"elementwise", n}, {as, n}};
  if (as.ends_with(".rows")) loops.push_back({as.substr(0, as.size() - 1), rows});
  const std::string x = tensor(shape, dtype), y = tensor(left, dtype), scalar = tensor({}, dtype);
  return {fmt::format("{} of products {} {} over {}", op == "add" ? "sum" : op, dtype,
                      fmt::join(shape, "x"), fmt::join(dims, ",")),
          function({x, x},
                   fmt::format("  %c = stablehlo.constant dense<0.0> : {2}\n"
                               "  %p = stablehlo.multiply %a0, %a1 : {0}\n"
                               "  %0 = stablehlo.reduce(%p init: %c) applies stablehlo.{4} across "
                               "dimensions = [{3}] : ({0}, {2}) -> {1}\n",
                               x, y, scalar, fmt::join(dims, ", "), op),
                   {"%0"}, {y}),
          loops, is_check};
}

}  // namespace

std::vector<FusedSample> fused_samples() {
  std::vector<FusedSample> samples;
  for (const char* dtype : {"f32", "bf16"}) {
    for (int64_t n : {2048, 8192, 16384}) samples.push_back(arithmetic(dtype, n, false));
    for (const char* op :
         {"divide", "sqrt", "rsqrt", "exponential", "tanh", "logistic", "log", "choose", "convert"})
      samples.push_back(repeated(dtype, op, 8192));
    for (const Sizes& shape : {Sizes{16, 1024}, {64, 256}, {256, 64}, {1024, 16}, {2048, 8}}) {
      samples.push_back(spread(dtype, shape[0], shape[1], 1, "broadcast.rows"));
      samples.push_back(folded(dtype, shape, {1}, "reduce.rows", false));
      samples.push_back(folded(dtype, shape, {1}, "largest.rows", false, "maximum"));
    }
    samples.push_back(spread(dtype, 128, 128, 0, "broadcast.columns"));
    samples.push_back(folded(dtype, {64, 256}, {0}, "reduce.columns", false));
    samples.push_back(folded(dtype, {4, 64, 8, 8}, {1, 3}, "reduce.mixed", false));
    samples.push_back(folded(dtype, {1024, 512}, {0}, "reduce.columns", true));
    samples.push_back(folded(dtype, {1024, 512}, {1}, "reduce.rows", true));
    for (int64_t n : {4096, 131072, 2097152}) {
      samples.push_back(mixed(dtype, n));
      if (n > 4096) samples.push_back(arithmetic(dtype, n, true));
    }
  }
  add_convolutions(samples);
  const HostSample softmaxes[] = {softmax(128, 256), softmax(1024, 512), softmax(2048, 64)};
  const double sizes[] = {128 * 256, 1024 * 512, 2048 * 64}, rows[] = {128, 1024, 2048};
  for (size_t i = 0; i < 3; ++i)
    samples.push_back({softmaxes[i].what,
                       softmaxes[i].text,
                       {{"reduce.rows", sizes[i]},
                        {"reduce.row", rows[i]},
                        {"largest.rows", sizes[i]},
                        {"largest.row", rows[i]},
                        {"broadcast.rows", 2 * sizes[i]},
                        {"broadcast.row", 2 * rows[i]},
                        {"elementwise", sizes[i]},
                        {"exponential", sizes[i]},
                        {"divide", sizes[i]}},
                       true});
  return samples;
}

HostSample memory_sample() { return elementwise("add", "f32", 8388608, 2); }
HostSample compute_sample() { return matmul("f32", 256, 256, 256); }

}  // namespace cleave
