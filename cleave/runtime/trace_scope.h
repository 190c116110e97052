#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/runtime/tensor.h"

namespace cleave {

// A function that was traced: "main" takes the placeholders in the order of their making, then the
// captures: tensors from outside that it uses.
struct Traced {
  Graph graph;
  std::vector<Tensor> captures;

  const Function& function() const { return graph.functions[0]; }
};

// Tracing is recording with arguments that have no value yet.
//
//   TraceScope scope;
//   Tensor x = scope.placeholder(Type::tensor(DType::F32, {8, 4}));
//   Traced traced = scope.finish({matmul(x, w)});   // main(x, w), captures {w}
//
// Whatever depends on this scope's placeholders becomes a node; everything else that is reachable
// is a capture, but for small constants, which are written out. Layouts that a program asked for
// stand as sdy.sharding_constraint; arguments that have a layout carry it as sdy.sharding. Scopes
// nest: tensors of an outer trace are captures of the inner one.
class TraceScope {
 public:
  enum class Takes : uint8_t {
    Dependent,   // what depends on placeholders
    Everything,  // all that is recorded while it is open: the branches of a condition
  };
  explicit TraceScope(Takes takes = Takes::Dependent);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

  Tensor placeholder(Type type, std::optional<ShardingSpec> spec = std::nullopt,
                     std::string name = {});
  // Like a tensor: its type, and its layout if it has one.
  Tensor placeholder_like(const Tensor& tensor, std::string name = {});

  Traced finish(std::span<const Tensor> outputs);
  Traced finish(std::initializer_list<Tensor> outputs) {
    return finish(std::span<const Tensor>(outputs.begin(), outputs.size()));
  }

 private:
  uint64_t level_;
  uint64_t outer_level_;
  std::vector<Tensor> placeholders_;
  std::vector<std::string> names_;
};

// Records the ops of a function again on other tensors: one per argument. Calls and composites are
// written out; ops with regions take what their bodies use from outside along.
std::vector<Tensor> replay(const Graph& graph, const Function& function,
                           std::span<const Tensor> args);

}  // namespace cleave
