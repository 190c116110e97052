// Strategies and tests for overloads of PyTorch whose schema is known.
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "cleave/discover/conditions.h"
#include "cleave/discover/emit.h"
#include "cleave/discover/emit_dtensor.h"
#include "cleave/discover/synthesize.h"

namespace cleave {
namespace {

using namespace dtensor_text;
using Kind = PlacePattern::Kind;

// aten.linalg_cross.default -> linalg_cross
std::string base_name(const TorchOverload& overload) {
  const size_t begin = overload.name.find('.') + 1, end = overload.name.find('.', begin);
  return identifier(overload.name.substr(begin, end - begin));
}

std::string variable(const std::string& argument) {
  static const std::set<std::string> taken = {"from", "in",   "is",    "lambda", "global", "d",
                                              "op",   "rows", "shape", "rank",   "and",    "or"};
  return taken.contains(argument) ? argument + "_" : argument;
}

class Strategy {
 public:
  Strategy(const Discovery& discovery, const TorchOverload& overload)
      : discovery_(discovery), overload_(overload) {
    for (const auto& [argument, place] : overload.operands) {
      const std::string name = variable(overload.arguments.at(argument).name);
      metas_.push_back(place < 0 ? name : fmt::format("{}[{}]", name, place));
    }
    find_ranks_and_shapes();
  }

  std::string text() {
    std::string body = operands() + attributes() + guards() + "    rows = []\n";
    if (uses_ranks_) body += fmt::format("    ranks = {}\n", ranks_now());
    for (const DiscoveredRule& rule : discovery_.rules)
      if (is_row(rule)) body += row_of(rule);
    return header() + docstring() + body + "    return rows\n";
  }

 private:
  const SampleDecisions& first() const { return discovery_.samples.front(); }

  void find_ranks_and_shapes() {
    const size_t n = metas_.size();
    std::vector<bool> same(n, n > 1);
    for (const SampleDecisions& sample : discovery_.samples) {
      std::vector<std::string> ranks;
      for (size_t i = 0; i < n; ++i) {
        const Shape& shape = sample.sample.operands[i].shape;
        ranks.push_back(std::to_string(shape.size()));
        if (shape != sample.sample.operands[0].shape) same[i] = false;
      }
      ranks_.insert(fmt::format("({},)", fmt::join(ranks, ", ")));
      size_t widest = 0;
      for (const Shape& shape : sample.result_shapes) widest = std::max(widest, shape.size());
      const size_t rank = n ? sample.sample.operands[0].shape.size() : 0;
      if (widest > rank && has_dim_from(sample.sample, rank)) more_dims_ = widest - rank;
    }
    for (size_t i = 1; i < n; ++i)
      if (same[i]) same_shapes_.push_back(i);
    uses_ranks_ = std::ranges::any_of(
        discovery_.rules, [&](const DiscoveredRule& r) { return is_row(r) && needs_ranks(r); });
  }

  std::string ranks_now() const {
    std::vector<std::string> parts;
    for (const std::string& meta : metas_) parts.push_back(fmt::format("len({}.shape)", meta));
    return fmt::format("({},)", fmt::join(parts, ", "));
  }

  static bool is_sharded(const DiscoveredRule& rule) {
    return std::ranges::any_of(rule.operands, &PlacePattern::is_shard);
  }
  // Dimensions by number say something about the ranks that were tried, as do those of one rank.
  bool needs_ranks(const DiscoveredRule& rule) const {
    const bool by_number = std::ranges::any_of(
        rule.operands, [](const PlacePattern& p) { return p.kind == Kind::Shard; });
    return is_sharded(rule) && (by_number || ranks_.size() < 2);
  }
  bool is_row(const DiscoveredRule& rule) const {
    const bool all_replicated = std::ranges::all_of(
        rule.operands, [](const PlacePattern& p) { return p.kind == Kind::Replicate; });
    return !rule.implied && rule.result == 0 && !all_replicated && can_say(rule) &&
           !result_rows(discovery_, rule).empty();
  }

