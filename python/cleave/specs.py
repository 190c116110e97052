"""Layouts by the names of axes: `P("data", None, ("x", "y"))`, and what stands for a mesh."""

from cleave import _core


class Entry(tuple):
    """The axes of one dimension, with what `P.open` and `P.priority` say about it."""

    def __new__(cls, axes=(), is_open=False, priority=None):
        self = super().__new__(cls, axes)
        self.is_open, self.importance = is_open, priority
        return self

    def __eq__(self, other):
        return isinstance(other, Entry) and self._key() == other._key()

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash(self._key())

    def _key(self):
        return tuple(self), self.is_open, self.importance

    def __repr__(self):
        axes = ", ".join(map(repr, self))
        text = f"P.open({axes})" if self.is_open else f"({axes},)"
        return text if self.importance is None else f"P.priority({text}, {self.importance})"

    def __reduce__(self):
        return Entry, self._key()


def _axes_of(entry):
    if entry is None:
        return ()
    return (entry,) if isinstance(entry, str) else tuple(entry)


def _quoted(axis):
    name, colon, part = axis.partition(":(")
    return f'"{name}"{colon}{part}'


def _axes_text(axes):
    return ", ".join(map(_quoted, axes))


def _entry_text(entry):
    is_open = getattr(entry, "is_open", False)
    priority = getattr(entry, "importance", None)
    parts = [_quoted(axis) for axis in _axes_of(entry)] + (["?"] if is_open else [])
    return "{" + ", ".join(parts) + "}" + ("" if priority is None else f"p{priority}")


def _simplest(axes):
    return None if not axes else axes[0] if len(axes) == 1 else tuple(axes)


class P(tuple):
    """How a tensor lies on a mesh: an entry per dimension, which is an axis, None, or several axes from major to minor.
    Dimensions beyond the entries are not split.

        P("data", None)                       rows over `data`
        P(None, ("x", "y"))                   columns over `x`, then `y`
        P(P.open("data"), P.open())           propagation may split the dimensions further
        P(P.priority("x", 1), None)           gives way to lower numbers
        P("data").replicated("model")         stays replicated over `model`
        P("data").unreduced("model")          a sum over `model` is pending
        P("x:(1)2")                           a part of an axis
    """

    def __new__(cls, *entries):
        for entry in entries:
            if not (entry is None or isinstance(entry, (str, tuple, list))):
                raise _core.UserError(f"P: an entry is an axis, None or a tuple of axes, not {entry!r}")
        entries = [entry if isinstance(entry, Entry) else _simplest(_axes_of(entry)) for entry in entries]
        self = super().__new__(cls, entries)
        self.replicated_axes, self.unreduced_axes, self.unreduced_op = (), (), "sum"
        return self

    @staticmethod
    def open(*axes):
        """An entry that propagation may split further."""
        return Entry(axes, is_open=True)

    @staticmethod
    def priority(entry, number):
        """An entry that gives way to those of lower numbers."""
        return Entry(_axes_of(entry), getattr(entry, "is_open", False), number)

    def replicated(self, *axes):
        """With axes over which the tensor stays replicated."""
        return self._with(replicated_axes=axes)

    def unreduced(self, *axes, op="sum"):
        """With axes over which a reduction is pending."""
        return self._with(unreduced_axes=axes, unreduced_op=op)

    def _with(self, **changes):
        made = P(*self)
        made.__dict__ = {**self.__dict__, **changes}
        return made

    @staticmethod
    def parse(text):
        """From Shardy's text: `[{"x", ?}p1, {}], replicated={"z"}`."""
        entries, replicated, unreduced, op = _core.spec_parts(text)
        made = P(*(Entry(axes, is_open, priority) if is_open or priority is not None else _simplest(axes)
                   for axes, is_open, priority in entries))
        return made._with(replicated_axes=tuple(replicated), unreduced_axes=tuple(unreduced), unreduced_op=op)

    @property
    def text(self):
        """As Shardy writes it."""
        parts = "[" + ", ".join(map(_entry_text, self)) + "]"
        if self.replicated_axes:
            parts += ", replicated={" + _axes_text(self.replicated_axes) + "}"
        if self.unreduced_axes:
            op = "" if self.unreduced_op == "sum" else self.unreduced_op
            parts += f", unreduced={op}{{" + _axes_text(self.unreduced_axes) + "}"
        return parts

    def __eq__(self, other):
        return self.text == other.text if isinstance(other, P) else NotImplemented

    def __ne__(self, other):
        return self.text != other.text if isinstance(other, P) else NotImplemented

    def __hash__(self):
        return hash(self.text)

    def __reduce__(self):
        return P.parse, (self.text,)

    def __repr__(self):
        text = "P(" + ", ".join(map(repr, self)) + ")"
        if self.replicated_axes:
            text += f".replicated({', '.join(map(repr, self.replicated_axes))})"
        if self.unreduced_axes:
            op = "" if self.unreduced_op == "sum" else f", op={self.unreduced_op!r}"
            text += f".unreduced({', '.join(map(repr, self.unreduced_axes))}{op})"
        return text


def is_spec(value):
    """Whether a value is a spec: of this class, or of JAX's (which is not imported for it)."""
    cls = type(value)
    return isinstance(value, P) or (cls.__module__.partition(".")[0] == "jax" and cls.__name__ in ("P", "PartitionSpec"))


def spec_of(value):
    """P of a P, JAX's PartitionSpec, Shardy's text, or a tuple of entries."""
    if isinstance(value, P):
        return value
    if isinstance(value, str):
        return P.parse(value)
    if isinstance(value, _core.Sharding):
        return P.parse(value.text)
    if is_spec(value):
        entries = [P.open() if "Unconstrained" in type(entry).__name__ else entry for entry in value]
        made = P(*entries)
        unreduced = getattr(value, "unreduced", None)
        return made.unreduced(*sorted(unreduced)) if unreduced and not callable(unreduced) else made
    if isinstance(value, (tuple, list)):
        return P(*value)
    raise _core.UserError(f"a layout is P(...), a PartitionSpec of JAX, or text, not {value!r}")


def spec_text(value):
    return spec_of(value).text


def mesh_text(mesh):
    """The text of a mesh: of "data=2,model=4", of an object with `text`, of a dict, or of JAX's Mesh."""
    if isinstance(mesh, str):
        return mesh
    if isinstance(getattr(mesh, "text", None), str):
        return mesh.text
    shape = mesh if isinstance(mesh, dict) else getattr(mesh, "shape", None)
    if hasattr(shape, "items"):
        return ",".join(f"{axis}={size}" for axis, size in shape.items())
    return str(mesh)


def mesh_of(text):
    """The Mesh of this text; None of an empty one."""
    return _core.Mesh(text) if text else None
