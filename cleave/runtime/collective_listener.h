#pragma once

#include <vector>

#include "cleave/core/mesh.h"
#include "cleave/graph/graph.h"
#include "cleave/runtime/comm_log.h"
#include "cleave/runtime/interpreter.h"

namespace cleave {

// Whether a program calls collectives of its own, as manual computations do.
bool calls_collectives(const Graph& graph);

// Hears the collectives that a program calls itself, on the first device that it is told of, and
// writes them down as CommLog does changes of layout:
//   all_reduce      "model"     x1      192 B  for the program
class CollectiveListener : public Observer {
 public:
  explicit CollectiveListener(const Mesh& mesh) : mesh_(mesh) {}

  void executed(const Graph& graph, const Node& node, int64_t device,
                std::span<const Array> results, double begin, double end) override;
  const std::vector<CommEvent>& events() const { return events_; }

 private:
  const Mesh& mesh_;
  int64_t device_ = -1;
  std::vector<CommEvent> events_;
};

}  // namespace cleave
