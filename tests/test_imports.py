# SPDX-License-Identifier: Apache-2.0
"""Import graph of python/nanet: no cycle between modules, none between packages.

The graph is read from the sources. Imports inside functions count, imports for type checkers do not.
"""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

Graph = dict[str, set[str]]


def imports(tree: ast.AST) -> Iterator[tuple[str, list[str]]]:
    """(module, imported names) of every import that runs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or "", [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, []
        yield from imports(node)


def modules(root: Path) -> dict[str, Path]:
    """Module name -> file; a package is its __init__.py."""
    found = {}
    for path in sorted((root / "python" / "nanet").rglob("*.py")):
        parts = path.relative_to(root / "python").with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def module_graph(root: Path) -> Graph:
    """Module -> modules that it imports."""
    files = modules(root)
    graph: Graph = {name: set() for name in files}
    for name, path in files.items():
        for module, names in imports(ast.parse(path.read_text(encoding="utf-8"))):
            for target in (f"{module}.{one}" for one in names):
                graph[name].add(target if target in files else module)
            if not names:
                graph[name].add(module)
        graph[name] = {target for target in graph[name] if target in files and target != name}
    return graph


def package_graph(graph: Graph) -> Graph:
    """Package -> packages that it imports. Modules outside packages (nanet.errors) are packages of one."""

    def package(module: str) -> str:
        return ".".join(module.split(".")[:2])

    packages: Graph = {}
    for module, targets in graph.items():
        mine = packages.setdefault(package(module), set())
        mine |= {package(target) for target in targets if target != "nanet"} - {package(module)}
    return packages


def cycle(graph: Graph) -> list[str]:
    """A cycle of the graph; empty without one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_a_cycle_is_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert set(cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}
    tree = ast.parse("if TYPE_CHECKING:\n    import a\ndef f():\n    from b import c\n")
    assert list(imports(tree)) == [("b", ["c"])]


@pytest.mark.parametrize("level", ["modules", "packages"])
def test_no_import_cycle(root: Path, level: str) -> None:
    graph = module_graph(root)
    assert "nanet.errors" in graph["nanet.cli.app"]
    assert not cycle(graph if level == "modules" else package_graph(graph))
