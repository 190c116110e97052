#include "derivative_cases.h"

#include <fmt/core.h>

namespace cleave {
namespace {

// f(x) = op(x) of a matrix, and f(x, y) = op(x, y).
std::string unary(const std::string& op) {
  const bool chlo = op.starts_with("chlo.");
  return fmt::format(
      "func.func @main(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {{\n"
      "  %0 = {} %x : tensor<2x3xf64>{}\n  return %0 : tensor<2x3xf64>\n}}",
      op, chlo ? " -> tensor<2x3xf64>" : "");
}
std::string binary(const std::string& op) {
  return fmt::format(
      "func.func @main(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xf64> {{\n"
      "  %0 = {} %x, %y : tensor<2x3xf64>\n  return %0 : tensor<2x3xf64>\n}}",
      op);
}
std::string function(const std::string& args, const std::string& results, const std::string& body,
                     const std::string& returned) {
  return fmt::format("func.func @main({}) -> ({}) {{\n{}\n  return {} : {}\n}}", args, results,
                     body, returned, results);
}

void add_elementwise(std::vector<DerivativeCase>& cases) {
  auto add = [&](const std::string& op, double low = 0.3, double high = 0.9) {
    std::string name = op.substr(op.find('.') + 1);
    cases.push_back({name, unary(op), low, high});
  };
  for (const char* op :
       {"abs", "cbrt", "cosine", "exponential", "exponential_minus_one", "log", "log_plus_one",
        "logistic", "negate", "rsqrt", "sine", "sqrt", "tan", "tanh", "sign"})
    add(std::string("stablehlo.") + op);
  for (const char* op : {"acos", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "erf", "erfc",
                         "erf_inv", "lgamma", "digamma"})
    add(std::string("chlo.") + op);
  cases.push_back({"acosh", unary("chlo.acosh"), 1.5, 2.5});
  for (const char* op : {"add", "atan2", "divide", "multiply", "power", "subtract"})
    cases.push_back({op, binary(std::string("stablehlo.") + op)});
  cases.push_back({"maximum", binary("stablehlo.maximum")});
  cases.push_back({"minimum", binary("stablehlo.minimum")});
  cases.push_back({"remainder", binary("stablehlo.remainder"), 0.61, 0.99});
  const std::string matrix = "tensor<2x3xf64>";
  cases.push_back(
      {"select", function("%x: tensor<2x3xf64>, %y: tensor<2x3xf64>", matrix,
                          "  %p = stablehlo.compare GT, %x, %y : (tensor<2x3xf64>, "
                          "tensor<2x3xf64>) -> tensor<2x3xi1>\n"
                          "  %0 = stablehlo.sine %x : tensor<2x3xf64>\n"
                          "  %1 = stablehlo.select %p, %0, %y : tensor<2x3xi1>, tensor<2x3xf64>",
                          "%1")});
  cases.push_back(
      {"clamp", function("%a: tensor<f64>, %x: tensor<2x3xf64>, %b: tensor<f64>", matrix,
                         "  %h = stablehlo.add %a, %b : tensor<f64>\n"
                         "  %y = stablehlo.add %x, %x : tensor<2x3xf64>\n"
                         "  %0 = stablehlo.clamp %a, %y, %h : (tensor<f64>, tensor<2x3xf64>, "
                         "tensor<f64>) -> tensor<2x3xf64>",
                         "%0")});
  cases.push_back(
      {"complex", function("%x: tensor<2x3xf64>, %y: tensor<2x3xf64>",
                           "tensor<2x3xf64>, "
                           "tensor<2x3xf64>, tensor<2x3xf64>",
                           "  %0 = stablehlo.complex %x, %y : tensor<2x3xcomplex<f64>>\n"
                           "  %1 = stablehlo.exponential %0 : tensor<2x3xcomplex<f64>>\n"
                           "  %2 = stablehlo.multiply %1, %0 : tensor<2x3xcomplex<f64>>\n"
                           "  %3 = chlo.conj %2 : tensor<2x3xcomplex<f64>> -> "
                           "tensor<2x3xcomplex<f64>>\n"
                           "  %4 = stablehlo.divide %3, %1 : tensor<2x3xcomplex<f64>>\n"
                           "  %5 = stablehlo.abs %4 : (tensor<2x3xcomplex<f64>>) -> "
                           "tensor<2x3xf64>\n"
                           "  %6 = stablehlo.real %2 : (tensor<2x3xcomplex<f64>>) -> "
                           "tensor<2x3xf64>\n"
                           "  %7 = stablehlo.imag %2 : (tensor<2x3xcomplex<f64>>) -> "
                           "tensor<2x3xf64>",
                           "%5, %6, %7")});
  cases.push_back(
      {"map", R"(func.func @main(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %0 = "stablehlo.map"(%x, %y) ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %c = stablehlo.constant dense<2.0> : tensor<f64>
    %1 = stablehlo.multiply %a, %b : tensor<f64>
    %2 = stablehlo.power %1, %c : tensor<f64>
    stablehlo.return %2 : tensor<f64>
  }) {dimensions = array<i64: 0, 1>} : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
})"});
}

