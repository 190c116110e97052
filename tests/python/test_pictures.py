"""What is shown: text by golden text, HTML by its structure, and every string escaped."""

import html.parser
import re

import numpy as np
import pytest

import cleave
from cleave import Mesh, Sharding, UserError

PENDING = """\
          [0,4)
        +-------+
  [0,3) | 0 + 1 |
        +-------+
  [3,5) | 2 + 3 |
        +-------+"""


class Checker(html.parser.HTMLParser):
    """Counts elements, and sees that they are closed in order."""

    VOID = {"br", "meta", "rect"}

    def __init__(self, text):
        super().__init__()
        self.open, self.counts, self.classes, self.text = [], {}, [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.classes += [value for key, value in attrs if key == "class"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.classes += [value for key, value in attrs if key == "class"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.text.append(data)


def checked(shown):
    return Checker(shown._repr_html_())


def test_the_text_of_a_picture():
    sharding = Sharding(Mesh(x=2, y=2), '[{"x"}, {}], unreduced={"y"}')
    assert str(cleave.show(sharding, (5, 4))) == PENDING
    assert repr(cleave.show('[{"x"}, {}], unreduced={"y"}', (5, 4), mesh="x=2,y=2")) == PENDING
    assert str(cleave.show(sharding, np.zeros((5, 4)))) == PENDING
    assert str(cleave.show(("x",), (4,), mesh=Mesh(x=2))).count("|") == 3


def test_arrays_are_shown_as_they_lie():
    import jax

    array = jax.device_put(np.zeros((4, 8)), jax.NamedSharding(jax.make_mesh((2, 4), ("x", "y")), jax.P("x", "y")))
    wanted = str(cleave.show(Sharding(Mesh(x=2, y=4), ("x", "y")), (4, 8)))
    assert str(cleave.show(array)) == str(cleave.show(array.sharding, (4, 8))) == wanted
    tensor = cleave.asarray(np.zeros((4, 8)))
    with pytest.raises(UserError, match="one device"):
        cleave.show(tensor)
    assert str(cleave.show(tensor.shard(Mesh(x=2, y=4), cleave.P("x", "y")))) == wanted
    assert tensor.shard(Mesh(x=2, y=4), Sharding(Mesh(x=2, y=4), ("x", "y"))).mesh == Mesh(x=2, y=4)


@pytest.mark.parametrize("shape", [(), (7,), (5, 4), (4, 3, 5), (3, 4, 2, 5)])
def test_every_element_is_drawn_once(shape):
    """The boxes of a drawing, without those behind them, are the distinct shards; their titles name every device once."""
    mesh = Mesh(a=2, b=2, c=2)
    names = ["a", "b", "c"][: len(shape)]
    sharding = Sharding(mesh, [(name,) for name in names] + [()] * (len(shape) - len(names)))
    page = checked(cleave.show(sharding, shape))
    shards = {tuple((part.start, part.stop) for part in slices) for slices in sharding.devices_indices_map(shape).values()}
    assert page.classes.count("box") + page.classes.count("empty") == len(shards)
    if len(names) < 3:
        assert page.classes.count("replica") == len(shards)
    devices = [int(number) for box in cleave.pictures.boxes_of(sharding, shape).values()
               for held in box.parts.values() for number in held]
    assert sorted(devices) == list(range(8))


def test_replicas_and_pending_sums_are_seen():
    mesh = Mesh(a=2, b=2, c=2)
    page = checked(cleave.show(Sharding(mesh, '[{"c"}, {}], unreduced={"b"}'), (4, 5)))
    assert page.classes.count("pending") == 2 and page.classes.count("replica") == 2
    assert "(0,4) + (2,6)" in page.text
    page = checked(cleave.show(Sharding(mesh, '[{"a"}, {"b"}], unreduced=max{"c"}'), (4, 4)))
    assert "0 max 1" in page.text
    assert "replica" not in page.classes
    page = checked(cleave.show(Sharding(mesh, '[{"a", "b", "c"}]'), (5,)))
    assert page.classes.count("empty") == 1 and "5-7" in page.text


def test_parts_of_axes_are_drawn():
    sharding = Sharding(Mesh(x=4), '[{"x":(1)2}, {"x":(2)2}]')
    assert sharding.dims == (('"x":(1)2',), ('"x":(2)2',))
    assert checked(sharding).classes.count("box") == 4


def test_what_is_too_large_is_text():
    wide = cleave.show(Sharding(Mesh(x=64, y=64), [("x",), ("y",)]), (64, 64))
    assert wide.svg() is None and "<pre>" in wide._repr_html_()
    deep = cleave.show(Sharding(Mesh(x=2), [("x",), (), (), (), ()]), (2, 1, 1, 1, 1))
    assert deep.svg() is None and checked(deep)


def test_pages_are_for_light_and_dark(tmp_path):
    shown = cleave.show(Sharding(Mesh(x=2), ["x"]), (4,))
    assert "prefers-color-scheme: dark" in shown._repr_html_()
    shown.save(tmp_path / "picture.html")
    assert (tmp_path / "picture.html").read_text().startswith("<!doctype html>")


def test_meshes():
    page = checked(Mesh(x=2, y=4))
    assert page.classes.count("box") == 8 and "x 1" in page.text and "y 3" in page.text
    assert checked(Mesh(x=128, y=128)).counts.get("svg") is None
    assert repr(Mesh(x=2, y=4)) == "Mesh(x=2, y=4)"
    assert repr(Mesh((2,), ("a b",))) == "Mesh((2,), ('a b',))"


def test_every_string_is_escaped():
    name = "<script>alert(1)</script>&"
    mesh = Mesh({name: 2})
    module = cleave.Module.parse(f'module @"{name}" {{ func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {{ return %a : tensor<2xf32> }} }}')

    def odd(a):
        return a + 1

    shown = [mesh, Sharding(mesh, [name]), cleave.show(Sharding(mesh, [name]), (4,)), module,
             cleave.plan(module, mesh="x=2"), cleave.discover(odd, shapes=[(2,)], name=name),
             cleave.reshard(mesh, (4,), "f32", [name], [None])]
    for one in shown:
        page = one._repr_html_()
        assert "<script" not in page and not re.search(r"&(?!\w+;|#)", page)
        assert checked(one).counts["div"] >= 1


def test_logs_and_compiled_programs():
    import jax

    mesh = Mesh(x=2, y=4)
    x = cleave.asarray(np.ones((8, 8), np.float32)).shard(mesh, cleave.P("x", "y"))
    with cleave.CommLog() as log:
        np.asarray(x @ x.T)
    assert re.fullmatch(rf"<CommLog: {log.count()} collectives?, {log.bytes} bytes received by a device>", repr(log))
    assert str(log) in "".join(checked(log).text)
    assert repr(cleave.CommLog()) == "<CommLog: 0 collectives, 0 bytes received by a device>"
    sharding = jax.NamedSharding(jax.make_mesh((8,), ("x",)), jax.P("x"))
    compiled = jax.jit(lambda a: a.sum(0), in_shardings=sharding).lower(jax.ShapeDtypeStruct((8, 1024), "float32")).compile()
    program = cleave.read_compiled(compiled)
    assert program.json() == cleave.read_compiled(compiled.as_text()).json()
    assert repr(program) == "<CompiledProgram jit__lambda: 8 devices, 7 KiB received by a device>"
    assert "all-reduce" in "".join(checked(program).text)
    with pytest.raises(UserError, match="the text of a compiled module or what JAX compiled is needed, not int"):
        cleave.read_compiled(3)


def test_a_sharding_of_a_rank_alone_is_whole():
    assert Sharding(Mesh(x=2), None, rank=2).text == "[{}, {}]"
    with pytest.raises(UserError, match="None says nothing without a rank"):
        Sharding(Mesh(x=2), None)


def test_modules_plans_and_reports():
    module = cleave.Module.load("model:mlp")
    assert re.fullmatch(r"<Module \S.*: \d+ ops, \(.*\) -> \(scalar f32\)>", repr(module))
    assert str(module) == module.text()
    assert "StableHLO" in checked(module).text
    plan = cleave.plan("model:mlp?step=train", mesh="data=2,model=2", machine="h100")
    assert re.fullmatch(r"<Plan of .*: step \d+\.\d{3} ms>", repr(plan))
    page = checked(plan)
    assert any("step " in text and "memory " in text for text in page.text)
    report = checked(cleave.discover("relu"))
    assert "S(d) -> S(d)" in report.text and "proved" in report.text
    assert "1 step" in "".join(checked(cleave.reshard("x=2", (4,), "f32", ["x"], None)).text)


def test_wrong_pictures_say_what_is_wrong():
    sharding = Sharding(Mesh(x=2), ["x", None])
    for call, words in [(lambda: cleave.show(sharding, (4,)), "dimension"), (lambda: cleave.show(["x"], (4,)), "mesh="),
                        (lambda: cleave.show(sharding, (0, 4)), "0"), (lambda: sharding.shard_slices((4, 4), 9), "device 9"),
                        (lambda: sharding.shard_shape(("a", 4)), "whole numbers"), (lambda: sharding.shard_shape((-1, 4)), "0 or more")]:
        with pytest.raises(UserError, match=words):
            call()
