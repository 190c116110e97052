#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cleave/kernels/array.h"

// Counter-based random numbers: element i of a tensor is a function of the state and of i alone, so
// that a part of a tensor can be computed anywhere, and does not depend on how it is split.
namespace cleave {

enum class RandomAlgorithm : uint8_t { ThreeFry, Philox };  // 2x32 of 20 rounds, 4x32 of 10

// A box of a tensor of the given shape.
struct RandomBox {
  Shape shape;   // of the whole
  Shape offset;  // of the box
  Shape size;
};

// Random bits as XLA's rng_bit_generator defines them. The state is a key and a counter, [2] or [3]
// of u64, or [4] or [6] of u32; the dtype has 8 to 64 bits.
Array random_bits(RandomAlgorithm algorithm, const Array& state, DType dtype, const RandomBox& box);
// The state after a whole tensor was drawn.
Array advanced_state(RandomAlgorithm algorithm, const Array& state, DType dtype,
                     const Shape& shape);

// Both, prepared once for states of `state_bytes`: nothing is allocated. `bits` is packed.
class BitGenerator {
 public:
  BitGenerator(RandomAlgorithm algorithm, int64_t state_bytes, DType dtype, const RandomBox& box);
  ~BitGenerator();
  void run(const std::byte* state, std::byte* advanced, std::byte* bits) const;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

// Numbers in [low, high), and normally distributed ones, of the stream with the given number.
Array random_uniform(uint64_t stream, const Array& low, const Array& high, const RandomBox& box);
Array random_normal(uint64_t stream, const Array& mean, const Array& deviation,
                    const RandomBox& box);

}  // namespace cleave
