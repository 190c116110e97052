#include "cleave/discover/conditions.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>

namespace cleave {
namespace {

// A term of a condition, with its truth at every point.
struct Atom {
  std::string text;
  std::vector<bool> truth;
};

using Predicate = std::function<bool(const SweepPoint&)>;

std::vector<bool> truth_of(const std::vector<SweepPoint>& points, const Predicate& predicate) {
  std::vector<bool> truth;
  for (const SweepPoint& point : points) truth.push_back(predicate(point));
  return truth;
}

class AtomTable {
 public:
  AtomTable(const std::vector<SweepPoint>& points, const std::vector<std::string>& dim_attrs)
      : points_(points) {
    const bool has_d = std::all_of(points.begin(), points.end(),
                                   [](const SweepPoint& p) { return p.d.has_value(); });
    if (has_d)
      for (const std::string& name : dim_attrs) add_dim(name);
    for (const auto& [name, value] : points.front().attrs)
      if (std::find(dim_attrs.begin(), dim_attrs.end(), name) == dim_attrs.end()) {
        for (const std::string& dim : dim_attrs) add_size(name, dim);
        add_attr(name, has_d);
      }
    for (const std::string& name : dim_attrs)
      if (!has_d && points.front().attrs.contains(name)) add_values(name);
    if (has_d) add_position();
    if (has_d && points.front().w > 0) add_shards(dim_attrs);
  }
  const std::vector<Atom>& atoms() const { return atoms_; }

 private:
  void add(std::string text, const Predicate& predicate) {
    std::vector<bool> truth = truth_of(points_, predicate);
    const bool constant =
        std::all_of(truth.begin(), truth.end(), [&](bool t) { return t == truth[0]; });
    if (constant) return;
    for (const Atom& atom : atoms_)
      if (atom.truth == truth) return;
    atoms_.push_back({std::move(text), std::move(truth)});
  }
  // A term that promises less than one before it takes its place if no point tells them apart.
  void add_stronger(std::string text, const std::string& weaker, const Predicate& predicate) {
    const std::vector<bool> truth = truth_of(points_, predicate);
    for (Atom& atom : atoms_)
      if (atom.text == weaker && atom.truth == truth) {
        atom.text = std::move(text);
        return;
      }
    add(std::move(text), predicate);
  }

  void rename_if_same(const std::string& from, const std::string& to, const Predicate& predicate) {
    const std::vector<bool> truth = truth_of(points_, predicate);
    for (Atom& atom : atoms_)
      if (atom.text == from && atom.truth == truth) atom.text = to;
  }

  void add_dim(const std::string& name) {
    auto value = [name](const SweepPoint& p) -> std::optional<int64_t> {
      auto it = p.attrs.find(name);
      if (it == p.attrs.end()) return std::nullopt;
      if (auto* dim = std::get_if<int64_t>(&it->second)) return *dim;
      return std::nullopt;
    };
    auto in_list = [name](const SweepPoint& p) {
      auto it = p.attrs.find(name);
      auto* dims = it == p.attrs.end() ? nullptr : std::get_if<std::vector<int64_t>>(&it->second);
      return dims && std::find(dims->begin(), dims->end(), *p.d) != dims->end();
    };
    add("d != " + name, [value](const SweepPoint& p) { return value(p) && *p.d != *value(p); });
    add("d == " + name, [value](const SweepPoint& p) { return value(p) && *p.d == *value(p); });
    add_stronger("d < " + name, "d != " + name,
                 [value](const SweepPoint& p) { return value(p) && *p.d < *value(p); });
    add_stronger("d > " + name, "d != " + name,
                 [value](const SweepPoint& p) { return value(p) && *p.d > *value(p); });
    add("d <= " + name, [value](const SweepPoint& p) { return value(p) && *p.d <= *value(p); });
    add("d >= " + name, [value](const SweepPoint& p) { return value(p) && *p.d >= *value(p); });
    add("d not in " + name, [in_list](const SweepPoint& p) { return !in_list(p); });
    add("d in " + name, in_list);
    add_below(name);
  }

