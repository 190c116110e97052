#pragma once

#include <map>
#include <vector>

#include "cleave/transforms/activity.h"
#include "cleave/transforms/region_copy.h"
#include "cleave/transforms/scan_node.h"

namespace cleave {

// Writes a prepared region forwards, and then its derivative backwards. The backward part uses
// values of the forward part freely, since both are in one function. If it cannot (another branch,
// another iteration), the values are computed again (branches, checkpoints, manual computations) or
// kept, one for each iteration (scans).
class VjpWriter {
 public:
  VjpWriter(Graph& graph, const Activity& active) : graph_(graph), active_(active) {}

  ValueTable primal;  // by value of the region that is read

  void forward(RegionId source, RegionId target);  // all nodes but the terminator
  void backward(RegionId source, RegionId target);
  // Adds to the cotangent of a value of the region that is read; an invalid one adds nothing.
  void accumulate(ValueId source, ValueId cotangent, RegionId target);
  ValueId cotangent_or_zeros(ValueId source, RegionId target);

 private:
  // What a scan's backward part is made of, ready when its forward part is written.
  struct SavedScan {
    ScanBody body;                        // arguments: kept values, cotangents of outputs; carries
    std::vector<ValueId> kept;            // inputs along the steps, of the function being written
    std::vector<ValueId> outputs;         // of the scan that is read: those with cotangents
    std::vector<ValueId> carries;         // likewise
    std::vector<ValueId> inputs;          // operands that get cotangents along the steps
    std::vector<ValueId> carry_operands;  // operands that get the last cotangents of carries
    std::vector<ValueId> captures;        // values from outside that get sums
    bool is_reverse = false;
  };

  struct OpenScan;  // vjp_scan.cc

  void forward_node(NodeId id, RegionId target);
  void forward_scan(NodeId id, RegionId target);
  void write_both_parts(OpenScan& scan, SavedScan& saved);
  // The scan that is read, with further outputs for values to keep; gives those along the steps.
  std::vector<ValueId> write_forward_scan(const OpenScan& scan, ScanBody body,
                                          const std::vector<ValueId>& kept, bool is_reverse,
                                          RegionId target);
  void backward_node(NodeId id, RegionId target);
  void backward_by_rule(const Node& node, RegionId target);
  void backward_scan(NodeId id, RegionId target);
  void backward_branches(const Node& node, RegionId target);
  void backward_manual(const Node& node, RegionId target);
  void forward_checkpoint(NodeId id, const Node& node, RegionId target);
  void backward_checkpoint(NodeId id, const Node& node, RegionId target);
  void backward_custom(NodeId id, const Node& node, RegionId target);
  // Whether a cotangent of a result is known.
  bool has_cotangent(const Node& node) const;
  std::vector<ValueId> active_captures(const std::vector<RegionId>& regions) const;
  // Forgets the cotangents of values, and gives them back.
  std::vector<ValueId> take(const std::vector<ValueId>& values);
  void give_back(const std::vector<ValueId>& values, const std::vector<ValueId>& saved);

  Graph& graph_;
  const Activity& active_;
  ValueTable cotangent_;
  std::map<NodeId, SavedScan> scans_;
  // Of custom derivatives, and of checkpoints: what they keep.
  std::map<NodeId, std::vector<ValueId>> residuals_;
  ValueTable kept_;  // by result of a `keep` of the checkpoint that is computed again
};

}  // namespace cleave
