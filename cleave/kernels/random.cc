#include "cleave/kernels/random.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/kernels/dispatch.h"
#include "cleave/kernels/elementwise.h"

namespace cleave {
namespace {

using Words2 = std::array<uint32_t, 2>;
using Words4 = std::array<uint32_t, 4>;

uint32_t low_word(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high_word(uint64_t x) { return static_cast<uint32_t>(x >> 32); }
uint64_t join(uint32_t low, uint32_t high) { return low | static_cast<uint64_t>(high) << 32; }

Words2 threefry(uint64_t counter, uint64_t key) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t keys[3] = {low_word(key), high_word(key),
                            low_word(key) ^ high_word(key) ^ 0x1bd11bda};
  uint32_t x = low_word(counter) + keys[0], y = high_word(counter) + keys[1];
  for (uint32_t group = 0; group < 5; ++group) {
    for (int rotation : kRotations[group % 2]) {
      x += y;
      y = std::rotl(y, rotation) ^ x;
    }
    x += keys[(group + 1) % 3];
    y += keys[(group + 2) % 3] + group + 1;
  }
  return {x, y};
}

struct Counter128 {
  uint64_t low, high;
  Counter128 plus(uint64_t n) const { return {low + n, high + (low + n < low)}; }
};

Words4 philox(Counter128 counter, uint64_t key) {
  Words4 x = {low_word(counter.low), high_word(counter.low), low_word(counter.high),
              high_word(counter.high)};
  uint32_t k0 = low_word(key), k1 = high_word(key);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53} * x[0], b = uint64_t{0xcd9e8d57} * x[2];
    x = {high_word(b) ^ x[1] ^ k0, low_word(b), high_word(a) ^ x[3] ^ k1, low_word(a)};
    k0 += 0x9e3779b9;
    k1 += 0xbb67ae85;
  }
  return x;
}

struct State {
  uint64_t key;
  Counter128 counter;
};

State read_state(const uint64_t* data, size_t words) {
  // A short state of Philox counts in the low half; the key is the high half, too.
  return {data[0], {data[1], words == 3 ? data[2] : data[0]}};
}

State read_state(const Array& state) {
  const Array packed = state.contiguous();
  const size_t words = packed.num_bytes() / 8;
  if (words < 2 || words > 3)
    throw_user("a random state has 2 or 3 words of 64 bits, got {} bytes", packed.num_bytes());
  return read_state(packed.data<uint64_t>(), words);
}

// Where ThreeFry takes two 32-bit numbers from one block, neighbours along one dimension share it:
// the first even one, or the largest. The blocks are counted over the shape with that dimension
// halved.
struct Halving {
  size_t dim = 0;
  Shape half;

  explicit Halving(const Shape& shape) : half(shape) {
    if (shape.empty()) return;
    size_t largest = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] % 2 == 0) {
        largest = d;
        break;
      }
      if (shape[d] > shape[largest]) largest = d;
    }
    dim = largest;
    half[dim] = ceil_div(half[dim], 2);
  }
};

// Calls visit(position in the box, index in the whole tensor) row by row. `index` begins as the
// box's offset, and ends so.
template <typename Visit>
void for_each_index(const RandomBox& box, Shape& index, Visit visit) {
  const int64_t count = num_elements(box.size);
  for (int64_t i = 0; i < count; ++i) {
    visit(i, index);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < box.offset[d] + box.size[d]) break;
      index[d] = box.offset[d];
    }
  }
}

template <typename Visit>
void for_each_index(const RandomBox& box, Visit visit) {
  Shape index = box.offset;
  for_each_index(box, index, visit);
}

int64_t linear(const Shape& index, const Shape& shape) {
  int64_t result = 0;
  for (size_t d = 0; d < shape.size(); ++d) result = result * shape[d] + index[d];
  return result;
}

// The bits of one element: 64 for wide types, 32 for all others.
class Generator {
 public:
  Generator(RandomAlgorithm algorithm, const State& state, const Shape& shape, bool wide)
      : algorithm_(algorithm), state_(state), shape_(shape), halving_(shape), wide_(wide) {}

  void start(const State& state) {
    state_ = state;
    block_ = -1;
  }
  uint64_t operator()(const Shape& index) {
    return algorithm_ == RandomAlgorithm::Philox ? from_philox(linear(index, shape_))
                                                 : from_threefry(index);
  }

 private:
  uint64_t from_philox(int64_t element) {
    const int64_t per_block = wide_ ? 2 : 4;
    const int64_t block = element / per_block;
    if (block != block_) {
      block_ = block;
      words_ = philox(state_.counter.plus(static_cast<uint64_t>(block)), state_.key);
    }
    const size_t lane = static_cast<size_t>(element % per_block);
    return wide_ ? join(words_[2 * lane], words_[2 * lane + 1]) : words_[lane];
  }

