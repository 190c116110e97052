// A compiled function communicates no more than the same ops called one by one.
#include <gtest/gtest.h>

#include <functional>

#include "cleave/discover/certify.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/record.h"
#include "cleave/tensors.h"
#include "cleave/transforms.h"

namespace cleave {
namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

struct Case {
  std::string name;
  std::vector<Type> args;
  Function f;
  bool same_values = true;
};

struct Traffic {
  int64_t count = 0, bytes = 0;                    // until the results are there
  int64_t complete_count = 0, complete_bytes = 0;  // and no sum is pending any more
  bool pending = false;
  std::string text;
  std::vector<Array> values;
};

Traffic traffic_of(const Function& f, const Tensors& args) {
  Traffic traffic;
  CommLog log;
  const Tensors results = f(args);
  evaluate(results);
  traffic.count = log.count();
  traffic.bytes = log.bytes();
  for (const Tensor& result : results) {
    traffic.pending |= result.sharding().is_partial();
    traffic.values.push_back(result.to_host());
  }
  traffic.complete_count = log.count();
  traffic.complete_bytes = log.bytes();
  traffic.text = to_string(log);
  for (const Tensor& result : results)
    traffic.text += "  result " + to_string(result.sharding()) + "\n";
  return traffic;
}

void compare_traffic(const Case& c, const Function& f, const Tensors& args,
                     const std::string& how) {
  SCOPED_TRACE(c.name + ", " + how);
  evaluate(args);
  const Traffic eager = traffic_of(f, args);
  Traffic compiled;
  ASSERT_NO_THROW(compiled = traffic_of(compile(f), args));
  const std::string text = eager.text + "compiled:\n" + compiled.text;
  EXPECT_LE(compiled.complete_count, eager.complete_count) << text;
  EXPECT_LE(compiled.complete_bytes, eager.complete_bytes) << text;
  // Who leaves a sum to be completed by others may have sent less so far.
  if (!eager.pending) {
    EXPECT_LE(compiled.count, eager.count) << text;
    EXPECT_LE(compiled.bytes, eager.bytes) << text;
  }
  for (size_t i = 0; c.same_values && i < eager.values.size(); ++i) {
    const Comparison same = compare(compiled.values[i], eager.values[i]);
    EXPECT_TRUE(same.same) << "result " << i << ": " << same.first;
  }
}

// A tensor of rank `rank` cut along dimension d by "x", and along the next by "y".
PartitionSpec cut(const Mesh& mesh, int64_t rank, int64_t d) {
  PartitionSpec spec;
  for (int64_t k = 0; k < rank; ++k) {
    const bool next = mesh.axes.size() > 1 && k == (d + 1) % rank;
    spec.entries.push_back(k == d ? SpecEntry("x") : next ? SpecEntry("y") : SpecEntry{});
  }
  return spec;
}

// Each operand cut along each dimension, the others on no mesh; each operand as a pending sum; all
// operands cut along the same dimension; and each result asked for along each dimension.
void compare_all(const Case& c, const Mesh& mesh) {
  Tensors whole;
  for (size_t i = 0; i < c.args.size(); ++i)
    whole.push_back(
        Tensor::from(make_array(c.args[i], "random:" + std::to_string(i + 1))).evaluate());
  int64_t most = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    const std::string name = "operand " + std::to_string(i);
    most = std::max(most, whole[i].rank());
    for (int64_t d = 0; d < whole[i].rank(); ++d) {
      Tensors args = whole;
      args[i] = whole[i].shard(mesh, cut(mesh, whole[i].rank(), d));
      compare_traffic(c, c.f, args, name + " " + to_string(args[i].sharding()));
    }
    if (whole[i].dtype() != DType::F32) continue;
    Tensors args = whole;
    args[i] = whole[i].shard(mesh, P().unreduced({"x"}));
    compare_traffic(c, c.f, args, name + " " + to_string(args[i].sharding()));
  }
  for (int64_t d = 0; whole.size() > 1 && d < most; ++d) {
    Tensors args = whole;
    for (Tensor& arg : args)
      if (d < arg.rank()) arg = arg.shard(mesh, cut(mesh, arg.rank(), d));
    compare_traffic(c, c.f, args, "all operands along " + std::to_string(d));
  }
  const Tensors results = c.f(whole);
  for (size_t i = 0; i < results.size(); ++i)
    for (int64_t d = 0; d < results[i].rank(); ++d) {
      const PartitionSpec spec = cut(mesh, results[i].rank(), d);
      const Function asked = [&](const Tensors& args) {
        Tensors made = c.f(args);
        made[i] = made[i].shard(mesh, spec);
        return made;
      };
      compare_traffic(c, asked, whole,
                      "result " + std::to_string(i) + " along " + std::to_string(d));
    }
}

