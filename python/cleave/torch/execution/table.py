"""The table of translations: from the name of an op to a function of (translation, op, *operands)."""

from cleave._core import UserError
from cleave.torch.execution.attributes import kind_of, read_attribute, type_text

TABLE = {}


def translates(*names):
    """Registers a function for ops. It returns a Value, or a list of them for an op with several results."""

    def register(function):
        for name in names:
            TABLE[name] = function
        return function

    return register


class Op:
    """A node of the graph JSON with its attributes and types read."""

    def __init__(self, data, scope=None):
        self.scope = scope or {}
        self.name, self.operands = data["op"], data.get("operands", [])
        self.results = [result["name"] for result in data.get("results", [])]
        self.data, self.texts, self.regions = data, data.get("attributes", {}), data.get("regions", [])
        self._kinds = None

    @property
    def kinds(self):
        if self._kinds is None:
            self._kinds = [kind_of(result["type"]) for result in self.data.get("results", [])]
        return self._kinds

    @property
    def shape(self):
        return self.kinds[0].shape

    @property
    def dtype(self):
        return self.kinds[0].dtype

    def get(self, name, otherwise=None):
        text = self.texts.get(name)
        return otherwise if text is None else read_attribute(text)

    def ints(self, name, otherwise=None):
        """A list of integers: an array, a list or a dense tensor."""
        found = self.get(name)
        if found is None:
            return otherwise
        return [int(n) for n in (found.reshape(-1).tolist() if hasattr(found, "reshape") else found)]

    def error(self, operands, why="no translation to PyTorch"):
        inputs = ", ".join(type_text(value.kind) for value in operands)
        outputs = ", ".join(result["type"] for result in self.data.get("results", []))
        return UserError(f"{self.name} ({inputs}) -> ({outputs}): {why}")
