"""What devices say when they refuse, break or die: each message is told for what it is.

The tables hold one message for every alternative of the patterns in ``devices/``, so that none of
them can be misspelt unseen.
"""

from __future__ import annotations

import re
from importlib import import_module
from importlib.metadata import PackageNotFoundError, files

import pytest
import torch

import devices
from devices._errors import FALLBACKS, REFUSING, chain, first_line, matches
from devices.base import Backend
from devices.cuda import STICKY, Cuda
from devices.mps import Mps
from devices.rocm import Rocm
from devices.xpu import Xpu
from selftests.fake_device import Fake


def named(value: object) -> str | None:
    return getattr(value, "name", None)


# --- refusals

REFUSED: list[Exception] = [
    NotImplementedError("The operator 'aten::geqrf' cannot be had"),
    RuntimeError("\"geqrf_cpu\" not implemented for 'Half'"),
    RuntimeError("geqrf is not currently implemented for the device"),
    RuntimeError("complex numbers are not yet supported"),
    RuntimeError("linalg.svd: keyword argument `driver=` is only supported on CUDA inputs"),
    RuntimeError("linalg.qr: Low precision dtypes not supported. Got Half"),
    RuntimeError("this build does not support MAGMA"),
    RuntimeError("the device does not currently support views"),
    RuntimeError("its streams do not yet have support for graphs"),
    RuntimeError("its kernels don't support strides"),
    TypeError("Cannot convert a MPS Tensor to float64 dtype as it doesn't support float64."),
    *(RuntimeError(f"Unsupported {what}: 9") for what in ("dtype", "type", "operation")),
    *(RuntimeError(f"unsupported {what}: 9") for what in ("driver", "layout")),
    ValueError("complex numbers are unsupported"),
    ValueError("float64 is unsupported"),
    RuntimeError("geqrf: only support float32"),
    RuntimeError("geqrf only supports float32"),
    RuntimeError("Calling torch.linalg.qr requires compiling PyTorch with LAPACK"),
    RuntimeError("graphs require building PyTorch with them"),
    RuntimeError("linalg.svd: Expected a floating point or complex tensor as input. Got Int"),
    RuntimeError("expected a real floating-point tensor"),
    RuntimeError("expected a complex floating point tensor"),
]
UNCAPTURED: list[Exception] = [
    RuntimeError("CUDA error: operation not permitted when stream is capturing"),
    RuntimeError("CUDA error: operation would make the legacy stream depend on a capturing one"),
    RuntimeError("CUDA error: operation failed due to a previous error during capture"),
    RuntimeError("HIP error: not permitted during capture"),
    RuntimeError("HIP error: not allowed while capturing"),
    RuntimeError("HIP error: not supported when a stream captures"),
]


@pytest.mark.parametrize("error", REFUSED + UNCAPTURED, ids=str)
def test_a_refusal_is_its_reason(error: Exception) -> None:
    assert Fake().refusal(error) == f"{type(error).__name__}: {error}"
    assert not Fake().fatal(error)


@pytest.mark.parametrize("name", sorted(REFUSING))
def test_pytorch_s_tracers_refuse_by_the_class_of_their_errors(name: str) -> None:
    assert Fake().refusal(type(name, (RuntimeError,), {})("call_function args")) is not None
    tensors = ("_subclasses.fake_tensor", "fx.experimental.symbolic_shapes")
    modules = ("_dynamo.exc", "_inductor.exc", *tensors)
    assert any(hasattr(import_module(f"torch.{module}"), name) for module in modules)


# --- what is none, although it says so

BREAKS = [
    *("INTERNAL ASSERT FAILED", "an internal error occurred", "Internal error"),
    *("CUBLAS_STATUS_INTERNAL_ERROR", "please report a bug to PyTorch", "please report this bug"),
    *(f"{maker} error: unknown" for maker in ("CUDA", "HIP", "SYCL", "XPU", "Metal", "MPS")),
    "CUDA driver error: unknown",
    *(f"LIBRARY_STATUS_{what}" for what in ("EXECUTION_FAILED", "ALLOC_FAILED")),
    *(f"LIBRARY_STATUS_{what}" for what in ("INVALID_VALUE", "NOT_INITIALIZED")),
    *("no compute pipeline", "the command buffer was aborted", "a kernel launch failed"),
    *("ZE_DEVICE_LOST", "out of memory", "an illegal address", "memory is corrupt"),
]
OWN_BREAKS = [
    *((Cuda(), f"{library} error") for library in ("cusolver", "cublas", "magma")),
    *((Cuda(), f"{library}_STATUS_ARCH_MISMATCH") for library in ("CUSOLVER", "CUBLAS")),
    *((Rocm(), f"{library} error") for library in ("hipsolver", "rocsolver", "hipblas")),
    *((Rocm(), f"{library} error") for library in ("rocblas", "cusolver", "magma")),
    *((Xpu(), f"{library} error") for library in ("oneMKL", "OneMKL", "oneAPI MKL")),
    (Xpu(), "oneMKL: an exception"),
    (Xpu(), "oneapi::mkl::lapack::computation_exception"),
    *((Mps(), text) for text in ("Metal says no", "XPC_ERROR", "MTLLibraryErrorDomain")),
    (Mps(), "threadgroup memory"),
]


