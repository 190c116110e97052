// Numbers that are hard for an operator of a kind, chosen by what is known about it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cleave/discover/analysis.h"

namespace cleave {
namespace {

using Coordinates = std::vector<int64_t>;
using Element =
    std::function<double(const Coordinates&, int64_t, const FillContext&, NumberStream&)>;

// Every element from its coordinates and its position in row-major order.
InputGenerator at_places(std::string name, std::string description, const Element& element,
                         bool floats_only = false, bool one_place = false) {
  auto fill = [element](const FillContext& context, NumberStream& random) {
    std::vector<double> numbers(static_cast<size_t>(num_elements(context.shape)));
    Coordinates at(context.shape.size());
    for (size_t i = 0; i < numbers.size(); ++i) {
      auto rest = static_cast<int64_t>(i);
      for (size_t d = at.size(); d-- > 0; rest /= context.shape[d]) at[d] = rest % context.shape[d];
      numbers[i] = element(at, static_cast<int64_t>(i), context, random);
    }
    return numbers;
  };
  return {std::move(name), std::move(description), fill, floats_only, one_place};
}

int64_t sum_of(const Coordinates& at) { return std::accumulate(at.begin(), at.end(), int64_t{0}); }

// The smallest dimension that can hold a vector: 3 of 8x3.
int64_t smallest_size(const Shape& shape) {
  int64_t size = 0;
  for (int64_t n : shape)
    if (n > 1 && (size == 0 || n < size)) size = n;
  return std::max<int64_t>(size, 1);
}

bool is_first(const Coordinates& at) { return at.empty() || at.back() == 0; }
bool is_last(const Coordinates& at, const Shape& shape) {
  return at.empty() || at.back() == shape.back() - 1;
}
double operand_of(const FillContext& context) { return static_cast<double>(context.operand); }

// Near the largest number of the dtype, with room for a few sums.
double largest(DType dtype) {
  return dtype == DType::F16                           ? 3e4
         : dtype == DType::F32 || dtype == DType::BF16 ? 1e37
         : dtype == DType::C64                         ? 1e18
         : dtype == DType::F64                         ? 1e300
                                                       : 1e150;
}
double smallest(DType dtype) {
  return dtype == DType::F16                          ? 6e-8
         : dtype == DType::F32 || dtype == DType::C64 ? 3e-42
         : dtype == DType::BF16                       ? 3e-40
                                                      : 3e-320;
}

using List = std::vector<InputGenerator>;

// Numbers that are not ordinary, one position at a time.
void add_extremes(List& list) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  list.push_back(at_places(
      "nan_first_in_rows", "The first number of every row is NaN.",
      [=](const Coordinates& at, int64_t, const FillContext&, NumberStream& r) {
        return is_first(at) ? kNaN : r.normal();
      },
      true, true));
  list.push_back(at_places(
      "infinities_at_the_ends", "Rows begin with infinity and end with minus infinity.",
      [=](const Coordinates& at, int64_t, const FillContext& context, NumberStream& r) {
        const double x = r.normal();
        return is_first(at) ? kInfinity : is_last(at, context.shape) ? -kInfinity : x;
      },
      true, true));
  list.push_back(at_places(
      "denormals", "Numbers so small that they have lost precision, of both signs.",
      [](const Coordinates&, int64_t, const FillContext& context, NumberStream& r) {
        return smallest(context.dtype) * std::round(20 * r.normal());
      },
      true, true));
  list.push_back(at_places(
      "one_near_the_largest",
      "One number near the largest of the dtype, at another place for each operand.",
      [](const Coordinates&, int64_t i, const FillContext& context, NumberStream& r) {
        const int64_t n = num_elements(context.shape);
        const auto place = (n / 2 + 3 * static_cast<int64_t>(context.operand)) % n;
        return i == place ? largest(context.dtype) : r.normal();
      },
      true, true));
}

void add_for_integers(List& list) {
  list.push_back(at_places(
      "common_factors", "Whole numbers that share factors: products of 2, 3, 5 and 7.",
      [](const Coordinates&, int64_t, const FillContext&, NumberStream& r) {
        constexpr double kNumbers[] = {6, 10, 12, 15, 18, 30, 35, 42, 60, 70, 84, 90, 210};
        return kNumbers[r.below(13)] * (r.chance(0.2) ? -1 : 1);
      }));
  list.push_back(at_places("powers_of_two", "Powers of two.",
                           [](const Coordinates&, int64_t, const FillContext&, NumberStream& r) {
                             return std::exp2(static_cast<double>(r.below(7)));
                           }));
}

void add_vectors(List& list) {
  list.push_back(at_places(
      "basis_vectors",
      "Unit vectors along one axis each; those of two operands are orthogonal to each other.",
      [](const Coordinates& at, int64_t, const FillContext& context, NumberStream&) {
        const int64_t n = smallest_size(context.shape);
        return (sum_of(at) + static_cast<int64_t>(context.operand)) % n == 0 ? 1.0 : 0.0;
      }));
  list.push_back(at_places(
      "orthogonal_vectors", "Vectors of any length along one axis each, of both signs.",
      [](const Coordinates& at, int64_t, const FillContext& context, NumberStream& r) {
        const int64_t n = smallest_size(context.shape);
        const double x = std::round(3 * r.normal());
        return (sum_of(at) + 2 * static_cast<int64_t>(context.operand)) % n == 1 % n ? x + 4 : 0.0;
      }));
  list.push_back(
      at_places("parallel_vectors", "The operands are multiples of each other.",
                [](const Coordinates&, int64_t i, const FillContext& context, NumberStream&) {
                  return (1 + operand_of(context)) * static_cast<double>(i * 7 % 11 - 5);
                }));
  list.push_back(
      at_places("opposite_vectors", "Operands after the first are negative multiples of it.",
                [](const Coordinates&, int64_t i, const FillContext& context, NumberStream&) {
                  return (1 - 2 * operand_of(context)) * static_cast<double>(i * 5 % 13 - 6);
                }));
}

void add_for_sums(List& list) {
  list.push_back(
      at_places("cancelling_pairs", "Neighbours cancel each other, so that sums are small.",
                [](const Coordinates& at, int64_t, const FillContext& context, NumberStream&) {
                  const auto pair = static_cast<double>(sum_of(at) / 2 + 3);
                  return (sum_of(at) % 2 ? -1 : 1) * (pair + 0.5 * operand_of(context));
                }));
  list.push_back(at_places(
      "one_dominant_in_rows", "One number in every row is a thousand times the others.",
      [](const Coordinates& at, int64_t, const FillContext& context, NumberStream& r) {
        const int64_t n = context.shape.empty() ? 1 : context.shape.back();
        const int64_t place = (sum_of(at) - (at.empty() ? 0 : at.back())) % std::max<int64_t>(n, 1);
        const double x = r.normal();
        return at.empty() || at.back() == place ? 1000 + x : x;
      }));
  list.push_back(
      at_places("constant_rows", "Rows of one number each: no variance, and all are the largest.",
                [](const Coordinates& at, int64_t, const FillContext& context, NumberStream&) {
                  const int64_t row = sum_of(at) - (at.empty() ? 0 : at.back());
                  return static_cast<double>(row) - 2 + 1.5 * operand_of(context);
                }));
  list.push_back(at_places(
      "extremes_at_the_ends", "The largest number of a row is its first and also its last.",
      [](const Coordinates& at, int64_t, const FillContext& context, NumberStream& r) {
        const double x = -std::fabs(r.normal());
        return is_first(at) || is_last(at, context.shape) ? 9 + operand_of(context) : x;
      }));
}

void add_for_order(List& list) {
  list.push_back(
      at_places("sorted_runs", "Numbers that grow along every dimension.",
                [](const Coordinates& at, int64_t i, const FillContext& context, NumberStream&) {
                  return static_cast<double>(sum_of(at)) + 0.001 * static_cast<double>(i) +
                         0.25 * operand_of(context);
                }));
  list.push_back(
      at_places("reversed_runs", "Numbers that fall along every dimension.",
                [](const Coordinates& at, int64_t i, const FillContext& context, NumberStream&) {
                  return -static_cast<double>(sum_of(at)) - 0.001 * static_cast<double>(i) -
                         0.25 * operand_of(context);
                }));
  list.push_back(at_places(
      "equal_keys", "Two numbers in blocks, so that nearly all keys are equal.",
      [](const Coordinates& at, int64_t, const FillContext& context, NumberStream&) {
        return static_cast<double>((sum_of(at) / 3 + static_cast<int64_t>(context.operand)) % 2);
      }));
  list.push_back(at_places("few_keys", "Each of four numbers many times, in any order.",
                           [](const Coordinates&, int64_t, const FillContext&, NumberStream& r) {
                             return static_cast<double>(r.below(4)) - 1;
                           }));
  list.push_back(at_places(
      "boundaries", "Whole numbers on both sides: keys that equal a boundary, and lie beside all.",
      [](const Coordinates&, int64_t i, const FillContext& context, NumberStream& r) {
        return context.operand == 1 ? static_cast<double>(2 * i)
                                    : static_cast<double>(r.below(24)) - 4;
      }));
}

void add_for_positions(List& list) {
  // Operands that hold no positions get random numbers.
  auto positions = [&](const char* name, const char* description, auto position) {
    list.push_back(at_places(
        name, description,
        [position](const Coordinates&, int64_t i, const FillContext& context, NumberStream& r) {
          if (!context.limit) return r.normal();
          const auto shifted = i + static_cast<int64_t>(context.operand);
          return static_cast<double>(position(shifted, context.limit));
        }));
  };
  positions("first_and_second_position", "Only the first two positions are asked for.",
            [](int64_t i, int64_t limit) { return i % std::min<int64_t>(2, limit); });
  positions("last_positions", "Only the last two positions are asked for.",
            [](int64_t i, int64_t limit) { return std::max<int64_t>(0, limit - 1 - i % 2); });
  positions("ascending_positions", "Positions in order, around the end.",
            [](int64_t i, int64_t limit) { return i % limit; });
  positions("descending_positions", "Positions in reverse order.",
            [](int64_t i, int64_t limit) { return limit - 1 - i % limit; });
  positions("repeated_positions", "Every position comes three times in a row.",
            [](int64_t i, int64_t limit) { return i / 3 % limit; });
  list.push_back(at_places(
      "one_other_position", "All ask for the first position but one, which asks for the last.",
      [](const Coordinates&, int64_t i, const FillContext& context, NumberStream& r) {
        if (!context.limit) return r.normal();
        const int64_t back = num_elements(context.shape) - 1 - i;  // another in each operand
        return back == static_cast<int64_t>(context.operand)
                   ? static_cast<double>(context.limit - 1)
                   : 0.0;
      }));
}

void add_for_elements(List& list) {
  list.push_back(at_places(
      "halves", "Numbers halfway between two whole ones.",
      [](const Coordinates&, int64_t, const FillContext&, NumberStream& r) {
        return static_cast<double>(r.below(12)) - 5.5;
      },
      true));
  list.push_back(at_places(
      "near_one", "Numbers just below, at and above one and minus one.",
      [](const Coordinates&, int64_t, const FillContext&, NumberStream& r) {
        return (r.chance(0.5) ? 1 : -1) * (1 + 1e-3 * (static_cast<double>(r.below(5)) - 2));
      },
      true));
  InputGenerator same =
      at_places("same_in_all_operands", "All operands hold the same numbers.",
                [](const Coordinates&, int64_t i, const FillContext&, NumberStream&) {
                  return static_cast<double>(i * 7 % 13 - 6);
                });
  same.equal_operands = true;
  list.push_back(std::move(same));
}

void add_for_places(List& list) {
  list.push_back(at_places(
      "distinct_numbers", "No number comes twice, in one operand or in two.",
      [](const Coordinates&, int64_t i, const FillContext& context, NumberStream&) {
        return static_cast<double>(i) + 0.1 * (1 + operand_of(context)) + 0.5;
      },
      true));
  list.push_back(at_places(
      "single_row", "All rows are zero but one: the last.",
      [](const Coordinates& at, int64_t, const FillContext& context, NumberStream& r) {
        const double x = r.normal();
        return at.empty() || at[0] == context.shape[0] - 1 ? x + 3 : 0.0;
      },
      false, true));
}

}  // namespace

List adversarial_generators(const Operator& op, const Analysis& analysis) {
  List list;
  auto any = [&](auto is) {
    return std::any_of(op.samples.begin(), op.samples.end(), [&](const Sample& sample) {
      return std::any_of(sample.operands.begin(), sample.operands.end(), is);
    });
  };
  using Category = OpCategory;
  const Category category = analysis.category;
  if (category == Category::MatmulLike || category == Category::CrossDim) add_vectors(list);
  if (category == Category::Reduction || category == Category::CrossDim ||
      category == Category::MatmulLike || category == Category::Other)
    add_for_sums(list);
  if (category == Category::Sort || category == Category::Index || category == Category::Other)
    add_for_order(list);
  if (any([](const TensorDesc& d) { return d.domain == Domain::Index; })) add_for_positions(list);
  if (category == Category::Pointwise) add_for_elements(list);
  add_for_places(list);
  if (any([](const TensorDesc& d) { return is_integer(d.dtype) && d.domain == Domain::Any; }))
    add_for_integers(list);
  if (any([](const TensorDesc& d) { return has_fractions(d.dtype); })) add_extremes(list);
  if (list.size() < 5) add_for_order(list);  // of masks and positions alone
  return list;
}

}  // namespace cleave
