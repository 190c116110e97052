#pragma once

#include <memory>
#include <vector>

#include "cleave/rules/propagate/propagation.h"

namespace cleave {

// One sweep with one factor strategy.
class SweepStrategy final : public PropagationStrategy {
 public:
  explicit SweepStrategy(std::unique_ptr<FactorPropagation> factors)
      : factors_(std::move(factors)) {}
  void propagate(PropagationEngine& engine, int stage) const override {
    engine.sweep(*factors_, stage);
  }

 private:
  std::unique_ptr<FactorPropagation> factors_;
};

// Basic, then aggressive.
class SequenceStrategy final : public PropagationStrategy {
 public:
  explicit SequenceStrategy(std::vector<std::unique_ptr<PropagationStrategy>> parts)
      : parts_(std::move(parts)) {}
  void propagate(PropagationEngine& engine, int stage) const override {
    for (const auto& part : parts_) part->propagate(engine, stage);
  }

 private:
  std::vector<std::unique_ptr<PropagationStrategy>> parts_;
};

// Runs the layer below once for each stage.
class OpPriorityStrategy final : public PropagationStrategy {
 public:
  explicit OpPriorityStrategy(std::unique_ptr<PropagationStrategy> below)
      : below_(std::move(below)) {}
  void propagate(PropagationEngine& engine, int stage) const override {
    for (int s = 0; s <= stage; ++s) below_->propagate(engine, s);
  }

 private:
  std::unique_ptr<PropagationStrategy> below_;
};

// Runs the layer below once for each priority of the user. A dimension of a lower priority is
// parked until its turn: closed and empty, its axes replicated, so that nothing else takes their
// place.
class UserPriorityStrategy final : public PropagationStrategy {
 public:
  explicit UserPriorityStrategy(std::unique_ptr<PropagationStrategy> below)
      : below_(std::move(below)) {}
  void propagate(PropagationEngine& engine, int stage) const override;

 private:
  std::unique_ptr<PropagationStrategy> below_;
};

std::unique_ptr<PropagationStrategy> make_strategy(const PropagationOptions& options);

}  // namespace cleave
