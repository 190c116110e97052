#pragma once

#include <filesystem>
#include <span>
#include <string_view>

namespace cleave {

// Everything that Cleave writes to a path goes through these. They throw UserError with the path
// and the system's reason: "plan.json: cannot be written: No space left on device".
//
// A file is written beside its target under another name and renamed, so that readers see the old
// contents or the new ones, and a full disk leaves what was there. It keeps the permissions and
// the owner of the file that it replaces, and a symbolic link stays a link. Devices and folders are
// never replaced:
//
//   write_file("plan.json", text);    // .plan.json.4711-0.tmp, then renamed
//   write_file("/dev/full", text);    // an error: no space left on device
//   write_file("/dev/stdout", text);  // the standard output, wherever it leads
//   write_file("folder", text);       // an error: it is a folder
void write_file(const std::filesystem::path& path, std::string_view text);
void write_file(const std::filesystem::path& path, std::span<const std::string_view> parts);

// The same, and the contents are on the disk before the file gets its name, so that not even a
// power failure leaves half of it there.
void write_file_to_disk(const std::filesystem::path& path, std::span<const std::string_view> parts);
// What happened to the names in a folder, renamed and removed files included, is on the disk.
void sync_folder(const std::filesystem::path& folder);

// Adds to the end of a file, which is made if there is none.
void append_file(const std::filesystem::path& path, std::string_view text);

// Throws if write_file would not even begin, before the work that would be lost. Nothing changes.
void check_writable(const std::filesystem::path& path);

}  // namespace cleave
