#include "cleave/ops/check.h"

#include "cleave/kernels/array_text.h"
#include "cleave/kernels/difference.h"
#include "cleave/ops/diff_util.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/families.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/literal_array.h"

namespace cleave {
namespace {

std::string index_text(const Shape& index) {
  return ints_text(std::vector<int64_t>(index.begin(), index.end()));
}

std::vector<Array> report(std::string_view what, const std::optional<Difference>& difference,
                          std::string_view measure = {}) {
  if (difference)
    throw CheckError(fmt::format("{}: element {} is {}, expected {}{}", what,
                                 index_text(difference->index), difference->actual,
                                 difference->expected, measure));
  return {};
}

std::vector<Array> expect_eq(std::string_view what, const Array& a, const Array& b) {
  return report(what, first_unequal(a, b));
}

std::vector<Array> expect_near(std::string_view what, const Array& a, const Array& b,
                               double tolerance) {
  return report(what, first_not_near(a, b, tolerance), fmt::format(" (tolerance {})", tolerance));
}

std::vector<Array> expect_close(std::string_view what, const Array& a, const Array& b, uint64_t min,
                                uint64_t max) {
  const std::optional<Difference> difference = first_not_close(a, b, min, max);
  return report(what, difference,
                difference ? fmt::format(" ({} units in the last place apart, {} to {} allowed)",
                                         difference->ulps, min, max)
                           : "");
}

double tolerance_of(const Node& node) {
  return node.attrs.has("tolerance") ? node.attrs.get_float("tolerance") : 1e-4;
}

std::vector<Array> eval_eq(EvalContext&, const Node& node, std::span<const Array> args) {
  return expect_eq(node.name(), args[0], args[1]);
}
std::vector<Array> eval_eq_const(EvalContext&, const Node& node, std::span<const Array> args) {
  return expect_eq(node.name(), args[0], array_of(node.attrs.get_literal("value")));
}
std::vector<Array> eval_near(EvalContext&, const Node& node, std::span<const Array> args) {
  return expect_near(node.name(), args[0], args[1], tolerance_of(node));
}
std::vector<Array> eval_near_const(EvalContext&, const Node& node, std::span<const Array> args) {
  return expect_near(node.name(), args[0], array_of(node.attrs.get_literal("value")),
                     tolerance_of(node));
}
std::vector<Array> eval_close(EvalContext&, const Node& node, std::span<const Array> args) {
  return expect_close(node.name(), args[0], args[1],
                      static_cast<uint64_t>(node.attrs.get_int("min_ulp_difference", 0)),
                      static_cast<uint64_t>(node.attrs.get_int("max_ulp_difference", 1)));
}
std::vector<Array> eval_serialized(EvalContext& context, const Node& node,
                                   std::span<const Array> args) {
  const Array kept = context.probed(node.attrs.get_string("probe_id"),
                                    node.attrs.get_int("iteration", node.attrs.get_int("iter", 0)));
  return expect_eq(node.name(), kept, args[0]);
}

template <size_t kOperands>
std::vector<Type> infer_check(const Graph& graph, const Node& node) {
  require_operands(node, kOperands);
  if (kOperands == 2)
    require(compatible(graph.operand_type(node, 0), graph.operand_type(node, 1)), node,
            "the operands {} differ in type", operand_types_text(graph, node));
  return {};
}

std::vector<Type> infer_check_const(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  const Type& constant = node.attrs.get_literal("value").type;
  require(compatible(graph.operand_type(node, 0), constant), node,
          "the operand is {} and the constant {}", operand_types_text(graph, node),
          to_string(constant));
  return {};
}

std::vector<Array> eval_print(EvalContext& context, const Node& node, std::span<const Array> args) {
  const std::string& hint = context.graph().value(node.operands[0]).name;
  context.print(fmt::format("%{} = {}\n", hint, to_text(args[0])));
  return {};
}

std::vector<Array> eval_probe(EvalContext& context, const Node& node, std::span<const Array> args) {
  context.probe(node.attrs.get_string("probe_id"), args[0]);
  return {args[0]};
}

// programs = [[@f, @g], [@h, @k]]: a row per replica, a column per partition. Operands and results
// are those of all devices, one after the other.
std::vector<Array> eval_run_parallel(EvalContext& context, const Node& node,
                                     std::span<const Array> args) {
  const Attribute* attribute = node.attrs.find("programs");
  const auto* rows = attribute ? attribute->as<ArrayAttr>() : nullptr;
  require(rows && !rows->elements.empty(), node, "'programs' is no array of arrays of functions");
  std::vector<const Function*> programs;
  for (const Attribute& row : rows->elements) {
    const auto* columns = row.as<ArrayAttr>();
    require(columns && !columns->elements.empty(), node, "a row of 'programs' is empty");
    for (const Attribute& column : columns->elements) {
      const auto* symbol = column.as<SymbolRefAttr>();
      require(symbol, node, "'programs' names something that is no function");
      programs.push_back(context.graph().find_function(symbol->root));
      require(programs.back(), node, "there is no function @{}", symbol->root);
    }
  }
  const DeviceGrid grid{static_cast<int64_t>(rows->elements.size()),
                        static_cast<int64_t>(programs.size() / rows->elements.size())};
  require(grid.num_devices() == static_cast<int64_t>(programs.size()), node,
          "the rows of 'programs' differ in length");
  std::vector<std::string> infeed;
  if (const Attribute* feeds = node.attrs.find("infeed"))
    if (const auto* list = feeds->as<ArrayAttr>())
      for (const Attribute& feed : list->elements)
        if (const auto* symbol = feed.as<SymbolRefAttr>()) infeed.push_back(symbol->root);

  std::vector<size_t> first_arg;
  size_t next = 0;
  for (const Function* program : programs) {
    first_arg.push_back(next);
    next += program->arg_types.size();
  }
  require(next == args.size(), node, "the programs take {} arguments, {} are given", next,
          args.size());
  std::vector<std::vector<Array>> results(programs.size());
  context.run_parallel(grid, std::move(infeed), [&](EvalContext& device) {
    const auto i = static_cast<size_t>(device.device());
    results[i] =
        device.call(programs[i]->name, args.subspan(first_arg[i], programs[i]->arg_types.size()));
  });
  std::vector<Array> all;
  for (auto& part : results) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

bool is_check_call(std::string_view target) {
  return target == "check.expect_eq" || target == "check.expect_close" ||
         target == "check.expect_almost_eq";
}

std::vector<Array> eval_check_call(std::string_view target, std::span<const Array> args) {
  if (args.size() != 2) throw_user("{}: takes two operands, {} are given", target, args.size());
  if (target == "check.expect_eq") return expect_eq(target, args[0], args[1]);
  if (target == "check.expect_close") return expect_close(target, args[0], args[1], 0, 3);
  return expect_near(target, args[0], args[1], 1e-3);
}

namespace {

void register_check_ops(OpRegistry& registry) {
  registry.add({.name = "check.expect_eq", .infer = infer_check<2>, .eval = eval_eq});
  registry.add(
      {.name = "check.expect_eq_const", .infer = infer_check_const, .eval = eval_eq_const});
  registry.add({.name = "check.expect_almost_eq", .infer = infer_check<2>, .eval = eval_near});
  registry.add({.name = "check.expect_almost_eq_const",
                .infer = infer_check_const,
                .eval = eval_near_const});
  registry.add({.name = "check.expect_close", .infer = infer_check<2>, .eval = eval_close});
  registry.add(
      {.name = "check.expect_serialized_eq", .infer = infer_check<1>, .eval = eval_serialized});
  registry.add({.name = "interpreter.print", .infer = infer_check<1>, .eval = eval_print});
  registry.add({.name = "interpreter.probe", .infer = infer_identity, .eval = eval_probe});
  registry.add(
      {.name = "interpreter.run_parallel", .infer = infer_declared, .eval = eval_run_parallel});
}

void exempt_checks(OpRegistry& registry) {
  set_no_derivative(registry, "test",
                    {"check.expect_almost_eq", "check.expect_almost_eq_const", "check.expect_close",
                     "check.expect_eq", "check.expect_eq_const", "check.expect_serialized_eq",
                     "interpreter.print", "interpreter.probe", "interpreter.run_parallel"});
}

}  // namespace

const OpFamily kCheckFamily{.define = register_check_ops, .extend = exempt_checks};

}  // namespace cleave
