"""Backends are found, named and chosen as documented, and each mistake is named to the user."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest

import devices
from conformance.__main__ import main
from devices.base import Backend
from devices.cpu import Cpu
from selftests.fake_device import ONE, Fake, plugin

BUILT_IN = {"cpu", "cuda", "mps", "rocm", "xpu"}


# --- discovery


def test_the_folder_is_the_list() -> None:
    found = devices.discover()
    assert set(found) >= BUILT_IN
    assert all(backend.name == name for name, backend in found.items())


def test_every_backend_says_what_is_there_or_why_nothing_is() -> None:
    for backend in devices.discover().values():
        assert bool(backend.devices()) is (backend.absent() is None)
        for device in backend.devices():
            devices.set_up(backend)
            assert backend.describe(device)["name"]
            backend.synchronize(device)
            backend.cleanup(device)


def test_a_plugin_file_adds_a_backend(tmp_path: Path) -> None:
    found = devices.discover([plugin(tmp_path, ONE)])
    assert set(found) >= BUILT_IN | {"one"}
    assert [t.id for t in devices.select("one", found)] == ["one:0"]


def test_a_plugin_file_is_run_once(tmp_path: Path) -> None:
    file = plugin(tmp_path, ONE, "once.py")
    first = devices.discover([file])["one"]
    assert type(devices.discover([file])["one"]) is type(first)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named"),
        ("def :", "SyntaxError"),
        ("raise KeyError('driver')", "KeyError: 'driver'"),
        ("x = 1", "no subclass of devices.base.Backend"),
        (ONE.replace('"one"', '"a b"', 1), "a backend's name is a word, not 'a b'"),
        (ONE.replace('"one"', '"all"', 1), "'all' means every device"),
        (ONE.replace('"one"', '"cpu"', 1), "two backends are named 'cpu'"),
        (ONE + "    def __init__(self):\n        raise OSError('no bus')", "One cannot be made"),
    ],
)
def test_a_bad_plugin_file_is_named_with_its_error(tmp_path: Path, text: str, message: str) -> None:
    file = plugin(tmp_path, text)
    with pytest.raises(devices.DeviceError, match=re.escape(message)) as caught:
        devices.discover([file])
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_plugin_file_is_named() -> None:
    with pytest.raises(devices.DeviceError, match=r"plug-in nowhere\.py: no such file"):
        devices.discover(["nowhere.py"])


def entry_point(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    point = importlib.metadata.EntryPoint("mine", value, devices.GROUP)

    def entry_points(group: str) -> list[importlib.metadata.EntryPoint]:
        return [point] if group == devices.GROUP else []

    monkeypatch.setattr(devices, "entry_points", entry_points)


def test_entry_points_name_a_class_or_a_module(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plugin(tmp_path, ONE, "an_installed_plugin.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    for value in ("an_installed_plugin:One", "an_installed_plugin"):
        entry_point(monkeypatch, value)
        assert "one" in devices.discover()


def test_an_installed_plugin_may_be_given_as_a_file_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = plugin(tmp_path, ONE, "a_plugin_given_twice.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    entry_point(monkeypatch, "a_plugin_given_twice:One")
    assert "one" in devices.discover([file])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("nothing_of_that_name:X", "cannot be loaded: ModuleNotFoundError"),
        ("math:pi", "neither a module nor a subclass of Backend"),
        ("math", "no subclass of devices.base.Backend"),
    ],
)
def test_a_bad_entry_point_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str, message: str
) -> None:
    entry_point(monkeypatch, value)
    with pytest.raises(devices.DeviceError, match=re.escape(message)) as caught:
        devices.discover()
    assert f"entry point mine = {value}" in str(caught.value)


# --- selection


def backends(*more: Backend) -> dict[str, Backend]:
    return {backend.name: backend for backend in (Cpu(), *more)}


@pytest.mark.parametrize(
    ("spec", "ids"),
    [
        (None, ["fake:0"]),
        ("fake", ["fake:0"]),
        ("fake:1", ["fake:1"]),
        ("fake:*", ["fake:0", "fake:1"]),
        ("fake,cpu", ["fake:0", "cpu"]),
        ("cpu, fake:1", ["cpu", "fake:1"]),
        ("fake:0,fake", ["fake:0"]),
        ("cpu:0", ["cpu"]),
        ("all", ["cpu", "fake:0", "fake:1"]),
    ],
)
def test_selection(spec: str | None, ids: list[str]) -> None:
    assert [target.id for target in devices.select(spec, backends(Fake()))] == ids


def test_without_an_accelerator_the_default_is_the_cpu() -> None:
    nothing = Fake()
    nothing.count = 0
    assert [target.id for target in devices.select(None, backends(nothing))] == ["cpu"]


def test_a_torch_device_type_names_the_one_backend_that_has_it() -> None:
    found: dict[str, Backend] = {"fake": Fake()}
    assert [target.id for target in devices.select("cpu:1", found)] == ["fake:1"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gpu", "unknown device 'gpu'. Present: cpu, fake:0, fake:1. Known names: cpu, fake."),
        ("fake:2", "device 'fake:2' is not there. Present: cpu, fake:0, fake:1."),
        ("fake:x", "device 'fake:x' is not there."),
        ("fake:", "device 'fake:' is not there."),
        ("cpu:1", "device 'cpu:1' is not there."),
        ("cpu,,fake", "a name is missing"),
        ("", "a name is missing"),
    ],
)
def test_what_is_not_there_is_an_error_that_lists_what_is(spec: str, message: str) -> None:
    with pytest.raises(devices.DeviceError, match=re.escape(message)):
        devices.select(spec, backends(Fake()))


def test_an_absent_backend_is_an_error_with_the_reason() -> None:
    nothing = Fake()
    nothing.count = 0
    with pytest.raises(devices.DeviceError, match="'fake:0' is not there: no fake device found"):
        devices.select("fake:0", backends(nothing))


def test_no_device_at_all_is_an_error() -> None:
    with pytest.raises(devices.DeviceError, match="no device at all"):
        devices.select(None, {})


def test_a_backend_is_set_up_once_and_only_if_chosen() -> None:
    chosen, other = Fake(), Fake()
    other.name = "other"
    for _ in range(2):
        devices.select("fake:*", backends(chosen, other))
    assert (chosen.enabled, other.enabled) == (1, 0)


def test_a_failing_setup_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def setup(self: Fake) -> None:
        raise OSError("firmware too old\nsecond line")

    monkeypatch.setattr(Fake, "setup", setup)
    message = r"'fake' cannot be set up: OSError: firmware too old$"
    with pytest.raises(devices.DeviceError, match=message):
        devices.select("fake", backends(Fake()))


# --- the command


def test_the_command_shows_what_is_there_and_why_the_rest_is_not(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    broken = ONE.replace("one", "two") + "    def describe(self, device):\n        1 / 0\n"
    file, other = plugin(tmp_path, ONE, "shown.py"), plugin(tmp_path, broken, "broken.py")
    assert main(["devices", "--device-plugin", str(file), "--device-plugin", str(other)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("device ")
    assert any(line.startswith("cpu ") and "float32 float64" in line for line in lines)
    assert any(line.startswith("one:0 ") for line in lines)
    assert any(line.startswith("two:0 ") and "ZeroDivisionError" in line for line in lines)
    below = lines[lines.index("absent:") :]
    assert any(re.match(r"  rocm +this PyTorch is not built for ROCm", line) for line in below)


def test_the_command_reports_a_bad_plugin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--device-plugin", "nowhere.py"]) == 2
    assert "error: plug-in nowhere.py: no such file" in capsys.readouterr().err