  uint64_t from_threefry(const Shape& index) {
    if (wide_) {
      const Words2 words =
          threefry(state_.counter.low + static_cast<uint64_t>(linear(index, shape_)), state_.key);
      return join(words[0], words[1]);
    }
    int64_t block = 0;
    for (size_t d = 0; d < shape_.size(); ++d)
      block = block * halving_.half[d] + (d == halving_.dim ? index[d] / 2 : index[d]);
    if (block != block_) {
      block_ = block;
      const Words2 words = threefry(state_.counter.low + static_cast<uint64_t>(block), state_.key);
      words_ = {words[0], words[1], 0, 0};
    }
    return words_[shape_.empty() ? 0 : index[halving_.dim] % 2];
  }

  RandomAlgorithm algorithm_;
  State state_;
  Shape shape_;
  Halving halving_;
  bool wide_;
  int64_t block_ = -1;
  Words4 words_{};
};

// Numbers in [0, 1) with 53 bits.
double unit(uint32_t low, uint32_t high) {
  return static_cast<double>(join(low, high) >> 11) * 0x1p-53;
}

// Draws a block of four words per element, makes a double of it, and converts.
template <typename Make>
Array draw(uint64_t stream, DType dtype, const RandomBox& box, Make make) {
  Array result(DType::F64, box.size);
  double* out = result.data<double>();
  for_each_index(box, [&](int64_t position, const Shape& index) {
    const auto element = static_cast<uint64_t>(linear(index, box.shape));
    out[position] = make(philox({element, stream}, 0x5851f42d4c957f2d));
  });
  return convert(result, dtype);
}

double number(const Array& scalar) { return *convert(scalar, DType::F64).data<double>(); }

// Blocks of the algorithm that a tensor takes.
uint64_t num_blocks(RandomAlgorithm algorithm, DType dtype, const Shape& shape) {
  const int64_t count = num_elements(shape);
  const bool wide = bit_width(dtype) == 64;
  int64_t blocks = count;
  if (algorithm == RandomAlgorithm::Philox) blocks = ceil_div(count, wide ? 2 : 4);
  if (algorithm == RandomAlgorithm::ThreeFry && !wide) blocks = num_elements(Halving(shape).half);
  return static_cast<uint64_t>(blocks);
}

}  // namespace

struct BitGenerator::Plan {
  Generator generator;
  RandomBox box;
  Shape index;
  DType dtype;
  size_t words;
  uint64_t blocks;
};

BitGenerator::BitGenerator(RandomAlgorithm algorithm, int64_t state_bytes, DType dtype,
                           const RandomBox& box)
    : plan_(std::make_unique<Plan>(
          Plan{Generator(algorithm, {}, box.shape, bit_width(dtype) == 64), box, box.offset, dtype,
               static_cast<size_t>(state_bytes / 8), num_blocks(algorithm, dtype, box.shape)})) {}

BitGenerator::~BitGenerator() = default;

void BitGenerator::run(const std::byte* state, std::byte* advanced, std::byte* bits) const {
  Plan& p = *plan_;
  const State before = read_state(reinterpret_cast<const uint64_t*>(state), p.words);
  const Counter128 after = before.counter.plus(p.blocks);
  const uint64_t words[3] = {before.key, after.low, after.high};
  std::memcpy(advanced, words, p.words * sizeof(uint64_t));
  p.generator.start(before);
  visit_size(p.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      auto* out = reinterpret_cast<T*>(bits);
      for_each_index(p.box, p.index, [&](int64_t position, const Shape& index) {
        out[position] = static_cast<T>(p.generator(index));
      });
    }
  });
}

Array random_bits(RandomAlgorithm algorithm, const Array& state, DType dtype,
                  const RandomBox& box) {
  Generator generator(algorithm, read_state(state), box.shape, bit_width(dtype) == 64);
  Array result(dtype, box.size);
  visit_size(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      auto* out = reinterpret_cast<T*>(result.raw());
      for_each_index(box, [&](int64_t position, const Shape& index) {
        out[position] = static_cast<T>(generator(index));
      });
    } else {
      throw_user("random bits of {} are not defined", name(dtype));
    }
  });
  return result;
}

Array advanced_state(RandomAlgorithm algorithm, const Array& state, DType dtype,
                     const Shape& shape) {
  const State before = read_state(state);
  const Counter128 after = before.counter.plus(num_blocks(algorithm, dtype, shape));
  const uint64_t words[3] = {before.key, after.low, after.high};
  return Array::from_bytes(state.dtype(), state.shape(), words);
}

Array random_uniform(uint64_t stream, const Array& low, const Array& high, const RandomBox& box) {
  const double from = number(low), to = number(high);
  const bool whole = !is_float(low.dtype());
  return draw(stream, low.dtype(), box, [&](const Words4& words) {
    const double value = from + (to - from) * unit(words[0], words[1]);
    return whole ? std::floor(value) : value;
  });
}

Array random_normal(uint64_t stream, const Array& mean, const Array& deviation,
                    const RandomBox& box) {
  const double center = number(mean), scale = number(deviation);
  return draw(stream, mean.dtype(), box, [&](const Words4& words) {
    const double radius = std::sqrt(-2 * std::log1p(-unit(words[0], words[1])));
    const double angle = 2 * std::numbers::pi * unit(words[2], words[3]);
    return center + scale * radius * std::cos(angle);
  });
}

}  // namespace cleave