@pytest.mark.parametrize(
    ("backend", "text"), [*((Fake(), t) for t in BREAKS), *OWN_BREAKS], ids=named
)
def test_a_breakage_is_no_refusal(backend: Backend, text: str) -> None:
    assert backend.refusal(RuntimeError(f"{text}: not supported")) is None
    if backend.name != "fake":
        assert Fake().refusal(RuntimeError(f"{text}: not supported")) is not None


@pytest.mark.parametrize("backend", [Cuda(), Rocm(), Xpu(), Mps()], ids=named)
@pytest.mark.parametrize("text", BREAKS)
def test_a_device_s_own_words_come_on_top(backend: Backend, text: str) -> None:
    assert backend.refusal(RuntimeError(f"{text}: not supported")) is None


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("The size of tensor a (3) must match the size of tensor b (4)"),
        torch.linalg.LinAlgError("linalg.svd: not supported: the algorithm failed to converge"),
        torch.OutOfMemoryError("CUDA out of memory. This size is not supported."),
        KeyError("not supported"),
    ],
    ids=str,
)
def test_any_other_error_is_no_refusal(error: Exception) -> None:
    assert Fake().refusal(error) is None


def test_the_wrapped_error_counts() -> None:
    def raised(inner: Exception) -> Exception:
        try:
            raise RuntimeError("backend='inductor' raised") from inner
        except RuntimeError as outer:
            return outer

    assert Fake().refusal(raised(REFUSED[0])) == f"NotImplementedError: {REFUSED[0]}"
    assert Fake().refusal(raised(RuntimeError("INTERNAL ASSERT FAILED, not supported"))) is None
    assert Fake().fatal(raised(RuntimeError("CUDA error: an illegal memory access")))


def test_the_chain_follows_what_python_and_the_compilers_keep() -> None:
    outer, inner = RuntimeError("outer"), KeyError("inner")
    outer.__context__ = inner
    assert list(chain(outer)) == [outer, inner]
    outer.__suppress_context__ = True  # raise ... from None
    assert list(chain(outer)) == [outer]
    outer.inner_exception = inner  # type: ignore[attr-defined]
    assert list(chain(outer)) == [outer, inner]
    loop = RuntimeError("loop")
    loop.__cause__ = loop
    assert list(chain(loop)) == [loop]


def test_a_reason_is_one_line() -> None:
    assert first_line(KeyError()) == "KeyError"
    assert first_line(ValueError("\n  first  \nsecond")) == "ValueError: first"


# --- what kills the process

DEATHS = [
    *("an illegal memory access was encountered", "illegal address", "misaligned address"),
    *("an illegal instruction was encountered", "device-side assert triggered"),
    *("invalid program counter", "unspecified launch failure", "unspecified launch timeout"),
    *("the launch timed out and was terminated", "uncorrectable ECC error encountered"),
    *("hardware stack error", "device lost", "the device is lost", "device was lost"),
    *("the device_lost signal", "devicelost", "UR_RESULT_ERROR_DEVICE_LOST"),
]
OWN_DEATHS = [
    *((make(), "context is destroyed") for make in (Cuda, Rocm)),
    *((Cuda(), f"CUDA_ERROR_{what}") for what in ("ASSERT", "ILLEGAL_INSTRUCTION")),
    *((Xpu(), f"{api}_RESULT_ERROR_OUT_OF_RESOURCES") for api in ("UR", "PI")),
    *((Xpu(), f"ZE_ERROR_{what}") for what in ("DEVICE_LOST", "UNKNOWN")),
    *((Mps(), f"command buffer exited with {what} status") for what in ("error", "failure")),
    *((Mps(), text) for text in ("Command buffer was aborted", "kIOGPUCommandBufferCallbackError")),
    (Mps(), "XPC_ERROR_CONNECTION_INTERRUPTED"),
    (Mps(), "Compiler encountered an internal error"),
]


