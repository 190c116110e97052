#pragma once

#include <set>
#include <vector>

#include "cleave/analyze/kernel_reads.h"
#include "cleave/analyze/storage_order.h"
#include "cleave/graph/graph.h"
#include "cleave/machine/profile.h"

namespace cleave::analyze {

// What an op is to a compiler that fuses.
enum class KernelRole : uint8_t {
  Known,    // a constant: written into the kernels that use it
  View,     // other names for the same bytes
  Inside,   // can be computed in the kernel of whatever uses it
  Reduce,   // ends a kernel; a reduction of rows may be inside
  Library,  // products and convolutions: operands and results in memory
  Own,      // a kernel or several of its own: operands and results in memory
  Mixing,   // a product of a kernel of attention
  Hidden,   // inside a kernel of attention
  End,
};

// Which values of a region are written to memory, and what kernels that compute the others read.
//
//   y = exp(x); z = y * 2 (returned)     z is written, y is not: its kernel reads x
class FusedRegion {
 public:
  FusedRegion(const Graph& graph, RegionId region, const MachineProfile& profile,
              const std::vector<bool>& is_donated);

  const Graph& graph() const { return graph_; }
  RegionId region() const { return region_; }
  const StorageOrders& orders() const { return orders_; }
  const std::vector<NodeId>& nodes() const { return nodes_; }
  const Node& node(NodeId id) const { return graph_.node(id); }
  // 0 of what is no tensor of known shape.
  double bytes(ValueId value) const { return sizes_[value.index].bytes; }
  double elements(ValueId value) const { return sizes_[value.index].elements; }
  KernelRole role(NodeId id) const { return roles_[id.index]; }
  const std::vector<NodeId>& users(ValueId value) const { return users_[value.index]; }
  bool is_written(ValueId value) const { return written_[value.index]; }
  bool is_small(ValueId value) const;  // takes no time to read
  // What the kernel of a value that is not written reads for it.
  const KernelReads& inside(ValueId value) const { return inside_[value.index]; }
  KernelReads needs(const Node& node) const;  // what a kernel that computes the node reads
  bool reduces_rows(const Node& node) const;
  int64_t reduced_elements(const Node& node) const;  // of a reduction: into one
  ValueId difference(const Node& reduction) const;   // x - reduce(x); invalid if there is none
  // The value whose bytes these are, behind views and transposes, which products read as they lie.
  ValueId behind(ValueId value) const;
  // A kernel of attention: what is between its products is computed for no memory at all.
  struct Hiding {
    NodeId product;
    double share;              // of the product that it computes
    bool is_backward = false;  // it belongs to the kernel of the derivative
    size_t kernels = 0;        // that end with it
  };
  const std::vector<Hiding>& hiding() const { return hiding_; }
  bool is_hidden(ValueId value) const { return hidden_.contains(value); }
  // Made by the kernel that updates arguments, if that is one for all of them.
  bool is_update(ValueId value) const;
  // What counts as a tensor to an op of a library (library_ops.h).
  std::vector<ValueId> tensors_in(const KernelReads& reads) const;

 private:
  KernelRole role_of(const Node& node) const;
  bool is_same_bytes(const Node& node) const;
  bool is_outer_product(const Node& node) const;
  bool is_product_with_vector(const Node& node) const;
  void hide_attention();
  void force();
  void force_reordered();
  void force_uneven_rows();
  ValueId last_alone(ValueId value) const;
  bool is_of_loss(ValueId rest) const;
  bool reduces_one_load(const Node& reduction) const;
  bool is_of_kept(const KernelReads& mine) const;
  bool is_uneven_row(const Node& node) const;
  double stride(const Node& node) const;
  void decide();
  void write(ValueId value, bool is_written, const KernelReads& reads);
  double work_bytes(const Node& node) const;
  bool is_made_again(const Node& node, const KernelReads& mine) const;
  void force_sources();
  bool takes_numbers(const Node& node, ValueId but) const;
  bool is_cheaper_written(const Node& node, const KernelReads& mine) const;
  // library_regions.cc
  void find_updates(const std::vector<bool>& is_donated);
  void force_library_ops();
  bool ends_library_op(const Node& node, const KernelReads& mine);
  ValueId narrowest(ValueId value) const;
  bool takes_more(NodeId user, ValueId value, const KernelReads& known) const;
  void count_copies(const Node& node);

  struct Size {
    double bytes = 0, elements = 0;
  };
  static std::vector<Size> sizes_of(const Graph& graph);

  const Graph& graph_;
  const std::vector<Size> sizes_;  // by value
  const ExecutorProfile& executor_;
  const double bytes_per_op_;  // moved while one op is computed
  RegionId region_;
  StorageOrders orders_;
  std::vector<NodeId> nodes_;
  std::vector<KernelRole> roles_;
  std::vector<std::vector<NodeId>> users_;  // by value, each once
  std::vector<bool> forced_, written_;      // by value
  std::vector<bool> remade_;                // by value: products make it from what is written
  bool is_changed_ = false;   // `decide` has changed what is written, or what it takes
  std::set<ValueId> kept_;    // differences from which the rest is computed again
  std::set<ValueId> hidden_;  // in kernels of attention
  std::vector<Hiding> hiding_;
  std::vector<bool> updates_;        // by node: of an optimizer, if that is one kernel
  std::vector<KernelReads> inside_;  // by value that is not written: what its kernel reads
  // By value that is not written: how often a kernel holds the code of what it is computed from,
  // because windows of it are asked for at different places; and which windows.
  struct Copies {
    double count = 1;
    double ops = 0;  // that make an element, at least
    uint64_t place = 0;
  };
  std::vector<Copies> copies_;
};

}  // namespace cleave::analyze
