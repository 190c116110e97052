#include "cleave/graph/text/float_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "cleave/core/error.h"

namespace cleave::text {
namespace {

enum class Specials : uint8_t {
  Ieee,          // infinities and NaNs in the highest exponent
  AllOnes,       // no infinity; NaN where exponent and mantissa are all ones
  NegativeZero,  // no infinity; the pattern of -0 is the NaN
  None,          // finite only
};

struct Format {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Specials specials = Specials::Ieee;
  bool has_sign = true;

  int sign_shift() const { return exponent_bits + mantissa_bits; }
  uint64_t max_exponent() const { return (uint64_t{1} << exponent_bits) - 1; }
  uint64_t mantissa_mask() const { return (uint64_t{1} << mantissa_bits) - 1; }
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return {5, 10, 15};
    case DType::BF16:
      return {8, 7, 127};
    case DType::F32:
      return {8, 23, 127};
    case DType::F64:
      return {11, 52, 1023};
    case DType::TF32:
      return {8, 10, 127};
    case DType::F8E5M2:
      return {5, 2, 15};
    case DType::F8E4M3:
      return {4, 3, 7};
    case DType::F8E3M4:
      return {3, 4, 3};
    case DType::F8E4M3FN:
      return {4, 3, 7, Specials::AllOnes};
    case DType::F8E5M2FNUZ:
      return {5, 2, 16, Specials::NegativeZero};
    case DType::F8E4M3FNUZ:
      return {4, 3, 8, Specials::NegativeZero};
    case DType::F8E4M3B11FNUZ:
      return {4, 3, 11, Specials::NegativeZero};
    case DType::F8E8M0FNU:
      return {8, 0, 127, Specials::AllOnes, false};
    case DType::F4E2M1FN:
      return {2, 1, 1, Specials::None};
    case DType::F6E2M3FN:
      return {2, 3, 1, Specials::None};
    case DType::F6E3M2FN:
      return {3, 2, 3, Specials::None};
    default:
      throw_internal("'{}' is not a float type", name(dtype));
  }
}

// value = (-1)^negative * significand * 2^exponent
struct Parts {
  enum Kind { Finite, Infinite, NotANumber } kind = Finite;
  bool negative = false;
  uint64_t significand = 0;
  int exponent = 0;
};

Parts split(const Format& format, uint64_t bits) {
  Parts parts;
  parts.negative = format.has_sign && (bits >> format.sign_shift() & 1);
  const uint64_t exponent = bits >> format.mantissa_bits & format.max_exponent();
  const uint64_t mantissa = bits & format.mantissa_mask();
  switch (format.specials) {
    case Specials::Ieee:
      if (exponent == format.max_exponent())
        parts.kind = mantissa ? Parts::NotANumber : Parts::Infinite;
      break;
    case Specials::AllOnes:
      if (exponent == format.max_exponent() && mantissa == format.mantissa_mask())
        parts.kind = Parts::NotANumber;
      break;
    case Specials::NegativeZero:
      if (parts.negative && !exponent && !mantissa) parts.kind = Parts::NotANumber;
      break;
    case Specials::None:
      break;
  }
  if (exponent == 0 && format.has_sign) {
    parts.significand = mantissa;
    parts.exponent = 1 - format.bias - format.mantissa_bits;
  } else {
    parts.significand = mantissa | uint64_t{1} << format.mantissa_bits;
    parts.exponent = static_cast<int>(exponent) - format.bias - format.mantissa_bits;
  }
  return parts;
}

// An unsigned integer of any size, little-endian.
class BigInt {
 public:
  explicit BigInt(uint64_t value)
      : words_{static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)} {
    trim();
  }
  void multiply(uint32_t factor) {
    uint64_t carry = 0;
    for (uint32_t& word : words_) {
      carry += uint64_t{word} * factor;
      word = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    if (carry) words_.push_back(static_cast<uint32_t>(carry));
  }
  void divide(uint32_t divisor) {
    uint64_t rest = 0;
    for (size_t i = words_.size(); i-- > 0;) {
      rest = rest << 32 | words_[i];
      words_[i] = static_cast<uint32_t>(rest / divisor);
      rest %= divisor;
    }
    trim();
  }
  unsigned bit_length() const {
    return words_.empty() ? 0
                          : static_cast<unsigned>(32 * words_.size()) -
                                static_cast<unsigned>(__builtin_clz(words_.back()));
  }
  uint64_t low64() const {
    const uint64_t low = words_.empty() ? 0 : words_[0];
    return words_.size() > 1 ? low | uint64_t{words_[1]} << 32 : low;
  }

 private:
  void trim() {
    while (!words_.empty() && words_.back() == 0) words_.pop_back();
  }
  std::vector<uint32_t> words_;
};

// Decimal digits, least significant first, times 10^exponent.
struct Decimal {
  std::string digits;
  int exponent = 0;
};

void repeat(BigInt& value, void (BigInt::*operation)(uint32_t), uint32_t base, int base_power,
            uint32_t base_to_power, int count) {
  for (; count >= base_power; count -= base_power) (value.*operation)(base_to_power);
  for (; count > 0; --count) (value.*operation)(base);
}

void round_to(Decimal& decimal, unsigned precision) {
  std::string& digits = decimal.digits;
  const size_t n = digits.size();
  if (n <= precision) return;
  size_t first = n - precision;
  if (digits[first - 1] < '5') {
    while (first < n && digits[first] == '0') ++first;
  } else {
    size_t i = first;
    while (i < n && digits[i] == '9') ++i;
    first = i;
    if (i == n) {
      digits = "1";
      decimal.exponent += static_cast<int>(n);
      return;
    }
    ++digits[i];
  }
  decimal.exponent += static_cast<int>(first);
  digits.erase(0, first);
}

// As LLVM does it: cut to about `precision` digits first, then round half up.
Decimal to_decimal(const Parts& parts, unsigned precision) {
  const int zeros = __builtin_ctzll(parts.significand);
  BigInt value(parts.significand >> zeros);
  const int exponent = parts.exponent + zeros;
  Decimal decimal;
  if (exponent >= 0) {
    repeat(value, &BigInt::multiply, 2, 31, 1u << 31, exponent);
  } else {
    repeat(value, &BigInt::multiply, 5, 13, 1220703125u, -exponent);
    decimal.exponent = exponent;
  }
  const unsigned bits = value.bit_length();
  const unsigned required = (precision * 196 + 58) / 59;
  if (bits > required) {
    const int removable = static_cast<int>((bits - required) * 59 / 196);
    repeat(value, &BigInt::divide, 10, 9, 1000000000u, removable);
    decimal.exponent += removable;
  }
  bool trailing = true;
  for (uint64_t rest = value.low64(); rest; rest /= 10) {
    const char digit = static_cast<char>('0' + rest % 10);
    if (trailing && digit == '0') {
      ++decimal.exponent;
    } else {
      decimal.digits += digit;
      trailing = false;
    }
  }
  round_to(decimal, precision);
  return decimal;
}

void append_exponent(std::string& text, char mark, int exponent, bool two_digits) {
  text += mark;
  text += exponent < 0 ? '-' : '+';
  const std::string digits = std::to_string(std::abs(exponent));
  if (two_digits && digits.size() < 2) text += '0';
  text += digits;
}

// 1.500000e+00
std::string six_digits(const Parts& parts) {
  const Decimal decimal = to_decimal(parts, 6);
  const std::string& digits = decimal.digits;
  std::string text = parts.negative ? "-" : "";
  text += digits.back();
  text += '.';
  text.append(digits.rbegin() + 1, digits.rend());
  text.append(7 - digits.size(), '0');
  append_exponent(text, 'e', decimal.exponent + static_cast<int>(digits.size()) - 1, true);
  return text;
}

// 0.333333343 or 9.99999974E-6
std::string all_digits(const Parts& parts, const Format& format) {
  const unsigned precision = 2 + static_cast<unsigned>(format.mantissa_bits + 1) * 59 / 196;
  const Decimal decimal = to_decimal(parts, precision);
  const std::string digits(decimal.digits.rbegin(), decimal.digits.rend());
  const int n = static_cast<int>(digits.size());
  const int exponent = decimal.exponent;
  const int leading = exponent + n - 1;  // the power of ten of the first digit
  const bool scientific = exponent >= 0 ? exponent > 3 || n + exponent > static_cast<int>(precision)
                                        : leading < 0 && -leading > 3;
  std::string text = parts.negative ? "-" : "";
  if (scientific) {
    text += digits[0];
    text += '.';
    text += n == 1 ? "0" : digits.substr(1);
    append_exponent(text, 'E', leading, false);
  } else if (exponent >= 0) {
    text += digits + std::string(static_cast<size_t>(exponent), '0');
  } else if (leading >= 0) {
    text += digits.substr(0, static_cast<size_t>(leading + 1)) + "." +
            digits.substr(static_cast<size_t>(leading + 1));
  } else {
    text += "0." + std::string(static_cast<size_t>(-leading - 1), '0') + digits;
  }
  return text;
}

void append_hex(std::string& out, uint64_t bits) {
  char buffer[17];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), bits, 16);
  out += "0x";
  for (const char* c = buffer; c != end; ++c)
    out += static_cast<char>(*c >= 'a' ? *c - 'a' + 'A' : *c);
}

}  // namespace

