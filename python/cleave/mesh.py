"""Meshes in all the ways in which a user has them, as the text that Cleave reads."""

from cleave._core import UserError

WAYS = 'Mesh(data=2, model=4), Mesh((2, 4), ("data", "model")) or Mesh("data=2,model=4")'


def mesh_text(*args, device_ids=None, **axes):
    """<["data"=2, "model"=4]> of the arguments of Mesh(...)."""
    if args and axes:
        raise UserError(f"Mesh: axes are given by name or by position, not both: {WAYS}")
    if not args:
        if not axes:
            raise UserError(f"Mesh: at least one axis is needed: {WAYS}")
        return axes_text(axes.items(), device_ids)
    if len(args) == 2:
        return pair_text(*args, device_ids)
    if len(args) > 2:
        raise UserError(f"Mesh: {WAYS}")
    return object_text(args[0], device_ids)


def axes_text(axes, device_ids):
    texts = []
    for name, size in axes:
        if isinstance(size, bool) or not hasattr(size, "__index__"):
            raise UserError(f"Mesh: the size of axis '{name}' is a whole number, not {size!r}")
        if not isinstance(name, str) or '"' in name:
            raise UserError(f"Mesh: {name!r} is no name of an axis")
        texts.append(f'"{name}"={size.__index__()}')
    order = "" if device_ids is None else f", device_ids=[{', '.join(str(int(i)) for i in flat(device_ids))}]"
    return f"<[{', '.join(texts)}]{order}>"


def pair_text(sizes, names, device_ids):
    """Sizes and names; or an array of devices and names, as jax.sharding.Mesh takes them."""
    if isinstance(names, str):
        names = (names,)
    shape = getattr(sizes, "shape", None)
    if shape is not None:
        if device_ids is None:
            device_ids = order_of(ids_of(flat(sizes)))
        sizes = shape
    try:
        sizes, names = tuple(sizes), tuple(names)
    except TypeError:
        raise UserError(f"Mesh: {WAYS}") from None
    if len(sizes) != len(names):
        raise UserError(f"Mesh: {len(sizes)} sizes and {len(names)} names were given")
    return axes_text(zip(names, sizes), device_ids)


def object_text(given, device_ids):
    if isinstance(given, str):
        text = given
    elif isinstance(given, dict):
        return axes_text(given.items(), device_ids)
    elif hasattr(given, "mesh_dim_names"):  # of PyTorch
        return torch_text(given, device_ids)
    elif hasattr(given, "axis_names"):  # of JAX, or of Cleave
        return jax_text(given, device_ids)
    elif isinstance(getattr(given, "text", None), str):
        text = given.text
    else:
        raise UserError(f"Mesh: {type(given).__name__} is no mesh; {WAYS}")
    if device_ids is not None:
        raise UserError("Mesh: a text has its device_ids inside: <[\"x\"=2], device_ids=[1, 0]>")
    return text


def jax_text(mesh, device_ids):
    sizes = getattr(mesh, "axis_sizes", None) or tuple(mesh.shape.values())
    if device_ids is None:
        try:
            device_ids = order_of(ids_of(flat(mesh.device_ids)))
        except (AttributeError, ValueError):  # an abstract mesh has none
            device_ids = None
    return axes_text(zip(mesh.axis_names, sizes), device_ids)


def torch_text(mesh, device_ids):
    if not mesh.mesh_dim_names:
        raise UserError("Mesh: the DeviceMesh has no names of axes; give it mesh_dim_names")
    ranks = mesh.mesh
    order = order_of([int(rank) for rank in flat(ranks)]) if device_ids is None else device_ids
    return axes_text(zip(mesh.mesh_dim_names, tuple(ranks.shape)), order)


def flat(nested):
    """The elements of an array or of nested lists, row-major."""
    for method in ("flatten", "ravel"):
        if hasattr(nested, method):
            return getattr(nested, method)().tolist()
    elements = []
    for one in nested:
        elements += flat(one) if isinstance(one, (list, tuple)) else [one]
    return elements


def ids_of(devices):
    return [int(getattr(device, "id", device)) for device in devices]


def order_of(ids):
    """The order of devices, if the ids are 0, 1, ...; other ids say nothing about it."""
    return ids if sorted(ids) == list(range(len(ids))) else None


def mesh_repr(mesh):
    names, sizes = mesh.axis_names, mesh.axis_sizes
    if not names:
        return f"Mesh({mesh.text!r})"
    if all(name.isidentifier() and name != "device_ids" for name in names):
        text = ", ".join(f"{name}={size}" for name, size in zip(names, sizes))
    else:
        text = f"{sizes}, {names}"
    ids = list(mesh.device_ids)
    return f"Mesh({text})" if ids == list(range(mesh.size)) else f"Mesh({text}, device_ids={ids})"