  // Reads an argument by position or keyword.
  std::string read(size_t position) {
    const TorchArgument& argument = overload_.arguments[position];
    const std::string other = argument.fallback.empty() ? "" : ", " + argument.fallback;
    const std::string keyword = fmt::format("kwargs_schema.get(\"{}\"{})", argument.name, other);
    if (argument.keyword_only)
      return fmt::format("    {} = {}\n", variable(argument.name), keyword);
    return fmt::format("    {0} = args_schema[{1}] if len(args_schema) > {1} else {2}\n",
                       variable(argument.name), position, keyword);
  }
  // The same of one that is part of the key of DTensor's cache.
  std::string read_static(size_t position) {
    keys_.push_back(overload_.arguments[position].name);
    if (!overload_.arguments[position].keyword_only)
      static_argnum_ = std::min(static_argnum_, position);
    return read(position);
  }

  std::string operands() {
    std::string text;
    std::set<int> seen;
    for (const auto& [argument, place] : overload_.operands) {
      if (!seen.insert(argument).second) continue;
      text += read(static_cast<size_t>(argument));
      if (place < 0) continue;
      const auto count =
          std::ranges::count(overload_.operands, argument, &std::pair<int, int>::first);
      text += fmt::format("    if {0} is None or len({0}) != {1}:\n        return []\n",
                          variable(overload_.arguments[argument].name), count);
      needs_pytree_ = true;
    }
    text += fmt::format(
        "    if not all(isinstance(meta, TensorMeta) for meta in [{}]):\n"
        "        return []  # rules were found with all of these tensors\n",
        fmt::join(metas_, ", "));
    return text;
  }

  bool is_needed(const std::string& name) const {
    auto says = [&](const DiscoveredRule& rule) {
      return mentions_word(rule.condition, name) || names_attr(rule, name);
    };
    return std::ranges::any_of(discovery_.rules, says) ||
           std::ranges::count(discovery_.attributes, name) > 0;
  }

  std::string attributes() {
    std::string text;
    for (size_t i = 0; i < overload_.arguments.size(); ++i) {
      const TorchArgument& argument = overload_.arguments[i];
      const auto it = first().sample.attrs.find(argument.name);
      if (it == first().sample.attrs.end()) continue;
      const bool is_list = std::holds_alternative<std::vector<int64_t>>(it->second);
      if (!is_list && !is_needed(argument.name)) continue;
      text += read_static(i) + plain_value(argument, is_list);
    }
    return text;
  }

  // Whether a call names a dimension that operand 0 does not have: dimensions are the result's.
  bool has_dim_from(const Sample& sample, size_t rank) const {
    return std::ranges::any_of(discovery_.dim_attrs, [&](const std::string& name) {
      const auto it = sample.attrs.find(name);
      const auto* dim = it == sample.attrs.end() ? nullptr : std::get_if<int64_t>(&it->second);
      return dim && *dim >= static_cast<int64_t>(rank);
    });
  }

  std::string plain_value(const TorchArgument& argument, bool is_list) {
    const std::string name = variable(argument.name);
    std::string text = fmt::format("    if {} is None:\n        return []\n", name);
    const bool is_dim =
        std::ranges::find(discovery_.dim_attrs, argument.name) != discovery_.dim_attrs.end();
    const std::string rank = fmt::format("max(1, len({}.shape){})", metas_.front(),
                                         more_dims_ ? fmt::format(" + {}", more_dims_) : "");
    if (is_list) {
      std::set<size_t> lengths;
      for (const SampleDecisions& sample : discovery_.samples)
        if (auto* list = std::get_if<std::vector<int64_t>>(&sample.sample.attrs.at(argument.name)))
          lengths.insert(list->size());
      text += fmt::format(
          "    {0} = [{0}] if isinstance({0}, int) else list({0})\n"
          "    if len({0}) not in {{{1}}}:\n        return []  # not tried\n",
          name, fmt::join(lengths, ", "));
      if (is_dim) text += fmt::format("    {0} = [k % {1} for k in {0}]\n", name, rank);
      return text;
    }
    if (argument.is_list)
      text += fmt::format(
          "    if isinstance({0}, (list, tuple)):\n        if len({0}) != 1:\n"
          "            return []  # not tried\n        {0} = {0}[0]\n",
          name);
    if (is_dim) text += fmt::format("    {} %= {}\n", name, rank);
    return text;
  }