uint64_t load_bits(const std::byte* data, int size) {
  uint64_t bits = 0;
  std::memcpy(&bits, data, static_cast<size_t>(std::min(size, 8)));
  return bits;
}

void store_bits(std::byte* data, int size, uint64_t bits) {
  std::memcpy(data, &bits, static_cast<size_t>(std::min(size, 8)));
}

double decode_float(DType dtype, uint64_t bits) {
  const Parts parts = split(format_of(dtype), bits);
  double value = parts.kind == Parts::Finite
                     ? std::ldexp(static_cast<double>(parts.significand), parts.exponent)
                 : parts.kind == Parts::Infinite ? std::numeric_limits<double>::infinity()
                                                 : std::numeric_limits<double>::quiet_NaN();
  return parts.negative ? -value : value;
}

uint64_t encode_float(DType dtype, double value) {
  if (dtype == DType::F64) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }
  const Format format = format_of(dtype);
  const uint64_t sign =
      format.has_sign && std::signbit(value) ? uint64_t{1} << format.sign_shift() : 0;
  const uint64_t all_ones = (uint64_t{1} << format.sign_shift()) - 1;
  const auto not_a_number = [&]() -> uint64_t {
    switch (format.specials) {
      case Specials::Ieee:
        return sign | format.max_exponent() << format.mantissa_bits |
               uint64_t{1} << (format.mantissa_bits - 1);
      case Specials::AllOnes:
        return sign | all_ones;
      case Specials::NegativeZero:
        return uint64_t{1} << format.sign_shift();
      case Specials::None:
        return sign | all_ones;
    }
    return 0;
  };
  if (std::isnan(value)) return not_a_number();
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return format.specials == Specials::NegativeZero ? 0 : sign;

  // `steps` is the magnitude in units of the last place of its binade; carrying over into the
  // exponent by addition is right for rounding up to the next power of two.
  uint64_t bits = all_ones + 1;
  if (!std::isinf(value)) {
    int exponent = std::ilogb(magnitude);
    exponent = std::max(exponent, (format.has_sign ? 1 : 0) - format.bias);
    const double steps = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
    const double base = std::ldexp(1.0, format.mantissa_bits);
    const int biased = exponent + format.bias;
    bits = steps < base && format.has_sign
               ? static_cast<uint64_t>(steps)
               : (static_cast<uint64_t>(biased) << format.mantissa_bits) +
                     static_cast<uint64_t>(std::max(0.0, steps - base));
  }
  switch (format.specials) {
    case Specials::Ieee:
      return sign | std::min(bits, format.max_exponent() << format.mantissa_bits);
    case Specials::AllOnes:
      return bits >= all_ones ? not_a_number() : sign | bits;
    case Specials::NegativeZero:
      return bits > all_ones ? not_a_number() : bits == 0 ? 0 : sign | bits;
    case Specials::None:
      return sign | std::min(bits, all_ones);
  }
  return 0;
}