void add_structured(std::vector<DerivativeCase>& cases) {
  cases.push_back({"select_and_scatter",
                   R"(func.func @main(%x: tensor<4x6xf64>, %s: tensor<2x2xf64>) -> tensor<4x6xf64> {
  %c = stablehlo.constant dense<0.0> : tensor<f64>
  %0 = "stablehlo.select_and_scatter"(%x, %s, %c) <{padding = dense<[[0, 0], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 2, 3>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %1 = stablehlo.compare GE, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %1 = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %1 : tensor<f64>
  }) : (tensor<4x6xf64>, tensor<2x2xf64>, tensor<f64>) -> tensor<4x6xf64>
  return %0 : tensor<4x6xf64>
})"});
  cases.push_back({"reduce_any_body",
                   R"(func.func @main(%x: tensor<3x5xf64>, %c: tensor<f64>) -> tensor<3xf64> {
  %0 = stablehlo.reduce(%x init: %c) across dimensions = [1] : (tensor<3x5xf64>, tensor<f64>) -> tensor<3xf64>
   reducer(%a: tensor<f64>, %b: tensor<f64>) {
    %1 = stablehlo.multiply %a, %b : tensor<f64>
    %2 = stablehlo.add %a, %b : tensor<f64>
    %3 = stablehlo.add %1, %2 : tensor<f64>
    stablehlo.return %3 : tensor<f64>
  }
  return %0 : tensor<3xf64>
})"});
  for (const char* op : {"multiply", "maximum", "minimum"})
    cases.push_back(
        {std::string("reduce_") + op,
         fmt::format(R"(func.func @main(%x: tensor<3x5xf64>, %c: tensor<f64>) -> tensor<3xf64> {{
  %0 = stablehlo.reduce(%x init: %c) applies stablehlo.{} across dimensions = [1] : (tensor<3x5xf64>, tensor<f64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}})",
                     op)});
  cases.push_back(
      {"window_max_dilated", R"(func.func @main(%x: tensor<4x5xf64>) -> tensor<3x3xf64> {
  %c = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
  %0 = "stablehlo.reduce_window"(%x, %c) <{padding = dense<[[1, 0], [0, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 2>, window_dimensions = array<i64: 3, 2>, window_strides = array<i64: 1, 1>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %1 = stablehlo.maximum %a, %b : tensor<f64>
    stablehlo.return %1 : tensor<f64>
  }) : (tensor<4x5xf64>, tensor<f64>) -> tensor<3x3xf64>
  return %0 : tensor<3x3xf64>
})"});
  cases.push_back(
      {"einsum", R"(func.func @main(%x: tensor<2x3xf64>, %y: tensor<3x4xf64>) -> tensor<4x2xf64> {
  %0 = "stablehlo.einsum"(%x, %y) <{einsum_config = "ab,bc->ca"}> : (tensor<2x3xf64>, tensor<3x4xf64>) -> tensor<4x2xf64>
  return %0 : tensor<4x2xf64>
})"});
  cases.push_back(
      {"batch_norm_training",
       R"(func.func @main(%x: tensor<4x3xf64>, %s: tensor<3xf64>, %o: tensor<3xf64>) -> tensor<4x3xf64> {
  %0:3 = "stablehlo.batch_norm_training"(%x, %s, %o) <{epsilon = 0.01 : f32, feature_index = 1 : i64}> : (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>)
  return %0#0 : tensor<4x3xf64>
})"});
  cases.push_back(
      {"batch_norm_grad",
       R"(func.func @main(%x: tensor<4x3xf64>, %s: tensor<3xf64>, %m: tensor<3xf64>, %v: tensor<3xf64>, %g: tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>) {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %s, %m, %v, %g) <{epsilon = 0.01 : f32, feature_index = 1 : i64}> : (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>)
  return %0#0, %0#1, %0#2 : tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>
})"});
  cases.push_back(
      {"ragged_dot",
       R"(func.func @main(%x: tensor<5x2xf64>, %y: tensor<3x2x4xf64>) -> tensor<5x4xf64> {
  %g = stablehlo.constant dense<[2, 0, 3]> : tensor<3xi64>
  %0 = "chlo.ragged_dot"(%x, %y, %g) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<5x2xf64>, tensor<3x2x4xf64>, tensor<3xi64>) -> tensor<5x4xf64>
  return %0 : tensor<5x4xf64>
})"});
  cases.push_back({"scatter_duplicates",
                   R"(func.func @main(%x: tensor<5xf64>, %u: tensor<4xf64>) -> tensor<5xf64> {
  %i = stablehlo.constant dense<[[1], [3], [1], [9]]> : tensor<4x1xi64>
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    stablehlo.return %b : tensor<f64>
  }) : (tensor<5xf64>, tensor<4x1xi64>, tensor<4xf64>) -> tensor<5xf64>
  return %0 : tensor<5xf64>
})"});
}

