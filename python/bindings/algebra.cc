#include "algebra.h"

#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/core/picture.h"
#include "cleave/core/placement.h"
#include "cleave/core/shard_layout.h"

namespace cleave::python {

using namespace nb::literals;

std::string text_of_object(nb::handle object) { return nb::cast<std::string>(nb::str(object)); }

namespace {

// What has a natural form in Python is written there.
nb::object helper(const char* module, const char* function) {
  return nb::module_::import_(module).attr(function);
}

MeshPtr verified_mesh(Mesh mesh) {
  normalize_and_verify(mesh);
  return std::make_shared<const Mesh>(std::move(mesh));
}

// Of Mesh(...): the text that python/cleave/mesh.py makes of whatever the caller has.
void make_mesh(PyMesh* self, const nb::args& args, const nb::kwargs& kwargs) {
  const auto text = nb::cast<std::string>(helper("cleave.mesh", "mesh_text")(*args, **kwargs));
  new (self) PyMesh{verified_mesh(parse_mesh(text))};
}

nb::tuple tuple_of(const std::vector<int64_t>& numbers) { return nb::tuple(nb::cast(numbers)); }

std::vector<int64_t> all_device_ids(const Mesh& mesh) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < mesh.num_devices(); ++i) ids.push_back(mesh.device_at(i));
  return ids;
}

// The slices of one device, as an index for the whole array.
nb::tuple slices_of(const ShardingSpec& spec, const Shape& shape, int64_t device) {
  const Mesh& mesh = *spec.mesh;
  if (std::ranges::count(all_device_ids(mesh), device) == 0)
    throw_user("device {}: the mesh {} has no such device", device, to_string(mesh));
  const ShardSlice slice = shard_slice(spec, shape, mesh.position_of(device));
  nb::list list;
  for (size_t d = 0; d < shape.size(); ++d)
    list.append(nb::slice(nb::cast(slice.offset[d]), nb::cast(slice.offset[d] + slice.size[d]),
                          nb::none()));
  return nb::tuple(list);
}

std::vector<std::string> axis_texts(const AxisList& axes, const Mesh& mesh) {
  std::vector<std::string> texts;
  for (const AxisRef& ref : axes)
    texts.push_back(is_whole(ref, mesh) ? mesh.axes[ref.axis].name : to_string(ref, mesh));
  return texts;
}

ShardingSpec checked(const ShardingSpec& spec, const Shape& shape) {
  verify(spec, shape);
  return spec;
}

void bind_mesh(nb::module_& m) {
  nb::class_<PyMesh>(m, "Mesh",
                     "Named axes with sizes, major to minor, and optionally an order of devices. "
                     "It needs no device.\n\n"
                     "    Mesh(data=2, model=4)\n"
                     "    Mesh((2, 4), (\"data\", \"model\"))\n"
                     "    Mesh(\"data=2,model=4\")\n"
                     "    Mesh(jax_mesh), Mesh(torch_device_mesh)\n"
                     "    Mesh(x=2, y=2, device_ids=[0, 2, 1, 3])")
      .def("__init__", &make_mesh)
      .def_prop_ro("axis_names",
                   [](const PyMesh& self) {
                     nb::list names;
                     for (const MeshAxis& axis : self.mesh->axes) names.append(axis.name);
                     return nb::tuple(names);
                   })
      .def_prop_ro("axis_sizes",
                   [](const PyMesh& self) {
                     nb::list sizes;
                     for (const MeshAxis& axis : self.mesh->axes) sizes.append(axis.size);
                     return nb::tuple(sizes);
                   })
      .def_prop_ro(
          "shape",
          [](const PyMesh& self) {
            nb::dict sizes;
            for (const MeshAxis& axis : self.mesh->axes) sizes[axis.name.c_str()] = axis.size;
            return sizes;
          },
          "The sizes of the axes by name.")
      .def_prop_ro(
          "size", [](const PyMesh& self) { return self.mesh->num_devices(); },
          "The number of devices.")
      .def_prop_ro(
          "device_ids", [](const PyMesh& self) { return tuple_of(all_device_ids(*self.mesh)); },
          "The device at each position, row-major.")
      .def(
          "coordinates",
          [](const PyMesh& self, int64_t device) {
            if (std::ranges::count(all_device_ids(*self.mesh), device) == 0)
              throw_user("device {}: the mesh {} has no such device", device,
                         to_string(*self.mesh));
            return tuple_of(self.mesh->coordinates(self.mesh->position_of(device)));
          },
          "device"_a, "Where a device is, one number for each axis.")
      .def_prop_ro(
          "text", [](const PyMesh& self) { return to_string(*self.mesh); },
          "As Shardy writes it: <[\"data\"=2, \"model\"=4]>.")
      .def("__str__", [](const PyMesh& self) { return to_string(*self.mesh); })
      .def("__repr__",
           [](nb::handle self) { return nb::str(helper("cleave.mesh", "mesh_repr")(self)); })
      .def("_repr_html_",
           [](nb::handle self) { return nb::str(helper("cleave.pictures", "mesh_html")(self)); })
      .def("__eq__",
           [](const PyMesh& self, nb::handle other) {
             return nb::isinstance<PyMesh>(other) &&
                    self.mesh->same_devices(*nb::cast<const PyMesh&>(other).mesh);
           })
      .def("__hash__",
           [](const PyMesh& self) { return std::hash<std::string>()(to_string(*self.mesh)); })
      .def("__reduce__", [](nb::handle self) {
        return nb::make_tuple(self.type(), nb::make_tuple(self.attr("text")));
      });
}

