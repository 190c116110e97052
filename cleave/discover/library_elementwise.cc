#include <array>
#include <limits>

#include "cleave/core/error.h"
#include "cleave/discover/library.h"

namespace cleave {
namespace {

using Values = std::span<const ValueId>;

TensorDesc f64(Shape shape, Domain domain = Domain::Any) {
  return {DType::F64, std::move(shape), domain};
}

// Shapes with distinguishable, uneven dimensions; one of them smaller than every world.
std::vector<std::vector<TensorDesc>> unary_shapes(Domain domain = Domain::Any) {
  return {{f64({5, 3}, domain)}, {f64({1, 4}, domain)}, {f64({7}, domain)}};
}

void unary(std::vector<Operator>& library, std::string name, std::string op,
           Domain domain = Domain::Any) {
  library.push_back(operator_with_body(
      std::move(name),
      [op](GraphBuilder& b, const AttrMap&, Values x) { return std::vector{b.emit(op, {x[0]})}; },
      cross_samples(unary_shapes(domain), {{}})));
}

void binary(std::vector<Operator>& library, std::string name, std::string op,
            Domain second = Domain::Any) {
  library.push_back(operator_with_body(
      std::move(name),
      [op](GraphBuilder& b, const AttrMap&, Values x) {
        return std::vector{b.emit(op, {x[0], x[1]})};
      },
      cross_samples({{f64({5, 3}), f64({5, 3}, second)}, {f64({1, 4}), f64({1, 4}, second)}},
                    {{}})));
}

void comparison(std::vector<Operator>& library, std::string name, std::string direction) {
  library.push_back(operator_with_body(
      std::move(name),
      [direction](GraphBuilder& b, const AttrMap&, Values x) {
        return std::vector{b.compare(direction, x[0], x[1])};
      },
      cross_samples({{f64({5, 3}), f64({5, 3})}}, {{}})));
}

ValueId relu(GraphBuilder& b, ValueId x) {
  return b.emit("stablehlo.maximum", {x, b.constant_like(0, x)});
}

}  // namespace

void add_elementwise_operators(std::vector<Operator>& library) {
  for (auto [name, op] : std::initializer_list<std::pair<const char*, const char*>>{
           {"abs", "stablehlo.abs"},
           {"neg", "stablehlo.negate"},
           {"exp", "stablehlo.exponential"},
           {"sigmoid", "stablehlo.logistic"},
           {"tanh", "stablehlo.tanh"},
           {"sin", "stablehlo.sine"},
           {"cos", "stablehlo.cosine"},
           {"sign", "stablehlo.sign"},
           {"floor", "stablehlo.floor"},
           {"ceil", "stablehlo.ceil"},
           {"isfinite", "stablehlo.is_finite"}})
    unary(library, name, op);
  for (auto [name, op] : std::initializer_list<std::pair<const char*, const char*>>{
           {"log", "stablehlo.log"}, {"sqrt", "stablehlo.sqrt"}, {"rsqrt", "stablehlo.rsqrt"}})
    unary(library, name, op, Domain::Positive);
  binary(library, "add", "stablehlo.add");
  binary(library, "sub", "stablehlo.subtract");
  binary(library, "mul", "stablehlo.multiply");
  binary(library, "div", "stablehlo.divide", Domain::NonZero);
  binary(library, "maximum", "stablehlo.maximum");
  binary(library, "minimum", "stablehlo.minimum");
  binary(library, "atan2", "stablehlo.atan2");
  comparison(library, "eq", "EQ");
  comparison(library, "lt", "LT");

  library.push_back(operator_with_body(
      "relu", [](GraphBuilder& b, const AttrMap&, Values x) { return std::vector{relu(b, x[0])}; },
      cross_samples(unary_shapes(), {{}})));
  library.push_back(operator_with_body(
      "square",
      [](GraphBuilder& b, const AttrMap&, Values x) {
        return std::vector{b.emit("stablehlo.multiply", {x[0], x[0]})};
      },
      cross_samples(unary_shapes(), {{}})));
  library.push_back(operator_with_body(
      "add_scalar",
      [](GraphBuilder& b, const AttrMap& attrs, Values x) {
        const double scalar = std::get<double>(attrs.at("scalar"));
        return std::vector{b.emit("stablehlo.add", {x[0], b.constant_like(scalar, x[0])})};
      },
      cross_samples(unary_shapes(), {{{"scalar", 2.5}}, {{"scalar", -1.0}}})));
  library.push_back(operator_with_body(
      "mul_scalar",
      [](GraphBuilder& b, const AttrMap& attrs, Values x) {
        const double scalar = std::get<double>(attrs.at("scalar"));
        return std::vector{b.emit("stablehlo.multiply", {x[0], b.constant_like(scalar, x[0])})};
      },
      cross_samples(
          unary_shapes(),
          {{{"scalar", 2.5}}, {{"scalar", -1.0}}, {{"scalar", 0.25}}, {{"scalar", -3.0}}})));
  library.push_back(operator_with_body(
      "clamp",
      [](GraphBuilder& b, const AttrMap&, Values x) {
        return std::vector{b.emit("stablehlo.clamp",
                                  {b.constant(-1, DType::F64), x[0], b.constant(2, DType::F64)})};
      },
      cross_samples(unary_shapes(), {{}})));
  library.push_back(
      operator_with_body("where",
                         [](GraphBuilder& b, const AttrMap&, Values x) {
                           return std::vector{b.emit("stablehlo.select", {x[0], x[1], x[2]})};
                         },
                         {{{{DType::Bool, {5, 3}, Domain::Bool}, f64({5, 3}), f64({5, 3})}, {}}}));
  library.push_back(operator_with_body("cast",
                                       [](GraphBuilder& b, const AttrMap& attrs, Values x) {
                                         const std::string& to =
                                             std::get<std::string>(attrs.at("to"));
                                         auto dtype = dtype_from_name(to);
                                         if (!dtype) throw_user("cast: unknown dtype '{}'", to);
                                         return std::vector{b.convert(x[0], *dtype)};
                                       },
                                       {{{{DType::F32, {5, 3}}}, {{"to", std::string("f64")}}},
                                        {{{DType::F32, {5, 3}}}, {{"to", std::string("i64")}}}}));
}

}  // namespace cleave