void add_flow(std::vector<DerivativeCase>& cases) {
  cases.push_back(
      {"scan",
       R"(func.func @main(%x: tensor<4x2xf64>, %h: tensor<2xf64>) -> (tensor<4x2xf64>, tensor<2xf64>) {
  %0:2 = chlo.scan(%x) inits (%h) dimension=0 {
  ^bb0(%a: tensor<2xf64>, %c: tensor<2xf64>):
    %1 = stablehlo.multiply %a, %c : tensor<2xf64>
    %2 = stablehlo.sine %1 : tensor<2xf64>
    %3 = stablehlo.add %2, %a : tensor<2xf64>
    stablehlo.return %1, %3 : tensor<2xf64>, tensor<2xf64>
  } : (tensor<4x2xf64>, tensor<2xf64>) -> (tensor<4x2xf64>, tensor<2xf64>)
  return %0#0, %0#1 : tensor<4x2xf64>, tensor<2xf64>
})"});
  cases.push_back(
      {"scan_along_one",
       R"(func.func @main(%x: tensor<2x4xf64>, %h: tensor<f64>, %w: tensor<2xf64>) -> (tensor<3x4xf64>, tensor<f64>) {
  %0:3 = chlo.scan(%x) inits (%h, %w) dimension=1 attributes {is_reverse = true} {
  ^bb0(%a: tensor<2xf64>, %c: tensor<f64>, %v: tensor<2xf64>):
    %1 = stablehlo.multiply %a, %v : tensor<2xf64>
    %z = stablehlo.constant dense<0.0> : tensor<f64>
    %2 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
    %3 = stablehlo.multiply %2, %c : tensor<f64>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f64>) -> tensor<3xf64>
    stablehlo.return %4, %2, %v : tensor<3xf64>, tensor<f64>, tensor<2xf64>
  } : (tensor<2x4xf64>, tensor<f64>, tensor<2xf64>) -> (tensor<3x4xf64>, tensor<f64>, tensor<2xf64>)
  return %0#0, %0#1 : tensor<3x4xf64>, tensor<f64>
})"});
  cases.push_back({"checkpoint", R"(func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = sdy.named_computation<"cleave.checkpoint">(%x) (%a: tensor<3xf64>) {
    %1 = stablehlo.sine %a : tensor<3xf64>
    %2 = stablehlo.exponential %1 : tensor<3xf64>
    sdy.return %2 : tensor<3xf64>
  } : (tensor<3xf64>) -> tensor<3xf64>
  %3 = stablehlo.multiply %0, %x : tensor<3xf64>
  return %3 : tensor<3xf64>
})"});
  cases.push_back(
      {"case_and_call", R"(func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %i = stablehlo.constant dense<1> : tensor<i32>
  %0 = "stablehlo.case"(%i) ({
    stablehlo.return %x : tensor<3xf64>
  }, {
    %1 = func.call @f(%x, %y) : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
    stablehlo.return %1 : tensor<3xf64>
  }) : (tensor<i32>) -> tensor<3xf64>
  %2 = func.call @f(%0, %x) : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
  return %2 : tensor<3xf64>
}
func.func private @f(%a: tensor<3xf64>, %b: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.multiply %a, %b : tensor<3xf64>
  %1 = stablehlo.sine %0 : tensor<3xf64>
  return %1 : tensor<3xf64>
})"});
  cases.push_back(
      {"tuple", R"(func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %t = "stablehlo.tuple"(%x, %y) : (tensor<3xf64>, tensor<3xf64>) -> tuple<tensor<3xf64>, tensor<3xf64>>
  %0 = "stablehlo.get_tuple_element"(%t) <{index = 1 : i32}> : (tuple<tensor<3xf64>, tensor<3xf64>>) -> tensor<3xf64>
  %1 = stablehlo.multiply %0, %x : tensor<3xf64>
  return %1 : tensor<3xf64>
})"});
}

