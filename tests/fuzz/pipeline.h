#pragma once

#include <cstdint>
#include <string>

namespace cleave::fuzz {

// Takes a text the whole way: parse, print, verify, rules, propagate, plan with a small budget,
// partition, run. A UserError at any place is a good answer and ends it. Everything else that is
// thrown, and a signal, is a finding.
//
// Returns how far it came, in words.
std::string whole_way(const std::string& text, uint64_t seed);

}  // namespace cleave::fuzz
