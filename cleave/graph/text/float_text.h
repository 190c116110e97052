#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/core/dtype.h"

namespace cleave::text {

// Floats of every real dtype as bits and as text. The text is LLVM's: the shortest of
//   1.500000e+00    six digits, if they read back as the same bits
//   0.333333343     as many digits as the type needs
//   0x7FC00000      infinities, NaNs, and integers too long for the first form
void append_float(std::string& out, DType dtype, uint64_t bits);

// The bits of a number such as `1.5`, `-2e-3`, or (as bits) `0x7FC00000`. False if the text is no
// number of this type.
bool parse_float(std::string_view number, DType dtype, uint64_t& bits);

double decode_float(DType dtype, uint64_t bits);
uint64_t encode_float(DType dtype, double value);  // rounds to nearest, ties to even

// Little-endian, `byte_size(dtype)` bytes.
uint64_t load_bits(const std::byte* data, int size);
void store_bits(std::byte* data, int size, uint64_t bits);

}  // namespace cleave::text
