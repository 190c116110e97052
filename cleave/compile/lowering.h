#pragma once

#include <map>
#include <optional>

#include "cleave/compile/buffer_table.h"
#include "cleave/compile/dot_step.h"
#include "cleave/compile/lowering_table.h"
#include "cleave/compile/rank_transfer.h"
#include "cleave/compile/steps.h"
#include "cleave/kernels/window.h"

namespace cleave {

struct RowSort;  // cleave/compile/sort_step.h

// Turns the graph of one device into steps: each node becomes a view of what is there, or a step
// that writes a new buffer. One use.
class Lowering {
 public:
  Lowering(Instance instance, const LowerOptions& options);
  DeviceCode run();

  static LoweringTable make_table();

 private:
  Graph& graph() { return code_.graph; }
  CodeView fresh(const Type& type, CodeBuffer::Kind kind = CodeBuffer::Kind::Arena);
  void argument(const Function& function, size_t i, ValueId value);
  void result(size_t i, const CodeView& view);

  CodeStep* add(CodeBlock& block, std::unique_ptr<CodeStep> step,
                const std::vector<CodeView>& reads, const std::vector<CodeView>& writes,
                std::vector<BufferTable::InPlace> in_place = {});
  // The step of the node that is lowered, whose results are `writes`.
  void add_node_step(CodeBlock& block, std::unique_ptr<CodeStep> step,
                     const std::vector<CodeView>& reads, const std::vector<CodeView>& writes,
                     std::vector<BufferTable::InPlace> in_place = {});
  CodeView copy(CodeBlock& block, const CodeView& from, CodeView to);
  // A copy without gaps; row-major, or with the given strides.
  CodeView packed_copy(CodeBlock& block, const CodeView& from, const Shape& strides = {});
  CodeView contiguous(CodeBlock& block, const CodeView& view);

  // An array of the view's layout without memory, on which kernels' view functions are called; the
  // result becomes a view again.
  Array sketch(const CodeView& view) const;
  static CodeView placed(const CodeView& base, const Array& sketch);
  CodeView constant_view(const Array& array);
  // The view in another dtype; it is packed first if it has gaps.
  CodeView as_dtype(CodeBlock& block, const CodeView& view, DType dtype);
  // The steps since `first` make the results of the node.
  void finish_node(const Node& node, CodeBlock& block, size_t first,
                   const std::vector<CodeView>& results);

  // Lowers the nodes of a region and gives what its terminator returns.
  std::vector<CodeView> region(RegionId id, CodeBlock& block);
  std::vector<CodeView> operands(const Node& node) const;
  void lower_node(NodeId id, CodeBlock& block);

  // Rows of the table return whether they wrote the node.
  bool any_fusion(const Node& node, CodeBlock& block);
  bool transfer(const Node& node, CodeBlock& block);
  void fusion(const Node& node, CodeBlock& block, const CodeView* product = nullptr);
  void kernel(const Node& node, CodeBlock& block);

  // lower_views.cc
  static void add_views(LoweringTable& table);
  bool constant(const Node& node, CodeBlock& block);
  bool view(const Node& node, CodeBlock& block);
  bool can_reshape(const CodeView& from, const Node& node);
  bool bitcast(const Node& node, CodeBlock& block);
  bool dynamic_slice(const Node& node, CodeBlock& block);
  bool update_slice(const Node& node, CodeBlock& block);
  bool concatenate(const Node& node, CodeBlock& block);
  bool gather(const Node& node, CodeBlock& block);
  bool scatter(const Node& node, CodeBlock& block);

  // lower_dot.cc
  static void add_products(LoweringTable& table);
  bool dot(const Node& node, CodeBlock& block);
  // A fusion around a product or a convolution.
  void product_fusion(const Node& fusion, const Node& product, CodeBlock& block);
  bool dot_fusion(const Node& fusion, const Node& dot, CodeBlock& block);
  // The product in a fresh buffer; nothing if only the kernel takes it.
  std::optional<CodeView> product(const Node& node, CodeBlock& block);
  std::optional<std::vector<DotEpilogue>> epilogue(const Node& fusion, const Node& dot,
                                                   CodeBlock& block);
  CodeView converted(CodeBlock& block, const CodeView& view, DType dtype);
  Shape wanted_strides(const Node& node);

  // lower_convolution.cc
  bool convolution(const Node& node, CodeBlock& block);
  std::optional<CodeView> convolved(const Node& node, CodeBlock& block);
  bool convolution_fusion(const Node& fusion, const Node& convolution, CodeBlock& block);
  // The convolution of operands that have the dtype in which it is computed, into `out`. False:
  // what follows it is left to do.
  bool convolve(const Node& node, std::vector<CodeView> in, const CodeView& out,
                const std::vector<DotEpilogue>& epilogue, CodeBlock& block);
  void convolve_by_windows(const CodeView& input, const CodeView& kernel, const CodeView& out,
                           const Window& window, CodeBlock& block);

  // lower_windows.cc
  static void add_windows(LoweringTable& table);
  bool pad(const Node& node, CodeBlock& block);
  bool reduce(const Node& node, CodeBlock& block);
  bool reduce_by_region(const Node& node, CodeBlock& block);
  bool reduce_window(const Node& node, CodeBlock& block);
  bool select_and_scatter(const Node& node, CodeBlock& block);
  CodeView padded(CodeBlock& block, const CodeView& view, const Window& window,
                  const CodeView& fill);
  CodeView folded(CodeBlock& block, const CodeView& view, const std::vector<int64_t>& dims,
                  Reducer reducer, const CodeView& init);
  CodeView window_folded(CodeBlock& block, const CodeView& view, const Window& window,
                         Reducer reducer, const CodeView& init);

  // lower_sort.cc
  static void add_sorts(LoweringTable& table);
  bool sort(const Node& node, CodeBlock& block);
  bool top_k(const Node& node, CodeBlock& block);
  void add_sort(CodeBlock& block, RowSort sort, const std::vector<CodeView>& reads,
                const std::vector<CodeView>& writes);

  // lower_linalg.cc
  static void add_linalg(LoweringTable& table);
  CodeView work_memory(size_t bytes);  // of one step
  bool cholesky(const Node& node, CodeBlock& block);
  bool triangular_solve(const Node& node, CodeBlock& block);
  bool fft(const Node& node, CodeBlock& block);
  bool random_bits(const Node& node, CodeBlock& block);

  // lower_flow.cc
  static void add_flow(LoweringTable& table);
  bool barrier(const Node& node, CodeBlock& block);
  bool loop(const Node& node, CodeBlock& block);
  void carry(WhileStep& step, const std::vector<CodeView>& carried,
             const std::vector<CodeView>& results, int64_t begin);
  bool branches(const Node& node, CodeBlock& block);

  // lower_ranks.cc
  void rank_transfer(NodeId id, const CodeView& in, CodeBlock& block);
  void wait_for(uint32_t buffer);  // before it is read
  void wait_for_all();
  struct PendingWait {
    CodeBlock* block;
    NodeId node;
    std::shared_ptr<RankTransfer> transfer;
    CodeView in, staging, out;
  };

  const LowerOptions options_;
  std::string entry_;
  DeviceCode code_;
  Buffer addresses_;
  std::optional<UseMap> uses_;
  std::vector<CodeView> views_;  // by value
  BufferTable table_;
  std::map<std::pair<CodeBlock*, std::vector<int64_t>>, CodeView> copies_;
  std::vector<PendingWait> waits_;  // transfers that are under way at this point
  NodeId current_;
};

}  // namespace cleave
