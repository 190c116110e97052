#include "cleave/kernels/onednn.h"

#include "cleave/core/error.h"
#include "cleave/kernels/gemm.h"
#include "cleave/kernels/library_threads.h"

namespace cleave {

using dnnl::memory;

dnnl::engine& onednn_engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& onednn_stream() {
  thread_local dnnl::stream stream(onednn_engine());
  return stream;
}

memory::data_type onednn_type(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return memory::data_type::f32;
    case DType::F16:
      return memory::data_type::f16;
    case DType::BF16:
      return memory::data_type::bf16;
    case DType::I32:
      return memory::data_type::s32;
    case DType::I8:
      return memory::data_type::s8;
    case DType::U8:
      return memory::data_type::u8;
    default:
      throw_internal("oneDNN has no type {}", name(dtype));
  }
}

bool has_bf16_gemm() {
  static const bool native = [] {
    const int wanted = static_cast<int>(dnnl::cpu_isa::avx512_core_bf16);
    return (static_cast<int>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
  }();
  return native;
}

void gemm_bf16(const Gemm& g, const void* a, const void* b, void* c, DType result) {
  struct Entry {
    dnnl::matmul primitive;
    memory a, b, c;
  };
  apply_library_threads();
  thread_local PrimitiveCache<Entry> cache;
  const std::vector<int64_t> key{g.m,
                                 g.n,
                                 g.k,
                                 g.trans_a,
                                 g.lda,
                                 g.ldb,
                                 g.trans_b,
                                 static_cast<int64_t>(result),
                                 library_threads()};
  Entry& entry = cache.get(key, [&] {
    auto strides = [](bool trans, int64_t ld) {
      return trans ? memory::dims{1, ld} : memory::dims{ld, 1};
    };
    memory::desc a_desc({g.m, g.k}, memory::data_type::bf16, strides(g.trans_a, g.lda));
    memory::desc b_desc({g.k, g.n}, memory::data_type::bf16, strides(g.trans_b, g.ldb));
    memory::desc c_desc({g.m, g.n}, onednn_type(result), memory::dims{g.n, 1});
    dnnl::matmul::primitive_desc desc({a_desc, b_desc, c_desc}, onednn_engine());
    return Entry{dnnl::matmul(desc), memory(a_desc, onednn_engine(), nullptr),
                 memory(b_desc, onednn_engine(), nullptr),
                 memory(c_desc, onednn_engine(), nullptr)};
  });
  entry.a.set_data_handle(const_cast<void*>(a));
  entry.b.set_data_handle(const_cast<void*>(b));
  entry.c.set_data_handle(c);
  entry.primitive.execute(
      onednn_stream(),
      {{DNNL_ARG_SRC, entry.a}, {DNNL_ARG_WEIGHTS, entry.b}, {DNNL_ARG_DST, entry.c}});
  onednn_stream().wait();
}

}  // namespace cleave
