"""The example plug-in for TPUs, without torch_tpu: its facts, and the library in a TPU's place."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "examples" / "plugins" / "tpu"
COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")

#: A PJRT library as a table of words. Word 15 is PJRT_Client_Create: it answers with what it got.
BEHIND = """
#include <stddef.h>
static void *create(size_t *args) { return (void *)(args[2] | args[3]); }
static void *table[17];
const void *GetPjrtApi(void) {
  table[0] = (void *)sizeof table;
  table[15] = create;
  table[16] = table;
  return table;
}
"""


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The plug-in's module, as if torch_tpu were installed."""
    monkeypatch.syspath_prepend(str(FOLDER))
    module = __import__("conformance_tpu")
    monkeypatch.setattr(module, "find_spec", lambda name: name)
    monkeypatch.setattr(module, "version", lambda name: "0.2.0")
    return module


@pytest.mark.parametrize(
    ("library", "there"), [("", False), ("/a/libtpu.so", False), ("/a/cpu_shim.so", True)]
)
def test_a_library_in_the_place_of_a_tpu_makes_it_present(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch, library: str, there: bool
) -> None:
    monkeypatch.setenv("TPU_LIBRARY_PATH", library)
    assert plugin.Tpu().devices() == ["tpu:0"] * there


def test_a_registered_tpu_is_present(plugin: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    assert "no TPU is attached" in plugin.Tpu().absent()
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "tpu")
    assert plugin.Tpu().devices() == ["tpu:0"]


def test_what_it_asks_of_torch_tpu(plugin: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    own = torch.Generator()
    module = SimpleNamespace(
        _get_local_device_attributes=lambda: {"device_kind": "TPU v6e"}, default_generators=(own,)
    )
    monkeypatch.setattr(torch, "tpu", module, raising=False)
    monkeypatch.setenv("TPU_LIBRARY_PATH", "/a/libtpu.so")
    backend = plugin.Tpu()
    assert backend.describe("tpu:0") == {
        "name": "TPU v6e through libtpu.so",
        "chip": "TPU v6e",
        "libraries": "torch_tpu 0.2.0",
    }
    before = backend.random_state()
    own.manual_seed(1)
    assert backend.random_state() != before
    waited: list[str] = []
    monkeypatch.setattr(torch.accelerator, "synchronize", waited.append)
    monkeypatch.setattr(backend, "torch_device", lambda device: device)
    backend.synchronize("tpu:0")
    assert waited == ["tpu:0"]


@pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc, gcc or $CC) was found")
def test_the_shim_takes_the_options_away_and_passes_on_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "behind.c").write_text(BEHIND)
    behind = compiled(tmp_path / "behind.c", tmp_path / "behind.so")
    monkeypatch.setenv("PJRT_CPU_LIBRARY", str(behind))
    table = words(compiled(FOLDER / "cpu_shim.c", tmp_path / "shim.so"))
    assert table[0] == 17 * ctypes.sizeof(ctypes.c_void_p)
    assert table[16] == ctypes.addressof(words(behind))
    asked = (ctypes.c_size_t * 4)(32, 0, 1, 5)
    answer = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)(table[15])(asked)
    assert answer == 0
    assert list(asked) == [32, 0, 0, 0]


@pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc, gcc or $CC) was found")
@pytest.mark.parametrize("library", ["", "/no/such/library.so"])
def test_the_shim_says_which_library_it_misses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], library: str
) -> None:
    monkeypatch.delenv("PJRT_CPU_LIBRARY", raising=False)
    if library:
        monkeypatch.setenv("PJRT_CPU_LIBRARY", library)
    assert api(compiled(FOLDER / "cpu_shim.c", tmp_path / "shim.so")) is None
    assert f"PJRT_CPU_LIBRARY: {library or 'not set'}" in capfd.readouterr().err


def compiled(source: Path, library: Path) -> Path:
    """The shared library that the README's command makes of a C file."""
    assert COMPILER is not None
    options = ("-shared", "-fPIC", "-O2", "-Wall", "-Werror")
    subprocess.run([COMPILER, *options, "-o", library, source, "-ldl"], check=True)
    return library


def api(library: Path) -> int | None:
    """The address of the table that a PJRT library hands out; None if it has none."""
    get = ctypes.CDLL(str(library)).GetPjrtApi
    get.restype = ctypes.c_void_p
    address: int | None = get()
    return address


def words(library: Path) -> ctypes.Array[ctypes.c_size_t]:
    """That table, word by word."""
    address = api(library)
    assert address is not None
    return (ctypes.c_size_t * 17).from_address(address)