  // How many of the listed dimensions come before d: where it lies once they are gone.
  void add_below(const std::string& name) {
    auto below = [name](const SweepPoint& p) -> int64_t {
      const auto it = p.attrs.find(name);
      const auto* dims =
          it == p.attrs.end() ? nullptr : std::get_if<std::vector<int64_t>>(&it->second);
      if (!dims) return -1;
      return std::ranges::count_if(*dims, [&](int64_t k) { return k < *p.d; });
    };
    auto in_list = [name](const SweepPoint& p) {
      return std::ranges::count(std::get<std::vector<int64_t>>(p.attrs.at(name)), *p.d) > 0;
    };
    for (int64_t k = 0; k < 4; ++k) {
      const std::string text = fmt::format("below(d, {}) == {}", name, k);
      add(text, [below, k](const SweepPoint& p) { return below(p) == k; });
      // Of lists of one dimension, none says what becomes of d if it is listed too.
      rename_if_same(text, fmt::format("d not in {} and {}", name, text),
                     [=](const SweepPoint& p) { return below(p) == k && !in_list(p); });
    }
  }

  // A number against the size of the dimension that another attribute names: the k-th of k.
  void add_size(const std::string& name, const std::string& dim) {
    auto is_size = [name, dim](const SweepPoint& p) {
      const auto k = p.attrs.find(name), d = p.attrs.find(dim);
      if (k == p.attrs.end() || d == p.attrs.end()) return false;
      const auto* number = std::get_if<int64_t>(&k->second);
      const auto* at = std::get_if<int64_t>(&d->second);
      return number && at && *at >= 0 && *at < static_cast<int64_t>(p.shape.size()) &&
             *number == p.shape[static_cast<size_t>(*at)];
    };
    add(fmt::format("{} == size({})", name, dim), is_size);
    add(fmt::format("{} != size({})", name, dim),
        [is_size](const SweepPoint& p) { return !is_size(p); });
  }

  void add_attr(const std::string& name, bool has_d) {
    const AttrValue& first = points_.front().attrs.at(name);
    // Of values of several kinds (a number, a list) only the values themselves are terms.
    const bool alike = std::all_of(points_.begin(), points_.end(), [&](const SweepPoint& p) {
      const auto it = p.attrs.find(name);
      return it != p.attrs.end() && it->second.index() == first.index();
    });
    if (!alike) {
      add_values(name);
      return;
    }
    if (std::holds_alternative<bool>(first)) {
      add(name, [name](const SweepPoint& p) { return std::get<bool>(p.attrs.at(name)); });
      add("not " + name, [name](const SweepPoint& p) { return !std::get<bool>(p.attrs.at(name)); });
      return;
    }
    // Of a real number the sign says more than the values of a sweep.
    if (std::holds_alternative<double>(first)) {
      auto value = [name](const SweepPoint& p) { return std::get<double>(p.attrs.at(name)); };
      // One number says nothing about those of its sign.
      auto add_sign = [&](const char* text, const std::function<bool(double)>& holds) {
        std::set<double> values;
        for (const SweepPoint& p : points_)
          if (holds(value(p))) values.insert(value(p));
        if (values.size() > 1)
          add(name + text, [=](const SweepPoint& p) { return holds(value(p)); });
      };
      add_sign(" > 0", [](double x) { return x > 0; });
      add_sign(" < 0", [](double x) { return x < 0; });
      add_sign(" >= 0", [](double x) { return x >= 0; });
      add_sign(" <= 0", [](double x) { return x <= 0; });
    }
    // A number that never changes meets d by chance, as does a d that never changes.
    auto varies = [&](auto differs) {
      return std::any_of(points_.begin(), points_.end(), differs);
    };
    if (std::holds_alternative<int64_t>(first) && has_d &&
        varies([&](const SweepPoint& p) { return p.attrs.at(name) != first; }) &&
        varies([&](const SweepPoint& p) { return p.d != points_.front().d; })) {
      add("d < " + name,
          [name](const SweepPoint& p) { return *p.d < std::get<int64_t>(p.attrs.at(name)); });
      add("d >= " + name,
          [name](const SweepPoint& p) { return *p.d >= std::get<int64_t>(p.attrs.at(name)); });
    }
    add_values(name);
  }

  // Values that were tried, alone and together: "p != 2" would promise those that were not.
  void add_values(const std::string& name) {
    std::set<AttrValue> values, somewhere, not_everywhere;
    for (const SweepPoint& p : points_)
      if (auto it = p.attrs.find(name); it != p.attrs.end()) {
        values.insert(it->second);
        (p.valid ? somewhere : not_everywhere).insert(it->second);
      }
    for (const AttrValue& value : values) add_set(name, {value});
    add_set(name, somewhere);
    std::set<AttrValue> everywhere;
    for (const AttrValue& value : values)
      if (!not_everywhere.contains(value)) everywhere.insert(value);
    add_set(name, everywhere);
  }