bool parse_float(std::string_view number, DType dtype, uint64_t& bits) {
  const bool hex = number.substr(0, 2) == "0x";
  if (hex) {
    const auto [end, error] =
        std::from_chars(number.data() + 2, number.data() + number.size(), bits, 16);
    const int width = bit_width(dtype);
    return error == std::errc() && end == number.data() + number.size() &&
           (width >= 64 || bits >> width == 0);
  }
  if (!number.empty() && number[0] == '+') number.remove_prefix(1);
  const char* begin = number.data();
  const char* end = begin + number.size();
  if (dtype == DType::F32) {
    float value = 0;
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error == std::errc() && stop == end) {
      uint32_t word;
      std::memcpy(&word, &value, sizeof(word));
      bits = word;
      return true;
    }
  }
  double value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (stop != end || number.empty()) return false;
  if (error == std::errc::result_out_of_range) {
    // Too large is infinity, too small is zero: strtod tells which.
    value = std::strtod(std::string(number).c_str(), nullptr);
  } else if (error != std::errc()) {
    return false;
  }
  bits = encode_float(dtype, value);
  return true;
}

void append_float(std::string& out, DType dtype, uint64_t bits) {
  const Format format = format_of(dtype);
  const Parts parts = split(format, bits);
  if (parts.kind == Parts::Finite) {
    if (parts.significand == 0) {
      out += parts.negative ? "-0.000000e+00" : "0.000000e+00";
      return;
    }
    const std::string text = six_digits(parts);
    uint64_t back = 0;
    if (parse_float(text, dtype, back) && back == bits) {
      out += text;
      return;
    }
    const std::string longer = all_digits(parts, format);
    if (longer.find('.') != std::string::npos) {
      out += longer;
      return;
    }
  }
  append_hex(out, bits);
}

}  // namespace cleave::text
