#include "cleave/reshard/reshard_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

namespace cleave::reshard {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTie = 1e-12;                            // seconds
constexpr int kMostStepsBefore = 5, kMostStepsAfter = 3;  // a permute

// A bound that a path of that cost is below, in spite of rounding.
double just_above(double seconds) { return seconds * (1 + 1e-12) + kTie; }

struct Visited {
  State state;
  double seconds;
  int32_t parent;
  int16_t steps;
  StepKind kind;  // of the step from the parent (backward: to the parent)
  bool closed;
};

// States by hash, open addressing.
class Table {
 public:
  Table() : slots_(64, -1) {}

  std::vector<Visited> nodes;

  // The node of the state, added with infinite cost where it is new.
  int32_t node_of(const State& state) {
    if (nodes.size() * 2 >= slots_.size()) grow();
    size_t slot = state.hash() & (slots_.size() - 1);
    while (slots_[slot] >= 0) {
      if (nodes[slots_[slot]].state == state) return slots_[slot];
      slot = (slot + 1) & (slots_.size() - 1);
    }
    slots_[slot] = static_cast<int32_t>(nodes.size());
    nodes.push_back({state, kInfinity, -1, 0, StepKind::Relabel, false});
    return slots_[slot];
  }

 private:
  void grow() {
    slots_.assign(slots_.size() * 4, -1);
    for (size_t i = 0; i < nodes.size(); ++i) {
      size_t slot = nodes[i].state.hash() & (slots_.size() - 1);
      while (slots_[slot] >= 0) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = static_cast<int32_t>(i);
    }
  }
  std::vector<int32_t> slots_;
};

struct Waiting {
  double least;  // of a whole path through the node
  double seconds;
  int16_t steps;
  int32_t node;
  bool operator<(const Waiting& other) const {  // the queue pops its largest
    if (least != other.least) return least > other.least;
    if (steps != other.steps) return steps > other.steps;
    return node > other.node;
  }
};

class BestFirst {
 public:
  Table table;

  void start(const State& state) {
    const int32_t node = table.node_of(state);
    table.nodes[node].seconds = 0;
    queue_.push({0, 0, 0, node});
  }
  // The next node in order of the least cost of a path through it, closed; -1 at the end.
  int32_t pop() {
    while (!queue_.empty()) {
      const Waiting next = queue_.top();
      queue_.pop();
      Visited& node = table.nodes[next.node];
      if (node.closed || next.seconds > node.seconds) continue;
      node.closed = true;
      return next.node;
    }
    return -1;
  }
  // `rest` is a lower bound on what follows the move.
  void relax(int32_t parent, const Move& move, double rest, double bound) {
    const double seconds = table.nodes[parent].seconds + move.seconds;
    if (seconds + rest >= bound) return;
    const auto steps = static_cast<int16_t>(table.nodes[parent].steps + 1);
    const int32_t index = table.node_of(move.state);
    Visited& node = table.nodes[index];
    if (seconds > node.seconds - kTie) {
      const bool tie = !node.closed && std::abs(seconds - node.seconds) <= kTie;
      if (!tie || steps >= node.steps) return;
    }
    node.seconds = seconds;
    node.parent = parent;
    node.steps = steps;
    node.kind = move.kind;
    node.closed = false;
    queue_.push({seconds + rest, seconds, steps, index});
  }