ShardingSpec parse_placed(nb::handle mesh, nb::handle placements, size_t rank) {
  const auto text = nb::cast<std::string>(helper("cleave.layouts", "placements_text")(placements));
  return from_placements(parse_placements(text), mesh_of_object(mesh), rank);
}

void make_sharding(ShardingSpec* self, nb::handle mesh, nb::handle spec,
                   std::optional<size_t> rank) {
  const MeshPtr on = mesh_of_object(mesh);
  nb::object given = rank ? nb::cast(*rank) : nb::none();
  const auto text = nb::cast<std::string>(helper("cleave.layouts", "spec_text")(spec, given));
  ShardingSpec made = parse_sharding(text, on);
  if (rank && made.rank() != *rank)
    throw_user("{} is for {} dimensions, and rank is {}", text, made.rank(), *rank);
  new (self) ShardingSpec(std::move(made));
}

void bind_sharding_parts(nb::class_<ShardingSpec>& type) {
  type.def_prop_ro("mesh", [](const ShardingSpec& self) { return PyMesh{self.mesh}; })
      .def_prop_ro("rank", [](const ShardingSpec& self) { return self.rank(); })
      .def_prop_ro(
          "dims",
          [](const ShardingSpec& self) {
            nb::list dims;
            for (const DimSpec& dim : self.dims)
              dims.append(nb::tuple(nb::cast(axis_texts(dim.axes, *self.mesh))));
            return nb::tuple(dims);
          },
          "The axes of each dimension, major to minor.")
      .def_prop_ro(
          "open",
          [](const ShardingSpec& self) {
            nb::list dims;
            for (const DimSpec& dim : self.dims) dims.append(dim.open);
            return nb::tuple(dims);
          },
          "Of each dimension: whether propagation may split it further.")
      .def_prop_ro("replicated",
                   [](const ShardingSpec& self) {
                     return nb::tuple(nb::cast(axis_texts(self.replicated, *self.mesh)));
                   })
      .def_prop_ro(
          "unreduced",
          [](const ShardingSpec& self) {
            return nb::tuple(nb::cast(axis_texts(self.partial, *self.mesh)));
          },
          "Axes along which every device holds a part, and the value is their reduction.")
      .def_prop_ro(
          "reduction",
          [](const ShardingSpec& self) -> std::optional<std::string> {
            if (self.partial.empty()) return {};
            return std::string(name(self.partial_op));
          },
          "How the parts of a value are reduced: sum, max, ...; None if nothing is pending.")
      .def_prop_ro("is_fully_replicated", &ShardingSpec::is_fully_replicated)
      .def_prop_ro(
          "placements",
          [](const ShardingSpec& self) {
            nb::list list;
            for (const Placement& placement : to_placements(self))
              list.append(to_string(placement));
            return nb::tuple(list);
          },
          "One for each axis of the mesh, as DTensor says it: ('S(0)', 'R', 'P(sum)').")
      .def(
          "torch_placements",
          [](nb::handle self) { return helper("cleave.layouts", "torch_placements")(self); },
          "The same as objects of torch.distributed.tensor.");
}

void bind_sharding_shapes(nb::class_<ShardingSpec>& type) {
  type.def(
          "shard_shape",
          [](const ShardingSpec& self, nb::handle shape) {
            const Shape whole = shape_of_object(shape);
            return tuple_of(local_shape(checked(self, whole), whole));
          },
          "global_shape"_a, "The shape of the largest shard.")
      .def(
          "shard_slices",
          [](const ShardingSpec& self, nb::handle shape, int64_t device) {
            const Shape whole = shape_of_object(shape);
            return slices_of(checked(self, whole), whole, device);
          },
          "global_shape"_a, "device"_a, "What a device holds: an index for the whole array.")
      .def(
          "devices_indices_map",
          [](const ShardingSpec& self, nb::handle shape) {
            const Shape whole = shape_of_object(shape);
            verify(self, whole);
            nb::dict map;
            for (int64_t device : all_device_ids(*self.mesh))
              map[nb::cast(device)] = slices_of(self, whole, device);
            return map;
          },
          "global_shape"_a, "By device: what it holds, as an index for the whole array.")
      .def(
          "part_of",
          [](const ShardingSpec& self, int64_t device) {
            return coordinate(self.partial, *self.mesh, self.mesh->position_of(device));
          },
          "device"_a, "Which part of a pending reduction a device holds; 0 if nothing is pending.")
      .def(
          "is_even",
          [](const ShardingSpec& self, nb::handle shape) {
            const Shape whole = shape_of_object(shape);
            return is_even(checked(self, whole), whole);
          },
          "global_shape"_a, "Whether all shards have the same shape.")
      .def(
          "picture",
          [](const ShardingSpec& self, nb::handle shape) {
            const Shape whole = shape_of_object(shape);
            return picture(checked(self, whole), whole);
          },
          "global_shape"_a, "Which device holds what, as text.")
      .def(
          "device_table",
          [](const ShardingSpec& self, nb::handle shape) {
            const Shape whole = shape_of_object(shape);
            return device_table(checked(self, whole), whole);
          },
          "global_shape"_a, "A line for every device: what it holds.");
}

