#pragma once

#include <cstdint>

#include "cleave/core/dtype.h"
#include "cleave/kernels/elementwise.h"

// Integers of 2 and 4 bits and floats of 4, 6 and 8: one element takes a byte, integers with their
// sign extended. They are computed in a wide type and rounded back, which gives what one rounding
// in the narrow type gives: a float32 has more than twice the digits of any of them.
namespace cleave {

bool is_narrow(DType dtype);    // I2 .. F8E8M0FNU
DType wide_type(DType narrow);  // I4 -> I8, U4 -> U8, F8E5M2 -> F32; others: itself

// The value of a narrow float, and the narrow float next to a value: ties to even, and up for
// f8E8M0FNU, as ml_dtypes and XLA round. What is too large becomes infinity if the type has one,
// else NaN, else the largest number (f4E2M1FN).
//   f8E4M3FN   464 -> 448   465 -> NaN      f8E5M2   61440 -> inf
float narrow_float_value(DType dtype, uint8_t bits);
uint8_t narrow_float_bits(DType dtype, double value);

// Conversions from, to and between narrow types; null if there is none. Integers wrap; floats
// that become integers are cut towards zero and saturate.
Loop narrow_convert_loop(DType from, DType to);

}  // namespace cleave
