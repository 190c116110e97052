// IOPDDL JSON in and out, plain or gzip.
#include <simdjson.h>
#include <zlib.h>

#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <memory>

#include "cleave/core/available_memory.h"
#include "cleave/core/error.h"
#include "cleave/core/input_file.h"
#include "cleave/core/units.h"
#include "cleave/solve/problem.h"

namespace cleave::solver {
namespace {

namespace ondemand = simdjson::ondemand;

// A few kilobytes can inflate without end. Problems shrink to a twentieth or so, nothing but
// repetitions to a thousandth.
constexpr std::size_t kMostText = std::size_t{4} << 30;
constexpr std::size_t kMostRatio = 250, kRatioFrom = std::size_t{32} << 20;

// zlib's reader takes plain files as they are.
std::string read_text(const std::string& path) {
  check_regular_file(path);
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw_user("{}: cannot be opened for reading", path);
  gzbuffer(file.get(), 1 << 18);
  std::string text;
  std::size_t used = 0;
  while (true) {
    if (text.size() - used < (1u << 20)) {
      const std::size_t next = std::max<std::size_t>(1u << 22, text.size() * 2);
      if (next > kMostText)
        throw_user("{}: more than {} of text; a problem has less", path,
                   bytes_text(kMostText, BytesStyle::Estimate));
      check_fits(static_cast<int64_t>(next), path);
      text.resize(next);
    }
    const unsigned room =
        static_cast<unsigned>(std::min<std::size_t>(text.size() - used, 1u << 30));
    const int got = gzread(file.get(), text.data() + used, room);
    if (got < 0) {
      int code = 0;
      throw_user("{}: cannot be read: {}", path, gzerror(file.get(), &code));
    }
    used += static_cast<std::size_t>(got);
    if (used > kRatioFrom && used / kMostRatio > static_cast<std::size_t>(gzoffset(file.get())))
      throw_user("{}: it inflates to more than {} times its size; no problem does", path,
                 kMostRatio);
    if (static_cast<unsigned>(got) < room) break;
  }
  int code = 0;
  const char* message = gzerror(file.get(), &code);
  if (code != Z_OK && code != Z_STREAM_END) throw_user("{}: cannot be read: {}", path, message);
  text.resize(used);
  return text;
}

// Reads the known fields of one document; the rest is skipped.
class Reader {
 public:
  explicit Reader(const std::string& source) : source_(source) {}

  Problem read(simdjson::padded_string_view text) {
    ondemand::parser parser;
    ondemand::document document = parser.iterate(text);
    bool found = false;
    for (auto field : document.get_object()) {
      if (field.unescaped_key().value() == "problem") {
        read_problem_object(field.value().get_object());
        found = true;
      }
    }
    if (!found) throw_user("{}: the field \"problem\" is missing", source_);
    return assemble();
  }

 private:
  using Row = std::vector<std::int64_t>;

  void read_problem_object(ondemand::object object) {
    for (auto field : object) {
      const std::string_view key = field.unescaped_key();
      if (key == "name") {
        problem_.name = std::string(field.value().get_string().value());
      } else if (key == "nodes") {
        for (auto part : field.value().get_object()) {
          const std::string_view name = part.unescaped_key();
          if (name == "intervals") read_rows(part.value(), intervals_, "nodes.intervals");
          if (name == "costs") read_rows(part.value(), costs_, "nodes.costs");
          if (name == "usages") read_rows(part.value(), usages_, "nodes.usages");
        }
      } else if (key == "edges") {
        for (auto part : field.value().get_object()) {
          const std::string_view name = part.unescaped_key();
          if (name == "nodes") read_rows(part.value(), ends_, "edges.nodes");
          if (name == "costs") read_rows(part.value(), edge_costs_, "edges.costs");
        }
      } else if (key == "usage_limit") {
        ondemand::value value = field.value();
        if (!value.is_null()) problem_.usage_limit = number(value, "usage_limit");
      }
    }
  }

  // Integers as they are; a float must be whole or beyond kForbidden.
  std::int64_t number(ondemand::value value, const char* what) {
    std::int64_t integer = 0;
    if (!value.get_int64().get(integer)) return integer;
    const double real = value.get_double();
    if (real >= static_cast<double>(kForbidden)) return kForbidden;
    if (real != std::floor(real) || std::abs(real) > 9e15) {
      throw_user("{}: {} holds {}; whole numbers are needed", source_, what, real);
    }
    return static_cast<std::int64_t>(real);
  }

  void read_rows(ondemand::value value, std::vector<Row>& rows, const char* what) {
    rows.clear();
    Row scratch;
    for (auto row : value.get_array()) {
      scratch.clear();
      for (auto entry : row.get_array()) scratch.push_back(number(entry.value(), what));
      rows.push_back(scratch);
    }
    seen_.push_back(what);
  }

  int node_id(std::int64_t id, std::size_t edge) const {
    if (id < 0 || id >= static_cast<std::int64_t>(costs_.size())) {
      throw_user("{}: edge {} names node {}, but nodes go from 0 to {}", source_, edge, id,
                 static_cast<std::int64_t>(costs_.size()) - 1);
    }
    return static_cast<int>(id);
  }

