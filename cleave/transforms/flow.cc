#include "cleave/transforms/flow.h"

#include <limits>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/runtime/record.h"
#include "cleave/transforms/scan_node.h"

namespace cleave::flow_detail {
namespace {

// A function "main" whose arguments are the tensors, in order; its writer records it.
class Form {
 public:
  std::vector<ValueId> add(std::span<const Tensor> tensors) {
    std::vector<ValueId> values;
    for (const Tensor& tensor : tensors) {
      if (!tensor.valid()) throw_user("control flow is given an empty Tensor");
      values.push_back(graph_.add_argument(b_.region(), tensor.type()));
      graph_.functions[0].arg_types.push_back(tensor.type());
      graph_.functions[0].arg_attrs.emplace_back();
      operands_.push_back(tensor);
    }
    return values;
  }
  // The body of a trace at the end of a region; gives what it returns.
  std::vector<ValueId> write(const Trace& trace, RegionId region, std::vector<ValueId> args,
                             const std::vector<ValueId>& captures) {
    args.insert(args.end(), captures.begin(), captures.end());
    return splice(trace.graph, trace.graph.functions[0], graph_, region, args);
  }
  std::vector<Tensor> record(const std::vector<ValueId>& results) {
    b_.finish(results);
    return record_function(std::move(graph_), operands_);
  }
  std::vector<Tensor> record_node(NodeId node) {
    graph_.append(b_.region(), node);
    return record(std::vector<ValueId>(graph_.node(node).results));
  }
  Graph& graph() { return graph_; }
  GraphBuilder& builder() { return b_; }

