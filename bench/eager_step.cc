// A train step of a small MLP on one device, op by op: forward, loss, gradient, update, and the new
// weights read. The C++ side of eager_vs_torch.py, which sets PyTorch beside it; and recordings of
// very many ops.
#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <ctime>
#include <functional>

#include "cleave/cleave.h"
#include "cleave/models/mlp.h"
#include "cleave/models/training.h"

using namespace cleave;

namespace {

double clock_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
double processor_us() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

struct Times {
  double clock = 1e30, processor = 1e30;  // microseconds, of the best round
};

Times time_of(const std::function<void()>& step, int rounds, int steps) {
  for (int i = 0; i < steps; ++i) step();
  Times best;
  for (int round = 0; round < rounds; ++round) {
    const double clock = clock_us(), processor = processor_us();
    for (int i = 0; i < steps; ++i) step();
    best.clock = std::min(best.clock, (clock_us() - clock) / steps);
    best.processor = std::min(best.processor, (processor_us() - processor) / steps);
  }
  return best;
}

Tensor relu_mlp(const models::Mlp& params, Tensor x) {
  for (size_t i = 0; i < params.layers.size(); ++i) {
    x = matmul(x, params.layers[i].w) + params.layers[i].b;
    if (i + 1 < params.layers.size()) x = relu(x);
  }
  return x;
}

void read(const models::Mlp& params) { evaluate(leaves(params)); }

struct Case {
  models::Mlp params;
  Tensor x, y;
};

Case make_case() {
  models::Init init(1);
  Case made{models::init_mlp({.layers = 3, .d = 128, .hidden = 128}, init),
            randn({32, 128}, 2).evaluate(), randn({32, 128}, 3).evaluate()};
  read(made.params);
  return made;
}

Tensor loss(const models::Mlp& p, const Tensor& x, const Tensor& y) {
  return models::mean_squared_error(relu_mlp(p, x), y);
}

Times sgd_step(int rounds) {
  Case c = make_case();
  return time_of(
      [&] {
        const auto [value, g] = value_and_grad(loss)(c.params, c.x, c.y);
        c.params = models::sgd(c.params, g, 1e-3);
        std::vector<Tensor> all = leaves(c.params);
        all.push_back(value);
        evaluate(all);
      },
      rounds, 100);
}

Times adamw_step(int rounds) {
  Case c = make_case();
  auto state = models::init_adam(c.params);
  return time_of(
      [&] {
        const auto [value, g] = value_and_grad(loss)(c.params, c.x, c.y);
        auto [params, next] = models::adamw(c.params, g, state);
        c.params = std::move(params);
        state = std::move(next);
        std::vector<Tensor> all = leaves(c.params);
        for (const Tensor& t : leaves(state)) all.push_back(t);
        all.push_back(value);
        evaluate(all);
      },
      rounds, 100);
}

int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} << 10;
}

// Seconds of processor time to record, to compute and to free.
void deep(int64_t ops) {
  const auto seconds = [] { return processor_us() * 1e-6; };
  auto tell = [&](const char* what, double begin, double recorded, double computed) {
    print("{:<22} {:>8} ops  record {:.2f} s  compute {:.2f} s  free {:.2f} s  peak {} MiB\n", what,
          ops, recorded - begin, computed - recorded, seconds() - computed, peak_bytes() >> 20);
  };
  {
    double begin = seconds(), recorded = 0, computed = 0;
    {
      Tensor x = ones({4}).evaluate(), one = x;
      for (int64_t i = 0; i < ops; ++i) x = x + one;
      recorded = seconds();
      x.evaluate();
      computed = seconds();
    }
    tell("chain of adds", begin, recorded, computed);
  }
  {
    double begin = seconds(), recorded = 0, computed = 0;
    {
      std::vector<Tensor> level(static_cast<size_t>(ops), ones({4}).evaluate());
      while (level.size() > 1) {
        std::vector<Tensor> next;
        for (size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(level[i] + level[i + 1]);
        if (level.size() % 2) next.push_back(level.back());
        level = std::move(next);
      }
      recorded = seconds();
      level[0].evaluate();
      computed = seconds();
    }
    tell("tree of adds", begin, recorded, computed);
  }
  {
    const int64_t length = ops / 10;
    double begin = seconds();
    const Tensor x = ones({4}).evaluate();
    const Tensor g = grad([&](const Tensor& t) {
      Tensor y = t;
      for (int64_t i = 0; i < length; ++i) y = y * t;
      return sum(y);
    })(x);
    const double recorded = seconds();
    g.evaluate();
    tell("grad, a tenth as many", begin, recorded, seconds());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "--deep") {
    deep(argc > 2 ? std::atoll(argv[2]) : 1000000);
    return 0;
  }
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 30;
  const Times sgd = sgd_step(rounds), adamw = adamw_step(rounds);
  if (mode == "--json")
    print("{{\"sgd\": [{:.1f}, {:.1f}], \"adamw\": [{:.1f}, {:.1f}]}}\n", sgd.clock, sgd.processor,
          adamw.clock, adamw.processor);
  else
    print("SGD   {:.1f} us, processor {:.1f} us\nAdamW {:.1f} us, processor {:.1f} us\n", sgd.clock,
          sgd.processor, adamw.clock, adamw.processor);
}