  // Calls unlike those that were tried have no row.
  std::string guards() {
    static const std::set<std::string> free = {"eps", "epsilon", "momentum", "generator"};
    std::string text;
    for (size_t i = 0; i < overload_.arguments.size(); ++i) {
      const TorchArgument& argument = overload_.arguments[i];
      const auto it = overload_.fixed.find(argument.name);
      if (it == overload_.fixed.end() || free.contains(argument.name)) continue;
      const std::string name = variable(argument.name);
      text += read_static(i);
      text += argument.is_list && it->second.starts_with("[")
                  ? fmt::format("    if {0} is None or list({0}) != {1}:\n", name, it->second)
              : it->second == "None" || it->second == "True" || it->second == "False"
                  ? fmt::format("    if {} is not {}:\n", name, it->second)
                  : fmt::format("    if {} != {}:\n", name, it->second);
      text += "        return []  # not tried\n";
    }
    return text;
  }

  std::string row_of(const DiscoveredRule& rule) const {
    std::string text, pad = "    ";
    std::vector<std::string> terms;
    if (needs_ranks(rule)) terms.push_back(fmt::format("ranks in {{{}}}", fmt::join(ranks_, ", ")));
    if (is_sharded(rule))
      for (size_t i : same_shapes_)
        terms.push_back(fmt::format("len({}.shape) == len({}.shape)", metas_[i], metas_[0]));
    auto open = [&](const std::string& line) {
      text += pad + line + ":\n";
      pad += "    ";
    };
    if (!terms.empty()) open(fmt::format("if {}", fmt::join(terms, " and ")));
    if (uses_d(rule)) {
      text += fmt::format("{0}shape = {1}.shape\n{0}rank = len(shape)\n", pad,
                          metas_[base_operand(rule)]);
      open("for d in range(rank)");
    }
    if (const std::string sizes = equal_sizes(rule); !sizes.empty()) open("if " + sizes);
    const std::vector<ResultRow> rows = result_rows(discovery_, rule);
    auto has_condition = [](const ResultRow& one) { return !one.condition.empty(); };
    if (!uses_d(rule) && std::ranges::any_of(rows, has_condition)) {
      const size_t base = sharded_operand(rule);
      text += fmt::format("{0}shape = {1}.shape\n{0}rank = len(shape)\n", pad, metas_[base]);
      if (rule.operands[base].kind == Kind::Shard)
        text += fmt::format("{}d = {}\n", pad, rule.operands[base].dim);
    }
    for (const ResultRow& one : rows) {
      if (!one.condition.empty())
        text += fmt::format("{}if {}:\n    ", pad, condition(one.condition, metas_[0]));
      text += fmt::format("{}rows.append({})", pad, row(discovery_, one.results, rule, metas_));
      text += fmt::format("  # {}\n", rule.justification);
    }
    return text;
  }

  // Operands that had one shape in all calls: those that are split together must still be as long.
  std::string equal_sizes(const DiscoveredRule& rule) const {
    const std::set<size_t> same(same_shapes_.begin(), same_shapes_.end());
    std::vector<std::string> sizes;
    for (size_t i = 0; i < metas_.size(); ++i) {
      const PlacePattern& p = rule.operands[i];
      if (i > 0 && !same.contains(i)) continue;
      if (p.kind == Kind::Shard)
        sizes.push_back(fmt::format("{}.shape[{}]", metas_[i], p.dim));
      else if (p.kind == Kind::ShardOfD)
        sizes.push_back(p.dim == 0 ? fmt::format("{}.shape[d]", metas_[i])
                                   : fmt::format("{}.shape[d{:+}]", metas_[i], p.dim));
      else if (p.is_anchored())
        sizes.push_back(p.attr.empty() ? fmt::format("{}.shape[{}]", metas_[i], p.dim)
                                       : fmt::format("{}.shape[{}]", metas_[i], p.attr));
    }
    return sizes.size() < 2 ? "" : fmt::format("{}", fmt::join(sizes, " == "));
  }

  static size_t sharded_operand(const DiscoveredRule& rule) {
    const auto it = std::ranges::find(rule.operands, Kind::Shard, &PlacePattern::kind);
    return it == rule.operands.end() ? 0 : static_cast<size_t>(it - rule.operands.begin());
  }