 private:
  std::priority_queue<Waiting> queue_;
};

// Lower bounds that hold for every group of devices.
struct LowerBounds {
  double step = 0;      // of any collective
  double permute = 0;   // of any permute
  double gather = 0;    // of any all_gather ...
  double per_byte = 0;  // ... and for each byte by which it makes a shard larger
};

LowerBounds lower_bounds(const MachineProfile& profile) {
  LowerBounds bounds;
  if (!profile.axis_links.empty()) return bounds;
  auto latency = [&](CollectiveKind kind) {
    double least = kInfinity;
    for (const CollectiveProtocol& protocol : profile.collectives[static_cast<size_t>(kind)])
      least = std::min(least, protocol.base_us * 1e-6);
    return least;
  };
  bounds.permute = latency(CollectiveKind::Permute);
  bounds.gather = latency(CollectiveKind::AllGather);
  bounds.step = kInfinity;
  for (int kind = 0; kind < kNumCollectiveKinds; ++kind)
    bounds.step = std::min(bounds.step, latency(static_cast<CollectiveKind>(kind)));
  double rate = 0;
  for (const CollectiveProtocol& protocol :
       profile.collectives[static_cast<size_t>(CollectiveKind::AllGather)])
    rate = std::max(rate, protocol.inside_gbps * 1e9);
  bounds.per_byte = rate > 0 ? 1 / rate : 0;
  return bounds;
}

class Search {
 public:
  Search(const SearchProblem& problem, const MachineProfile& profile, bool may_undo)
      : problem_(problem),
        profile_(profile),
        same_space_(problem.source == problem.target),
        out_of_(*problem.source, profile, problem.memory),
        into_(*problem.target, profile, problem.memory) {
    if (same_space_) out_of_.set_target(problem.to, problem.target_partial_bin);
    into_.set_target(problem.to, problem.target_partial_bin);
    if (may_undo) out_of_.allow_undoing();
    least_ = lower_bounds(profile);
    if (!same_space_) least_.permute = 0;  // a new name for the same devices is free
    source_bytes_ = bytes_of(*problem.source, problem.from);
    target_bytes_ = bytes_of(*problem.target, problem.to);
  }

  std::optional<Path> run() {
    std::optional<Path> direct;
    if (same_space_ && problem_.source->num_atoms() > kFewAtoms) direct = find_direct();
    forward();
    if (bound_ > least_.permute) {
      backward();
      join();
    }
    if (best_ == kInfinity || (direct && direct->seconds < best_ - kTie)) {
      if (direct) direct->cut = cut_;
      return direct;
    }
    return path();
  }

 private:
  static constexpr int kFewAtoms = 4;

  // Steps that bring atoms to their target or make them replicated, and no others: a bound for the
  // whole search, found at once.
  std::optional<Path> find_direct() {
    direct_only_ = true;
    forward();
    direct_only_ = false;
    std::optional<Path> found;
    if (best_ < kInfinity) {
      found = path();
      bound_ = just_above(best_);
    }
    forward_ = {};
    best_ = kInfinity;
    end_ = -1;
    cut_ = false;
    return found;
  }
  bool is_direct(const State& before, const State& after) const {
    for (int a = 0; a < problem_.source->num_atoms(); ++a)
      if (before.code[a] != after.code[a] && after.bin(a) != kReplicated &&
          after.code[a] != problem_.to.code[a])
        return false;
    return true;
  }

  // Whether slices alone lead from the state to the target.
  bool needs_only_slices(const State& state) const {
    for (int a = 0; a < problem_.source->num_atoms(); ++a) {
      const int bin = state.bin(a);
      if (bin == kReplicated) continue;
      if (state.code[a] != problem_.to.code[a]) return false;
    }
    return true;
  }

  static double bytes_of(const Space& space, const State& state) {
    return space.bytes(space.layout_of(state));
  }

  // Only all_gathers (and local paddings, into partials) make shards larger.
  double growth(double from, double to) const {
    if (to <= from || problem_.has_target_partial()) return 0;
    return least_.gather + (to - from) * least_.per_byte;
  }
  double least_to_target(const State& state) const {
    const double grow = growth(bytes_of(*problem_.source, state), target_bytes_);
    if (!same_space_ || problem_.has_target_partial() || needs_only_slices(state)) return grow;
    return std::max(grow, least_.step);
  }
  double least_from_source(const State& state) const {
    return least_.permute + growth(source_bytes_, bytes_of(*problem_.target, state));
  }

