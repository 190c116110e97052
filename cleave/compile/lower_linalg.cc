#include <cstring>

#include "cleave/compile/lowering.h"
#include "cleave/ops/linalg/linalg_attr.h"
#include "cleave/ops/random/random_attr.h"

// Ops whose kernels work on packed arrays in memory that is given to them.
namespace cleave {
namespace {

int64_t num_matrices(const Shape& shape) {
  const int64_t each = shape[shape.size() - 2] * shape.back();
  return each == 0 ? 0 : num_elements(shape) / each;
}

DType lapack_type(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16 ? DType::F32 : dtype;
}

}  // namespace

void Lowering::add_linalg(LoweringTable& table) {
  table.set<op::Cholesky>(&Lowering::cholesky);
  table.set<op::TriangularSolve>(&Lowering::triangular_solve);
  table.set<op::Fft>(&Lowering::fft);
  table.set<op::RngBitGenerator>(&Lowering::random_bits);
}

CodeView Lowering::work_memory(size_t bytes) {
  return fresh(Type::tensor(DType::U8, {static_cast<int64_t>(bytes)}));
}

bool Lowering::cholesky(const Node& node, CodeBlock& block) {
  const size_t first = block.steps.size();
  const Type& type = graph().result_type(node);
  const DType dtype = lapack_type(type.dtype);
  const CodeView in = contiguous(block, as_dtype(block, views_[node.operands[0].index], dtype));
  const CodeView out = fresh(Type::tensor(dtype, type.shape));
  const int64_t size = type.shape.back();
  const CodeView work = work_memory(static_cast<size_t>(size * size * byte_size(dtype)));
  const bool lower = node.attrs.get_bool("lower", false);
  auto call = [=](const Frame& frame) {
    cleave::cholesky(dtype, num_matrices(in.type.shape), size, lower, frame.data(in),
                     frame.data(out), frame.data(work));
  };
  add(block, std::make_unique<CallStep>(call), {in}, {out, work});
  finish_node(node, block, first, {as_dtype(block, out, type.dtype)});
  return true;
}

bool Lowering::triangular_solve(const Node& node, CodeBlock& block) {
  const size_t first = block.steps.size();
  const Type& type = graph().result_type(node);
  const DType dtype = lapack_type(type.dtype);
  const CodeView a = contiguous(block, as_dtype(block, views_[node.operands[0].index], dtype));
  const CodeView b = contiguous(block, as_dtype(block, views_[node.operands[1].index], dtype));
  const CodeView x = fresh(Type::tensor(dtype, type.shape));
  const TriangularSolve how = triangular_solve_of(node);
  auto call = [=](const Frame& frame) {
    const Shape& shape = b.type.shape;
    std::byte* const to = frame.data(x);
    if (frame.data(b) != to) std::memcpy(to, frame.data(b), static_cast<size_t>(b.num_bytes()));
    cleave::triangular_solve(dtype, num_matrices(shape), shape[shape.size() - 2], shape.back(), how,
                             frame.data(a), to);
  };
  std::vector<BufferTable::InPlace> in_place;
  if (b.offset == 0) in_place.push_back({b.buffer, x.buffer});
  add(block, std::make_unique<CallStep>(call), {a, b}, {x}, std::move(in_place));
  finish_node(node, block, first, {as_dtype(block, x, type.dtype)});
  return true;
}

bool Lowering::random_bits(const Node& node, CodeBlock& block) {
  const size_t first = block.steps.size();
  const CodeView state = contiguous(block, views_[node.operands[0].index]);
  const CodeView next = fresh(graph().type(node.results[0])),
                 bits = fresh(graph().type(node.results[1]));
  const auto generator =
      std::make_shared<BitGenerator>(random_algorithm(node), state.num_bytes(), bits.type.dtype,
                                     random_box(node, bits.type.shape));
  auto call = [=](const Frame& frame) {
    generator->run(frame.data(state), frame.data(next), frame.data(bits));
  };
  add(block, std::make_unique<CallStep>(call), {state}, {next, bits});
  finish_node(node, block, first, {next, bits});
  return true;
}

bool Lowering::fft(const Node& node, CodeBlock& block) {
  const size_t first = block.steps.size();
  const CodeView in = contiguous(block, views_[node.operands[0].index]);
  const CodeView out = fresh(graph().result_type(node));
  if (num_elements(in.type.shape) == 0 || num_elements(out.type.shape) == 0) return false;
  const auto transform = std::make_shared<FourierTransform>(
      in.type.dtype, in.type.shape, fft_kind(node), node.attrs.get_ints("fft_length"));
  const CodeView work = work_memory(transform->work_bytes());
  auto call = [=](const Frame& frame) {
    transform->run(frame.data(in), frame.data(out), frame.data(work));
  };
  add(block, std::make_unique<CallStep>(call), {in}, {out, work});
  finish_node(node, block, first, {out});
  return true;
}

}  // namespace cleave
