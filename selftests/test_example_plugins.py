"""The example plug-ins are whole, as far as that can be told without what they need."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import devices
from conformance.__main__ import main
from devices.base import Backend

PLUGINS = sorted((Path(__file__).parents[1] / "examples" / "plugins").glob("*/pyproject.toml"))
#: What a plug-in's modules may import when they are loaded: nothing that a machine may lack.
HARMLESS = {"__future__", "collections", "contextlib", "dataclasses", "importlib", "os", "pathlib"}
HARMLESS |= {"typing", "numpy", "torch", "devices"}


@pytest.fixture(params=PLUGINS, ids=[path.parent.name for path in PLUGINS])
def folder(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path.parent


@pytest.fixture
def project(folder: Path) -> dict:
    return tomllib.loads((folder / "pyproject.toml").read_text())


def backend(folder: Path, project: dict, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """The backend that the plug-in's one entry point names."""
    monkeypatch.syspath_prepend(str(folder))
    [(name, value)] = project["project"]["entry-points"][devices.GROUP].items()
    module, _, attribute = value.partition(":")
    found: Backend = getattr(__import__(module), attribute)()
    assert found.name == name
    return found


def test_there_are_examples() -> None:
    assert {path.parent.name for path in PLUGINS} >= {"torchax", "xla", "tpu"}


def test_the_entry_point_names_a_backend(
    folder: Path, project: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = backend(folder, project, monkeypatch)
    assert bool(found.devices()) is (found.absent() is None)
    overridden = {name for name in vars(type(found)) if not name.startswith("_")}
    assert overridden <= set(dir(Backend))  # a misspelt capability would be silent


def test_the_package_holds_what_it_needs(folder: Path, project: dict) -> None:
    [package] = project["tool"]["setuptools"]["packages"]
    assert (folder / package / "__init__.py").is_file()
    assert project["tool"]["setuptools"]["package-data"][package] == ["*.toml"]
    assert "linalg-conformance" in project["project"]["dependencies"]
    assert (folder / project["project"]["readme"]).read_text().startswith("# ")


def test_its_fragments_pass_lint(
    folder: Path,
    project: dict,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = backend(folder, project, monkeypatch)
    options = ["lint", "--backend", found.name]
    for option, path in (
        ("--tolerances", found.tolerances()),
        ("--known-issues", found.known_issues()),
    ):
        if path is not None:
            own = Path(__file__).parents[1] / path.name
            options += [option, str(own), option, str(path)]
    assert main(options) == 0, capsys.readouterr().out


def test_loading_it_asks_for_nothing_that_may_be_missing(folder: Path, project: dict) -> None:
    [package] = project["tool"]["setuptools"]["packages"]
    for file in (folder / package).glob("*.py"):
        for name in imported(ast.parse(file.read_text())):
            assert name in HARMLESS | {package}, f"{file.name} imports {name}"


def test_the_suite_knows_no_plugin(project: dict) -> None:
    [name] = project["project"]["entry-points"][devices.GROUP]
    root = Path(__file__).parents[1]
    for file in [*(root / "conformance").rglob("*.py"), *(root / "tests").glob("*.py")]:
        nodes = ast.walk(ast.parse(file.read_text()))
        words = {node.value for node in nodes if isinstance(node, ast.Constant)}
        assert name not in words, f"{file.name} names {name}"


def imported(tree: ast.Module) -> Iterator[str]:
    """The top-level packages that a module imports when it is loaded, not in its functions."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
