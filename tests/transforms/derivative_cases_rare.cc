#include <fmt/core.h>

#include "derivative_cases.h"

namespace cleave {
namespace {

// A function of f64 tensors %x, %y of these shapes; the body makes %r.
std::string function(std::initializer_list<const char*> args, const std::string& result,
                     const std::string& body) {
  std::string text = "func.func @main(";
  char name = 'x';
  for (const char* arg : args) {
    text +=
        fmt::format("{}%{}: tensor<{}{}f64>", name == 'x' ? "" : ", ", name, arg, *arg ? "x" : "");
    ++name;
  }
  return fmt::format("{}) -> tensor<{}xf64> {{\n{}\n  return %r : tensor<{}xf64>\n}}", text, result,
                     body, result);
}

void add_broadcasts(std::vector<DerivativeCase>& cases) {
  auto add = [&](const std::string& op, double low = 0.3, double high = 0.9) {
    cases.push_back(
        {"broadcast_" + op,
         function({"3", "2x3"}, "2x3",
                  fmt::format("  %r = chlo.broadcast_{} %x, %y : (tensor<3xf64>, tensor<2x3xf64>) "
                              "-> tensor<2x3xf64>",
                              op)),
         low, high});
  };
  for (const char* op :
       {"add", "atan2", "divide", "maximum", "minimum", "multiply", "power", "subtract"})
    add(op);
  add("remainder", 0.61, 0.99);
  for (const char* op : {"polygamma", "zeta"})
    cases.push_back(
        {std::string("broadcast_") + op,
         function({"2x3"}, "2x3",
                  fmt::format("  %n = stablehlo.constant dense<[2.0, 3.0, 4.0]> : tensor<3xf64>\n"
                              "  %r = chlo.broadcast_{} %n, %x : (tensor<3xf64>, "
                              "tensor<2x3xf64>) -> tensor<2x3xf64>",
                              op)),
         1.2, 2.5});
  cases.push_back({"zeta",
                   function({"2x3"}, "2x3",
                            "  %n = stablehlo.constant dense<3.0> : tensor<2x3xf64>\n"
                            "  %r = chlo.zeta %n, %x : tensor<2x3xf64>, tensor<2x3xf64> -> "
                            "tensor<2x3xf64>"),
                   1.2, 2.5});
  cases.push_back(
      {"broadcast_select",
       function({"2x3", "2x1"}, "2x3",
                "  %c = stablehlo.constant dense<0.6> : tensor<2x3xf64>\n"
                "  %p = stablehlo.compare GT, %x, %c : (tensor<2x3xf64>, tensor<2x3xf64>) -> "
                "tensor<2x3xi1>\n"
                "  %r = chlo.broadcast_select %p, %x, %y : (tensor<2x3xi1>, tensor<2x3xf64>, "
                "tensor<2x1xf64>) -> tensor<2x3xf64>")});
  cases.push_back(
      {"broadcast_complex",
       function({"3", "2x3"}, "2x3",
                "  %c = chlo.broadcast_complex %x, %y : (tensor<3xf64>, tensor<2x3xf64>) -> "
                "tensor<2x3xcomplex<f64>>\n"
                "  %s = stablehlo.multiply %c, %c : tensor<2x3xcomplex<f64>>\n"
                "  %a = stablehlo.real %s : (tensor<2x3xcomplex<f64>>) -> tensor<2x3xf64>\n"
                "  %b = stablehlo.imag %s : (tensor<2x3xcomplex<f64>>) -> tensor<2x3xf64>\n"
                "  %r = stablehlo.add %a, %b : tensor<2x3xf64>")});
  cases.push_back(
      {"chlo_tan",
       function({"2x3"}, "2x3", "  %r = chlo.tan %x : tensor<2x3xf64> -> tensor<2x3xf64>")});
  for (const char* op : {"is_inf", "is_neg_inf", "is_pos_inf"})
    cases.push_back(
        {op, function(
                 {"2x3"}, "2x3",
                 fmt::format("  %p = chlo.{} %x : tensor<2x3xf64> -> tensor<2x3xi1>\n"
                             "  %s = stablehlo.sine %x : tensor<2x3xf64>\n"
                             "  %r = stablehlo.select %p, %x, %s : tensor<2x3xi1>, tensor<2x3xf64>",
                             op))});
  cases.push_back(
      {"constant_like",
       function({"2x3"}, "2x3",
                "  %c = \"chlo.constant_like\"(%x) <{value = 2.5 : f64}> : (tensor<2x3xf64>) -> "
                "tensor<2x3xf64>\n"
                "  %r = stablehlo.multiply %c, %x : tensor<2x3xf64>")});
  // Bits have no derivative: what is made of them counts as constant, as in JAX.
  cases.push_back(
      {"bitcast_convert",
       function({"2x3"}, "2x3",
                "  %i = stablehlo.bitcast_convert %x : (tensor<2x3xf64>) -> tensor<2x3xi64>\n"
                "  %z = stablehlo.constant dense<0> : tensor<2x3xi64>\n"
                "  %p = stablehlo.compare GT, %i, %z : (tensor<2x3xi64>, tensor<2x3xi64>) -> "
                "tensor<2x3xi1>\n"
                "  %s = stablehlo.sine %x : tensor<2x3xf64>\n"
                "  %r = stablehlo.select %p, %s, %x : tensor<2x3xi1>, tensor<2x3xf64>")});
}

void add_shapes(std::vector<DerivativeCase>& cases) {
  cases.push_back({"broadcast", function({"2x3"}, "4x2x3",
                                         "  %s = stablehlo.sine %x : tensor<2x3xf64>\n"
                                         "  %r = stablehlo.broadcast %s, sizes = [4] : "
                                         "(tensor<2x3xf64>) -> tensor<4x2x3xf64>")});
  cases.push_back({"dot", function({"2x3", "3x4"}, "2x4",
                                   "  %r = stablehlo.dot %x, %y : (tensor<2x3xf64>, "
                                   "tensor<3x4xf64>) -> tensor<2x4xf64>")});
  cases.push_back(
      {"unary_einsum", function({"5x4x2"}, "2x5",
                                "  %s = stablehlo.sine %x : tensor<5x4x2xf64>\n"
                                "  %r = stablehlo.unary_einsum %s, config = \"abc->ca\" "
                                ": (tensor<5x4x2xf64>) -> tensor<2x5xf64>")});
  cases.push_back(
      {"torch_index_select",
       function({"2x3x5x4"}, "2x3x3x4",
                "  %i = stablehlo.constant dense<[[0, 2, 2], [4, 1, 3]]> : tensor<2x3xi64>\n"
                "  %s = stablehlo.sine %x : tensor<2x3x5x4xf64>\n"
                "  %r = \"stablehlo.torch_index_select\"(%s, %i) <{dim = 2 : i64, batch_dims = 1 : "
                "i64}> : (tensor<2x3x5x4xf64>, tensor<2x3xi64>) -> tensor<2x3x3x4xf64>")});
  cases.push_back(
      {"dynamic_reshape", function({"4x6"}, "3x8",
                                   "  %n = stablehlo.constant dense<[3, 8]> : tensor<2xi64>\n"
                                   "  %s = stablehlo.sine %x : tensor<4x6xf64>\n"
                                   "  %r = stablehlo.dynamic_reshape %s, %n : (tensor<4x6xf64>, "
                                   "tensor<2xi64>) -> tensor<3x8xf64>")});
  cases.push_back({"dynamic_broadcast_in_dim",
                   function({"4x1"}, "2x4x5",
                            "  %n = stablehlo.constant dense<[2, 4, 5]> : tensor<3xi64>\n"
                            "  %s = stablehlo.sine %x : tensor<4x1xf64>\n"
                            "  %r = stablehlo.dynamic_broadcast_in_dim %s, %n, dims = [1, 2] : "
                            "(tensor<4x1xf64>, tensor<3xi64>) -> tensor<2x4x5xf64>")});
  cases.push_back(
      {"dynamic_gather",
       function(
           {"6x4"}, "5x4",
           "  %i = stablehlo.constant dense<[[0], [5], [2], [2], [9]]> : tensor<5x1xi64>\n"
           "  %n = stablehlo.constant dense<[1, 4]> : tensor<2xi64>\n"
           "  %s = stablehlo.sine %x : tensor<6x4xf64>\n"
           "  %r = \"stablehlo.dynamic_gather\"(%s, %i, %n) <{dimension_numbers = "
           "#stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = "
           "[0], index_vector_dim = 1>}> : (tensor<6x4xf64>, tensor<5x1xi64>, tensor<2xi64>) "
           "-> tensor<5x4xf64>")});
  cases.push_back(
      {"dynamic_pad", function({"4", ""}, "9",
                               "  %l = stablehlo.constant dense<-1> : tensor<1xi64>\n"
                               "  %h = stablehlo.constant dense<3> : tensor<1xi64>\n"
                               "  %i = stablehlo.constant dense<1> : tensor<1xi64>\n"
                               "  %s = stablehlo.sine %x : tensor<4xf64>\n"
                               "  %r = stablehlo.dynamic_pad %s, %y, %l, %h, %i : (tensor<4xf64>, "
                               "tensor<f64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> "
                               "tensor<9xf64>")});
  cases.push_back({"real_dynamic_slice",
                   function({"7x3"}, "3x3",
                            "  %a = stablehlo.constant dense<[1, 0]> : tensor<2xi64>\n"
                            "  %l = stablehlo.constant dense<[7, 3]> : tensor<2xi64>\n"
                            "  %t = stablehlo.constant dense<[2, 1]> : tensor<2xi64>\n"
                            "  %s = stablehlo.sine %x : tensor<7x3xf64>\n"
                            "  %r = stablehlo.real_dynamic_slice %s, %a, %l, %t : "
                            "(tensor<7x3xf64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> "
                            "tensor<3x3xf64>")});
  cases.push_back(
      {"dynamic_conv",
       function({"2x7x4", "3x4x5"}, "2x6x5",
                "  %p = stablehlo.constant dense<[[1, 0]]> : tensor<1x2xi64>\n"
                "  %r = \"stablehlo.dynamic_conv\"(%x, %y, %p) <{dimension_numbers = "
                "#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, batch_group_count = 1 : i64, "
                "feature_group_count = 1 : i64, window_strides = array<i64: 1>}> : "
                "(tensor<2x7x4xf64>, tensor<3x4x5xf64>, tensor<1x2xi64>) -> tensor<2x6x5xf64>")});
}

void add_matrices(std::vector<DerivativeCase>& cases) {
  const std::string product =
      "  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>\n"
      "  %m = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0] : (tensor<3x3xf64>, "
      "tensor<3x3xf64>) -> tensor<3x3xf64>\n"
      "  %e = stablehlo.constant dense<[[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]]> : "
      "tensor<3x3xf64>\n"
      "  %s = stablehlo.add %m, %e : tensor<3x3xf64>\n";
  cases.push_back({"cholesky", function({"3x3"}, "3x3",
                                        product + "  %r = stablehlo.cholesky %s, lower = true : "
                                                  "tensor<3x3xf64>")});
  cases.push_back(
      {"triangular_solve",
       function({"3x3", "3x2"}, "3x2",
                product +
                    "  %r = \"stablehlo.triangular_solve\"(%s, %y) <{left_side = true, lower = "
                    "true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = false}> "
                    ": (tensor<3x3xf64>, tensor<3x2xf64>) -> tensor<3x2xf64>")});
  for (const char* shape : {"4x3", "3x4"})
    cases.push_back(
        {fmt::format("geqrf_{}", shape),
         function({shape}, shape,
                  fmt::format("  %r, %tau = stablehlo.custom_call @Qr(%x) : (tensor<{0}xf64>) -> "
                              "(tensor<{0}xf64>, tensor<3xf64>)",
                              shape))});
  cases.push_back({"qr", function({"4x3"}, "4x3",
                                  "  %h, %tau = stablehlo.custom_call @Qr(%x) : (tensor<4x3xf64>) "
                                  "-> (tensor<4x3xf64>, tensor<3xf64>)\n"
                                  "  %r = stablehlo.custom_call "
                                  "@ProductOfElementaryHouseholderReflectors(%h, %tau) : "
                                  "(tensor<4x3xf64>, tensor<3xf64>) -> tensor<4x3xf64>")});
  cases.push_back(
      {"lu_decomposition",
       function({"3x3"}, "3x3",
                product + "  %r, %p, %q = stablehlo.custom_call @LuDecomposition(%s) : "
                          "(tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xi32>, tensor<3xi32>)")});
  cases.push_back(
      {"batch_norm_inference",
       R"(func.func @main(%x: tensor<4x3xf64>, %s: tensor<3xf64>, %o: tensor<3xf64>, %m: tensor<3xf64>, %v: tensor<3xf64>) -> tensor<4x3xf64> {
  %0 = "stablehlo.batch_norm_inference"(%x, %s, %o, %m, %v) <{epsilon = 0.01 : f32, feature_index = 1 : i64}> : (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) -> tensor<4x3xf64>
  return %0 : tensor<4x3xf64>
})"});
  cases.push_back({"if_barrier_composite",
                   R"(func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %p = stablehlo.constant dense<true> : tensor<i1>
  %0 = "stablehlo.if"(%p) ({
    %1 = stablehlo.multiply %x, %y : tensor<3xf64>
    stablehlo.return %1 : tensor<3xf64>
  }, {
    stablehlo.return %x : tensor<3xf64>
  }) : (tensor<i1>) -> tensor<3xf64>
  %2, %3 = stablehlo.optimization_barrier %0, %y : tensor<3xf64>, tensor<3xf64>
  %4 = stablehlo.composite "test.f" %2, %3 {decomposition = @f} : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
  return %4 : tensor<3xf64>
}
func.func private @f(%a: tensor<3xf64>, %b: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.multiply %a, %b : tensor<3xf64>
  %1 = stablehlo.sine %0 : tensor<3xf64>
  return %1 : tensor<3xf64>
})"});
}

void add_layouts(std::vector<DerivativeCase>& cases) {
  auto add = [&](const char* name, const char* body) {
    cases.push_back(
        {name, "sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>\n" +
                   function({"4x6"}, "4x6",
                            std::string("  %0 = stablehlo.sine %x : tensor<4x6xf64>\n") + body)});
  };
  add("sdy_edges", R"(  %1 = sdy.propagation_barrier %0 allowed_direction=NONE : tensor<4x6xf64>
  %2 = sdy.data_flow_edge %1 sharding=<@mesh, [{"x"}, {?}]> : tensor<4x6xf64>
  %r = sdy.func_data_flow_edge %2 : tensor<4x6xf64>)");
  add("sdy_collectives",
      R"(  %1 = sdy.all_slice [{"x"}, {}] %0 out_sharding=<@mesh, [{"x"}, {}]> : tensor<4x6xf64>
  %2 = sdy.all_to_all [{"x"}: 0->1] %1 out_sharding=<@mesh, [{}, {"x"}]> : tensor<4x6xf64>
  %3 = sdy.collective_permute %2 out_sharding=<@mesh, [{}, {"y"}]> : tensor<4x6xf64>
  %r = sdy.all_gather [{}, {"y"}] %3 out_sharding=<@mesh, [{}, {}]> : tensor<4x6xf64>)");
  add("sdy_unreduced",
      R"(  %1 = sdy.replicated_to_unreduced {"x"} %0 out_sharding=<@mesh, [{}, {}], unreduced={"x"}> : tensor<4x6xf64>
  %2 = sdy.all_reduce {"x"} %1 out_sharding=<@mesh, [{}, {}]> : tensor<4x6xf64>
  %3 = sdy.replicated_to_unreduced {"y"} %2 out_sharding=<@mesh, [{}, {}], unreduced={"y"}> : tensor<4x6xf64>
  %4 = sdy.reduce_scatter [{"y"}, {}] %3 out_sharding=<@mesh, [{"y"}, {}]> : tensor<4x6xf64>
  %r = sdy.sharded_to_unreduced [{"y"}, {}] %4 out_sharding=<@mesh, [{}, {}], unreduced={"y"}> : tensor<4x6xf64>)");
  add("collective_reduce",
      R"(  %r = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x", "y"} (%a: tensor<2x6xf64>) {
    %1 = "stablehlo.collective_reduce"(%a) <{replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> ({
    ^bb0(%c: tensor<f64>, %d: tensor<f64>):
      %2 = stablehlo.add %c, %d : tensor<f64>
      stablehlo.return %2 : tensor<f64>
    }) : (tensor<2x6xf64>) -> tensor<2x6xf64>
    %3 = stablehlo.multiply %1, %a : tensor<2x6xf64>
    sdy.return %3 : tensor<2x6xf64>
  } : (tensor<4x6xf64>) -> tensor<4x6xf64>)");
  add("cross_replica_sum",
      R"(  %r = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x", "y"} (%a: tensor<2x6xf64>) {
    %1 = "stablehlo.cross-replica-sum"(%a) <{replica_groups = dense<[[0]]> : tensor<1x1xi64>}> : (tensor<2x6xf64>) -> tensor<2x6xf64>
    %2 = stablehlo.multiply %1, %a : tensor<2x6xf64>
    sdy.return %2 : tensor<2x6xf64>
  } : (tensor<4x6xf64>) -> tensor<4x6xf64>)");
}

// A loop that carries integers alone looks at a value with a derivative: it stays a closed op.
void add_loops(std::vector<DerivativeCase>& cases) {
  cases.push_back({"integers_beside",
                   R"(func.func @main(%x: tensor<5xf64>, %y: tensor<5xf64>) -> tensor<5xf64> {
  %s = stablehlo.sine %x : tensor<5xf64>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %none = stablehlo.constant dense<0> : tensor<5xi32>
  %0:2 = stablehlo.while(%i = %zero, %n = %none) : tensor<i32>, tensor<5xi32> cond {
    %c = stablehlo.constant dense<3> : tensor<i32>
    %1 = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %1 = stablehlo.add %i, %one : tensor<i32>
    %2 = stablehlo.compare LT, %s, %y : (tensor<5xf64>, tensor<5xf64>) -> tensor<5xi1>
    %3 = stablehlo.convert %2 : (tensor<5xi1>) -> tensor<5xi32>
    %4 = stablehlo.add %n, %3 : tensor<5xi32>
    stablehlo.return %1, %4 : tensor<i32>, tensor<5xi32>
  }
  %5 = stablehlo.convert %0#1 : (tensor<5xi32>) -> tensor<5xf64>
  %6 = stablehlo.multiply %5, %s : tensor<5xf64>
  return %6 : tensor<5xf64>
})"});
  // A loop that counts down to a limit that it carries along, in a function that is called twice.
  cases.push_back({"counts_to_a_carried_limit",
                   R"(func.func @main(%x: tensor<5xf64>, %y: tensor<5xf64>) -> tensor<5xf64> {
  %limit = stablehlo.constant dense<1> : tensor<i32>
  %0 = func.call @power(%x, %limit) : (tensor<5xf64>, tensor<i32>) -> tensor<5xf64>
  %1 = func.call @power(%y, %limit) : (tensor<5xf64>, tensor<i32>) -> tensor<5xf64>
  %2 = stablehlo.multiply %0, %1 : tensor<5xf64>
  return %2 : tensor<5xf64>
}
func.func private @power(%x: tensor<5xf64>, %limit: tensor<i32>) -> tensor<5xf64> {
  %begin = stablehlo.constant dense<7> : tensor<i32>
  %0:3 = stablehlo.while(%i = %begin, %n = %limit, %a = %x) : tensor<i32>, tensor<i32>, tensor<5xf64> cond {
    %1 = stablehlo.compare NE, %n, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %two = stablehlo.constant dense<2> : tensor<i32>
    %1 = stablehlo.subtract %i, %two : tensor<i32>
    %2 = stablehlo.multiply %a, %x : tensor<5xf64>
    stablehlo.return %1, %n, %2 : tensor<i32>, tensor<i32>, tensor<5xf64>
  }
  return %0#2 : tensor<5xf64>
})"});
}

// Scatters of several operands, and with bodies that have no rule.
void add_scatters(std::vector<DerivativeCase>& cases) {
  auto add = [&](const char* name, const char* numbers, const char* body) {
    cases.push_back(
        {name,
         fmt::format(
             R"(func.func @main(%x: tensor<5x3xf64>, %y: tensor<5x3xf64>, %u: tensor<2x3xf64>, %v: tensor<2x3xf64>) -> (tensor<5x3xf64>, tensor<5x3xf64>) {{
  %i = stablehlo.constant dense<{0}> : tensor<2x1xi64>
  %s = stablehlo.sine %x : tensor<5x3xf64>
  %w = stablehlo.multiply %u, %v : tensor<2x3xf64>
  %r:2 = "stablehlo.scatter"(%s, %y, %i, %w, %v) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, {1}}}> ({{
  ^bb0(%a: tensor<f64>, %b: tensor<f64>, %c: tensor<f64>, %d: tensor<f64>):
{2}
  }}) : (tensor<5x3xf64>, tensor<5x3xf64>, tensor<2x1xi64>, tensor<2x3xf64>, tensor<2x3xf64>) -> (tensor<5x3xf64>, tensor<5x3xf64>)
  return %r#0, %r#1 : tensor<5x3xf64>, tensor<5x3xf64>
}})",
             numbers,
             std::string_view(name).ends_with("unique") ? "unique_indices = true"
                                                        : "unique_indices = false",
             body)});
  };
  add("scatter_two_sums", "[[3], [3]]", R"(    %e = stablehlo.add %a, %c : tensor<f64>
    %f = stablehlo.add %d, %b : tensor<f64>
    stablehlo.return %e, %f : tensor<f64>, tensor<f64>)");
  add("scatter_product_and_set", "[[1], [4]]", R"(    %e = stablehlo.multiply %a, %c : tensor<f64>
    stablehlo.return %e, %d : tensor<f64>, tensor<f64>)");
  add("scatter_maximum_and_sum", "[[1], [7]]", R"(    %e = stablehlo.maximum %a, %c : tensor<f64>
    %f = stablehlo.add %b, %d : tensor<f64>
    stablehlo.return %e, %f : tensor<f64>, tensor<f64>)");
  // Each result is made of all four values.
  add("scatter_mixed_unique", "[[2], [9]]", R"(    %e = stablehlo.multiply %a, %d : tensor<f64>
    %f = stablehlo.multiply %b, %c : tensor<f64>
    %g = stablehlo.add %e, %f : tensor<f64>
    %h = stablehlo.sine %f : tensor<f64>
    stablehlo.return %g, %h : tensor<f64>, tensor<f64>)");
}