  Problem assemble() {
    for (std::string_view what : {"nodes.intervals", "nodes.costs", "nodes.usages"}) {
      if (std::find(seen_.begin(), seen_.end(), what) == seen_.end()) {
        throw_user("{}: the field problem.{} is missing", source_, what);
      }
    }
    if (intervals_.size() != costs_.size() || usages_.size() != costs_.size()) {
      throw_user("{}: {} intervals, {} rows of costs and {} rows of usages; one per node is needed",
                 source_, intervals_.size(), costs_.size(), usages_.size());
    }
    if (ends_.size() != edge_costs_.size()) {
      throw_user("{}: {} edges but {} rows of edge costs", source_, ends_.size(),
                 edge_costs_.size());
    }
    problem_.nodes.resize(costs_.size());
    for (std::size_t i = 0; i < costs_.size(); ++i) {
      if (intervals_[i].size() != 2) {
        throw_user("{}: the interval of node {} has {} numbers; [lo, hi] is needed", source_, i,
                   intervals_[i].size());
      }
      problem_.nodes[i] = {
          {intervals_[i][0], intervals_[i][1]}, std::move(costs_[i]), std::move(usages_[i])};
    }
    problem_.edges.resize(ends_.size());
    for (std::size_t e = 0; e < ends_.size(); ++e) {
      if (ends_[e].size() != 2) {
        throw_user("{}: edge {} joins {} nodes; only pairs are supported", source_, e,
                   ends_[e].size());
      }
      problem_.edges[e] = {node_id(ends_[e][0], e), node_id(ends_[e][1], e),
                           std::move(edge_costs_[e])};
    }
    return std::move(problem_);
  }

  std::string source_;
  Problem problem_;
  std::vector<Row> intervals_, costs_, usages_, ends_, edge_costs_;
  std::vector<std::string_view> seen_;
};

Problem parse_padded(std::string& text, const std::string& source) {
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  if (last == std::string::npos) throw_user("{}: is empty", source);
  if (text[last] != '}') throw_user("{}: is cut short, or has text after its end", source);
  text.reserve(text.size() + simdjson::SIMDJSON_PADDING);
  try {
    Problem problem = Reader(source).read(
        simdjson::padded_string_view(text.data(), text.size(), text.capacity()));
    validate(problem);
    return problem;
  } catch (const simdjson::simdjson_error& error) {
    throw_user("{}: is not a problem in IOPDDL JSON: {}", source, error.what());
  }
}

void append_row(std::string& out, const std::vector<std::int64_t>& row, bool first) {
  out += first ? "[" : ",[";
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i) out += ',';
    out += std::to_string(row[i]);
  }
  out += ']';
}

}  // namespace

Problem parse_problem(const std::string& json, const std::string& source) {
  std::string copy = json;
  return parse_padded(copy, source);
}

Problem read_problem(const std::string& path) {
  std::string text = read_text(path);
  return parse_padded(text, path);
}

std::string format_problem(const Problem& problem) {
  std::string name;
  for (char c : problem.name) {
    if (c == '"' || c == '\\') name += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) name += c;
  }
  std::string out = "{\"problem\":{\"name\":\"" + name + "\",\"nodes\":{\"intervals\":[";
  const auto& nodes = problem.nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    append_row(out, {nodes[i].live.lo, nodes[i].live.hi}, i == 0);
  }
  out += "],\"costs\":[";
  for (std::size_t i = 0; i < nodes.size(); ++i) append_row(out, nodes[i].costs, i == 0);
  out += "],\"usages\":[";
  for (std::size_t i = 0; i < nodes.size(); ++i) append_row(out, nodes[i].usages, i == 0);
  out += "]},\"edges\":{\"nodes\":[";
  const auto& edges = problem.edges;
  for (std::size_t e = 0; e < edges.size(); ++e) append_row(out, {edges[e].a, edges[e].b}, e == 0);
  out += "],\"costs\":[";
  for (std::size_t e = 0; e < edges.size(); ++e) append_row(out, edges[e].costs, e == 0);
  out += "]}";
  if (problem.usage_limit) out += ",\"usage_limit\":" + std::to_string(*problem.usage_limit);
  return out + "}}\n";
}

void write_problem(const Problem& problem, const std::string& path) {
  const std::string text = format_problem(problem);
  const bool compress = path.ends_with(".gz");
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), compress ? "wb6" : "wbT"),
                                                  gzclose);
  if (!file) throw_user("{}: cannot be opened for writing", path);
  std::size_t done = 0;
  while (done < text.size()) {
    const unsigned part =
        static_cast<unsigned>(std::min<std::size_t>(text.size() - done, 1u << 30));
    const int wrote = gzwrite(file.get(), text.data() + done, part);
    if (wrote <= 0) throw_user("{}: cannot be written", path);
    done += static_cast<std::size_t>(wrote);
  }
  if (gzclose(file.release()) != Z_OK) throw_user("{}: cannot be written", path);
}

}  // namespace cleave::solver
