#include "cleave/runtime/run_devices.h"

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace cleave {

void run_devices(Transport& transport, std::span<const int64_t> devices,
                 const std::function<void(int64_t device)>& task) {
  std::mutex mutex;
  std::exception_ptr cause, consequence;
  auto run = [&](int64_t device) {
    try {
      task(device);
      transport.leave(device);
    } catch (const TransportError& error) {
      transport.fail(device, error.what());
      std::lock_guard lock(mutex);
      if (!consequence) consequence = std::current_exception();
    } catch (const std::exception& error) {
      transport.fail(device, error.what());
      std::lock_guard lock(mutex);
      if (!cause) cause = std::current_exception();
    }
  };
  std::vector<std::jthread> threads;
  for (size_t i = 1; i < devices.size(); ++i) threads.emplace_back(run, devices[i]);
  if (!devices.empty()) run(devices[0]);
  threads.clear();
  if (cause) std::rethrow_exception(cause);
  if (consequence) std::rethrow_exception(consequence);
}

}  // namespace cleave
