#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <set>

#include "cleave/core/error.h"
#include "cleave/models/training.h"
#include "cleave/tensors.h"
#include "cleave/transforms.h"

// A compiled function depends on everything that its arguments say, not on its Tensors alone.
namespace cleave {
namespace {

Tensor numbers(std::vector<float> values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  return Tensor::from(DType::F32, shape, values);
}
std::vector<float> floats(const Tensor& x) { return x.to_vector<float>(); }

// Called with each of several arguments, twice over and interleaved: always the function's result.
template <typename F, typename... Args>
void expect_never_stale(const F& f, const std::vector<std::tuple<Args...>>& calls) {
  const auto compiled = compile(f);
  for (int round = 0; round < 2; ++round)
    for (size_t i = 0; i < calls.size(); ++i)
      EXPECT_EQ(floats(std::apply(compiled, calls[i])), floats(std::apply(f, calls[i])))
          << "call " << i << " of round " << round;
  EXPECT_EQ(compiled.stats().traces, static_cast<int64_t>(calls.size()));
  EXPECT_EQ(compiled.stats().runs, 2 * static_cast<int64_t>(calls.size()));
}

const Tensor kX = numbers({1, 2, 3});

TEST(CompileKey, Numbers) {
  expect_never_stale([](const Tensor& x, double lr) { return x * lr; },
                     std::vector<std::tuple<Tensor, double>>{{kX, 0.5}, {kX, 0.25}, {kX, 2}});
  expect_never_stale([](const Tensor& x, int n) { return x + n; },
                     std::vector<std::tuple<Tensor, int>>{{kX, 1}, {kX, 2}, {kX, -1}});
  expect_never_stale([](const Tensor& x, bool up) { return up ? x + 1 : x - 1; },
                     std::vector<std::tuple<Tensor, bool>>{{kX, true}, {kX, false}});
  expect_never_stale(
      [](double lr, const Tensor& x, float by) { return x * lr + by; },
      std::vector<std::tuple<double, Tensor, float>>{{1., kX, 2.f}, {2., kX, 1.f}, {1., kX, 1.f}});
  expect_never_stale(
      [](const Tensor& x, std::complex<double> z) { return x * z.imag(); },
      std::vector<std::tuple<Tensor, std::complex<double>>>{{kX, {0, 1}}, {kX, {0, 2}}});
  enum class Mode { Up, Down };
  expect_never_stale([](const Tensor& x, Mode m) { return m == Mode::Up ? x : -x; },
                     std::vector<std::tuple<Tensor, Mode>>{{kX, Mode::Up}, {kX, Mode::Down}});
}

TEST(CompileKey, FloatsByTheirBits) {
  expect_never_stale([](const Tensor& x, double by) { return x * std::copysign(1.0, by); },
                     std::vector<std::tuple<Tensor, double>>{{kX, 0.0}, {kX, -0.0}});
  const auto f = compile([](const Tensor& x, double by) { return std::isnan(by) ? x : -x; });
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(floats(f(kX, nan)), floats(kX));
  EXPECT_EQ(f.stats().traces, 1);
  // Closer to each other than doubles are.
  const long double one = 1, next = std::nextafter(one, 2.0L);
  const auto g = compile([&](const Tensor& x, long double by) { return by == one ? x : -x; });
  EXPECT_EQ(floats(g(kX, one)), floats(kX));
  EXPECT_EQ(floats(g(kX, next)), floats(-kX));
}

TEST(CompileKey, TheTypesOfArguments) {
  const auto f = compile([](const Tensor& x, auto by) { return x / (1 / (by + by)); });
  EXPECT_EQ(floats(f(kX, 0.25)), floats(kX * 0.5));
  EXPECT_EQ(floats(f(kX, 0.25f)), floats(kX * 0.5));
  const auto g = compile(
      [](const Tensor& x, auto by) { return x + (std::is_integral_v<decltype(by)> ? 1 : 2); });
  EXPECT_EQ(floats(g(kX, int64_t{0})), floats(kX + 1));
  EXPECT_EQ(floats(g(kX, 0.0)), floats(kX + 2));
}

TEST(CompileKey, Texts) {
  const auto f = [](const Tensor& x, const std::string& how) { return how == "neg" ? -x : x; };
  expect_never_stale(f, std::vector<std::tuple<Tensor, std::string>>{
                            {kX, "neg"}, {kX, "pos"}, {kX, ""}, {kX, "negneg"}});
  const auto two = [](const Tensor& x, const std::string& a, const std::string& b) {
    return x * static_cast<double>(a.size()) + static_cast<double>(b.size());
  };
  expect_never_stale(two, std::vector<std::tuple<Tensor, std::string, std::string>>{
                              {kX, "ab", "c"}, {kX, "a", "bc"}, {kX, "abc", ""}});
}

TEST(CompileKey, LengthsOfVectors) {
  const auto f = [](const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    Tensor sum = zeros({3});
    for (const Tensor& x : a) sum = sum + x;
    for (const Tensor& x : b) sum = sum - x;
    return sum;
  };
  using Tensors = std::vector<Tensor>;
  expect_never_stale(f, std::vector<std::tuple<Tensors, Tensors>>{
                            {{kX, kX}, {kX}}, {{kX}, {kX, kX}}, {{kX, kX, kX}, {}}, {{}, {kX}}});
  const auto nested = [](const std::vector<std::vector<Tensor>>& a) { return a[0].back() * 2; };
  const Tensor y = numbers({5, 6, 7});
  expect_never_stale(nested, std::vector<std::tuple<std::vector<Tensors>>>{
                                 {{{kX, y}, {kX}}}, {{{kX}, {y, kX}}}, {{{kX, y, kX}}}});
  const auto weights = [](const Tensor& x, const std::vector<double>& w) {
    return x * w.back() + static_cast<double>(w.size());
  };
  expect_never_stale(weights, std::vector<std::tuple<Tensor, std::vector<double>>>{
                                  {kX, {1, 2}}, {kX, {2}}, {kX, {2, 1}}, {kX, {1, 2, 2}}});
  const auto flags = [](const Tensor& x, const std::vector<bool>& w) { return w[1] ? x : -x; };
  expect_never_stale(flags, std::vector<std::tuple<Tensor, std::vector<bool>>>{
                                {kX, {true, false}}, {kX, {false, true}}});
}

TEST(CompileKey, NamesInMapsAndEmptyOptionals) {
  using Map = std::map<std::string, Tensor>;
  const auto f = [](const Map& m) {
    return m.contains("w") ? m.begin()->second : -m.begin()->second;
  };
  expect_never_stale(
      f, std::vector<std::tuple<Map>>{{{{"w", kX}}}, {{{"v", kX}}}, {{{"v", kX}, {"w", kX}}}});
  using Maybe = std::optional<Tensor>;
  const auto g = [](const Maybe& a, const Maybe& b) { return a ? *a : -*b; };
  expect_never_stale(
      g, std::vector<std::tuple<Maybe, Maybe>>{{kX, std::nullopt}, {std::nullopt, kX}, {kX, kX}});
  const auto h = [](const Tensor& x, const std::map<int, double>& m) { return x * m.at(1); };
  expect_never_stale(h, std::vector<std::tuple<Tensor, std::map<int, double>>>{
                            {kX, {{1, 2.}}}, {kX, {{1, 3.}}}, {kX, {{0, 3.}, {1, 2.}}}});
  const auto s = [](const Tensor& x, const std::set<int>& m) { return m.contains(1) ? x : -x; };
  expect_never_stale(s, std::vector<std::tuple<Tensor, std::set<int>>>{{kX, {1}}, {kX, {2}}});
  using Either = std::variant<int, double, std::string>;
  const auto v = [](const Tensor& x, const Either& e) {
    return x + static_cast<double>(e.index());
  };
  expect_never_stale(
      v, std::vector<std::tuple<Tensor, Either>>{{kX, 1}, {kX, 1.0}, {kX, std::string("1")}});
}

// Shows its Tensor, as docs say; the number is copied along.
struct Layer {
  Tensor w;
  int heads = 1;
  std::string activation = "none";
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("w", w);
  }
};
struct Model {
  std::vector<Layer> layers;
  double epsilon = 0;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("epsilon", epsilon);  // numbers may be shown too
    v("layers", layers);
  }
};

