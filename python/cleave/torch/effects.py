"""Ops with effects (checks of factorizations, prints), which PyTorch's traces put on a chain of tokens."""

import operator

import torch

with_effects = torch.ops.higher_order.with_effects


def is_token(desc):
    """Whether the descriptor of an argument or of a result says that it is a token."""
    return "Token" in type(desc).__name__


def without_tokens(graph, tokens):
    """The graph with plain calls of such ops. `tokens` are the placeholders of tokens; they go, and so do the outputs that they
    lead to, whose places are returned."""
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target is with_effects:
            called_plainly(graph, node)
    output = next(node for node in graph.nodes if node.op == "output")
    leaves = list(output.args[0])
    places = {i for i, leaf in enumerate(leaves) if leaf in tokens}
    output.args = (tuple(leaf for i, leaf in enumerate(leaves) if i not in places),)
    for token in tokens:
        graph.erase_node(token)
    return places


def called_plainly(graph, node):
    token, op, *args = node.args
    with graph.inserting_before(node):
        plain = graph.call_function(op, tuple(args), node.kwargs)
    values = node.meta.get("val", (None,))[1:]
    plain.meta = {**node.meta, "val": values if len(op._schema.returns) > 1 else values[0] if values else None}
    for user in list(node.users):  # each takes one result; the first is the next token
        number = user.args[1] - 1
        if number < 0:
            user.replace_all_uses_with(token)
        elif len(op._schema.returns) > 1:
            with graph.inserting_before(user):
                found = graph.call_function(operator.getitem, (plain, number))
            found.meta = dict(user.meta)
            user.replace_all_uses_with(found)
        else:
            user.replace_all_uses_with(plain)
        graph.erase_node(user)
    graph.erase_node(node)
