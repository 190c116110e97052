#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/record.h"
#include "cleave/transforms/resize.h"
#include "cleave/transforms/trace.h"

// Which sizes a trace holds on to. For sizes n + 1 and 3 n (odd and even ones, and one that all
// that n divides by divides too), the trace is resized and the function is traced: the two graphs
// are one, or the function depends on the size in a way that the trace does not show.
namespace cleave::trace_detail {
namespace {

enum class Answer : uint8_t { Same, Other, Unknown };
struct Finding {
  Answer answer = Answer::Unknown;
  std::string why;
};

// Without the marks that say where counts come from.
std::string plain_text(Graph graph) {
  graph.walk([&](NodeId id) {
    graph.node(id).attrs.erase(kSizes);
    graph.node(id).attrs.erase(kSizesLess);
  });
  return print_module(graph);
}

bool next_line(std::string_view& text, std::string_view& line) {
  if (text.empty()) return false;
  const size_t end = std::min(text.find('\n'), text.size() - 1);
  line = text.substr(0, end);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  text.remove_prefix(end + 1);
  return true;
}
// The first lines that differ; empty if none do.
std::pair<std::string, std::string> first_difference(std::string_view a, std::string_view b) {
  if (a == b) return {};
  for (std::string_view x, y;;) {
    const bool more = next_line(a, x), other = next_line(b, y);
    if (!more || !other || x != y)
      return {more ? std::string(x) : "nothing more", other ? std::string(y) : "nothing more"};
  }
}

// Tensors that the function makes anew each time have one value; others are one.
bool same_capture(const Tensor& a, const Tensor& b) {
  if (a.is_same(b)) return true;
  if (a.type() != b.type()) return false;
  if (!a.is_computed() || !b.is_computed()) return true;
  const Array x = a.to_host(), y = b.to_host();
  return std::memcmp(x.raw(), y.raw(), x.num_bytes()) == 0;
}

class SizeProbe {
 public:
  SizeProbe(const Trace& trace, const TraceAgain& again)
      : trace_(trace),
        again_(again),
        lists_(linked_sizes(trace.graph, trace.num_args())),
        findings_(lists_.size()) {}

  std::vector<HeldSize> run() {
    for (const int64_t times : {1, 3}) {
      std::vector<size_t> open;
      for (size_t i = 0; i < lists_.size(); ++i)
        if (findings_[i].answer != Answer::Other) open.push_back(i);
      if (probe(open, times).answer == Answer::Same) {
        for (size_t i : open) findings_[i] = {Answer::Same, {}};
        continue;
      }
      for (size_t i : open) {
        Finding found = probe({i}, times);
        if (found.answer != Answer::Unknown || findings_[i].answer == Answer::Unknown)
          findings_[i] = std::move(found);
      }
    }
    std::vector<HeldSize> held;
    for (size_t i = 0; i < lists_.size(); ++i)
      if (findings_[i].answer != Answer::Same)
        for (const ArgumentSize& size : lists_[i])
          held.push_back({size.argument, size.dim, findings_[i].why});
    return held;
  }

 private:
  const std::vector<Type>& traced_types() const { return trace_.graph.functions[0].arg_types; }

  // n + 1 if `times` is one, else n times that.
  Finding probe(const std::vector<size_t>& lists, int64_t times) const {
    if (lists.empty()) return {Answer::Same, {}};
    std::vector<Type> types = traced_types();
    int64_t before = 0, after = 0;
    for (size_t i : lists)
      for (const ArgumentSize& size : lists_[i]) {
        int64_t& n = types[size.argument].shape[size.dim];
        before = n;
        after = n = times == 1 ? n + 1 : n * times;
      }
    std::string resized;
    try {
      resized = plain_text(with_argument_types(trace_.graph, types, trace_.arg_names));
    } catch (const UserError& error) {
      return {Answer::Unknown, error.what()};
    }
    Trace traced;
    try {
      traced = again_(std::span(types).first(trace_.num_args()));
    } catch (const std::exception& error) {
      return {Answer::Unknown, fmt::format("with {} instead of {} the function says: {}", after,
                                           before, error.what())};
    }
    auto [ours, theirs] = first_difference(resized, plain_text(traced.graph));
    if (ours != theirs)
      return {Answer::Other, fmt::format("the function makes something of it; with {} instead of "
                                         "{} it gives '{}', and the trace has '{}'",
                                         after, before, theirs, ours)};
    for (size_t i = 0; i < trace_.captures.size(); ++i)
      if (!same_capture(trace_.captures[i], traced.captures[i]))
        return {Answer::Other,
                fmt::format("the function makes a {} of it, whose values are others with {} "
                            "instead of {}",
                            to_string(trace_.captures[i].type()), after, before)};
    return {Answer::Same, {}};
  }

  const Trace& trace_;
  const TraceAgain& again_;
  std::vector<std::vector<ArgumentSize>> lists_;
  std::vector<Finding> findings_;  // by list
};

}  // namespace

void find_held_sizes(Trace& trace, const TraceAgain& again) {
  trace.held = SizeProbe(trace, again).run();
  trace.knows_sizes = true;
}

}  // namespace cleave::trace_detail