  void forward() {
    forward_.start(problem_.from);
    std::vector<Move> moves;
    int closed = 0;
    for (int32_t at; (at = forward_.pop()) >= 0;) {
      const Visited node = forward_.table.nodes[at];
      if (node.seconds >= bound_) continue;
      if (same_space_ && node.state == problem_.to) {
        best_ = bound_ = node.seconds;
        end_ = at;
        break;
      }
      if (!same_space_ && node.state == State()) {  // replicated: slices lead to any target
        const double copy =
            copy_seconds(problem_.source->bytes(problem_.source->layout_of(node.state)), profile_);
        bound_ = std::min(bound_, node.seconds + 3 * copy);
      }
      if (++closed > problem_.max_states) {
        cut_ = true;
        break;
      }
      if (node.steps == kMostStepsBefore) continue;
      moves.clear();
      out_of_.forward(node.state, node.kind == StepKind::AllSlice && node.parent >= 0, moves);
      for (const Move& move : moves) {
        if (direct_only_ && !is_direct(node.state, move.state)) continue;
        if (same_space_ && move.state == problem_.to)
          bound_ = std::min(bound_, just_above(node.seconds + move.seconds));
        forward_.relax(at, move, least_to_target(move.state), bound_);
      }
    }
  }

  void backward() {
    backward_.start(problem_.to);
    std::vector<Move> moves;
    int closed = 0;
    for (int32_t at; (at = backward_.pop()) >= 0;) {
      const Visited node = backward_.table.nodes[at];
      if (node.seconds + least_.permute >= bound_) continue;
      if (++closed > problem_.max_states) {
        cut_ = true;
        break;
      }
      if (node.steps == kMostStepsAfter) continue;
      moves.clear();
      into_.backward(node.state, node.kind == StepKind::AllGather && node.parent >= 0, moves);
      for (const Move& move : moves)
        backward_.relax(at, move, least_from_source(move.state), bound_);
    }
  }

  struct Side {
    std::array<int64_t, 16> shards;
    double seconds;
    int32_t node;
  };

  std::vector<Side> side(const BestFirst& search, Space& space) const {
    std::vector<Side> list;
    for (size_t i = 0; i < search.table.nodes.size(); ++i) {
      const Visited& node = search.table.nodes[i];
      if (!node.closed || node.seconds + least_.permute >= best_) continue;
      Layout layout = space.layout_of(node.state);
      layout.shards[kReplicated] = 1;
      list.push_back({layout.shards, node.seconds, static_cast<int32_t>(i)});
    }
    std::sort(list.begin(), list.end(), [](const Side& a, const Side& b) {
      if (a.shards != b.shards) return a.shards < b.shards;
      return a.seconds != b.seconds ? a.seconds < b.seconds : a.node < b.node;
    });
    return list;
  }

  void join() {
    const std::vector<Side> sources = side(forward_, *problem_.source);
    const std::vector<Side> targets = side(backward_, *problem_.target);
    size_t t = 0;
    for (size_t s = 0; s < sources.size(); ++s) {
      while (t < targets.size() && targets[t].shards < sources[s].shards) ++t;
      for (size_t k = t; k < targets.size() && targets[k].shards == sources[s].shards; ++k)
        join(sources[s], targets[k]);
    }
  }

  void join(const Side& source, const Side& target) {
    const double without = source.seconds + target.seconds;
    if (without + least_.permute >= best_ - kTie) return;
    const State& before = forward_.table.nodes[source.node].state;
    const State& after = backward_.table.nodes[target.node].state;
    Space& space = *problem_.source;
    const double bytes = space.bytes(space.layout_of(before));
    double permute = 0;
    bool relabel = false;
    if (same_space_) {
      const uint32_t changed = changed_atoms(before, after);
      if (changed == 0) return;  // the forward search has been there
      permute = space.seconds(CollectiveKind::Permute, changed, bytes);
    } else if (holds_the_same(before, after)) {
      relabel = true;
    } else {
      permute = whole_mesh_permute(bytes);
    }
    if (!relabel && 2 * bytes > problem_.memory) return;
    if (without + permute >= best_ - kTie) return;
    best_ = without + permute;
    end_ = source.node;
    begin_ = target.node;
    relabel_ = relabel;
  }

