#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cleave {

// How bytes are written for people:
//
//   Log       a row of a log           999 B        1.5 KiB    3.0 MiB     1.00 GiB
//   Table     a row of a plan          1.0 KiB      1.5 KiB    3.0 MiB     1.00 GiB
//   Limit     memory that must fit     1536 bytes              3.00 MiB    1.00 GiB
//   Estimate  any size, three digits   1000 bytes   1.5 KiB    3 MiB       3.64 TiB
enum class BytesStyle : uint8_t { Log, Table, Limit, Estimate };
std::string bytes_text(double bytes, BytesStyle style = BytesStyle::Log);

int64_t parse_bytes(std::string_view text);  // 1024, 80GiB, 1.5MB; else a UserError

// "12.30 us", "4.57 ms", "8.90 s"; `decimals` are those of milliseconds and seconds.
std::string seconds_text(double seconds, int decimals = 2);

}  // namespace cleave
