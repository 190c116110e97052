#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// The options of one use of a pass: -sdy-basic-propagate='keep-sharding-rules=true'.
class PassOptions {
 public:
  void set(std::string name, std::string value) { values_[std::move(name)] = std::move(value); }
  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
  std::string get(std::string_view name, std::string fallback = {}) const;
  bool get_bool(std::string_view name, bool fallback = false) const;  // throws UserError
  int64_t get_int(std::string_view name, int64_t fallback = 0) const;
  const std::map<std::string, std::string, std::less<>>& values() const { return values_; }

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

// What a pass may tell while it runs. The library prints nothing itself.
struct PassContext {
  std::function<void(std::string_view)> remark;   // traces, progress
  std::function<void(std::string_view)> warning;  // something that the user should know
  bool trace = false;  // passes that decide tell every decision, as remarks

  void emit_remark(std::string_view text) const {
    if (remark) remark(text);
  }
  void emit_warning(std::string_view text) const {
    if (warning) warning(text);
  }
};

// A change of a module, with a name that the command line knows. Throws UserError for modules that
// it cannot take.
struct Pass {
  std::string name;                  // "sdy-basic-propagate"
  std::vector<std::string> options;  // the names of options that it knows
  std::function<void(Graph&, const PassOptions&, PassContext&)> run;
};

// Filled once, at first use, from the families that cleave/registry/pass_families.h lists; then
// constant.
class PassRegistry {
 public:
  void add(Pass pass);                            // the name must be new
  const Pass* find(std::string_view name) const;  // null if there is none
  const std::map<std::string, Pass, std::less<>>& passes() const { return passes_; }

 private:
  std::map<std::string, Pass, std::less<>> passes_;
};

const PassRegistry& pass_registry();  // cleave/registry/passes.cc

// One use of a pass in a pipeline.
struct PassCall {
  std::string name;
  PassOptions options;
};

// `builtin.module(a{x=1 y=2},func.func(b,c))`, with or without the outer `builtin.module`: the
// passes in order, since every pass here works on whole modules.
std::vector<PassCall> parse_pipeline(std::string_view text);
// `x=1 y=2`
PassOptions parse_pass_options(std::string_view text);

struct PassTiming {
  std::string name;
  double seconds;
};
struct PipelineObserver {
  std::function<void(const PassCall&, const Graph&)> after;  // may be empty
};
// Runs the passes in order and returns how long each took. Throws UserError for a pass or an option
// that does not exist; errors of a pass carry its name.
std::vector<PassTiming> run_pipeline(Graph& graph, const std::vector<PassCall>& calls,
                                     PassContext& context, const PipelineObserver& observer = {});

}  // namespace cleave
