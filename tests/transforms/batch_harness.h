#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cleave/graph/builder.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"
#include "cleave/kernels/shape.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/interpreter.h"
#include "cleave/transforms/vmap.h"

namespace cleave {

using Dims = std::vector<VmapOptions::Dim>;

// Functions to batch: those of the files, and one for each elementwise op.
struct BatchSample {
  std::string name;
  Graph graph;
  std::string function;
};

inline Graph parse_test_file(const std::string& name) {
  std::ifstream file(std::string(CLEAVE_TEST_DIR) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return parse_module(text.str(), name);
}

inline std::vector<BatchSample> file_samples(const std::string& file) {
  const Graph graph = parse_test_file(file);
  std::vector<BatchSample> samples;
  for (const Function& function : graph.functions)
    if (function.visibility != "private") samples.push_back({function.name, graph, function.name});
  return samples;
}

// An op by trying dtypes and numbers of operands until one infers and runs.
inline bool add_op_sample(std::vector<BatchSample>& samples, const OpDef& def) {
  for (DType dtype : {DType::F32, DType::I32, DType::Bool, DType::C64})
    for (size_t count = 1; count <= 3; ++count) {
      Graph graph;
      try {
        GraphBuilder b = GraphBuilder::function(
            graph, "main", std::vector<Type>(count, Type::tensor(dtype, {5, 2})));
        b.finish({b.emit(def.name, graph.region(b.region()).args)});
        run_function(graph, "main", std::vector<Array>(count, Array::zeros(dtype, {5, 2})));
      } catch (const UserError&) {
        continue;
      }
      samples.push_back({def.name, std::move(graph), "main"});
      return true;
    }
  return false;
}

inline std::vector<BatchSample> op_samples() {
  std::vector<BatchSample> samples;
  for (const auto& [name, def] : op_registry().ops())
    if (def.eval && (def.has(kElementwise) ||
                     (name.starts_with("chlo.broadcast_") && name != "chlo.broadcast_select")))
      add_op_sample(samples, def);
  return samples;
}

inline const std::vector<BatchSample>& batch_samples() {
  static const std::vector<BatchSample> all = [] {
    std::vector<BatchSample> samples = op_samples();
    for (const char* file :
         {"batch_shapes.mlir", "batch_indices.mlir", "batch_control.mlir", "batch_sharded.mlir"})
      for (BatchSample& sample : file_samples(file)) samples.push_back(std::move(sample));
    return samples;
  }();
  return all;
}

// The ops in a function and in those that it calls.
inline std::set<std::string> ops_of(const Graph& graph, const std::string& function) {
  std::set<std::string> ops;
  graph.walk(graph.find_function(function)->body, [&](NodeId id) {
    const Node& node = graph.node(id);
    if (!node.def->opaque && !node.def->has(kTerminator)) ops.insert(node.name());
  });
  return ops;
}

inline Array example(const Array& batch, int64_t dim, int64_t i) {
  Shape start(batch.rank(), 0), size = batch.shape();
  start[dim] = i;
  size[dim] = 1;
  Shape shape = batch.shape();
  shape.erase(shape.begin() + dim);
  return batch.slice(start, size).copy().reshape(shape);
}

inline Array stack(const std::vector<Array>& examples, int64_t dim) {
  std::vector<Array> parts;
  for (const Array& array : examples) {
    Shape shape = array.shape();
    shape.insert(shape.begin() + dim, 1);
    parts.push_back(array.contiguous().reshape(shape));
  }
  return concatenate(parts, dim);
}

inline int64_t from_front(const VmapOptions::Dim& dim, size_t rank) {
  return *dim < 0 ? *dim + static_cast<int64_t>(rank) + 1 : *dim;
}

inline std::vector<Array> batched_arguments(const Function& function, const Dims& in, int64_t size,
                                            uint64_t seed) {
  std::vector<Array> args;
  for (size_t i = 0; i < in.size(); ++i) {
    Type type = function.arg_types[i];
    if (in[i]) type.shape.insert(type.shape.begin() + from_front(in[i], type.rank()), size);
    args.push_back(make_array(type, "random:" + std::to_string(seed + i)));
  }
  return args;
}

// f on each example, the results stacked.
inline std::vector<Array> run_loop(const Graph& graph, const std::string& name,
                                   const std::vector<Array>& args, const VmapOptions& options) {
  const Function& function = *graph.find_function(name);
  std::vector<std::vector<Array>> by_result(function.result_types.size());
  for (int64_t e = 0; e < options.size; ++e) {
    std::vector<Array> one;
    for (size_t i = 0; i < args.size(); ++i)
      one.push_back(options.in_dims[i]
                        ? example(args[i], from_front(options.in_dims[i], args[i].rank() - 1), e)
                        : args[i]);
    const std::vector<Array> results = run_function(graph, name, one);
    for (size_t r = 0; r < results.size(); ++r) by_result[r].push_back(results[r]);
  }
  std::vector<Array> stacked;
  for (size_t r = 0; r < by_result.size(); ++r)
    stacked.push_back(options.out_dims[r] ? stack(by_result[r], from_front(options.out_dims[r],
                                                                           by_result[r][0].rank()))
                                          : by_result[r][0]);
  return stacked;
}

// Integers are equal; sums of floats may be taken in another order.
constexpr double kRoundings = 64;

inline void expect_like_loop(const Graph& source, const std::string& name,
                             const VmapOptions& options, const std::string& what,
                             uint64_t seed = 1) {
  Graph graph = source;
  const std::string batched = vmap(graph, name, options);
  ASSERT_NO_THROW(verify_graph(graph)) << what;
  const std::vector<Array> args =
      batched_arguments(*source.find_function(name), options.in_dims, options.size, seed);
  const std::vector<Array> actual = run_function(graph, batched, args);
  const std::vector<Array> expected = run_loop(source, name, args, options);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t r = 0; r < actual.size(); ++r) {
    ASSERT_EQ(actual[r].shape(), expected[r].shape()) << what << ", result " << r;
    const Comparison difference = compare(actual[r], expected[r], kRoundings);
    EXPECT_TRUE(difference.same) << what << ", result " << r << ": " << difference.first << "\n"
                                 << print_module(graph);
  }
}

}  // namespace cleave