// On two devices: every collective in a manual computation.
void add_collectives(std::vector<DerivativeCase>& cases) {
  const std::string groups =
      "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = "
      "dense<[[0, 1]]> : tensor<1x2xi64>";
  auto manual = [&](const std::string& name, const std::string& local_in,
                    const std::string& local_out, const std::string& whole_out,
                    const std::string& out_spec, const std::string& body) {
    cases.push_back({name, fmt::format(R"(sdy.mesh @mesh = <["x"=2]>
func.func @main(%x: tensor<4x6xf64>, %w: tensor<6xf64>) -> {2} {{
  %0 = sdy.manual_computation(%x, %w) in_shardings=[<@mesh, [{{"x"}}, {{}}]>, <@mesh, [{{}}]>] out_shardings=[<@mesh, {3}>] manual_axes={{"x"}} (%a: {0}, %v: tensor<6xf64>) {{
    %s = stablehlo.sine %a : {0}
    %b = stablehlo.broadcast_in_dim %v, dims = [1] : (tensor<6xf64>) -> {0}
    %m = stablehlo.multiply %s, %b : {0}
{4}
    %q = stablehlo.multiply %r, %r : {1}
    sdy.return %q : {1}
  }} : (tensor<4x6xf64>, tensor<6xf64>) -> {2}
  return %0 : {2}
}})",
                                       local_in, local_out, whole_out, out_spec, body)});
  };
  const std::string local = "tensor<2x6xf64>", whole = "tensor<4x6xf64>";
  auto reduce = [&](const char* op) {
    return fmt::format(R"(    %r = "stablehlo.all_reduce"(%m) <{{{0}, use_global_device_ids}}> ({{
    ^bb0(%p: tensor<f64>, %o: tensor<f64>):
      %t = stablehlo.{1} %p, %o : tensor<f64>
      stablehlo.return %t : tensor<f64>
    }}) : (tensor<2x6xf64>) -> tensor<2x6xf64>)",
                       groups, op);
  };
  manual("all_reduce_sum", local, local, local, "[{}, {}]", reduce("add"));
  manual("all_reduce_max", local, local, local, "[{}, {}]", reduce("maximum"));
  manual("all_reduce_min", local, local, whole, R"([{"x"}, {}])", reduce("minimum"));
  manual("all_gather", local, whole, whole, "[{}, {}]",
         fmt::format("    %r = \"stablehlo.all_gather\"(%m) <{{all_gather_dim = 0 : i64, {}, "
                     "use_global_device_ids}}> : (tensor<2x6xf64>) -> tensor<4x6xf64>",
                     groups));
  manual(
      "reduce_scatter", local, "tensor<2x3xf64>", local, R"([{}, {"x"}])",
      fmt::format(
          R"(    %r = "stablehlo.reduce_scatter"(%m) <{{{}, scatter_dimension = 1 : i64, use_global_device_ids}}> ({{
    ^bb0(%p: tensor<f64>, %o: tensor<f64>):
      %t = stablehlo.add %p, %o : tensor<f64>
      stablehlo.return %t : tensor<f64>
    }}) : (tensor<2x6xf64>) -> tensor<2x3xf64>)",
          groups));
  manual("all_to_all", local, "tensor<4x3xf64>", whole, R"([{}, {"x"}])",
         fmt::format("    %r = \"stablehlo.all_to_all\"(%m) <{{concat_dimension = 0 : i64, {}, "
                     "split_count = 2 : i64, split_dimension = 1 : i64}}> : (tensor<2x6xf64>) -> "
                     "tensor<4x3xf64>",
                     groups));
  manual("collective_permute", local, local, whole, R"([{"x"}, {}])",
         "    %r = \"stablehlo.collective_permute\"(%m) <{channel_handle = "
         "#stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1]]> : "
         "tensor<1x2xi64>}> : (tensor<2x6xf64>) -> tensor<2x6xf64>");
  manual("collective_broadcast", local, local, local, "[{}, {}]",
         fmt::format("    %r = \"stablehlo.collective_broadcast\"(%m) <{{{}}}> : "
                     "(tensor<2x6xf64>) -> tensor<2x6xf64>",
                     groups));
  cases.push_back({"sharding_constraint", R"(sdy.mesh @mesh = <["x"=2]>
func.func @main(%x: tensor<4x6xf64>) -> tensor<4x6xf64> {
  %0 = sdy.sharding_constraint %x <@mesh, [{"x"}, {}]> : tensor<4x6xf64>
  %1 = sdy.reshard %0 <@mesh, [{}, {"x"}]> : tensor<4x6xf64>
  %2 = stablehlo.multiply %0, %1 : tensor<4x6xf64>
  return %2 : tensor<4x6xf64>
})"});
}

}  // namespace

std::vector<DerivativeCase> derivative_cases() {
  std::vector<DerivativeCase> cases;
  add_elementwise(cases);
  add_structured(cases);
  add_flow(cases);
  add_collectives(cases);
  add_rare_cases(cases);
  return cases;
}

}  // namespace cleave