@pytest.mark.parametrize("backend", [Fake(), Cuda(), Rocm(), Xpu(), Mps()], ids=named)
@pytest.mark.parametrize("text", DEATHS)
def test_fatal_errors(backend: Backend, text: str) -> None:
    assert backend.fatal(RuntimeError(text))
    assert backend.refusal(RuntimeError(text)) is None


@pytest.mark.parametrize(("backend", "text"), OWN_DEATHS, ids=named)
def test_fatal_errors_of_one_device(backend: Backend, text: str) -> None:
    assert backend.fatal(RuntimeError(text))


#: cudaError_t: memory that cannot be corrected (214), an error contained (226), illegal address,
#: launch timeout, context destroyed, assert, hardware stack, illegal instruction, misaligned
#: address, invalid address space, invalid program counter, launch failure, tensor memory leak,
#: the multi-process server ended this client (810), an external device's (911).
CODES = [214, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911]


def test_sticky_error_codes_are_fatal_whatever_they_say() -> None:
    def fatal(code: int) -> bool:
        error = RuntimeError("CUDA error: something new")
        error.error_code = code  # type: ignore[attr-defined]
        wrapped = ValueError()
        wrapped.__cause__ = error
        return Cuda().fatal(error) and Cuda().fatal(wrapped)

    assert not Cuda().fatal(RuntimeError("CUDA error: something new"))
    assert [code for code in range(1000) if fatal(code)] == CODES


def test_the_codes_that_cuda_s_header_calls_sticky_are() -> None:
    """Where PyTorch's wheel brought the header."""
    try:
        found = [f for f in files("nvidia-cuda-runtime") or () if f.name == "driver_types.h"]
    except PackageNotFoundError:
        found = []
    if not found:
        pytest.skip("no driver_types.h of a package nvidia-cuda-runtime")
    header = re.sub(r"\s*\n\s*\*\s", " ", found[0].read_text())
    entries = re.findall(r"/\*\*((?:(?!\*/).)*)\*/\s*cudaError\w+\s*=\s*(\d+)", header, re.DOTALL)
    sticky = {int(code) for text, code in entries if "the process must be terminated" in text}
    assert len(sticky) > 5
    assert sticky | {214, 709} == STICKY


# --- memory

EXHAUSTED = [
    torch.OutOfMemoryError("CUDA error"),
    RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)"),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    RuntimeError("Invalid buffer size: 16.00 GiB"),
    RuntimeError("invalid buffer size: 16.00 GiB"),
    MemoryError(),
]


@pytest.mark.parametrize("error", EXHAUSTED, ids=repr)
def test_running_out_of_memory_is_not_fatal(error: Exception) -> None:
    assert all(b.exhausted(error) and not b.fatal(error) for b in devices.discover().values())


def test_other_errors_do_not_tell_of_memory() -> None:
    assert not Fake().exhausted(RuntimeError("no memory of that"))
    assert not Fake().exhausted(KeyError("out of memory"))


# --- fallbacks

FALLEN = [
    "The operator 'aten::linalg_qr' is not currently supported on the MPS backend and will fall "
    "back to run on the CPU. This may have performance implications.",
    "Aten Op fallback from XPU to CPU happends. This may have performance implications.",
    "The operator 'aten::geqrf on the XPU backend is falling back to run on the CPU.",
    "linalg.svd: the matrix does not fit: fell back to the CPU",
    *("Falls back to CPU", "has fallen back to CPU", "fall-back to the CPU"),
    *("runs on the CPU instead", "the CPU is the fallback", "CPU: Fallback"),
]


@pytest.mark.parametrize("text", FALLEN)
def test_fallbacks_are_told_by_their_words(text: str) -> None:
    assert matches(FALLBACKS, text)
    assert all(matches(backend.fallback_warnings, text) for backend in devices.discover().values())


@pytest.mark.parametrize("text", ["not supported on the CPUs of old", "a CPU fallbacks", "instead"])
def test_other_warnings_are_none(text: str) -> None:
    assert not matches(FALLBACKS, text)


@pytest.mark.parametrize("words", ["not supported", "not currently supported"])
def test_mps_tells_a_fallback_without_the_word(words: str) -> None:
    assert matches(Mps().fallback_warnings, f"'aten::linalg_qr' is {words} on the MPS backend")
