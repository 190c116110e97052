#include <set>

#include "cleave/core/error.h"
#include "cleave/discover/certify.h"
#include "cleave/discover/op_call.h"
#include "cleave/graph/builder.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/text/text.h"
#include "cleave/ops/op.h"
#include "cleave/runtime/interpreter.h"

namespace cleave {
namespace {

// Each function of the text becomes a module of its own with a function "main".
void add_text_samples(std::vector<Graph>& samples, std::string_view text) {
  constexpr std::string_view kBegin = "func.func @";
  for (size_t begin = text.find(kBegin); begin != std::string_view::npos;) {
    const size_t end = text.find(kBegin, begin + 1);
    samples.push_back(parse_module(text.substr(begin, end - begin), "registry samples"));
    samples.back().functions[0].name = "main";
    begin = end;
  }
}

// A call without attributes, if the op takes these operands.
bool add_plain_sample(std::vector<Graph>& samples, const OpDef& def,
                      const std::vector<Type>& operands) {
  Graph graph;
  try {
    GraphBuilder b = GraphBuilder::function(graph, "main", operands);
    const std::vector<ValueId> args = graph.region(b.region()).args;
    b.finish({b.emit(def.name, args)});
    std::vector<Array> zeros;
    for (const Type& type : operands) zeros.push_back(Array::zeros(type.dtype, type.shape));
    run_function(graph, "main", zeros);  // some need attributes
  } catch (const UserError&) {
    return false;
  }
  samples.push_back(std::move(graph));
  return true;
}

// Elementwise ops and those that broadcast, by trying operand counts and dtypes until one infers.
void add_plain_samples(std::vector<Graph>& samples, const OpDef& def) {
  // The imaginary part of a real number is zero, which says nothing.
  const DType first = &def == &def_of<op::Imag>() ? DType::C128 : DType::F64;
  for (DType dtype : {first, DType::I64, DType::Bool}) {
    const Type matrix = Type::tensor(dtype, {5, 3}), row = Type::tensor(dtype, {3});
    if (!def.has(kElementwise)) {
      if (add_plain_sample(samples, def, {matrix, row})) return;
      continue;
    }
    for (size_t count = 1; count <= 3; ++count)
      if (add_plain_sample(samples, def, std::vector<Type>(count, matrix))) return;
  }
}

std::set<std::string> covered_ops(const std::vector<Graph>& samples) {
  std::set<std::string> covered;
  for (const Graph& sample : samples) covered.insert(sample.node(called_op(sample)).name());
  return covered;
}

}  // namespace

const std::vector<Graph>& registry_samples() {
  static const std::vector<Graph> samples = [] {
    std::vector<Graph> all;
    for (const auto& [name, def] : op_registry().ops())
      if (def.samples) add_text_samples(all, def.samples);
    for (const auto& [name, def] : op_registry().ops())
      if (def.eval && def.rule && def.infer &&
          (def.has(kElementwise) || (def.has(kPure) && !def.samples)))
        add_plain_samples(all, def);
    return all;
  }();
  return samples;
}

std::optional<std::string> reason_without_sample(std::string_view name) {
  static const std::set<std::string> covered = covered_ops(registry_samples());
  const OpDef* def = find_op(name);
  if (!def || covered.contains(std::string(name))) return std::nullopt;
  if (def->has(kTerminator)) return "it ends a region";
  if (def->has(kCollective)) return "it talks to other devices itself; its operands are local";
  if (def->has(kDataFlow) || def->has(kCall))
    return "values flow through it into regions or functions, whose ops have their own rules";
  if (def->has(kConstantLike)) return "it has no operands";
  if (name.starts_with("check.") || name.starts_with("interpreter."))
    return "it is for tests and debugging and has no result";
  if (name.starts_with("sdy.")) return "it states or changes a layout and computes nothing";
  if (def->why_no_sample) return def->why_no_sample;
  if (!def->rule) return "it has no sharding rule";
  if (!def->eval) return "it has no kernel";
  return "no sample is written for it";
}

std::vector<std::pair<std::string, std::string>> ops_without_sample() {
  std::vector<std::pair<std::string, std::string>> rest;
  for (const auto& [name, def] : op_registry().ops())
    if (auto reason = reason_without_sample(name)) rest.emplace_back(name, *reason);
  return rest;
}

}  // namespace cleave