TEST(CompileKey, MembersThatVisitDoesNotShow) {
  const auto f = [](const Model& m) {
    Tensor x = zeros({3}) + m.epsilon;
    for (const Layer& l : m.layers) x = x + (l.activation == "neg" ? -l.w : l.w) * l.heads;
    return x;
  };
  const Layer one{kX, 1, "none"}, two{kX, 2, "none"}, neg{kX, 1, "neg"};
  expect_never_stale(f, std::vector<std::tuple<Model>>{{Model{{one, two}, 0}},
                                                       {Model{{two, one}, 0}},
                                                       {Model{{one, neg}, 0}},
                                                       {Model{{one}, 0}},
                                                       {Model{{one}, 1}}});
}

struct Options {
  double rate = 0.1;
  std::array<int, 2> size = {1, 2};
  struct Inner {
    bool flag = false;
    std::vector<std::string> names;
  } inner;
  std::shared_ptr<const double> shared;
};

TEST(CompileKey, StructsWithoutTensors) {
  const auto f = [](const Tensor& x, const Options& o) {
    return x * o.rate + o.size[1] + (o.inner.flag ? 1 : 0) +
           static_cast<double>(o.inner.names.size()) + (o.shared ? *o.shared : 0);
  };
  Options rate, size, flag, names, shared, other;
  rate.rate = 1;
  size.size[1] = 3;
  flag.inner.flag = true;
  names.inner.names = {"a", "b"};
  shared.shared = std::make_shared<const double>(1);
  other.shared = std::make_shared<const double>(2);
  expect_never_stale(f, std::vector<std::tuple<Tensor, Options>>{{kX, Options{}},
                                                                 {kX, rate},
                                                                 {kX, size},
                                                                 {kX, flag},
                                                                 {kX, names},
                                                                 {kX, shared},
                                                                 {kX, other}});
}

