#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cleave/discover/discover.h"

// Pieces of Python text that strategies and tests for DTensor are made of.
namespace cleave::dtensor_text {

// _ShardingPlaceholder(d - 1); `rank` is the text of the tensor's rank.
std::string placement(const PlacePattern& pattern, const std::string& rank);
std::string placement(const Placement& placement);  // Shard(1)
std::string literal(const AttrValue& value);
std::string dtype(DType dtype);  // torch.float32
// A condition of a rule over variables that are named like the attributes. `first` is the metadata
// of operand 0.
std::string condition(std::string text, const std::string& first);

bool uses_d(const DiscoveredRule& rule);
// The sharded operand whose rank d runs over.
size_t base_operand(const DiscoveredRule& rule);
// The placements of all results, and when they hold: results may have conditions of their own.
struct ResultRow {
  std::vector<PlacePattern> results;
  std::string condition;
};
// Those beside a rule about result 0; none if there is a result that no rule is about.
std::vector<ResultRow> result_rows(const Discovery& discovery, const DiscoveredRule& rule);
// [results..., operands...]; `metas` are the names of the operands' metadata.
std::string row(const Discovery& discovery, const std::vector<PlacePattern>& results,
                const DiscoveredRule& rule, const std::vector<std::string>& metas);
// Whether a rule says S(name).
bool names_attr(const DiscoveredRule& rule, const std::string& attr);
// Whether a condition can stand in a strategy, which knows one call and not the number of devices.
bool can_say(const DiscoveredRule& rule);
// Whether a rule of the strategy is about these placements.
bool has_row(const Discovery& discovery, const SampleDecisions& sample,
             const Combination& combination);
// The placements of all results beside a case about result 0; nothing if one of them has none.
std::optional<std::string> results_beside(const SampleDecisions& sample, const Combination& c,
                                          size_t num_results);

}  // namespace cleave::dtensor_text