// Collectives that fold by something else than a sum.
void add_folds(std::vector<DerivativeCase>& cases) {
  auto add = [&](const char* name, const char* fold, const char* result, const char* rest,
                 const char* out) {
    cases.push_back({name, fmt::format(
                               R"(sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%x: tensor<4x6xf64>) -> tensor<4x6xf64> {{
  %0 = stablehlo.sine %x : tensor<4x6xf64>
  %r = sdy.manual_computation(%0) in_shardings=[<@mesh, [{{"x"}}, {{}}]>] out_shardings=[<@mesh, [{{"x"}}, {{{4}}}]>] manual_axes={{"x", "y"}} (%a: tensor<2x6xf64>) {{
    %1 = {0} ({{
    ^bb0(%c: tensor<f64>, %d: tensor<f64>):
      {1}
      stablehlo.return %2 : tensor<f64>
    }}) : (tensor<2x6xf64>) -> tensor<{2}xf64>
{3}
    sdy.return %3 : tensor<{2}xf64>
  }} : (tensor<4x6xf64>) -> tensor<4x6xf64>
  return %r : tensor<4x6xf64>
}})",
                               fold, rest, result,
                               std::string(result) == "2x6"
                                   ? "    %3 = stablehlo.multiply %1, %a : tensor<2x6xf64>"
                                   : "    %3 = stablehlo.sine %1 : tensor<2x3xf64>",
                               out)});
  };
  const char* all =
      R"("stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}>)";
  add("all_reduce_product", all, "2x6", "%2 = stablehlo.multiply %c, %d : tensor<f64>", "");
  add("all_reduce_any_body", all, "2x6",
      "%4 = stablehlo.multiply %c, %d : tensor<f64>\n      %5 = stablehlo.add %c, %d : tensor<f64>"
      "\n      %2 = stablehlo.add %4, %5 : tensor<f64>",
      "");
  const char* scatter =
      R"("stablehlo.reduce_scatter"(%a) <{scatter_dimension = 1 : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}>)";
  add("reduce_scatter_product", scatter, "2x3", "%2 = stablehlo.multiply %c, %d : tensor<f64>",
      "\"y\"");
}

}  // namespace

void add_rare_cases(std::vector<DerivativeCase>& cases) {
  add_broadcasts(cases);
  add_shapes(cases);
  add_matrices(cases);
  add_layouts(cases);
  add_loops(cases);
  add_scatters(cases);
  add_folds(cases);
}

}  // namespace cleave
