"""Our declarations of PJRT's C interface beside the header that the CPU plugin's wheel carries.

A program that includes both compares, struct by struct, where fields lie, and where functions stand in the table.
"""

import pathlib
import subprocess

import pytest

xla_cpu_pjrt = pytest.importorskip("xla_plugins.xla_cpu_pjrt", reason="pip install xla-cpu-pjrt")

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = pathlib.Path(xla_cpu_pjrt.__path__[0]) / "include" / "pjrt_c_api.h"

# Ours, theirs, and pairs of fields.
STRUCTS = [
    ("Version", "PJRT_Api_Version", [("major", "major_version"), ("minor", "minor_version")]),
    ("ErrorDestroy", "PJRT_Error_Destroy_Args", ["error"]),
    ("ErrorMessage", "PJRT_Error_Message_Args", ["error", "message", "message_size"]),
    ("ErrorGetCode", "PJRT_Error_GetCode_Args", ["error", "code"]),
    ("NamedValue", "PJRT_NamedValue",
     ["name", "name_size", ("kind", "type"), ("integer", "int64_value"), ("text", "string_value"), "value_size"]),
    ("EventDestroy", "PJRT_Event_Destroy_Args", ["event"]),
    ("EventIsReady", "PJRT_Event_IsReady_Args", ["event", "is_ready"]),
    ("EventAwait", "PJRT_Event_Await_Args", ["event"]),
    ("EventOnReady", "PJRT_Event_OnReady_Args", ["event", "callback", ("user", "user_arg")]),
    ("KeyValueGet", "PJRT_KeyValueGetCallback_Args",
     ["key", "key_size", ("timeout_ms", "timeout_in_ms"), ("make_error", "callback_error"), ("user", "user_arg"), "value",
      "value_size", ("deleter", "value_deleter_callback")]),
    ("KeyValueTryGet", "PJRT_KeyValueTryGetCallback_Args",
     ["key", "key_size", ("make_error", "callback_error"), ("user", "user_arg"), "value", "value_size",
      ("deleter", "value_deleter_callback")]),
    ("KeyValuePut", "PJRT_KeyValuePutCallback_Args",
     ["key", "key_size", "value", "value_size", ("make_error", "callback_error"), ("user", "user_arg")]),
    ("ClientCreate", "PJRT_Client_Create_Args",
     [("options", "create_options"), "num_options", ("get", "kv_get_callback"), ("get_user", "kv_get_user_arg"),
      ("put", "kv_put_callback"), ("put_user", "kv_put_user_arg"), "client", ("try_get", "kv_try_get_callback"),
      ("try_get_user", "kv_try_get_user_arg")]),
    ("ClientDestroy", "PJRT_Client_Destroy_Args", ["client"]),
    ("ClientPlatformName", "PJRT_Client_PlatformName_Args",
     ["client", ("text", "platform_name"), ("text_size", "platform_name_size")]),
    ("ClientPlatformVersion", "PJRT_Client_PlatformVersion_Args",
     ["client", ("text", "platform_version"), ("text_size", "platform_version_size")]),
    ("ClientProcessIndex", "PJRT_Client_ProcessIndex_Args", ["client", "process_index"]),
    ("ClientDevices", "PJRT_Client_Devices_Args", ["client", "devices", "num_devices"]),
    ("ClientAddressableDevices", "PJRT_Client_AddressableDevices_Args",
     ["client", ("devices", "addressable_devices"), ("num_devices", "num_addressable_devices")]),
    ("Program", "PJRT_Program", ["code", "code_size", "format", "format_size"]),
    ("ClientCompile", "PJRT_Client_Compile_Args",
     ["client", "program", ("options", "compile_options"), ("options_size", "compile_options_size"), "executable"]),
    ("TiledLayout", "PJRT_Buffer_MemoryLayout_Tiled",
     ["minor_to_major", "minor_to_major_size", "tile_dims", "tile_dim_sizes", "num_tiles"]),
    ("MemoryLayout", "PJRT_Buffer_MemoryLayout", ["tiled", ("kind", "type")]),
    ("BufferFromHost", "PJRT_Client_BufferFromHostBuffer_Args",
     ["client", "data", "type", "dims", "num_dims", "byte_strides", "num_byte_strides",
      ("semantics", "host_buffer_semantics"), "device", "memory", "device_layout", "done_with_host_buffer", "buffer"]),
    ("DescriptionId", "PJRT_DeviceDescription_Id_Args", [("description", "device_description"), "id"]),
    ("DescriptionProcessIndex", "PJRT_DeviceDescription_ProcessIndex_Args",
     [("description", "device_description"), "process_index"]),
    ("DescriptionKind", "PJRT_DeviceDescription_Kind_Args",
     [("description", "device_description"), ("text", "device_kind"), ("text_size", "device_kind_size")]),
    ("DeviceGetDescription", "PJRT_Device_GetDescription_Args", ["device", ("description", "device_description")]),
    ("DeviceMemoryStats", "PJRT_Device_MemoryStats_Args",
     ["device", "bytes_in_use", "peak_bytes_in_use", "num_allocs", ("largest_alloc", "largest_alloc_size"), "bytes_limit",
      "bytes_reserved", "peak_bytes_reserved", "bytes_reservable_limit", ("largest_free_block", "largest_free_block_bytes"),
      "pool_bytes", "peak_pool_bytes", ("bytes_limit.is_set", "bytes_limit_is_set")]),
    ("ExecutableDestroy", "PJRT_Executable_Destroy_Args", ["executable"]),
    ("ExecutableNumOutputs", "PJRT_Executable_NumOutputs_Args", ["executable", "num_outputs"]),
    ("OptimizedProgram", "PJRT_Executable_OptimizedProgram_Args", ["executable", "program"]),
    ("ExecutableSerialize", "PJRT_Executable_Serialize_Args",
     ["executable", ("bytes", "serialized_bytes"), ("bytes_size", "serialized_bytes_size"),
      ("owner", "serialized_executable"), ("deleter", "serialized_executable_deleter")]),
    ("LoadedExecutableDestroy", "PJRT_LoadedExecutable_Destroy_Args", ["executable"]),
    ("GetExecutable", "PJRT_LoadedExecutable_GetExecutable_Args", [("loaded", "loaded_executable"), "executable"]),
    ("LoadedExecutableDevices", "PJRT_LoadedExecutable_AddressableDevices_Args",
     ["executable", ("devices", "addressable_devices"), ("num_devices", "num_addressable_devices")]),
    ("ExecuteOptions", "PJRT_ExecuteOptions",
     ["send_callbacks", "recv_callbacks", "num_send_ops", "num_recv_ops", "launch_id",
      ("not_donated", "non_donatable_input_indices"), ("num_not_donated", "num_non_donatable_input_indices"), "context",
      "call_location", "num_tasks", "task_ids", "incarnation_ids"]),
    ("Execute", "PJRT_LoadedExecutable_Execute_Args",
     ["executable", "options", ("arguments", "argument_lists"), "num_devices", "num_args", ("outputs", "output_lists"),
      "device_complete_events", "execute_device"]),
    ("DeserializeAndLoad", "PJRT_Executable_DeserializeAndLoad_Args",
     ["client", ("bytes", "serialized_executable"), ("bytes_size", "serialized_executable_size"),
      ("executable", "loaded_executable"), ("options", "overridden_serialized_compile_options"),
      ("options_size", "overridden_serialized_compile_options_size")]),
    ("CompiledMemoryStats", "PJRT_Executable_GetCompiledMemoryStats_Args",
     ["executable"] + [(n, n + "_size_in_bytes") for n in (
         "generated_code", "argument", "output", "alias", "temp", "host_generated_code", "host_argument", "host_output",
         "host_alias", "host_temp")] + [("peak", "peak_memory_in_bytes")]),
    ("BufferDestroy", "PJRT_Buffer_Destroy_Args", ["buffer"]),
    ("BufferElementType", "PJRT_Buffer_ElementType_Args", ["buffer", "type"]),
    ("BufferDimensions", "PJRT_Buffer_Dimensions_Args", ["buffer", "dims", "num_dims"]),
    ("BufferOnDeviceSize", "PJRT_Buffer_OnDeviceSizeInBytes_Args", ["buffer", ("bytes", "on_device_size_in_bytes")]),
    ("BufferDelete", "PJRT_Buffer_Delete_Args", ["buffer"]),
    ("BufferIsDeleted", "PJRT_Buffer_IsDeleted_Args", ["buffer", "is_deleted"]),
    ("BufferToHost", "PJRT_Buffer_ToHostBuffer_Args",
     [("buffer", "src"), "host_layout", ("data", "dst"), ("data_size", "dst_size"), "event"]),
    ("BufferReadyEvent", "PJRT_Buffer_ReadyEvent_Args", ["buffer", "event"]),
]