  std::string header() const {
    std::vector<std::string> info;
    if (static_argnum_ < overload_.arguments.size())
      info.push_back(fmt::format("static_argnum={}", static_argnum_));
    if (!keys_.empty())
      info.push_back(fmt::format("static_kwargkey=[\"{}\"]", fmt::join(keys_, "\", \"")));
    if (needs_pytree_) info.push_back("needs_pytree=True");
    return fmt::format(
        "\"\"\"How {0} may be sharded without communication.\"\"\"\n\n"
        "import torch\n"
        "from torch.distributed.tensor._dtensor_spec import TensorMeta\n"
        "from torch.distributed.tensor._op_schema import RuntimeSchemaInfo\n"
        "from torch.distributed.tensor._ops.single_dim_strategy import (\n"
        "    _ShardingPlaceholder,\n    register_single_dim_strategy,\n)\n"
        "from torch.distributed.tensor.placement_types import Partial, Replicate\n\n\n"
        "@register_single_dim_strategy(\n    torch.ops.{0},\n    "
        "schema_info=RuntimeSchemaInfo({1}),\n"
        "    allow_uneven_sharding=True,\n)\n"
        "def {2}_single_dim_strategy(op, args_schema, kwargs_schema):\n",
        overload_.name, fmt::join(info, ", "), base_name(overload_));
  }

  std::string docstring() const {
    std::string text = fmt::format(
        "    \"\"\"{}\n\n    Found by running it on parts: {} combinations over {} calls, on {} "
        "devices. What holds:\n\n",
        overload_.signature, discovery_.combinations, discovery_.samples.size(),
        fmt::join(discovery_.worlds, ", "));
    std::string left_out;
    for (const DiscoveredRule& rule : discovery_.rules) {
      if (rule.implied) continue;
      const std::string result =
          discovery_.num_results > 1 ? fmt::format(" (result {})", rule.result) : "";
      const std::string line =
          fmt::format("        {}{}: {}\n", to_string(rule), result, rule.justification);
      (can_say(rule) ? text : left_out) += line;
    }
    if (!left_out.empty())
      text += "\n    What holds for some sizes or numbers of devices only, and is left out:\n\n" +
              left_out;
    if (!overload_.fixed.empty()) {
      text += "\n    Tried with";
      std::string sep = " ";
      for (const auto& [name, value] : overload_.fixed) {
        text += fmt::format("{}{}={}", sep, name, value);
        sep = ", ";
      }
      text += " only.\n";
    }
    return text + "    \"\"\"\n";
  }

  const Discovery& discovery_;
  const TorchOverload& overload_;
  std::vector<std::string> metas_;
  std::set<std::string> ranks_;
  std::vector<size_t> same_shapes_;  // operands with the shape of operand 0 in all calls
  size_t more_dims_ = 0;             // that a result has beyond operand 0
  bool uses_ranks_ = false;
  bool needs_pytree_ = false;
  size_t static_argnum_ = 1000;
  std::vector<std::string> keys_;
};

std::string domain_text(const TensorDesc& desc) {
  switch (desc.domain) {
    case Domain::NonZero:
      return ", \"nonzero\"";
    case Domain::Positive:
      return ", \"positive\"";
    case Domain::Index:
      return fmt::format(", \"index\", {}", desc.limit);
    case Domain::Sorted:
      return ", \"sorted\"";
    case Domain::Definite:
      return ", \"definite\"";
    default:
      return "";
  }
}

std::string tensor_text(const TensorDesc& desc) {
  return fmt::format("T(({}{}), {}{})", fmt::join(desc.shape, ", "),
                     desc.shape.size() == 1 ? "," : "", dtype(desc.dtype), domain_text(desc));
}

// "[T((8, 3,), torch.float64), ...], {\"dim\": 1}"
std::string call_text(const TorchOverload& overload, const Sample& sample) {
  std::vector<std::string> args, kwargs;
  bool by_keyword = false;
  for (size_t i = 0; i < overload.arguments.size(); ++i) {
    const TorchArgument& argument = overload.arguments[i];
    std::vector<std::string> tensors;
    bool in_list = false;
    for (size_t k = 0; k < overload.operands.size(); ++k)
      if (overload.operands[k].first == static_cast<int>(i)) {
        tensors.push_back(tensor_text(sample.operands[k]));
        in_list |= overload.operands[k].second >= 0;
      }
    std::string value;
    if (in_list) {
      value = fmt::format("[{}]", fmt::join(tensors, ", "));
    } else if (!tensors.empty()) {
      value = tensors.front();
    } else if (auto it = sample.attrs.find(argument.name); it != sample.attrs.end()) {
      value = literal(it->second);
      if (argument.is_list && !value.starts_with("[")) value = "[" + value + "]";
    } else if (auto fixed = overload.fixed.find(argument.name); fixed != overload.fixed.end()) {
      value = fixed->second;
    }
    by_keyword |= argument.keyword_only || value.empty();
    if (value.empty()) continue;
    if (by_keyword)
      kwargs.push_back(fmt::format("\"{}\": {}", argument.name, value));
    else
      args.push_back(value);
  }
  return fmt::format("[{}], {{{}}}", fmt::join(args, ", "), fmt::join(kwargs, ", "));
}

// Rows of CASES; operands with several results that hold have one row with all of these.
std::string cases_of(const Discovery& discovery, const TorchOverload& overload,
                     const SampleDecisions& sample) {
  std::vector<std::pair<std::string, std::vector<std::string>>> rows;
  for (const Decision& decision : sample.decisions) {
    const Combination& c = decision.combination;
    const bool moved = std::any_of(c.operands.begin(), c.operands.end(),
                                   [](const Placement& p) { return !p.is_replicate(); });
    if (!decision.verdict.valid() || c.result != 0 || !moved || is_implied(sample, c) ||
        !has_row(discovery, sample, c))
      continue;
    const auto results = results_beside(sample, c, discovery.num_results);
    if (!results) continue;
    std::vector<std::string> operands;
    for (const Placement& p : c.operands) operands.push_back(placement(p));
    const std::string key = fmt::format("[{}]", fmt::join(operands, ", "));
    auto it = std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.first == key; });
    if (it == rows.end()) it = rows.insert(rows.end(), {key, {}});
    it->second.push_back(fmt::format("[{}]", *results));
  }
  std::string text;
  for (const auto& [operands, results] : rows)
    text += fmt::format("    ({}, {}, [{}]),\n", call_text(overload, sample.sample), operands,
                        fmt::join(results, ", "));
  return text;
}

