#include "cleave/core/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <span>

#include "cleave/core/error.h"

namespace cleave {
namespace {

// A unit is used from its size on; the first one also for less.
struct ByteUnit {
  double size;
  const char* name;
  int decimals;
};

constexpr double kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB, kTiB = 1024 * kGiB;

constexpr std::array<ByteUnit, 4> kLogUnits = {
    {{1, "B", 0}, {kKiB, "KiB", 1}, {kMiB, "MiB", 1}, {kGiB, "GiB", 2}}};
constexpr std::array<ByteUnit, 3> kTableUnits = {
    {{kKiB, "KiB", 1}, {kMiB, "MiB", 1}, {kGiB, "GiB", 2}}};
constexpr std::array<ByteUnit, 3> kLimitUnits = {
    {{1, "bytes", 0}, {kMiB, "MiB", 2}, {kGiB, "GiB", 2}}};
constexpr std::array<ByteUnit, 7> kEstimateUnits = {{{1, "bytes", 0},
                                                     {kKiB, "KiB", 0},
                                                     {kMiB, "MiB", 0},
                                                     {kGiB, "GiB", 0},
                                                     {kTiB, "TiB", 0},
                                                     {kTiB * kKiB, "PiB", 0},
                                                     {kTiB * kMiB, "EiB", 0}}};

std::span<const ByteUnit> units_of(BytesStyle style) {
  switch (style) {
    case BytesStyle::Log:
      return kLogUnits;
    case BytesStyle::Table:
      return kTableUnits;
    case BytesStyle::Limit:
      return kLimitUnits;
    case BytesStyle::Estimate:
      return kEstimateUnits;
  }
  return kLogUnits;
}

const ByteUnit& unit_for(std::span<const ByteUnit> units, double amount) {
  size_t i = 0;
  while (i + 1 < units.size() && amount >= units[i + 1].size) ++i;
  return units[i];
}

}  // namespace

std::string bytes_text(double bytes, BytesStyle style) {
  const ByteUnit& unit = unit_for(units_of(style), bytes);
  if (style == BytesStyle::Estimate && unit.size > 1)
    return fmt::format("{:.3g} {}", bytes / unit.size, unit.name);
  return fmt::format("{:.{}f} {}", bytes / unit.size, unit.decimals, unit.name);
}

std::string seconds_text(double seconds, int decimals) {
  if (seconds >= 1) return fmt::format("{:.{}f} s", seconds, decimals);
  if (seconds >= 1e-3) return fmt::format("{:.{}f} ms", seconds * 1e3, decimals);
  return fmt::format("{:.2f} us", seconds * 1e6);
}

int64_t parse_bytes(std::string_view text) {
  double number = 0;
  auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(next, text.data() + text.size() - next);
  struct Unit {
    std::string_view name;
    double bytes;
  };
  constexpr double kMost = 9e18;  // what a 64-bit count of bytes holds
  constexpr std::array<Unit, 10> kUnits = {{{"", 1},
                                            {"B", 1},
                                            {"KB", 1e3},
                                            {"MB", 1e6},
                                            {"GB", 1e9},
                                            {"KiB", 1024.0},
                                            {"MiB", 1024.0 * 1024},
                                            {"GiB", 1024.0 * 1024 * 1024},
                                            {"TB", 1e12},
                                            {"TiB", 1024.0 * 1024 * 1024 * 1024}}};
  for (const Unit& known : kUnits)
    if (error == std::errc() && number >= 0 && unit == known.name) {
      if (number * known.bytes > kMost) throw_user("bytes '{}': more than any device has", text);
      return static_cast<int64_t>(number * known.bytes);
    }
  throw_user("bytes '{}': expected a number with B, KB, MB, GB, TB, KiB, MiB, GiB or TiB", text);
}

}  // namespace cleave