Type f32(Shape shape) { return Type::tensor(DType::F32, std::move(shape)); }

std::vector<Case> tensor_cases() {
  std::vector<Case> cases;
  auto unary = [&](const std::string& name, const std::function<Tensor(const Tensor&)>& f,
                   const Shape& shape = {4, 6, 8}) {
    cases.push_back({name, {f32(shape)}, [f](const Tensors& a) { return Tensors{f(a[0])}; }});
  };
  for (int64_t d : {0, 2}) {
    const std::string at = "(" + std::to_string(d) + ")";
    unary("sort" + at, [d](const Tensor& x) { return sort(x, d); });
    unary("argsort" + at, [d](const Tensor& x) { return argsort(x, d); });
    unary("cumsum" + at, [d](const Tensor& x) { return cumsum(x, d); });
    unary("cumsum back" + at, [d](const Tensor& x) { return cumsum(x, d, true); });
    unary("cummax" + at, [d](const Tensor& x) { return cummax(x, d); });
    unary("cumprod" + at, [d](const Tensor& x) { return cumprod(x, d); });
    unary("softmax" + at, [d](const Tensor& x) { return softmax(x, d); });
    unary("log_softmax" + at, [d](const Tensor& x) { return log_softmax(x, d); });
    unary("logsumexp" + at, [d](const Tensor& x) { return logsumexp(x, {d}); });
    unary("var" + at, [d](const Tensor& x) { return var(x, {d}); });
    unary("mean" + at, [d](const Tensor& x) { return mean(x, {d}, true) + x; });
    unary("argmax" + at, [d](const Tensor& x) { return argmax(x, d); });
    unary("roll" + at, [d](const Tensor& x) { return roll(x, 1, d); });
    unary("flip" + at, [d](const Tensor& x) { return flip(x, {d}); });
    unary("repeat" + at, [d](const Tensor& x) { return repeat(x, 2, d); });
    unary("slice" + at, [d](const Tensor& x) { return slice_dim(x, d, 1, 3); });
    unary("concat" + at, [d](const Tensor& x) { return concat({x, x}, d); });
    unary("stack" + at, [d](const Tensor& x) { return stack({x, x}, d); });
    unary("sort twice" + at, [d](const Tensor& x) { return sort(sort(x, d) * 2.0 + x, d); });
    unary("fft of" + at, [d](const Tensor& x) { return real(fft(swap_dims(x, d, 2))); });
    unary("rfft" + at, [d](const Tensor& x) { return irfft(rfft(swap_dims(x, d, 2)), x.dim(d)); });
    unary("median" + at, [d](const Tensor& x) { return slice_dim(sort(x, d), d, 1, 2); });
    unary("sort and gather" + at, [d](const Tensor& x) { return take_along(x, argsort(x, d), d); });
  }
  unary("rms_norm", [](const Tensor& x) { return rms_norm(x); });
  unary("layer_norm", [](const Tensor& x) { return layer_norm(x); });
  unary("triu", [](const Tensor& x) { return triu(x); });
  unary("flatten", [](const Tensor& x) { return flatten(x); });
  unary("flatten and back", [](const Tensor& x) { return reshape(flatten(x) * 2.0, x.shape()); });
  unary("reshape", [](const Tensor& x) { return reshape(x, {6, 4, 8}); });
  unary("transpose", [](const Tensor& x) { return transpose(x); });
  unary("norm", [](const Tensor& x) { return norm(x); });
  unary("x / norm", [](const Tensor& x) { return x / norm(x); });
  cases.push_back({"cholesky", {f32({6, 6})}, [](const Tensors& a) {
                     return Tensors{cholesky(matmul(a[0], transpose(a[0])) + eye(6) * 10.0)};
                   }});
  cases.push_back({"top_k", {f32({4, 6, 16})}, [](const Tensors& a) {
                     auto [values, indices] = top_k(a[0], 3);
                     return Tensors{values, indices};
                   }});
  cases.push_back({"matmul", {f32({4, 6}), f32({6, 8})}, [](const Tensors& a) {
                     return Tensors{matmul(a[0], a[1])};
                   }});
  cases.push_back({"mlp", {f32({4, 6}), f32({6, 8}), f32({8, 6})}, [](const Tensors& a) {
                     return Tensors{matmul(relu(matmul(a[0], a[1])), a[2])};
                   }});
  cases.push_back({"solve", {f32({6, 6}), f32({6, 4})}, [](const Tensors& a) {
                     return Tensors{triangular_solve(a[0] + eye(6) * 5.0, a[1])};
                   }});
  cases.push_back({"attention",
                   {f32({2, 4, 6, 8}), f32({2, 4, 6, 8}), f32({2, 4, 6, 8})},
                   [](const Tensors& a) { return Tensors{attention(a[0], a[1], a[2])}; }});
  cases.push_back(
      {"cross_entropy", {f32({4, 6, 8}), Type::tensor(DType::I32, {4, 6})}, [](const Tensors& a) {
         return Tensors{cross_entropy(a[0], remainder(a[1], 8))};
       }});
  cases.push_back({"embedding",
                   {f32({8, 6}), Type::tensor(DType::I32, {4, 6})},
                   [](const Tensors& a) { return Tensors{embedding(a[0], remainder(a[1], 8))}; }});
  cases.push_back({"conv", {f32({2, 8, 8, 4}), f32({3, 3, 4, 4})}, [](const Tensors& a) {
                     return Tensors{conv(a[0], a[1])};
                   }});
  cases.push_back({"max_pool", {f32({2, 4, 8, 8})}, [](const Tensors& a) {
                     return Tensors{max_pool(a[0], {2, 2})};
                   }});
  return cases;
}