  void add_set(const std::string& name, const std::set<AttrValue>& values) {
    if (values.empty()) return;
    std::string text;
    for (const AttrValue& value : values)
      text += fmt::format("{}{} == {}", text.empty() ? "" : " or ", name, to_string(value));
    if (values.size() > 1) text = "(" + text + ")";
    add(std::move(text), [name, values](const SweepPoint& p) {
      auto it = p.attrs.find(name);
      return it != p.attrs.end() && values.contains(it->second);
    });
  }

  void add_position() {
    add("size(d) == 1", [](const SweepPoint& p) { return p.size_of_d == 1; });
    add("size(d) != 1", [](const SweepPoint& p) { return p.size_of_d != 1; });
    for (int64_t k = 0; k < 4; ++k)
      add(fmt::format("d == {}", k), [k](const SweepPoint& p) { return *p.d == k; });
    for (int64_t k = 0; k < 4; ++k)
      add(fmt::format("d != {}", k), [k](const SweepPoint& p) { return *p.d != k; });
    for (int64_t k = 1; k < 4; ++k) {
      const std::string last = k == 1 ? "rank - 1" : fmt::format("rank - {}", k);
      add("d == " + last, [k](const SweepPoint& p) { return *p.d == p.rank - k; });
      add("d != " + last, [k](const SweepPoint& p) { return *p.d != p.rank - k; });
      add("d < " + last, [k](const SweepPoint& p) { return *p.d < p.rank - k; });
    }
  }

  // What the number of devices makes of the shards of d: chunks of ceil(size / w).
  void add_shards(const std::vector<std::string>& dim_attrs) {
    auto divides = [](const SweepPoint& p, int64_t k) {
      return k > 0 && p.size_of_d % (k * p.w) == 0;
    };
    add("size(d) % w == 0", [=](const SweepPoint& p) { return divides(p, 1); });
    // Shards of one element may be taken for something else: they broadcast.
    add_stronger("size(d) == w", "size(d) % w == 0",
                 [](const SweepPoint& p) { return p.size_of_d == p.w; });
    add("no shard of d is empty", [](const SweepPoint& p) {
      const int64_t chunk = (p.size_of_d + p.w - 1) / p.w;
      return chunk * (p.w - 1) < p.size_of_d;
    });
    for (const auto& [name, first] : points_.front().attrs) {
      const bool is_dim = std::find(dim_attrs.begin(), dim_attrs.end(), name) != dim_attrs.end();
      if (is_dim || !std::holds_alternative<int64_t>(first)) continue;
      auto value = [key = name](const SweepPoint& p) -> int64_t {
        const auto it = p.attrs.find(key);
        const auto* k = it == p.attrs.end() ? nullptr : std::get_if<int64_t>(&it->second);
        return k && *k > 0 && *k < 1 << 20 ? *k : 0;
      };
      add(fmt::format("size(d) % ({} * w) == 0", name),
          [=](const SweepPoint& p) { return divides(p, value(p)); });
      add(fmt::format("size(d) % ({0} * {0} * w) == 0", name),
          [=](const SweepPoint& p) { return divides(p, value(p) * value(p)); });
    }
    // Of two numbers that no point tells apart, the larger promises less.
    auto text = [](int64_t k) { return fmt::format("size(d) % ({} * w) == 0", k); };
    for (int64_t k = 2; k <= 9; ++k) {
      const auto divided = [=](const SweepPoint& p) { return divides(p, k); };
      for (int64_t smaller = 2; smaller < k; ++smaller)
        rename_if_same(text(smaller), text(k), divided);
      add(text(k), divided);
    }
  }