constexpr const char* kTestsBegin = R"python(import contextlib
import dataclasses
import importlib.util
import pathlib

import pytest
import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.debug import CommDebugMode
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

WORLD = 2


@dataclasses.dataclass
class T:
    """An operand: its shape, its dtype and the numbers that it takes."""

    shape: tuple
    dtype: torch.dtype
    domain: str = "any"
    limit: int = 0


)python";

constexpr const char* kTestsEnd = R"python(]


def numbers(of, random):
    if of.dtype == torch.bool:
        return torch.randn(of.shape, generator=random) > 0
    if of.domain == "index":
        return torch.randint(0, of.limit, of.shape, generator=random).to(of.dtype)
    if of.dtype.is_floating_point:
        made = (3 * torch.randn(of.shape, generator=random, dtype=torch.float64)).to(of.dtype)
    else:
        low = 0 if of.dtype == torch.uint8 else -9
        made = torch.randint(low, 10, of.shape, generator=random).to(of.dtype)
    if of.domain == "positive":
        return made.abs() + 1
    if of.domain == "nonzero":
        return made + torch.where(made < 0, -1, 1).to(of.dtype)
    if of.domain == "sorted":
        return made.sort(-1).values
    if of.domain == "definite":
        return made @ made.mT + made.shape[-1] * torch.eye(made.shape[-1], dtype=of.dtype)
    return made


def parts_of(whole, placement, random):
    """What each rank holds; the parts of a pending reduction all differ."""
    if placement.is_replicate():
        return [whole.clone() for _ in range(WORLD)]
    if placement.is_shard():
        parts = list(torch.chunk(whole, WORLD, placement.dim))
        return parts + [whole.narrow(placement.dim, 0, 0) for _ in range(WORLD - len(parts))]
    like = T(tuple(whole.shape), whole.dtype)
    if placement.reduce_op in ("sum", "avg"):
        parts = [numbers(like, random) for _ in range(WORLD - 1)]
        total = whole * WORLD if placement.reduce_op == "avg" else whole
        return parts + [total - sum(parts)]
    if placement.reduce_op == "product":
        if not whole.dtype.is_floating_point:
            return [torch.ones_like(whole) for _ in range(WORLD - 1)] + [whole]
        parts = [numbers(T(like.shape, like.dtype, "positive"), random) for _ in range(WORLD - 1)]
        return parts + [whole / torch.stack(parts).prod(0)]
    if whole.dtype == torch.bool:
        other = torch.full_like(whole, placement.reduce_op == "min")
        return [other for _ in range(WORLD - 1)] + [whole]
    sign = -1 if placement.reduce_op == "max" else 1
    holder = torch.randint(0, WORLD, whole.shape, generator=random)
    return [torch.where(holder == r, whole, whole + sign * numbers(like, random).abs()) for r in range(WORLD)]