std::vector<Case> gradient_cases() {
  std::vector<Case> cases;
  for (const Case& c : tensor_cases()) {
    Case gradient{"grad of " + c.name, c.args, {}};
    gradient.f = [f = c.f](const Tensors& args) {
      const auto loss = [&](const Tensor& x) {
        Tensors all = args;
        all[0] = x;
        Tensor total = zeros({});
        for (const Tensor& y : f(all))
          if (is_float(y.dtype())) total = total + sum(square(y));
        return total;
      };
      return Tensors{grad(loss)(args[0])};
    };
    cases.push_back(std::move(gradient));
  }
  return cases;
}

std::vector<Case> op_cases() {
  std::vector<Case> cases;
  for (const Graph& sample : registry_samples()) {
    const cleave::Function& main = sample.functions[0];
    std::string name;
    bool elementwise = true;  // all of them alike: none communicates
    for (NodeId id : sample.region(main.body).nodes)
      if (const Node& node = sample.node(id); !node.def->opaque && !node.def->has(kTerminator)) {
        name = node.name();
        elementwise = elementwise && node.def->has(kElementwise);
      }
    if (elementwise) continue;
    cases.push_back({name, main.arg_types,
                     [sample](const Tensors& args) { return record_function(sample, args); }});
  }
  return cases;
}

class Communication : public testing::TestWithParam<Mesh> {
 protected:
  void compare_table(const std::vector<Case>& cases) const {
    for (const Case& c : cases) compare_all(c, GetParam());
  }
};

TEST_P(Communication, OfTensorFunctions) { compare_table(tensor_cases()); }
TEST_P(Communication, OfGradients) { compare_table(gradient_cases()); }
TEST_P(Communication, OfRegisteredOps) { compare_table(op_cases()); }

INSTANTIATE_TEST_SUITE_P(Meshes, Communication,
                         testing::Values(Mesh{{"x", 2}}, Mesh{{"x", 2}, {"y", 2}}, Mesh{{"x", 3}}),
                         [](const auto& mesh) {
                           return "x" + std::to_string(mesh.param.axes[0].size) +
                                  (mesh.param.axes.size() > 1 ? "y2" : "");
                         });

}  // namespace
}  // namespace cleave
