#pragma once

#include <set>
#include <string>

#include "cleave/discover/discover.h"

namespace cleave {

// The rules that were found, as text, without those that follow from another.
inline std::set<std::string> rules_of(const Discovery& discovery) {
  std::set<std::string> rules;
  for (const DiscoveredRule& rule : discovery.rules)
    if (!rule.implied) rules.insert(to_string(rule));
  return rules;
}

}  // namespace cleave