def placed(whole, mesh, placement, random):
    parts = parts_of(whole, placement, random)
    local = LocalTensor({rank: part.contiguous() for rank, part in enumerate(parts)})
    return DTensor.from_local(local, mesh, [placement], run_check=False, shape=whole.shape, stride=whole.stride())


def check(mesh, args, kwargs, placements, expected):
    """No communication, the placements of the results, and the numbers."""
    random = torch.Generator().manual_seed(0)
    leaves, spec = tree_flatten((args, kwargs))
    left = iter(placements)
    values = [numbers(leaf, random) if isinstance(leaf, T) else leaf for leaf in leaves]
    operands = [placed(value, mesh, next(left), random) if isinstance(leaf, T) else leaf
                for leaf, value in zip(leaves, values)]
    true_args, true_kwargs = tree_unflatten(values, spec)
    true_results = [leaf for leaf in tree_leaves(OP(*true_args, **true_kwargs)) if isinstance(leaf, torch.Tensor)]
    args, kwargs = tree_unflatten(operands, spec)
    with CommDebugMode() as comm:
        results = [leaf for leaf in tree_leaves(OP(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
    assert comm.get_total_counts() == 0, f"{comm.get_total_counts()} collectives"
    found = [list(result.placements) for result in results]
    assert found in [[[placement] for placement in one] for one in expected], f"placements {found}"
    for result, true_result in zip(results, true_results, strict=True):
        whole = result.full_tensor()
        for one in whole._local_tensors.values() if isinstance(whole, LocalTensor) else [whole]:
            low = true_result.dtype in (torch.float16, torch.bfloat16)
            close = dict(rtol=2e-2, atol=2e-1) if low else dict(rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(one, true_result, equal_nan=True, check_stride=False, **close)


def clear_caches():
    """Of Python, and of the dispatcher in C++ where there is one."""
    DTensor._op_dispatcher.sharding_propagator.propagate_op_sharding.cache_clear()
    getattr(torch._C, "_clear_DTensor_sharding_propagator_cache", lambda: None)()


@contextlib.contextmanager
def registered():
    """Registers the strategy, and gives PyTorch its own back afterwards."""
    propagator = DTensor._op_dispatcher.sharding_propagator
    tables = [propagator.op_single_dim_strategy_funcs, propagator.op_to_schema_info_for_single_dim_strategy]
    before = [dict(table) for table in tables]
    spec = importlib.util.spec_from_file_location(RULE.stem, RULE)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    clear_caches()
    try:
        yield
    finally:
        for table, old in zip(tables, before):
            table.clear()
            table.update(old)
        clear_caches()


@contextlib.contextmanager
def ranks():
    """A mesh whose ranks all live in this process."""
    started = not dist.is_initialized()
    if started:
        dist.init_process_group("fake", rank=0, world_size=WORLD, store=FakeStore())
    with LocalTensorMode(frozenset(range(WORLD))):
        yield init_device_mesh("cpu", (WORLD,))
    if started:
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def mesh():
    with registered(), ranks() as made:
        yield made


@pytest.mark.parametrize("args, kwargs, placements, expected", CASES)
)python";

}  // namespace

std::string emit_dtensor(const Discovery& discovery, const TorchOverload& overload) {
  return Strategy(discovery, overload).text();
}

std::string emit_dtensor_tests(const Discovery& discovery, const TorchOverload& overload,
                               const std::string& rule_file) {
  const bool only_degenerate =
      std::all_of(discovery.samples.begin(), discovery.samples.end(),
                  [](const SampleDecisions& s) { return is_degenerate(s.sample); });
  std::string cases;
  for (const SampleDecisions& sample : discovery.samples)
    if (only_degenerate || !is_degenerate(sample.sample))
      cases += cases_of(discovery, overload, sample);
  return fmt::format("\"\"\"Tests of the strategy of {0}, in {1} beside this file.\"\"\"\n\n",
                     overload.name, rule_file) +
         kTestsBegin +
         fmt::format(
             "RULE = pathlib.Path(__file__).with_name(\"{}\")\nOP = torch.ops.{}\n"
             "# (arguments, keywords, operand placements, the placements of the results: one of "
             "these)\n"
             "CASES = [\n",
             rule_file, overload.name) +
         cases + kTestsEnd +
         fmt::format(
             "def test_{}(mesh, args, kwargs, placements, expected):\n"
             "    check(mesh, args, kwargs, placements, expected)\n",
             base_name(overload));
}

}  // namespace cleave