# Functions whose name in the table is not that of their arguments without _Args.
FUNCTIONS = {"PJRT_Api_Version": None, "PJRT_NamedValue": None, "PJRT_Program": None, "PJRT_ExecuteOptions": None,
             "PJRT_Buffer_MemoryLayout": None, "PJRT_Buffer_MemoryLayout_Tiled": None}

ELEMENTS = ["PRED", "S8", "S16", "S32", "S64", "U8", "U16", "U32", "U64", "F16", "F32", "F64", "BF16", "C64", "C128",
            "F8E5M2", "F8E4M3FN", "F8E4M3B11FNUZ", "F8E5M2FNUZ", "F8E4M3FNUZ", "S4", "U4", "TOKEN", "S2", "U2", "F8E4M3",
            "F8E3M4", "F8E8M0FNU", "F4E2M1FN"]


def program():
    lines = ["#include <cstddef>", f'#include "{HEADER}"', '#include "cleave/pjrt/c_interface.h"',
             "namespace c = cleave::pjrt::c;",
             # Only standard layouts have a portable offsetof; a base class first is what all compilers here do.
             "#pragma GCC diagnostic ignored \"-Winvalid-offsetof\""]
    for ours, theirs, fields in STRUCTS:
        lines.append(f"static_assert(sizeof(c::{ours}) >= sizeof({theirs}), \"{ours}\");")
        for field in ["size", "extensions"] + fields:
            mine, other = field if isinstance(field, tuple) else (field, field)
            other = {"size": "struct_size", "extensions": "extension_start"}.get(other, other)
            lines.append(f"static_assert(offsetof(c::{ours}, {mine}) == offsetof({theirs}, {other}), \"{ours}.{mine}\");")
        function = FUNCTIONS.get(theirs, theirs.removesuffix("_Args"))
        if function and "KeyValue" not in function:
            lines.append(f"static_assert(c::kTableHead + 8 * static_cast<size_t>(c::{ours}::kFunction) == "
                         f"offsetof(PJRT_Api, {function}), \"{function}\");")
    names = {"PRED": "Pred", "TOKEN": "Token"}
    for element in ELEMENTS:
        lines.append(f"static_assert(int(c::k{names.get(element, element)}) == int(PJRT_Buffer_Type_{element}), "
                     f"\"{element}\");")
    lines.append("int main() {}")
    return "\n".join(lines)


def test_structs_and_places(tmp_path):
    source = tmp_path / "layout.cc"
    source.write_text(program())
    done = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", f"-I{ROOT}", str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]


def test_a_wrong_offset_would_be_seen(tmp_path):
    source = tmp_path / "wrong.cc"
    source.write_text(program().replace("offsetof(PJRT_Buffer_ToHostBuffer_Args, dst)",
                                        "offsetof(PJRT_Buffer_ToHostBuffer_Args, dst_size)"))
    done = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", f"-I{ROOT}", str(source)], capture_output=True, text=True)
    assert "BufferToHost.data" in done.stderr
