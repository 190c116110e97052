#pragma once

#include <string>
#include <vector>

#include "cleave/spmd/random_shardings.h"

namespace cleave::fuzz {

// A text with a few changes that keep most of its structure: numbers and types replaced by others
// of the text or by extreme ones, lines dropped, doubled, moved or taken from `other`, operands
// exchanged, words of one text put into the other, brackets lost. The same source of random numbers
// gives the same text.
std::string mutate(RandomSource& random, const std::string& text, const std::string& other);

}  // namespace cleave::fuzz
