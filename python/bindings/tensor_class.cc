
#include "cleave/core/error.h"
#include "cleave/runtime/comm_log.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_linalg.h"
#include "cleave/runtime/tensor_text.h"
#include "tensors.h"

namespace cleave::python {
namespace {

using namespace nb::literals;

nb::tuple tuple_of(const Ints& values) {
  nb::list list;
  for (int64_t value : values) list.append(value);
  return nb::tuple(list);
}

std::string mesh_text(const Tensor& x) {
  if (!x.mesh()) return {};
  Mesh mesh = *x.mesh();
  mesh.name.clear();
  return to_string(mesh);
}

// The layout as a spec, in Shardy's words.
std::string spec_text(const Tensor& x) { return to_string(x.sharding()); }

// A spec's parts, for cleave.P: by dimension (axes, open, priority); replicated; unreduced and how.
nb::tuple spec_parts(const std::string& text) {
  const PartitionSpec spec = parse_partition_spec(text);
  nb::list entries;
  for (const SpecEntry& entry : spec.entries)
    entries.append(
        nb::make_tuple(entry.axes, entry.is_open,
                       entry.importance ? nb::cast(*entry.importance) : nb::object(nb::none())));
  return nb::make_tuple(entries, spec.whole, spec.partial, std::string(name(spec.partial_op)));
}

std::string text_of(const Tensor& x) {
  nb::gil_scoped_release released;
  return to_string(x);
}

std::string written(const TensorAt&) {
  return "Tensor.at[...]: use .get(), .set(v), .add(v), .multiply(v), .min(v) or .max(v)";
}

// x.at: an index makes a TensorAt of it.
struct TensorPlaces {
  Tensor x;
};

using Change = Tensor (TensorAt::*)(const Operand&) const;
template <Change change>
Tensor changed(const TensorAt& at, nb::handle values) {
  return (at.*change)(HeldOperand(values));
}

void bind_places(nb::module_& m) {
  nb::class_<TensorAt>(m, "TensorAt", "Elements of a Tensor, to be changed.")
      .def("get", &TensorAt::get)
      .def("set", &changed<&TensorAt::set>, "values"_a, "The tensor with these elements instead.")
      .def("add", &changed<&TensorAt::add>, "values"_a)
      .def("multiply", &changed<&TensorAt::mul>, "values"_a)
      .def("mul", &changed<&TensorAt::mul>, "values"_a)
      .def("min", &changed<&TensorAt::min>, "values"_a)
      .def("max", &changed<&TensorAt::max>, "values"_a)
      .def("__repr__", &written);
  nb::class_<TensorPlaces>(m, "TensorPlaces", "x.at[...]")
      .def(
          "__getitem__",
          [](const TensorPlaces& self, nb::handle key) {
            return TensorAt(self.x, to_indices(key));
          },
          "key"_a.none());
}

Tensor item_of(const Tensor& x, nb::handle key) {
  if (x.rank() == 0 && PyLong_Check(key.ptr())) throw nb::index_error("a Tensor of no dimensions");
  return index(x, to_indices(key));
}

void bind_layouts(nb::class_<Tensor>& cls) {
  cls.def_prop_ro("mesh_text", &mesh_text)
      .def_prop_ro("spec_text", &spec_text)
      .def("_shard",
           [](const Tensor& x, const std::string& mesh, const std::string& spec) {
             return x.shard(*to_mesh(mesh), parse_partition_spec(spec));
           })
      .def("_with_sharding",
           [](const Tensor& x, const std::string& spec) {
             return x.with_sharding(parse_partition_spec(spec));
           })
      .def("_reshard", [](const Tensor& x, const std::string& spec) {
        return x.reshard(parse_partition_spec(spec));
      });
}

void bind_class(nb::module_& m) {
  nb::class_<Tensor> cls(m, "Tensor", nb::is_weak_referenceable(),
                         R"(A value over a mesh of devices, or on one device.

What is done with tensors is recorded, and computed when a value is read: by np.asarray, item, tolist, print.)");
  cls.def_prop_ro("shape", [](const Tensor& x) { return tuple_of(x.shape()); })
      .def_prop_ro("ndim", &Tensor::rank)
      .def_prop_ro("size", &Tensor::size)
      .def_prop_ro("dtype_name", [](const Tensor& x) { return dtype_name(x.dtype()); })
      .def_prop_ro("is_computed", &Tensor::is_computed, "Whether the value is there already.")
      .def_prop_ro("is_traced", &Tensor::is_traced, "Whether it belongs to a trace: no value.")
      .def_prop_ro(
          "at", [](const Tensor& x) { return TensorPlaces{x}; },
          "x.at[index].set(v): a tensor like x with other elements.")
      .def("is_same", &Tensor::is_same, "other"_a, "Whether both are the same value.")
      .def("__getitem__", &item_of, "key"_a.none())
      .def("__len__",
           [](const Tensor& x) {
             if (x.rank() == 0) throw nb::type_error("len() of a Tensor of no dimensions");
             return x.shape()[0];
           })
      .def("__repr__", &text_of)
      .def("__iter__", [](const Tensor& x) {
        if (x.rank() == 0) throw nb::type_error("iteration over a Tensor of no dimensions");
        nb::list rows;
        for (int64_t i = 0; i < x.shape()[0]; ++i) rows.append(nb::cast(x[i]));
        return nb::iter(rows);
      });
  bind_layouts(cls);
  bind_tensor_operators(cls);
  cls.attr("__hash__") = nb::none();
  cls.attr("__array_ufunc__") = nb::none();  // NumPy leaves its operators to this class
}

// What tensors of a thread communicate from `enter` to `exit`.
class PyCommLog {
 public:
  PyCommLog() = default;
  PyCommLog(const PyCommLog&) = delete;
  PyCommLog& operator=(const PyCommLog&) = delete;
  ~PyCommLog() {
    // The log is in a list of its thread, from which no other thread can take it.
    if (open_ && std::this_thread::get_id() != thread_) static_cast<void>(open_.release());
  }

