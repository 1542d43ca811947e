"""How devices word their errors and warnings: patterns to be searched for in the messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

#: A refusal is an error that says plainly "not here". Each is matched against the message.
REFUSALS = (
    r"not (currently |yet )?(implemented|supported)",
    r"(does|do)(n't| not) (currently |yet )?(support|have support)",
    r"(is|are) unsupported|[Uu]nsupported (dtype|type|operation|driver|layout)",
    r"only support(s|ed)?\b",
    r"requires? (compiling|building) ",
    r"[Ee]xpected a (real |complex )?floating[ -]point",
)

#: ... and these classes of PyTorch's tracers and compilers say it by their name (Inductor's where a
#: C++ compiler or Triton is lacking): no message is looked at, ...
REFUSING = frozenset(
    {
        "DataDependentOutputException",
        "DynamicOutputShapeException",
        "GPUTooOldForTriton",
        "GuardOnDataDependentSymNode",
        "InvalidCxxCompiler",
        "TritonMissing",
        "Unsupported",
        "UnsupportedOperatorException",
        "UserError",
    }
)

#: ... unless it also says that something broke while the work was under way.
BREAKAGES = (
    r"INTERNAL ASSERT",
    r"[Ii]nternal error|INTERNAL_ERROR",
    r"report (a|this) bug",
    r"(CUDA|HIP|SYCL|XPU|Metal|MPS) (driver )?error",
    r"_STATUS_(EXECUTION_FAILED|ALLOC_FAILED|INVALID_VALUE|NOT_INITIALIZED)",
    r"pipeline|command buffer|kernel launch",
    r"DEVICE_LOST|out of memory|illegal|corrupt",
)

#: Work that a stream refuses while it is being captured into a graph.
UNCAPTURABLE = (
    r"operation not permitted when stream is capturing",
    r"would make the legacy stream depend on a capturing",
    r"failed due to a previous error during capture",
    r"not (permitted|allowed|supported) (during|while|when) .*captur",
    r"during (CUDA|HIP|XPU) graph capture",
    r"(recording to|associated with) a command graph",  # SYCL
)

#: Running out of memory: nobody's fault, but the case is not measured.
EXHAUSTIONS = (r"out of memory", r"can't allocate memory", r"[Ii]nvalid buffer size")

#: Errors after which no later call of this process can be trusted.
FATALITIES = (
    r"illegal memory access|illegal address|misaligned address|illegal instruction",
    r"device-side assert|invalid program counter",
    r"unspecified launch (failure|timeout)|launch timed out",
    r"ECC error|hardware stack error",
    r"device(_| is | was | )?lost|DEVICE_LOST",
)

#: How PyTorch's and the vendors' CPU fallbacks announce themselves.
FALLBACKS = (
    r"[Ff](a|e)ll(s|ing|en)?[ -]?back\b.*\bCPU\b",  # MPS, XPU, NPU, ...
    r"\bCPU\b.*\b(instead|[Ff]allback)\b",
)


def matches(patterns: Sequence[str], text: str) -> bool:
    """Whether any of the regular expressions is found in the text."""
    return any(re.search(pattern, text) for pattern in patterns)


def chain(error: BaseException) -> Iterator[BaseException]:
    """The error and those behind it: compilers and captures wrap the one that matters."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        inner = getattr(link, "inner_exception", None) or link.__cause__
        if inner is None and not link.__suppress_context__:
            inner = link.__context__
        link = inner


def first_line(error: BaseException) -> str:
    """The error's type and the first line of its message, for a reason in a report."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__
