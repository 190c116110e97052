#include <sys/mman.h>

#include <algorithm>

#include "cleave/compile/lowering.h"
#include "cleave/core/available_memory.h"
#include "cleave/core/error.h"
#include "cleave/core/units.h"
#include "cleave/graph/op_def.h"
#include "cleave/kernels/dense.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/ops/op.h"

namespace cleave {
namespace {

// Addresses without memory: views are made of them while code is laid out.
Buffer address_space(size_t bytes) {
  bytes = std::max<size_t>(bytes, 4096);
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    throw_user("a tensor of {} does not fit: {} of memory are available",
               bytes_text(bytes, BytesStyle::Estimate),
               bytes_text(available_memory(), BytesStyle::Estimate));
  return Buffer(static_cast<std::byte*>(at), [bytes](std::byte* p) { munmap(p, bytes); });
}

StridedType packed(const Type& type) {
  return {type.dtype, type.shape, row_major_strides(type.shape)};
}

bool is_static(const Type& type) {
  return type.is_tensor() && type.has_static_shape() && has_kernels(type.dtype);
}

bool can_lower_region(const Graph& graph, RegionId region);

// The regions of loops and branches become steps; all others are scalar code for the kernels, which
// see no values from around them.
bool can_lower_regions(const Graph& graph, const Node& node) {
  switch (flow_of(node)) {
    case Flow::Loop:
    case Flow::Branches:
      return std::all_of(node.regions.begin(), node.regions.end(),
                         [&](RegionId region) { return can_lower_region(graph, region); });
    default:
      return captured_values(graph, node.regions).empty();
  }
}

bool can_lower_region(const Graph& graph, RegionId region) {
  for (ValueId arg : graph.region(region).args)
    if (!is_static(graph.type(arg))) return false;
  for (NodeId id : graph.region(region).nodes) {
    const Node& node = graph.node(id);
    if (!node.def->eval && !node.def->has(kTerminator)) return false;
    for (ValueId value : node.results)
      if (!is_static(graph.type(value))) return false;
    if (is<op::Call>(node)) return false;  // of a recursive function
    if (!can_lower_regions(graph, node)) return false;
  }
  return true;
}

std::vector<int64_t> from_key(const CodeView& view) {
  std::vector<int64_t> key = {view.buffer, view.offset};
  key.insert(key.end(), view.type.shape.begin(), view.type.shape.end());
  key.push_back(-1);
  key.insert(key.end(), view.type.strides.begin(), view.type.strides.end());
  return key;
}
// Packing it block by block would read every cache line many times.
bool is_crossed(const CodeView& view) {
  if (num_elements(view.type.shape) < 1024) return false;
  for (size_t d = view.type.shape.size(); d-- > 0;)
    if (view.type.shape[d] != 1) return std::abs(view.type.strides[d]) > 1;
  return false;
}

}  // namespace

Lowering::Lowering(Instance instance, const LowerOptions& options)
    : options_(options), views_(instance.graph.num_values()) {
  code_.graph = std::move(instance.graph);
  code_.transfers = std::move(instance.transfers);
  code_.origin = std::move(instance.origin);
  code_.transfers.resize(code_.graph.num_nodes());
  code_.origin.resize(code_.graph.num_nodes());
  size_t largest = 0;
  for (uint32_t v = 0; v < graph().num_values(); ++v)
    if (is_static(graph().type({v})))
      largest = std::max(largest, static_cast<size_t>(graph().type({v}).byte_count()));
  addresses_ = address_space(largest * 2);
  uses_.emplace(code_.graph);
  entry_ = instance.entry;
}

DeviceCode Lowering::run() {
  const Function& function = *graph().find_function(entry_);
  const Region& body = graph().region(function.body);
  for (size_t i = 0; i < body.args.size(); ++i) argument(function, i, body.args[i]);
  const std::vector<CodeView> returned = region(function.body, code_.main);
  for (size_t i = 0; i < returned.size(); ++i) result(i, returned[i]);
  table_.next_position();
  for (const CodeResult& result : code_.results)
    if (result.kind != CodeResult::Kind::Argument) table_.touch(result.buffer);
  table_.share_memory();
  table_.donate(code_);
  table_.plan(code_);
  code_.schedule = std::make_shared<const Schedule>(graph());
  return std::move(code_);
}

CodeView Lowering::fresh(const Type& type, CodeBuffer::Kind kind) {
  CodeBuffer buffer;
  buffer.kind = kind;
  buffer.bytes = static_cast<size_t>(type.byte_count());
  return {table_.add(std::move(buffer)), 0, packed(type)};
}
void Lowering::argument(const Function& function, size_t i, ValueId value) {
  CodeBuffer b;
  b.kind = CodeBuffer::Kind::Argument;
  b.argument = i;
  b.bytes = static_cast<size_t>(graph().type(value).byte_count());
  if (i < function.arg_attrs.size()) {
    b.donated = function.arg_attrs[i].has("tf.aliasing_output") ||
                function.arg_attrs[i].get_bool("jax.buffer_donor", false);
    b.aliased = function.arg_attrs[i].get_int("tf.aliasing_output", -1);
  }
  code_.stats.argument_bytes += b.bytes;
  b.begin = 0;
  views_[value.index] = {table_.add(std::move(b)), 0, packed(graph().type(value))};
  table_.touch(views_[value.index].buffer);
  code_.arguments.push_back(graph().type(value));
}

// ---- steps ----

CodeStep* Lowering::add(CodeBlock& block, std::unique_ptr<CodeStep> step,
                        const std::vector<CodeView>& reads, const std::vector<CodeView>& writes,
                        std::vector<BufferTable::InPlace> in_place) {
  if (!waits_.empty())
    for (const CodeView& view : reads) wait_for(view.buffer);
  table_.add_step(step.get(), reads, writes, std::move(in_place));
  step->node = current_;
  block.steps.push_back(std::move(step));
  ++code_.stats.steps;
  return block.steps.back().get();
}

void Lowering::add_node_step(CodeBlock& block, std::unique_ptr<CodeStep> step,
                             const std::vector<CodeView>& reads,
                             const std::vector<CodeView>& writes,
                             std::vector<BufferTable::InPlace> in_place) {
  add(block, std::move(step), reads, writes, std::move(in_place))->results = writes;
}

CodeView Lowering::copy(CodeBlock& block, const CodeView& from, CodeView to) {
  std::vector<BufferTable::InPlace> in_place;
  if (from.is_contiguous() && to.is_contiguous() && from.offset == 0)
    in_place.push_back({from.buffer, to.buffer});
  add(block, std::make_unique<CopyStep>(from, to), {from}, {to}, std::move(in_place));
  ++code_.stats.copies;
  return to;
}
CodeView Lowering::packed_copy(CodeBlock& block, const CodeView& from, const Shape& strides) {
  CodeView to = fresh(Type::tensor(from.type.dtype, from.type.shape));
  if (!strides.empty()) to.type.strides = strides;
  std::vector<int64_t> key = from_key(from);
  key.insert(key.end(), to.type.strides.begin(), to.type.strides.end());
  const auto [it, made] = copies_.try_emplace(std::pair(&block, std::move(key)), to);
  if (made) copy(block, from, to);
  return it->second;
}
CodeView Lowering::contiguous(CodeBlock& block, const CodeView& view) {
  return view.is_contiguous() ? view : packed_copy(block, view);
}

std::vector<CodeView> Lowering::region(RegionId id, CodeBlock& block) {
  const std::vector<NodeId> nodes = graph().region(id).nodes;
  for (NodeId node : nodes) {
    const Node& n = graph().node(node);
    if (n.def->has(kTerminator)) {
      wait_for_all();
      current_ = {};
      return operands(n);
    }
    current_ = node;
    lower_node(node, block);
  }
  return {};
}

std::vector<CodeView> Lowering::operands(const Node& node) const {
  std::vector<CodeView> result;
  for (ValueId operand : node.operands) result.push_back(views_[operand.index]);
  return result;
}

void Lowering::lower_node(NodeId id, CodeBlock& block) {
  const Node& node = graph().node(id);
  const LoweringTable::Row row = lowering_table().find(node.def);
  if (!row || !(this->*row)(node, block)) kernel(node, block);
}

CodeView Lowering::constant_view(const Array& array) {
  CodeBuffer b;
  b.kind = CodeBuffer::Kind::Constant;
  b.constant = array;
  b.bytes = array.num_bytes();
  int64_t stored = 1;
  for (size_t d = 0; d < array.rank(); ++d)
    if (array.strides()[d] != 0) stored *= array.shape()[d];
  code_.stats.constant_bytes += static_cast<size_t>(stored * byte_size(array.dtype()));
  return {table_.add(std::move(b)), 0, {array.dtype(), array.shape(), array.strides()}};
}

Array Lowering::sketch(const CodeView& view) const {
  return Array(view.type.dtype, view.type.shape, view.type.strides, 0, addresses_);
}

CodeView Lowering::placed(const CodeView& base, const Array& sketch) {
  const int64_t moved = (sketch.raw() - sketch.buffer().get()) / byte_size(sketch.dtype());
  return {base.buffer, base.offset + moved, {sketch.dtype(), sketch.shape(), sketch.strides()}};
}

CodeView Lowering::as_dtype(CodeBlock& block, const CodeView& view, DType dtype) {
  if (view.type.dtype == dtype) return view;
  const CodeBuffer& known = table_.whole(view.buffer);
  if (known.kind == CodeBuffer::Kind::Constant && known.constant.rank() == 0 &&
      view.type.shape.empty())
    return constant_view(convert(known.constant, dtype));
  const bool dense = is_dense(view.type.shape, view.type.strides);
  return converted(block, dense ? view : packed_copy(block, view), dtype);
}

void Lowering::finish_node(const Node& node, CodeBlock& block, size_t first,
                           const std::vector<CodeView>& results) {
  for (size_t i = 0; i < results.size(); ++i) views_[node.results[i].index] = results[i];
  if (block.steps.size() > first) block.steps.back()->results = results;
}

bool Lowering::any_fusion(const Node& node, CodeBlock& block) {
  if (const Node* product = product_of_fusion(graph(), node))
    product_fusion(node, *product, block);
  else
    fusion(node, block);
  return true;
}

void Lowering::fusion(const Node& node, CodeBlock& block, const CodeView* product) {
  std::vector<CodeView> in = operands(node);
  if (product) in.push_back(*product);
  std::vector<StridedType> types;
  for (CodeView& operand : in) {
    if (is_crossed(operand)) operand = packed_copy(block, operand);
    types.push_back(operand.type);
  }
  FusedLoop loop(graph(), node, types);
  std::vector<CodeView> out;
  for (ValueId result : node.results) {
    out.push_back(fresh(graph().type(result)));
    views_[result.index] = out.back();
  }
  std::vector<BufferTable::InPlace> in_place;
  for (const FusedLoop::Pair& pair : loop.in_place())
    if (in[pair.operand].offset == 0)
      in_place.push_back({in[pair.operand].buffer, out[pair.result].buffer});
  code_.scratch_bytes = std::max(code_.scratch_bytes, loop.scratch_bytes(options_.threads));
  ++code_.stats.fusions;
  code_.stats.fused_ops += graph().region(node.regions[0]).nodes.size() - 1;
  add_node_step(block, std::make_unique<FusedStep>(std::move(loop), in, out), in, out,
                std::move(in_place));
}
void Lowering::kernel(const Node& node, CodeBlock& block) {
  std::vector<CodeView> in = operands(node), out;
  std::vector<uint32_t> buffers;
  for (ValueId result : node.results) {
    out.push_back(fresh(graph().type(result), CodeBuffer::Kind::Held));
    buffers.push_back(out.back().buffer);
    views_[result.index] = out.back();
  }
  const bool alone = node.def->has(kPure) && !node.def->has(kCollective);
  if (node.def->has(kCollective) || !node.def->has(kPure)) code_.needs_threads = true;
  ++code_.stats.fallbacks;
  add_node_step(block, std::make_unique<KernelStep>(in, buffers, alone), in, out);
}

bool Lowering::transfer(const Node& node, CodeBlock& block) {
  const NodeId id = graph().value(node.results[0]).producer;
  const Transfer* plan = code_.transfers[id.index].get();
  internal_check(plan != nullptr, "a transfer without a plan");
  const CodeView in = contiguous(block, views_[node.operands[0].index]);
  if (options_.ranks) {
    rank_transfer(id, in, block);
    return true;
  }
  // Of a large group, n copies of what is gathered would be n^2 parts.
  constexpr size_t kManyMembers = 16;
  const bool gathers = plan->is_all_gather && plan->group.size() >= kManyMembers;
  const bool shared = plan->group.size() > 1 && (plan->is_all_reduce || gathers);
  const CodeView out =
      fresh(graph().result_type(node), shared ? CodeBuffer::Kind::Held : CodeBuffer::Kind::Arena);
  auto step = std::make_unique<TransferStep>(*plan, in, out);
  step->is_shared = shared;
  step->state = code_.num_states++;
  ++code_.stats.transfers;
  views_[node.results[0].index] = out;
  add_node_step(block, std::move(step), {in}, {out});
  return true;
}

// ---- results and memory ----

void Lowering::result(size_t i, const CodeView& view) {
  constexpr size_t kFewBytes = 4096;  // are copied out sooner than kept in an array of their own
  CodeResult result;
  result.type = Type::tensor(view.type.dtype, view.type.shape);
  const CodeBuffer& b = table_.whole(view.buffer);
  const bool whole =
      view.is_contiguous() && view.offset == 0 && static_cast<int64_t>(b.bytes) == view.num_bytes();
  result.buffer = view.buffer;
  if (whole && b.kind == CodeBuffer::Kind::Argument && !b.donated) {
    result.kind = CodeResult::Kind::Argument;
    result.argument = b.argument;
  } else if (whole && b.kind == CodeBuffer::Kind::Held && b.bytes > kFewBytes &&
             view.buffer == table_.root(view.buffer)) {
    result.kind = CodeResult::Kind::Held;
  } else {
    if (!whole || b.kind != CodeBuffer::Kind::Arena || b.output >= 0 ||
        table_.is_pinned(view.buffer))
      result.buffer = copy(code_.main, view, fresh(result.type)).buffer;
    table_.whole(result.buffer).output = static_cast<int64_t>(i);
  }
  code_.stats.result_bytes += static_cast<size_t>(result.type.byte_count());
  code_.results.push_back(std::move(result));
}

bool can_lower(const Graph& graph, std::string_view entry) {
  const Function* function = graph.find_function(entry);
  return function && function->body.valid() && can_lower_region(graph, function->body);
}

DeviceCode lower(Instance instance, const LowerOptions& options) {
  return Lowering(std::move(instance), options).run();
}

}  // namespace cleave