 private:
  Graph graph_;
  GraphBuilder b_ = GraphBuilder::function(graph_, "main", {});
  std::vector<Tensor> operands_;
};

const std::vector<Type>& result_types(const Trace& trace) {
  return trace.graph.functions[0].result_types;
}
std::string text_of(const std::vector<Type>& types) {
  std::string text;
  for (const Type& type : types) text += (text.empty() ? "" : ", ") + to_string(type);
  return "(" + text + ")";
}
std::vector<Type> types_of(std::span<const Tensor> tensors) {
  std::vector<Type> types;
  for (const Tensor& tensor : tensors) types.push_back(tensor.type());
  return types;
}

}  // namespace

std::vector<Tensor> record_stop(std::span<const Tensor> leaves) {
  std::vector<Tensor> results;
  for (const Tensor& leaf : leaves) results.push_back(stopped(leaf));
  return results;
}

std::vector<Tensor> record_named(std::string_view name, const Trace& trace,
                                 std::span<const Tensor> leaves, std::string rules) {
  if (!rules.empty() && !trace.captures.empty())
    throw_user("custom_vjp: the function uses a tensor of {} that it is not given; pass it",
               to_string(trace.captures[0].type()));
  Form form;
  std::vector<ValueId> operands = form.add(leaves);
  for (ValueId value : form.add(trace.captures)) operands.push_back(value);
  AttrDict attrs;
  attrs.set("name", string_attr(std::string(name)));
  if (!rules.empty()) attrs.set(kCustomVjpRules, string_attr(std::move(rules)));
  Graph& graph = form.graph();
  const NodeId node = graph.add_node("sdy.named_computation", operands, result_types(trace), attrs);
  const RegionId region = graph.add_region(node);
  std::vector<ValueId> args;
  for (ValueId operand : operands) {
    const Type type = graph.type(operand);
    args.push_back(graph.add_argument(region, type));
  }
  end_region(graph, region, "sdy.return", form.write(trace, region, args, {}));
  return form.record_node(node);
}

std::vector<Tensor> record_cond(const Tensor& condition, const Trace& yes, const Trace& no,
                                std::span<const Tensor> leaves) {
  if (!condition.valid() || !(condition.type() == Type::tensor(DType::Bool, {})))
    throw_user("cond: the condition must be one boolean, tensor<i1>");
  if (result_types(yes) != result_types(no))
    throw_user("cond: one branch returns {} and the other {}", text_of(result_types(yes)),
               text_of(result_types(no)));
  Form form;
  const std::vector<ValueId> decided = form.add({&condition, 1});
  const std::vector<ValueId> args = form.add(leaves);
  const std::vector<ValueId> first = form.add(yes.captures), second = form.add(no.captures);
  Graph& graph = form.graph();
  const NodeId node = graph.add_node("stablehlo.if", decided, result_types(yes));
  for (const Trace* branch : {&yes, &no}) {
    const RegionId region = graph.add_region(node);
    end_region(graph, region, "stablehlo.return",
               form.write(*branch, region, args, branch == &yes ? first : second));
  }
  return form.record_node(node);
}

std::vector<Tensor> record_while(const Trace& condition, const Trace& body,
                                 std::span<const Tensor> carry) {
  const std::vector<Type> types = types_of(carry);
  if (result_types(condition) != std::vector{Type::tensor(DType::Bool, {})})
    throw_user("while_loop: the condition returns {}, not one boolean, tensor<i1>",
               text_of(result_types(condition)));
  if (result_types(body) != types)
    throw_user("while_loop: the body takes {} and returns {}; they must be the same",
               text_of(types), text_of(result_types(body)));
  Form form;
  const std::vector<ValueId> operands = form.add(carry);
  const std::vector<ValueId> first = form.add(condition.captures);
  const std::vector<ValueId> second = form.add(body.captures);
  Graph& graph = form.graph();
  const NodeId node = graph.add_node("stablehlo.while", operands, types);
  for (const Trace* part : {&condition, &body}) {
    const RegionId region = graph.add_region(node);
    std::vector<ValueId> args;
    for (const Type& type : types) args.push_back(graph.add_argument(region, type));
    end_region(graph, region, "stablehlo.return",
               form.write(*part, region, args, part == &condition ? first : second));
  }
  return form.record_node(node);
}

std::vector<Tensor> record_scan(const Trace& body, std::span<const Tensor> carry,
                                std::span<const Tensor> inputs, bool reverse) {
  const std::vector<Type> carried = types_of(carry);
  const std::vector<Type>& made = result_types(body);
  if (made.size() < carried.size() || !std::equal(carried.begin(), carried.end(), made.begin()))
    throw_user("scan: the body carries {} and returns {}; the carry must come first and stay",
               text_of(carried), text_of(made));
  if (inputs.empty()) throw_user("scan: there is nothing to scan over; give xs, such as iota");
  for (const Tensor& input : inputs)
    if (input.shape()[0] != inputs[0].shape()[0])
      throw_user("scan: inputs have {} and {} elements along dimension 0", inputs[0].shape()[0],
                 input.shape()[0]);
  Form form;
  const std::vector<ValueId> xs = form.add(inputs), init = form.add(carry);
  const std::vector<ValueId> captures = form.add(body.captures);
  Graph& graph = form.graph();
  const RegionId scratch = graph.add_region();
  std::vector<ValueId> slices, carries;
  for (const Tensor& input : inputs) {
    Type type = input.type();
    type.shape.erase(type.shape.begin());
    slices.push_back(graph.add_argument(scratch, type));
  }
  for (const Type& type : carried) carries.push_back(graph.add_argument(scratch, type));
  std::vector<ValueId> args = carries;
  args.insert(args.end(), slices.begin(), slices.end());
  const std::vector<ValueId> returned = form.write(body, scratch, args, captures);
  ScanBody parts;
  parts.args = graph.region(scratch).args;
  parts.nodes = graph.region(scratch).nodes;
  const auto middle = returned.begin() + static_cast<ptrdiff_t>(carried.size());
  parts.carries.assign(returned.begin(), middle);
  parts.outputs.assign(middle, returned.end());
  const size_t outputs = parts.outputs.size();
  const std::vector<ValueId> values =
      write_scan(form.builder(), xs, init, std::move(parts), reverse);
  const std::vector<Tensor> all = form.record(values);
  std::vector<Tensor> results(all.begin() + static_cast<ptrdiff_t>(outputs), all.end());
  results.insert(results.end(), all.begin(), all.begin() + static_cast<ptrdiff_t>(outputs));
  return results;
}

std::string rules_text(const Trace& fwd, const Trace& bwd) {
  for (const Trace* trace : {&fwd, &bwd})
    if (!trace->captures.empty())
      throw_user(
          "custom_vjp: the {} function uses a tensor of {} that it is not given; pass it as an "
          "argument or a residual",
          trace == &fwd ? "forward" : "backward", to_string(trace->captures[0].type()));
  Graph rules;
  auto add = [&](const Trace& trace, const char* name) {
    GraphBuilder b = GraphBuilder::function(rules, name, trace.graph.functions[0].arg_types);
    const std::vector<ValueId> args = rules.region(b.region()).args;
    b.finish(splice(trace.graph, trace.graph.functions[0], rules, b.region(), args));
  };
  add(fwd, "fwd");
  add(bwd, "bwd");
  return print_module(rules);
}

void check_rules(const Trace& f, const Trace& fwd, const Trace& bwd) {
  const std::vector<Type>& values = f.graph.functions[0].result_types;
  const std::vector<Type>& forward = fwd.graph.functions[0].result_types;
  for (size_t i = 0; i < values.size(); ++i)
    if (i >= forward.size() || forward[i] != values[i])
      throw_user(
          "custom_vjp: the function returns {}, and the forward function {}; it must return what "
          "the function does, and the residuals behind it",
          to_string(values[i]), i < forward.size() ? to_string(forward[i]) : "nothing there");
  size_t needed = 0;
  for (size_t i = 0; i < f.num_args(); ++i)
    if (const DType dtype = f.graph.functions[0].arg_types[i].dtype;
        is_float(dtype) || is_complex(dtype))
      ++needed;
  const size_t given = bwd.graph.functions[0].result_types.size();
  if (given != needed)
    throw_user(
        "custom_vjp: the backward function gives {} cotangents, and the arguments hold {} tensors "
        "of floats; it must give one for each",
        given, needed);
}

void check_trips(int64_t begin, int64_t end) {
  constexpr int64_t kLeast = std::numeric_limits<int32_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (begin < kLeast || end > kMost)
    throw_user("fori_loop: from {} to {}; the index is i32, which holds {} to {}", begin, end,
               kLeast, kMost);
}

Tensor slice_like(const Tensor& x) {
  if (x.rank() == 0) throw_user("scan: a single number has no dimension 0 to scan over");
  return zeros(Shape(x.shape().begin() + 1, x.shape().end()), x.dtype());
}

}  // namespace cleave::flow_detail
