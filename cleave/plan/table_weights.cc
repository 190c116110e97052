#include <algorithm>

#include "cleave/plan/tables.h"

namespace cleave::plan {

double Tables::least_compute(const std::vector<double>& by_op) const {
  std::vector<std::vector<double>> all = unary_ops_;
  if (!by_op.empty()) {
    for (std::vector<double>& unary : all) std::fill(unary.begin(), unary.end(), 0.0);
    add_ops(by_op, all);
  }
  double least = 0;
  for (const std::vector<double>& unary : all)
    least += *std::min_element(unary.begin(), unary.end());
  return least;
}

double Tables::most_compute() const {
  double most = 0;
  for (const std::vector<double>& unary : unary_ops_)
    most += *std::max_element(unary.begin(), unary.end());
  return most;
}

TableWeights Tables::weigh(const std::vector<ReshardWeights>& by_demand,
                           const std::vector<double>& by_op) const {
  TableWeights weights;
  if (by_op.empty()) {
    weights.unary = unary_ops_;
  } else {
    for (int count : counts_) weights.unary.emplace_back(count, 0.0);
    add_ops(by_op, weights.unary);
  }
  weights.parts.resize(edges_.size());
  for (size_t e = 0; e < edges_.size(); ++e)
    weights.parts[e].assign(edges_[e].parts.size(), ReshardWeights{0});
  for (size_t d = 0; d < places_.size(); ++d) {
    const auto [edge, part] = places_[d];
    if (part < 0) continue;
    const Demand& demand = formulation_.demands[d];
    const ReshardWeights own = demand.times * formulation_.weight(demand.branch) * by_demand[d];
    if (edge >= 0)
      weights.parts[edge][part] += own;
    else
      add_reshards(unary_parts_[part], own, weights.unary);
  }
  return weights;
}

TableWeights Tables::weigh(const std::vector<ReshardWeights>& by_demand,
                           const Likeness& likeness) const {
  TableWeights weights = weigh(by_demand);
  weights.like = by_class(likeness.choice);
  for (const Edge& edge : edges_) weights.savings.emplace_back(edge.parts.size(), 0.0);
  for (size_t d = 0; d < places_.size(); ++d) {
    const auto [edge, part] = places_[d];
    if (part < 0) continue;
    const Demand& demand = formulation_.demands[d];
    const ReshardWeights alone{demand.times * formulation_.weight(demand.branch)};
    const ReshardWeights own = alone.seconds * by_demand[d];
    const auto most = [&](const ReshardPrice& price) {
      return likeness.share[d] * std::max(0.0, alone.of(price) - own.of(price));
    };
    if (edge >= 0) {
      weights.savings[edge][part] += most(price(edge, part, weights.like));
      continue;
    }
    const UnaryPart& place = unary_parts_[part];
    const std::vector<ReshardPrice>& prices = reshards_[place.reshards].prices;
    const double limit = most(prices[weights.like[place.to] * place.step]);
    std::vector<double>& unary = weights.unary[place.to];
    for (size_t c = 0; c < unary.size(); ++c) {
      const ReshardPrice& price = prices[c * place.step];
      if (static_cast<int>(c) != weights.like[place.to])
        unary[c] += std::max(0.0, alone.of(price) - limit - own.of(price));
    }
  }
  return weights;
}

const ReshardPrice& Tables::price(size_t id, size_t part, const std::vector<int>& choice) const {
  const Edge& edge = edges_[id];
  const Part& own = edge.parts[part];
  const int from = own.swapped ? edge.b : edge.a, to = own.swapped ? edge.a : edge.b;
  return reshards_[own.reshards]
      .prices[static_cast<size_t>(choice[from]) * counts_[to] + choice[to]];
}

double Tables::seconds(const std::vector<int>& choice) const {
  TableWeights weights{unary_, {}};
  for (const Edge& edge : edges_) {
    weights.parts.emplace_back();
    for (const Part& part : edge.parts) weights.parts.back().push_back(part.weights);
  }
  return seconds(choice, weights);
}

double Tables::seconds(const std::vector<int>& choice, const TableWeights& weights) const {
  const std::vector<int> by_class = this->by_class(choice);
  double total = 0;
  for (size_t c = 0; c < weights.unary.size(); ++c) total += weights.unary[c][by_class[c]];
  for (size_t e = 0; e < edges_.size(); ++e)
    for (size_t p = 0; p < edges_[e].parts.size(); ++p) {
      const Edge& edge = edges_[e];
      const ReshardPrice& own = price(e, p, by_class);
      double counted = weights.parts[e][p].of(own);
      if (!weights.savings.empty() &&
          (by_class[edge.a] != weights.like[edge.a] || by_class[edge.b] != weights.like[edge.b]))
        counted = std::max(counted, edge.parts[p].weights.of(own) - weights.savings[e][p]);
      total += counted;
    }
  return total;
}

}  // namespace cleave::plan
