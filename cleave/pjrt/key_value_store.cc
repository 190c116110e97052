#include "cleave/pjrt/key_value_store.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <exception>

namespace cleave::pjrt {
namespace {

KeyValueStore& store_of(void* user) { return *static_cast<KeyValueStore*>(user); }

c::Error* error_of(c::CallbackError* make, int code, const std::string& message) {
  return (*make)(code, message.data(), message.size());
}

void delete_value(char* value) { delete[] value; }

template <typename Args>
void hand_over(const std::string& value, Args* args) {
  args->value = new char[value.size() + 1];
  std::memcpy(args->value, value.data(), value.size());
  args->value[value.size()] = '\0';
  args->value_size = value.size();
  args->deleter = delete_value;
}

// Runs what the plugin asked for; no exception may pass through it.
template <typename Args, typename F>
c::Error* answer(Args* args, F&& f) noexcept {
  try {
    return f(std::string_view(args->key, args->key_size));
  } catch (const std::exception& error) {
    return error_of(args->make_error, c::kInternal, error.what());
  }
}

c::Error* get(c::KeyValueGet* args) {
  return answer(args, [&](std::string_view key) -> c::Error* {
    const std::optional<std::string> value = store_of(args->user).get(key, args->timeout_ms);
    if (!value)
      return error_of(args->make_error, c::kDeadlineExceeded,
                      fmt::format("no process gave '{}' within {} ms", key, args->timeout_ms));
    hand_over(*value, args);
    return nullptr;
  });
}

c::Error* try_get(c::KeyValueTryGet* args) {
  return answer(args, [&](std::string_view key) -> c::Error* {
    const std::optional<std::string> value = store_of(args->user).try_get(key);
    if (!value)
      return error_of(args->make_error, c::kNotFound, fmt::format("no process gave '{}'", key));
    hand_over(*value, args);
    return nullptr;
  });
}

c::Error* put(c::KeyValuePut* args) {
  return answer(args, [&](std::string_view key) -> c::Error* {
    store_of(args->user).put(key, {args->value, args->value_size});
    return nullptr;
  });
}

}  // namespace

void LocalStore::put(std::string_view key, std::string_view value) {
  std::lock_guard lock(mutex_);
  values_.insert_or_assign(std::string(key), std::string(value));
  changed_.notify_all();
}

std::optional<std::string> LocalStore::try_get(std::string_view key) {
  std::lock_guard lock(mutex_);
  const auto it = values_.find(key);
  return it == values_.end() ? std::nullopt : std::optional(it->second);
}

std::optional<std::string> LocalStore::get(std::string_view key, int timeout_ms) {
  std::unique_lock lock(mutex_);
  const auto is_there = [&] { return values_.find(key) != values_.end(); };
  if (!changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), is_there))
    return std::nullopt;
  return values_.find(key)->second;
}

void connect(KeyValueStore& store, c::ClientCreate& args) {
  args.get = get;
  args.put = put;
  args.try_get = try_get;
  args.get_user = args.put_user = args.try_get_user = &store;
}

}  // namespace cleave::pjrt