  const std::vector<SweepPoint>& points_;
  std::vector<Atom> atoms_;
};

template <typename Combine>
std::vector<bool> combine(const std::vector<bool>& a, const std::vector<bool>& b, Combine op) {
  std::vector<bool> result(a.size());
  for (size_t i = 0; i < a.size(); ++i) result[i] = op(a[i], b[i]);
  return result;
}

bool covers(const std::vector<bool>& atom, const std::vector<bool>& target) {
  for (size_t i = 0; i < atom.size(); ++i)
    if (target[i] && !atom[i]) return false;
  return true;
}

bool is_alternative(const std::string& condition) {
  int depth = 0;
  for (size_t i = 0; i < condition.size(); ++i) {
    depth += condition[i] == '(' ? 1 : condition[i] == ')' ? -1 : 0;
    if (depth == 0 && condition.compare(i, 4, " or ") == 0) return true;
  }
  return false;
}

std::string in_conjunction(const std::string& condition) {
  return is_alternative(condition) ? "(" + condition + ")" : condition;
}

std::optional<std::string> condition_of_terms(const std::vector<SweepPoint>& points,
                                              const std::vector<std::string>& dim_attrs) {
  std::vector<bool> target;
  for (const SweepPoint& point : points) target.push_back(point.valid);
  if (std::all_of(target.begin(), target.end(), [](bool t) { return t; })) return "";
  const AtomTable table(points, dim_attrs);
  const std::vector<Atom>& atoms = table.atoms();
  for (const Atom& atom : atoms)
    if (atom.truth == target)
      return atom.text.starts_with('(') ? atom.text.substr(1, atom.text.size() - 2) : atom.text;

  auto both = [](bool a, bool b) { return a && b; };
  auto either = [](bool a, bool b) { return a || b; };
  std::vector<const Atom*> wide;  // only these can be part of a conjunction
  for (const Atom& atom : atoms)
    if (covers(atom.truth, target)) wide.push_back(&atom);
  for (size_t i = 0; i < wide.size(); ++i)
    for (size_t j = i + 1; j < wide.size(); ++j)
      if (combine(wide[i]->truth, wide[j]->truth, both) == target)
        return wide[i]->text + " and " + wide[j]->text;
  for (size_t i = 0; i < atoms.size(); ++i)
    for (size_t j = i + 1; j < atoms.size(); ++j)
      if (combine(atoms[i].truth, atoms[j].truth, either) == target)
        return atoms[i].text + " or " + atoms[j].text;
  for (size_t i = 0; i < wide.size(); ++i)
    for (size_t j = i + 1; j < wide.size(); ++j) {
      const std::vector<bool> two = combine(wide[i]->truth, wide[j]->truth, both);
      for (size_t k = j + 1; k < wide.size(); ++k)
        if (combine(two, wide[k]->truth, both) == target)
          return wide[i]->text + " and " + wide[j]->text + " and " + wide[k]->text;
    }
  // One term, and one of two:  d not in dims and (keepdim or below(d, dims) == 0)
  for (const Atom* each : wide)
    for (size_t i = 0; i < atoms.size(); ++i)
      for (size_t j = i + 1; j < atoms.size(); ++j)
        if (combine(combine(atoms[i].truth, atoms[j].truth, either), each->truth, both) == target)
          return fmt::format("{} and ({} or {})", each->text, atoms[i].text, atoms[j].text);
  // One term, or else two together:  d < dim or (keepdim and d != dim)
  for (const Atom& alone : atoms) {
    if (!covers(target, alone.truth)) continue;
    for (size_t i = 0; i < atoms.size(); ++i)
      for (size_t j = i + 1; j < atoms.size(); ++j)
        if (combine(combine(atoms[i].truth, atoms[j].truth, both), alone.truth, either) == target)
          return fmt::format("{} or ({} and {})", alone.text, atoms[i].text, atoms[j].text);
  }
  return std::nullopt;
}

// A term about the shards, and what explains the points where it is true:
// "d != dim and (d < dim or keepdim)" and "no shard of d is empty".
std::optional<std::string> condition_with_shards(const std::vector<SweepPoint>& points,
                                                 const std::vector<std::string>& dim_attrs) {
  std::vector<bool> target;
  for (const SweepPoint& point : points) target.push_back(point.valid);
  const AtomTable table(points, dim_attrs);
  for (const Atom& shards : table.atoms()) {
    if (!depends_on_world(shards.text) || !covers(shards.truth, target)) continue;
    std::vector<SweepPoint> right;
    for (size_t i = 0; i < points.size(); ++i)
      if (shards.truth[i]) {
        right.push_back(points[i]);
        right.back().w = 0;
      }
    const auto others = condition_of_terms(right, dim_attrs);
    if (others && !others->empty()) return in_conjunction(*others) + " and " + shards.text;
  }
  return std::nullopt;
}

// If d was the dimension of the call wherever the rule held (at rank 1 there is no other), the
// values say nothing about other dimensions: "ord == inf" becomes "d == dim and ord == inf".
std::string with_tried_dims(const std::string& condition, const std::vector<SweepPoint>& points,
                            const std::vector<std::string>& dim_attrs) {
  auto says = [&](const std::string& name) { return mentions_word(condition, name); };
  const AttrMap& attrs = points.front().attrs;
  const bool has_attribute =
      std::any_of(attrs.begin(), attrs.end(), [&](const auto& attr) { return says(attr.first); });
  if (!has_attribute || std::any_of(dim_attrs.begin(), dim_attrs.end(), says)) return condition;
  for (const std::string& name : dim_attrs) {
    bool always = true, never = true;
    for (const SweepPoint& point : points) {
      const auto it = point.attrs.find(name);
      const auto* dim = it == point.attrs.end() ? nullptr : std::get_if<int64_t>(&it->second);
      if (!dim || !point.d) return condition;
      if (!point.valid) continue;
      (*dim == *point.d ? never : always) = false;
    }
    if (always != never)
      return fmt::format("d {} {} and {}", always ? "==" : "!=", name, in_conjunction(condition));
  }
  return condition;
}

// If an attribute had one value wherever the condition is true, and others elsewhere, these were
// not tried there: "size(d) % w == 0" becomes "size(d) % w == 0 and reduction == 'mean'".
std::string with_tried_values(std::string condition, const std::vector<SweepPoint>& points,
                              const std::vector<bool>& where,
                              const std::vector<std::string>& dim_attrs) {
  for (const auto& [name, first] : points.front().attrs) {
    if (mentions_word(condition, name) || std::ranges::count(dim_attrs, name) > 0) continue;
    std::set<AttrValue> here, all;
    for (size_t i = 0; i < points.size(); ++i)
      if (const auto it = points[i].attrs.find(name); it != points[i].attrs.end()) {
        all.insert(it->second);
        if (where[i]) here.insert(it->second);
      }
    if (here.size() != 1 || all.size() == 1) continue;
    const auto* flag = std::get_if<bool>(&*here.begin());
    condition = in_conjunction(condition) +
                (flag ? fmt::format(" and {}{}", *flag ? "" : "not ", name)
                      : fmt::format(" and {} == {}", name, to_string(*here.begin())));
  }
  return condition;
}

}  // namespace

std::optional<std::string> smallest_condition(const std::vector<SweepPoint>& points,
                                              const std::vector<std::string>& dim_attrs) {
  auto condition = condition_of_terms(points, dim_attrs);
  if (!condition) condition = condition_with_shards(points, dim_attrs);
  if (condition) condition = with_tried_dims(*condition, points, dim_attrs);
  return condition;
}

std::optional<std::string> sufficient_condition(const std::vector<SweepPoint>& points,
                                                const std::vector<std::string>& dim_attrs) {
  std::vector<bool> target;
  for (const SweepPoint& point : points) target.push_back(point.valid);
  const AtomTable table(points, dim_attrs);
  std::optional<std::string> best;
  std::vector<bool> where;
  std::ptrdiff_t most = 0;
  // Of two that hold as often, the later: it asks for larger shards.
  auto consider = [&](const std::vector<bool>& truth, const std::string& text, bool tie) {
    const auto count = std::count(truth.begin(), truth.end(), true);
    if (count < most || (count == most && !tie) || count == 0 || !covers(target, truth)) return;
    most = count;
    best = text;
    where = truth;
  };
  for (const Atom& shards : table.atoms())
    if (depends_on_world(shards.text)) consider(shards.truth, shards.text, true);
  for (const Atom& other : table.atoms())
    for (const Atom& shards : table.atoms())
      if (depends_on_world(shards.text) && !depends_on_world(other.text))
        consider(combine(other.truth, shards.truth, [](bool a, bool b) { return a && b; }),
                 other.text + " and " + shards.text, false);
  return best ? with_tried_values(*best, points, where, dim_attrs) : best;
}

void count_from_front(AttrMap& attrs, const std::vector<std::string>& dim_attrs, size_t rank) {
  auto shift = [&](int64_t& dim) { dim += dim < 0 ? static_cast<int64_t>(rank) : 0; };
  for (const std::string& name : dim_attrs) {
    const auto it = attrs.find(name);
    if (it == attrs.end()) continue;
    if (auto* dim = std::get_if<int64_t>(&it->second)) shift(*dim);
    if (auto* dims = std::get_if<std::vector<int64_t>>(&it->second))
      std::for_each(dims->begin(), dims->end(), shift);
  }
}

bool mentions_word(const std::string& condition, const std::string& name) {
  auto in_word = [&](size_t at) {
    return at < condition.size() &&
           (std::isalnum(static_cast<unsigned char>(condition[at])) || condition[at] == '_');
  };
  for (size_t at = condition.find(name); at != std::string::npos; at = condition.find(name, at + 1))
    if (!in_word(at + name.size()) && (at == 0 || !in_word(at - 1))) return true;
  return false;
}

bool depends_on_world(const std::string& condition) {
  return mentions_word(condition, "w") || mentions_word(condition, "shard");
}

}  // namespace cleave