void bind_sharding(nb::module_& m) {
  nb::class_<ShardingSpec> type(m, "Sharding",
                                "How a tensor is laid out over a mesh.\n\n"
                                "    Sharding(mesh, '[{\"data\"}, {}], unreduced={\"model\"}')\n"
                                "    Sharding(mesh, P(\"data\", None))\n"
                                "    Sharding.from_placements(mesh, \"S(0), P(sum)\", rank=2)");
  type.def("__init__", &make_sharding, "mesh"_a, "spec"_a.none(), "rank"_a = nb::none());
  type.def_static("from_placements", &parse_placed, "mesh"_a, "placements"_a, "rank"_a,
                  "From DTensor's placements, one for each axis of the mesh: text or objects.");
  bind_sharding_parts(type);
  bind_sharding_shapes(type);
  type.def(
          "same_layout",
          [](const ShardingSpec& self, const ShardingSpec& other) {
            return self.same_layout(other);
          },
          "other"_a, "Whether every device holds the same elements under both.")
      .def_prop_ro(
          "text", [](const ShardingSpec& self) { return to_string(self); },
          "As Shardy writes it: [{\"data\"}, {?}], unreduced={\"model\"}.")
      .def("__str__", [](const ShardingSpec& self) { return to_string(self); })
      .def("__repr__",
           [](nb::handle self) {
             return nb::str(
                 nb::str("Sharding({!r}, {!r})").format(self.attr("mesh"), self.attr("text")));
           })
      .def(
          "_repr_html_",
          [](nb::handle self) { return nb::str(helper("cleave.pictures", "sharding_html")(self)); })
      .def("__eq__",
           [](const ShardingSpec& self, nb::handle other) {
             return nb::isinstance<ShardingSpec>(other) &&
                    self == nb::cast<const ShardingSpec&>(other);
           })
      .def("__hash__",
           [](const ShardingSpec& self) {
             return std::hash<std::string>()(to_string_with_mesh(self));
           })
      .def("__reduce__", [](nb::handle self) {
        return nb::make_tuple(self.type(), nb::make_tuple(self.attr("mesh"), self.attr("text")));
      });
}

}  // namespace

MeshPtr mesh_of_object(nb::handle object) {
  if (nb::isinstance<PyMesh>(object)) return nb::cast<const PyMesh&>(object).mesh;
  const auto text = nb::cast<std::string>(helper("cleave.mesh", "mesh_text")(object));
  return verified_mesh(parse_mesh(text));
}

ShardingSpec sharding_of_object(nb::handle object, const MeshPtr& mesh, size_t rank) {
  if (nb::isinstance<ShardingSpec>(object)) {
    const auto& spec = nb::cast<const ShardingSpec&>(object);
    if (!spec.mesh->same_devices(*mesh))
      throw_user("the sharding {} is on the mesh {}, and {} was given", to_string(spec),
                 to_string(*spec.mesh), to_string(*mesh));
    return spec;
  }
  const auto text = nb::cast<std::string>(helper("cleave.layouts", "spec_text")(object, rank));
  return parse_sharding(text, mesh);
}

Shape shape_of_object(nb::handle object) {
  const nb::object sizes = nb::hasattr(object, "shape") ? object.attr("shape") : nb::borrow(object);
  Shape shape;
  try {
    for (nb::handle size : sizes) shape.push_back(nb::cast<int64_t>(size));
  } catch (const std::bad_cast&) {
    throw_user("{}: a shape is a list of whole numbers, such as (8, 16)", text_of_object(object));
  } catch (const nb::python_error&) {
    throw_user("{}: a shape is a list of whole numbers, such as (8, 16)", text_of_object(object));
  }
  for (int64_t size : shape)
    if (size < 0) throw_user("shape {}: sizes are 0 or more", text_of_object(sizes));
  return shape;
}

DType dtype_of_object(nb::handle object) {
  const auto name = nb::cast<std::string>(helper("cleave.layouts", "dtype_name")(object));
  const std::optional<DType> found = dtype_from_name(name);
  if (!found) throw_user("dtype '{}': there is none of that name; f32 is one", name);
  return *found;
}

void bind_algebra(nb::module_& m) {
  bind_mesh(m);
  bind_sharding(m);
}

}  // namespace cleave::python
