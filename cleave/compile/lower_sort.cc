#include <algorithm>

#include "cleave/compile/lowering.h"
#include "cleave/compile/sort_step.h"
#include "cleave/ops/sort/comparator.h"

// Sorts by comparators that are recognised, and the greatest elements.
namespace cleave {
namespace {

std::optional<RowKey> row_key(const ComparatorKey& key, const CodeView& operand) {
  RowKey result{.operand = key.operand, .dtype = operand.type.dtype, .order = key.order};
  if (key.part != ComparatorKey::Part::Whole) {
    result.dtype = operand.type.dtype == DType::C128 ? DType::F64 : DType::F32;
    result.offset = key.part == ComparatorKey::Part::Imag;
    result.stride = 2;
  }
  if (is_complex(result.dtype)) return std::nullopt;
  if (is_float(result.dtype) && !key.total_order) {
    result.order.merge_zeros = true;
    result.places_nan = false;
  }
  return result;
}

}  // namespace

void Lowering::add_sorts(LoweringTable& table) {
  table.set<op::Sort>(&Lowering::sort);
  table.set<op::TopK>(&Lowering::top_k);
}

bool Lowering::sort(const Node& node, CodeBlock& block) {
  const std::vector<CodeView> in = operands(node);
  const auto rank = static_cast<int64_t>(in[0].type.shape.size());
  if (rank == 0 || num_elements(in[0].type.shape) == 0) {
    finish_node(node, block, block.steps.size(), in);
    return true;
  }
  const auto comparator = recognise_comparator(graph(), node.regions[0]);
  if (!comparator || comparator->size() > 16) return false;
  RowSort sort;
  for (const ComparatorKey& each : *comparator) {
    const bool whole = each.part == ComparatorKey::Part::Whole;
    if (!whole && !is_complex(in[each.operand].type.dtype)) return false;
    const auto key = row_key(each, in[each.operand]);
    if (!key) return false;
    sort.keys.push_back(*key);
  }
  int64_t dim = node.attrs.get_int("dimension", -1);
  if (dim < 0) dim += rank;
  Shape to_rows, back(static_cast<size_t>(rank));
  for (int64_t d = 0; d < rank; ++d)
    if (d != dim) to_rows.push_back(d);
  to_rows.push_back(dim);
  for (int64_t d = 0; d < rank; ++d) back[to_rows[d]] = d;
  const size_t first = block.steps.size();
  for (const CodeView& view : in) {
    sort.operands.push_back(contiguous(block, placed(view, sketch(view).transpose(to_rows))));
    const CodeView& rows = sort.operands.back();
    sort.node_operands.push_back(placed(rows, sketch(rows).transpose(back)));
    const CodeView out = fresh(Type::tensor(rows.type.dtype, rows.type.shape));
    sort.results.push_back(out);
    sort.node_results.push_back(placed(out, sketch(out).transpose(back)));
  }
  sort.length = sort.count = in[0].type.shape[dim];
  sort.rows = num_elements(in[0].type.shape) / sort.length;
  const std::vector<CodeView> reads = sort.operands, writes = sort.results,
                              results = sort.node_results;
  add_sort(block, std::move(sort), reads, writes);
  finish_node(node, block, first, results);
  return true;
}

bool Lowering::top_k(const Node& node, CodeBlock& block) {
  const CodeView in = contiguous(block, views_[node.operands[0].index]);
  if (is_complex(in.type.dtype) || num_elements(in.type.shape) == 0) return false;
  const size_t first = block.steps.size();
  RowSort sort;
  sort.operands = sort.node_operands = {in};
  sort.results = sort.node_results = {fresh(graph().type(node.results[0])),
                                      fresh(graph().type(node.results[1]))};
  sort.indices = sort.results.back();
  sort.results.pop_back();
  sort.has_indices = true;
  sort.keys.push_back({.dtype = in.type.dtype, .order = {.descending = true}});
  sort.length = in.type.shape.back();
  sort.count = graph().type(node.results[0]).shape.back();
  sort.rows = num_elements(in.type.shape) / sort.length;
  const std::vector<CodeView> results = sort.node_results;
  add_sort(block, std::move(sort), {in}, results);
  finish_node(node, block, first, results);
  return true;
}

void Lowering::add_sort(CodeBlock& block, RowSort sort, const std::vector<CodeView>& reads,
                        const std::vector<CodeView>& writes) {
  auto step = std::make_unique<SortStep>(std::move(sort), options_.threads);
  code_.scratch_bytes = std::max(code_.scratch_bytes, step->scratch_bytes());
  add(block, std::move(step), reads, writes);
}

}  // namespace cleave