  void enter() {
    if (open_) throw_user("CommLog: it is open already");
    thread_ = std::this_thread::get_id();
    open_ = std::make_unique<CommLog>();
  }
  void exit() {
    if (!open_) return;
    if (std::this_thread::get_id() != thread_)
      throw_user("CommLog: it was opened by another thread, which has to close it");
    for (const CommEvent& event : open_->events()) heard_.add(event);
    open_.reset();
  }
  void clear() {
    heard_.clear();
    if (open_) open_->clear();
  }
  // All events so far.
  std::unique_ptr<CommLog> log() const {
    auto all = std::make_unique<CommLog>(CommLog::Unheard{});
    for (const CommEvent& event : heard_.events()) all->add(event);
    if (open_)
      for (const CommEvent& event : open_->events()) all->add(event);
    return all;
  }

 private:
  std::thread::id thread_;
  std::unique_ptr<CommLog> open_;
  CommLog heard_{CommLog::Unheard{}};
};

void bind_comm_log(nb::module_& m) {
  nb::class_<PyCommLog>(m, "CommLog",
                        R"(Counts what devices send each other while it is open, on this thread:

    with cleave.CommLog() as log:
        np.asarray(y)
    log.count("all_reduce"), log.bytes, print(log))")
      .def(nb::init<>())
      .def("__enter__",
           [](nb::object self) {
             nb::cast<PyCommLog&>(self).enter();
             return self;
           })
      .def("__exit__", [](PyCommLog& self, nb::args) { self.exit(); })
      .def(
          "count",
          [](const PyCommLog& self, std::optional<std::string> kind) {
            return kind ? self.log()->count(*kind) : self.log()->count();
          },
          "kind"_a = nb::none(), "Collectives that moved bytes: all, or those of a kind.")
      .def_prop_ro(
          "bytes", [](const PyCommLog& self) { return self.log()->bytes(); },
          "Received by one device, at most.")
      .def_prop_ro("total_bytes", [](const PyCommLog& self) { return self.log()->total_bytes(); })
      .def("clear", [](PyCommLog& self) { self.clear(); })
      .def_prop_ro("events",
                   [](const PyCommLog& self) {
                     nb::list list;
                     const auto log = self.log();
                     for (const CommEvent& e : log->events())
                       list.append(nb::make_tuple(e.kind, e.axes, e.asked_by, e.bytes));
                     return list;
                   })
      .def("__str__",
           [](const PyCommLog& self) {
             std::string text = to_string(*self.log());
             if (!text.empty()) text.pop_back();  // the end of its last line
             return text.empty() ? "no communication" : text;
           })
      .def("__repr__",
           [](nb::handle self) {
             return nb::str(nb::module_::import_("cleave.pictures").attr("comm_repr")(self));
           })
      .def("_repr_html_", [](nb::handle self) {
        return nb::str(nb::module_::import_("cleave.pictures").attr("comm_html")(self));
      });
}

}  // namespace

void bind_tensors(nb::module_& m) {
  bind_class(m);
  bind_places(m);
  bind_comm_log(m);
  bind_tensor_memory(m);
  m.def("spec_parts", &spec_parts, "text"_a);
  m.def(
      "dtype_name", [](nb::handle dtype) { return dtype_name(to_dtype(dtype)); }, "dtype"_a);
  m.def("memory_in_use", &memory_in_use, "Bytes of computed tensors, by device.");
  m.def("filled", [](nb::handle value, const std::string& dtype) {
    const Scalar number = to_scalar(value);
    return scalar(number, dtype.empty() ? number.dtype() : to_dtype(nb::str(dtype.c_str())));
  });
  bind_elementwise(m);
  bind_reductions(m);
  bind_shape_ops(m);
  bind_linear_algebra(m);
  bind_layers(m);
  bind_random(m);
  bind_collectives(m);
}

}  // namespace cleave::python