class Private {
 public:
  explicit Private(double by) : by_(by) {}
  double by() const { return by_; }
  auto compile_key() const { return std::tie(by_); }

 private:
  double by_;
};
class Comparable {
 public:
  explicit Comparable(int by) : by_(by) {}
  int by() const { return by_; }
  bool operator==(const Comparable&) const = default;

 private:
  int by_;
};
class PrivateLayer {
 public:
  PrivateLayer(Tensor w, int heads) : w_(std::move(w)), heads_(heads) {}
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("w", w_);
  }
  auto compile_key() const { return std::tie(heads_); }
  Tensor operator()() const { return w_ * heads_; }

 private:
  Tensor w_;
  int heads_;
};

TEST(CompileKey, ClassesThatShowWhatCounts) {
  expect_never_stale([](const Tensor& x, const Private& p) { return x * p.by(); },
                     std::vector<std::tuple<Tensor, Private>>{{kX, Private(2)}, {kX, Private(3)}});
  expect_never_stale(
      [](const Tensor& x, const Comparable& p) { return x * p.by(); },
      std::vector<std::tuple<Tensor, Comparable>>{{kX, Comparable(2)}, {kX, Comparable(3)}});
  expect_never_stale([](const PrivateLayer& p) { return p(); },
                     std::vector<std::tuple<PrivateLayer>>{{{kX, 2}}, {{kX, 3}}});
  expect_never_stale(
      [](const Tensor& x, std::chrono::milliseconds t) { return x * static_cast<int>(t.count()); },
      std::vector<std::tuple<Tensor, std::chrono::milliseconds>>{
          {kX, std::chrono::milliseconds(2)}, {kX, std::chrono::milliseconds(3)}});
}

TEST(CompileKey, MeshesAndSpecs) {
  const Mesh two{{"x", 2}}, three{{"x", 3}};
  const auto f = compile([](const Tensor& x, const Mesh& mesh, const PartitionSpec& spec) {
    return x.shard(mesh, spec);
  });
  EXPECT_EQ(f(kX, two, P("x")).mesh()->num_devices(), 2);
  EXPECT_EQ(f(kX, three, P("x")).mesh()->num_devices(), 3);
  EXPECT_EQ(to_string(f(kX, three, P()).sharding()), "[{}]");
  EXPECT_EQ(to_string(f(kX, three, P("x")).sharding()), "[{\"x\"}]");
}

