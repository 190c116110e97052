#include <sys/mman.h>

#include <algorithm>
#include <set>

#include "cleave/compile/lowering.h"
#include "cleave/compile/window_steps.h"
#include "cleave/core/available_memory.h"
#include "cleave/core/error.h"
#include "cleave/core/units.h"
#include "cleave/graph/op_def.h"
#include "cleave/kernels/dense.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/ops/literal_array.h"
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

class NoContext : public EvalContext {
 public:
  using EvalContext::EvalContext;
  std::vector<Array> run_region(RegionId, std::span<const Array>) override {
    throw InternalError("a region runs while code is laid out");
  }
  std::vector<Array> call(std::string_view, std::span<const Array>) override {
    throw InternalError("a function runs while code is laid out");
  }
};

StridedType packed(const Type& type) {
  return {type.dtype, type.shape, row_major_strides(type.shape)};
}

bool is_static(const Type& type) {
  return type.is_tensor() && type.has_static_shape() && has_kernels(type.dtype);
}

// Whether a region reads values from around it.
bool captures(const Graph& graph, RegionId region, std::set<uint32_t>& own) {
  for (ValueId arg : graph.region(region).args) own.insert(arg.index);
  for (NodeId id : graph.region(region).nodes) {
    const Node& node = graph.node(id);
    for (ValueId operand : node.operands)
      if (!own.count(operand.index)) return true;
    for (ValueId result : node.results) own.insert(result.index);
    for (RegionId inner : node.regions)
      if (captures(graph, inner, own)) return true;
  }
  return false;
}

bool is_branch(const Node& node) { return is<op::Case, op::If>(node); }