  uint32_t changed_atoms(const State& before, const State& after) const {
    uint32_t changed = 0;
    const Space& space = *problem_.source;
    const Layout a = space.layout_of(before), b = space.layout_of(after);
    std::array<int64_t, kMaxAtoms> major{};
    for (int bin = 0; bin < 16; ++bin) {
      int64_t product = 1;
      for (int i = 0; i < a.length[bin]; ++i) {
        major[a.atoms[bin][i]] = bin == kReplicated ? 1 : product;
        product *= space.atom(a.atoms[bin][i]).size;
      }
    }
    for (int bin = 0; bin < 16; ++bin) {
      int64_t product = 1;
      for (int i = 0; i < b.length[bin]; ++i) {
        const int atom = b.atoms[bin][i];
        const int64_t here = bin == kReplicated ? 1 : product;
        if (before.bin(atom) != bin || major[atom] != here) changed |= 1u << atom;
        product *= space.atom(atom).size;
      }
    }
    return changed;
  }

  // Whether every device holds the same shard under both specs.
  bool holds_the_same(const State& before, const State& after) const {
    const ShardingSpec a = problem_.source->spec_of(before);
    const ShardingSpec b = problem_.target->spec_of(after);
    if (a.is_fully_replicated() && b.is_fully_replicated()) return true;
    for (int64_t position = 0; position < a.mesh->num_devices(); ++position) {
      const int64_t other = b.mesh->position_of(a.mesh->device_at(position));
      for (size_t d = 0; d < a.dims.size(); ++d)
        if (coordinate(a.dims[d].axes, *a.mesh, position) !=
            coordinate(b.dims[d].axes, *b.mesh, other))
          return false;
      if (coordinate(a.partial, *a.mesh, position) != coordinate(b.partial, *b.mesh, other))
        return false;
    }
    return true;
  }

  double whole_mesh_permute(double bytes) {
    if (!whole_mesh_) {
      AxisList axes;
      const Mesh& mesh = *problem_.source->mesh();
      for (size_t i = 0; i < mesh.axes.size(); ++i)
        axes.push_back(whole_axis(mesh, static_cast<int>(i)));
      whole_mesh_ = collective_cost(CollectiveKind::Permute, mesh, axes, profile_);
    }
    return whole_mesh_->seconds(bytes);
  }

  Path path() const {
    Path path;
    path.seconds = best_;
    path.cut = cut_;
    for (int32_t at = end_; forward_.table.nodes[at].parent >= 0;
         at = forward_.table.nodes[at].parent)
      path.steps.push_back({forward_.table.nodes[at].kind, 0, forward_.table.nodes[at].state});
    std::reverse(path.steps.begin(), path.steps.end());
    if (begin_ < 0) return path;
    path.steps.push_back({relabel_ ? StepKind::Relabel : StepKind::CollectivePermute, 1,
                          backward_.table.nodes[begin_].state});
    for (int32_t at = begin_; backward_.table.nodes[at].parent >= 0;
         at = backward_.table.nodes[at].parent)
      path.steps.push_back({backward_.table.nodes[at].kind, 1,
                            backward_.table.nodes[backward_.table.nodes[at].parent].state});
    return path;
  }

  const SearchProblem& problem_;
  const MachineProfile& profile_;
  bool same_space_;
  Moves out_of_, into_;
  BestFirst forward_, backward_;
  LowerBounds least_;
  double source_bytes_ = 0, target_bytes_ = 0;
  double best_ = kInfinity;
  double bound_ = kInfinity;  // of a path that was seen but not yet closed
  int32_t end_ = -1;          // the last node of the forward part
  int32_t begin_ = -1;        // the first node of the backward part; -1: no permute
  bool relabel_ = false;
  bool direct_only_ = false;
  bool cut_ = false;
  std::optional<CollectiveCost> whole_mesh_;
};

}  // namespace

std::optional<Path> find_path(const SearchProblem& problem, const MachineProfile& profile) {
  if (auto path = Search(problem, profile, false).run()) return path;
  return Search(problem, profile, true).run();
}

}  // namespace cleave::reshard