struct Hides {
  Tensor shown, hidden;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("shown", shown);
  }
};

TEST(CompileKey, TensorsThatAreNotShownAreRefused) {
  const auto f = compile([](const Hides& h) { return h.shown + h.hidden; });
  try {
    f(Hides{kX, kX});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("argument 0 holds 2 Tensors, and its `visit` "
                                                 "shows 1"));
  }
}

TEST(CompileKey, AnEmptyArgumentIsNamed) {
  const auto f = compile([](const Tensor& x) { return x; });
  const auto g = compile([](const Tensor& x, const std::vector<Layer>&) { return x; });
  auto text = [](auto call) -> std::string {
    try {
      call();
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(text([&] { f(Tensor()); }),
            "argument 0 of a traced function is an empty Tensor: assign it a value first");
  EXPECT_EQ(
      text([&] { g(kX, std::vector<Layer>(1)); }),
      "argument 1 of a traced function has '[0].w', an empty Tensor: assign it a value first");
}

TEST(CompileKey, AChangingNumberIsWarnedOfOnce) {
  std::vector<std::string> heard;
  const auto f = compile([](const Tensor& x, double lr) { return x * lr; },
                         {.warning = [&](std::string_view text) { heard.emplace_back(text); }});
  for (int i = 1; i <= 70; ++i) EXPECT_EQ(floats(f(kX, i)), floats(kX * i));
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(
      heard[0],
      "compile: this is program 5 for Tensors of the same types and layouts: argument 1 was "
      "4, and is 5; pass what changes from call to call as a Tensor, which is an input of one "
      "program");
  EXPECT_EQ(f.stats().warning, heard[0]);
  EXPECT_EQ(f.stats().traces, 70);
}

TEST(CompileKey, ATensorThatChangesIsOneProgram) {
  const auto f = compile([](const Tensor& x, const Tensor& lr) { return x * lr; });
  for (int i = 1; i <= 20; ++i) EXPECT_EQ(floats(f(kX, scalar(i, DType::F32))), floats(kX * i));
  EXPECT_EQ(f.stats().traces, 1);
  EXPECT_EQ(f.stats().warning, "");
}

// ---- steps of an optimizer ----

struct Weights {
  Tensor w;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("w", w);
  }
};

TEST(CompileKey, AdamStepsOnAMeshCompileOnce) {
  const Mesh mesh{{"data", 2}, {"model", 2}};
  const auto loss = [](const Weights& p, const Tensor& x) { return mean(square(matmul(x, p.w))); };
  const auto step = [&](const Weights& p, const models::AdamState<Weights>& s, const Tensor& x) {
    const auto [value, g] = value_and_grad(loss)(p, x);
    auto [next, state] = models::adamw(p, g, s);
    return std::make_tuple(value, next, state);
  };
  for (const bool own_step : {false, true}) {
    Weights p{randn({4, 6}, 1).shard(mesh, P({}, "model"))};
    models::AdamState<Weights> s = models::init_adam(p);
    if (own_step) s.step = zeros({}, DType::F32);  // on no mesh
    Weights q{randn({4, 6}, 1)};
    models::AdamState<Weights> t = models::init_adam(q);
    const Tensor x = randn({8, 4}, 2), y = x.shard(mesh, P("data", {}));
    const auto compiled = compile(step);
    Tensor value, expected;
    for (int i = 0; i < 3; ++i) {
      std::tie(value, p, s) = compiled(p, s, y);
      std::tie(expected, q, t) = step(q, t, x);
      EXPECT_NEAR(value.item(), expected.item(), 1e-5);
    }
    EXPECT_EQ(s.step.item(), 3);
    EXPECT_EQ(compiled.stats().traces, 1) << own_step;
  }
}

}  // namespace
}  // namespace cleave
