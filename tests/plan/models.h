#pragma once

#include <fmt/format.h>

#include <string>

#include "cleave/graph/text/text.h"

// Small modules to plan for, as text.
namespace cleave::plan::test {

inline std::string tensor(int64_t a, int64_t b, const char* dtype = "f32") {
  return fmt::format("tensor<{}x{}x{}>", a, b, dtype);
}

// A matmul of two tensors given by name and sizes; `ta`, `tb`: the first dimension is contracted.
inline std::string matmul(const std::string& out, const std::string& a, std::string type_a,
                          const std::string& b, std::string type_b, const std::string& type_out,
                          int contract_a, int contract_b) {
  return fmt::format(
      "    %{} = stablehlo.dot_general %{}, %{}, contracting_dims = [{}] x [{}] : ({}, {}) -> {}\n",
      out, a, b, contract_a, contract_b, type_a, type_b, type_out);
}

// y = tanh(x w1) w2
inline std::string mlp(int64_t batch, int64_t in, int64_t hidden, int64_t out) {
  const std::string x = tensor(batch, in), w1 = tensor(in, hidden), w2 = tensor(hidden, out);
  const std::string h = tensor(batch, hidden), y = tensor(batch, out);
  return fmt::format("func.func @main(%x: {}, %w1: {}, %w2: {}) -> {} {{\n", x, w1, w2, y) +
         matmul("0", "x", x, "w1", w1, h, 1, 0) + "    %1 = stablehlo.tanh %0 : " + h + "\n" +
         matmul("2", "1", h, "w2", w2, y, 1, 0) + "    return %2 : " + y + "\n}\n";
}

// One step of gradient descent on |tanh(x w1) w2 - t|^2; the weights are donated.
inline std::string mlp_step(int64_t batch, int64_t in, int64_t hidden, int64_t out) {
  const std::string x = tensor(batch, in), w1 = tensor(in, hidden), w2 = tensor(hidden, out);
  const std::string h = tensor(batch, hidden), y = tensor(batch, out);
  std::string t = fmt::format(
      "func.func @main(%w1: {} {{tf.aliasing_output = 0 : i32}}, %w2: {} {{tf.aliasing_output = 1 "
      ": i32}}, %x: {}, %t: {}) -> ({}, {}) {{\n",
      w1, w2, x, y, w1, w2);
  t += matmul("z", "x", x, "w1", w1, h, 1, 0);
  t += fmt::format("    %h = stablehlo.tanh %z : {}\n", h);
  t += matmul("y", "h", h, "w2", w2, y, 1, 0);
  t += fmt::format("    %dy = stablehlo.subtract %y, %t : {}\n", y);
  t += matmul("dw2", "h", h, "dy", y, w2, 0, 0);
  t += matmul("dh", "dy", y, "w2", w2, h, 1, 1);
  t += fmt::format("    %hh = stablehlo.multiply %h, %h : {}\n", h);
  t += fmt::format("    %one = stablehlo.constant dense<1.0> : {}\n", h);
  t += fmt::format("    %slope = stablehlo.subtract %one, %hh : {}\n", h);
  t += fmt::format("    %dz = stablehlo.multiply %dh, %slope : {}\n", h);
  t += matmul("dw1", "x", x, "dz", h, w1, 0, 0);
  t += fmt::format("    %n1 = stablehlo.subtract %w1, %dw1 : {}\n", w1);
  t += fmt::format("    %n2 = stablehlo.subtract %w2, %dw2 : {}\n", w2);
  t += fmt::format("    return %n1, %n2 : {}, {}\n}}\n", w1, w2);
  return t;
}

// x -> tanh(x w) `layers` times, each with weights of its own.
inline std::string deep(int layers, int64_t batch, int64_t width) {
  const std::string x = tensor(batch, width), w = tensor(width, width);
  std::string text = fmt::format("func.func @main(%x: {}", x);
  for (int i = 0; i < layers; ++i) text += fmt::format(", %a{}: {}, %b{}: {}", i, w, i, w);
  text += fmt::format(") -> {} {{\n", x);
  std::string now = "x";
  for (int i = 0; i < layers; ++i) {
    text += matmul(fmt::format("p{}", i), now, x, fmt::format("a{}", i), w, x, 1, 0);
    text += fmt::format("    %h{} = stablehlo.tanh %p{} : {}\n", i, i, x);
    text +=
        matmul(fmt::format("q{}", i), fmt::format("h{}", i), x, fmt::format("b{}", i), w, x, 1, 0);
    text += fmt::format("    %y{} = stablehlo.add %{}, %q{} : {}\n", i, now, i, x);
    now = fmt::format("y{}", i);
  }
  return text + fmt::format("    return %{} : {}\n}}\n", now, x);
}

// (h w1) * transpose(h + 1) + transpose(h * 2), h = x w0: a value that several users want.
inline std::string diamond(int64_t n) {
  const std::string t = tensor(n, n);
  std::string text = fmt::format("func.func @main(%x: {0}, %w0: {0}, %w1: {0}) -> {0} {{\n", t);
  text += matmul("h", "x", t, "w0", t, t, 1, 0);
  text += matmul("a", "h", t, "w1", t, t, 1, 0);
  text += fmt::format("    %one = stablehlo.constant dense<1.0> : {}\n", t);
  text += fmt::format("    %two = stablehlo.constant dense<2.0> : {}\n", t);
  text += fmt::format("    %b = stablehlo.add %h, %one : {}\n", t);
  text += fmt::format("    %c = stablehlo.multiply %h, %two : {}\n", t);
  text += fmt::format("    %bt = stablehlo.transpose %b, dims = [1, 0] : ({0}) -> {0}\n", t);
  text += fmt::format("    %p = stablehlo.multiply %a, %bt : {}\n", t);
  text += matmul("r", "p", t, "c", t, t, 1, 1);
  return text + fmt::format("    return %r : {}\n}}\n", t);
}

// x -> tanh(x w), `trips` times in a loop.
inline std::string loop(int trips, int64_t batch, int64_t width) {
  const std::string x = tensor(batch, width), w = tensor(width, width);
  std::string text = fmt::format("func.func @main(%x: {}, %w: {}) -> {} {{\n", x, w, x);
  text += "    %c0 = stablehlo.constant dense<0> : tensor<i32>\n";
  text += fmt::format(
      "    %r:3 = stablehlo.while(%i = %c0, %v = %x, %u = %w) : tensor<i32>, {}, {}\n", x, w);
  text += fmt::format(
      "     cond {{\n      %n = stablehlo.constant dense<{}> : tensor<i32>\n"
      "      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
      "      stablehlo.return %p : tensor<i1>\n    }} do {{\n",
      trips);
  text += matmul("m", "v", x, "u", w, x, 1, 0);
  text += fmt::format("      %t = stablehlo.tanh %m : {}\n", x);
  text += "      %c1 = stablehlo.constant dense<1> : tensor<i32>\n";
  text += "      %j = stablehlo.add %i, %c1 : tensor<i32>\n";
  text += fmt::format("      stablehlo.return %j, %t, %u : tensor<i32>, {}, {}\n    }}\n", x, w);
  return text + fmt::format("    return %r#1 : {}\n}}\n", x);
}

}  // namespace cleave::plan::test
