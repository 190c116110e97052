#include <gtest/gtest.h>

#include "cleave/compile/executable.h"
#include "cleave/graph/text/text.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/fill.h"

// Scatters that several threads share: each target is written by one of them, in the order of the
// indices, so that the bits do not depend on how many there are.
namespace cleave {
namespace {

std::string text_of(const std::string& body, const std::string& dtype) {
  std::string text = R"(
func.func @main(%t: tensor<37x16xD>, %i: tensor<6000x1xi32>, %u: tensor<6000x16xD>) -> tensor<37x16xD> {
  %0 = "stablehlo.scatter"(%t, %i, %u) ({
    ^bb0(%a: tensor<D>, %b: tensor<D>):
      %s = stablehlo.BODY %a, %b : tensor<D>
      stablehlo.return %s : tensor<D>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>} : (tensor<37x16xD>, tensor<6000x1xi32>, tensor<6000x16xD>) -> tensor<37x16xD>
  return %0 : tensor<37x16xD>
})";
  text.replace(text.find("BODY"), 4, body);
  for (size_t at = 0; (at = text.find('D', at)) != std::string::npos; ++at)
    text.replace(at, 1, dtype);
  return text;
}

TEST(LargeScatter, the_same_bits_on_any_number_of_threads) {
  for (const char* body : {"add", "multiply", "maximum", "minimum"})
    for (const char* dtype : {"f32", "bf16"}) {
      SCOPED_TRACE(std::string(body) + " " + dtype);
      const Graph graph = parse_module(text_of(body, dtype), "test");
      const std::vector<Type>& types = graph.find_function("main")->arg_types;
      std::vector<Array> args{make_array(types[0], "random:1"),
                              make_array(types[1], "zeros").copy(),
                              make_array(types[2], "random:3")};
      // Most indices come many times, and some lie outside.
      for (int64_t i = 0; i < 6000; ++i)
        args[1].data<int32_t>()[i] = static_cast<int32_t>((i * i * 31 + i) % 41 - 2);
      const Array expected = run_function(graph, "main", args)[0];
      for (int threads : {1, 2, 3, 8}) {
        Executable executable(graph, "main", {.threads = threads});
        EXPECT_EQ(executable.stats().fallbacks, 0u);
        EXPECT_TRUE(identical(executable.run(args)[0], expected)) << threads;
      }
    }
}

}  // namespace
}  // namespace cleave