bool can_lower_region(const Graph& graph, RegionId region) {
  for (ValueId arg : graph.region(region).args)
    if (!is_static(graph.type(arg))) return false;
  for (NodeId id : graph.region(region).nodes) {
    const Node& node = graph.node(id);
    if (!node.def || (!node.def->eval && !node.def->has(kTerminator))) return false;
    for (ValueId value : node.results)
      if (!is_static(graph.type(value))) return false;
    if (is<op::Call>(node)) return false;  // of a recursive function
    const bool flows = is<op::While>(node) || is_branch(node);
    for (RegionId inner : node.regions) {
      std::set<uint32_t> own;
      if (flows ? !can_lower_region(graph, inner) : captures(graph, inner, own)) return false;
    }
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
  if (node.def->has(kConstantLike)) return constant(node);
  if (node.def->has(kDataFlow) && node.regions.empty()) {
    for (size_t i = 0; i < node.results.size(); ++i)
      views_[node.results[i].index] = views_[node.operands[i].index];
    return;
  }
  if (node.def->has(kViewLike)) return view(node, block);
  if (is<op::Fusion>(node)) {
    const Node* product = product_of_fusion(graph(), node);
    return product ? product_fusion(node, *product, block) : fusion(node, block);
  }
  if (is<op::DotGeneral>(node) && dot(node, block)) return;
  if (is<op::While>(node) || is_branch(node)) wait_for_all();
  if (is<op::While>(node)) return loop(id, block);
  if (is_branch(node)) return branches(node, block);
  if (is<op::Transfer>(node)) return transfer(id, block);
  if (is<op::DynamicSlice>(node)) return dynamic_slice(node, block);
  if (is<op::DynamicUpdateSlice>(node)) return update_slice(node, block);
  if (is<op::Concatenate>(node)) return concatenate(node, block);
  if (is<op::Pad>(node)) return pad(node, block);
  if (is<op::Reduce>(node) && reduce(node, block)) return;
  if (is<op::ReduceWindow>(node) && reduce_window(node, block)) return;
  if (is<op::BitcastConvert>(node) && bitcast(node, block)) return;
  if (is<op::Cholesky>(node)) return cholesky(node, block);
  if (is<op::TriangularSolve>(node)) return triangular_solve(node, block);
  if (is<op::Fft>(node) && fft(node, block)) return;
  if (is<op::RngBitGenerator>(node)) return random_bits(node, block);
  if (is<op::SelectAndScatter>(node) && select_and_scatter(node, block)) return;
  if (is<op::Sort>(node) && sort(node, block)) return;
  if (is<op::TopK>(node) && top_k(node, block)) return;
  if (is<op::Convolution>(node) && convolution(node, block)) return;
  if (windows(node, block)) return;
  kernel(node, block);
}

void Lowering::constant(const Node& node) {
  NoContext context(graph());
  views_[node.results[0].index] = constant_view(node.def->eval(context, node, {})[0]);
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

// What moves no elements is a view; what has to move them copies first.
void Lowering::view(const Node& node, CodeBlock& block) {
  NoContext context(graph());
  CodeView from = views_[node.operands[0].index];
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Array array = sketch(from);
    if (!is<op::Reshape>(node) || attempt == 1 || can_reshape(from, node)) {
      const Array result = node.def->eval(context, node, {&array, 1})[0];
      if (result.buffer() == addresses_) {
        views_[node.results[0].index] = placed(from, result);
        return;
      }
    }
    from = packed_copy(block, from);
  }
  throw_internal("{} of a packed array is no view", node.name);
}
// Without trying: a reshape that is no view would copy addresses that have no memory.
bool Lowering::can_reshape(const CodeView& from, const Node& node) {
  if (from.is_contiguous()) return true;
  if (num_elements(from.type.shape) == 0) return false;
  // Only dimensions of size one come or go.
  auto sizes = [](const Shape& shape) {
    Shape result;
    for (int64_t size : shape)
      if (size != 1) result.push_back(size);
    return result;
  };
  return sizes(from.type.shape) == sizes(graph().result_type(node).shape);
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
void Lowering::dynamic_slice(const Node& node, CodeBlock& block) {
  std::vector<CodeView> in = operands(node);
  const CodeView out = fresh(graph().result_type(node));
  auto step = std::make_unique<DynamicSliceStep>(
      in[0], std::vector<CodeView>(in.begin() + 1, in.end()), out);
  views_[node.results[0].index] = out;
  add_node_step(block, std::move(step), in, {out});
}

void Lowering::update_slice(const Node& node, CodeBlock& block) {
  std::vector<CodeView> in = operands(node);
  const CodeView out = fresh(graph().result_type(node));
  auto step = std::make_unique<UpdateSliceStep>(
      in[0], in[1], std::vector<CodeView>(in.begin() + 2, in.end()), out);
  std::vector<BufferTable::InPlace> in_place;
  if (in[0].is_contiguous() && in[0].offset == 0) in_place = {{in[0].buffer, out.buffer}};
  views_[node.results[0].index] = out;
  add_node_step(block, std::move(step), in, {out}, std::move(in_place));
}

void Lowering::concatenate(const Node& node, CodeBlock& block) {
  const CodeView out = fresh(graph().result_type(node));
  const auto dim = static_cast<size_t>(node.attrs.get_int("dimension"));
  int64_t start = 0;
  for (const CodeView& in : operands(node)) {
    CodeView part = out;
    part.type.shape[dim] = in.type.shape[dim];
    part.offset = start * out.type.strides[dim];
    start += in.type.shape[dim];
    add(block, std::make_unique<CopyStep>(in, part), {in}, {out});
  }
  views_[node.results[0].index] = out;
}

bool Lowering::windows(const Node& node, CodeBlock& block) {
  const bool gathers = is<op::Gather>(node), scatters = is<op::Scatter>(node);
  if ((!gathers && !scatters) || node.results.size() != 1) return false;
  std::vector<CodeView> in = operands(node);
  const CodeView out = fresh(graph().result_type(node));
  if (scatters) in[2] = contiguous(block, in[2]);
  std::unique_ptr<CodeStep> step =
      gathers ? make_gather_step(node, in, out) : make_scatter_step(graph(), node, in, out);
  if (!step) return false;
  std::vector<BufferTable::InPlace> in_place;
  if (scatters && in[0].is_contiguous() && in[0].offset == 0)
    in_place = {{in[0].buffer, out.buffer}};
  views_[node.results[0].index] = out;
  add_node_step(block, std::move(step), in, {out}, std::move(in_place));
  return true;
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

void Lowering::transfer(NodeId id, CodeBlock& block) {
  const Node& node = graph().node(id);
  const Transfer* plan = code_.transfers[id.index].get();
  internal_check(plan != nullptr, "a transfer without a plan");
  const CodeView in = contiguous(block, views_[node.operands[0].index]);
  if (options_.ranks) return rank_transfer(id, in, block);
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
}
// ---- control flow ----

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
