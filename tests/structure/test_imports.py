"""The import graph: no cycle between modules, even through imports in functions or for types."""

from graphlib import CycleError, TopologicalSorter

import grimp


def _cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Find cycles until the graph has none: each is one, and is cut at its first import."""
    found: list[list[str]] = []
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            cycle: list[str] = error.args[1]  # each module is imported by the next one
            found.append(cycle)
            graph[cycle[1]].discard(cycle[0])
        else:
            return found


def test_there_are_no_import_cycles() -> None:
    graph = grimp.build_graph("litemq", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 400
    assert _cycles(imports) == []


def test_a_cycle_is_found() -> None:
    assert len(_cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == 1
    assert len(_cycles({"a": {"b"}, "b": {"a", "c"}, "c": {"b"}})) == 2
