"""Constructors of the broker: few parameters, and objects instead of bare callbacks."""

import ast
from collections.abc import Iterator
from pathlib import Path

BROKER = Path(__file__).parents[2] / "src" / "litemq" / "broker"
MOST = 6


def _constructors() -> Iterator[tuple[str, list[ast.arg]]]:
    for path in sorted(BROKER.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                for method in node.body:
                    if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                        arguments = method.args
                        yield (
                            f"{path.relative_to(BROKER)}: {node.name}",
                            [*arguments.posonlyargs, *arguments.args[1:], *arguments.kwonlyargs],
                        )


def test_no_constructor_takes_many_parameters() -> None:
    found = dict(_constructors())
    assert len(found) > 50
    assert {name: len(arguments) for name, arguments in found.items() if len(arguments) > MOST} == {}


def test_no_constructor_takes_a_bare_callback() -> None:
    def is_callback(argument: ast.arg) -> bool:
        return argument.annotation is not None and "Callable" in ast.unparse(argument.annotation)

    assert {
        name: [each.arg for each in arguments if is_callback(each)]
        for name, arguments in _constructors()
        if any(map(is_callback, arguments))
    } == {}
