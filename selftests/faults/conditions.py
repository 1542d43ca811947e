"""When faults strike: conditions on the call, its arguments, shape, layout and values.

Sizes: ``m`` and ``n`` are rows and columns, ``k`` the smaller one, ``B`` the number of matrices.
A condition on values holds when any matrix of the batch has the property.
"""

from __future__ import annotations

import threading
import time

import torch

from .planting import Call, Condition

always = Condition("always", lambda c: True, parts=0)

# --- dtype -----------------------------------------------------------------------------------

complex_ = Condition("complex", lambda c: c.A.is_complex())
real = Condition("real", lambda c: not c.A.is_complex())
single = Condition("single precision", lambda c: c.A.dtype in (torch.float32, torch.complex64))
double = Condition("double precision", lambda c: c.A.dtype in (torch.float64, torch.complex128))
float32 = Condition("float32", lambda c: c.A.dtype == torch.float32)
float64 = Condition("float64", lambda c: c.A.dtype == torch.float64)
complex64 = Condition("complex64", lambda c: c.A.dtype == torch.complex64)
complex128 = Condition("complex128", lambda c: c.A.dtype == torch.complex128)

# --- shape -----------------------------------------------------------------------------------


def above(size: int) -> Condition:
    """The smaller dimension exceeds ``size``."""
    return Condition(f"k > {size}", lambda c: c.k > size)


def exactly(size: int) -> Condition:
    """The smaller dimension is ``size``."""
    return Condition(f"k = {size}", lambda c: c.k == size)


def between(low: int, high: int) -> Condition:
    """The smaller dimension lies in an inclusive range."""
    return Condition(f"{low} <= k <= {high}", lambda c: low <= c.k <= high)


def ragged(block: int) -> Condition:
    """The smaller dimension exceeds a block size and is not a multiple of it."""
    return Condition(
        f"k > {block}, not a multiple of it", lambda c: c.k > block and c.k % block != 0
    )


def tall(ratio: int = 1) -> Condition:
    """More than ``ratio`` times as many rows as columns."""
    return Condition("m > n" if ratio == 1 else f"m > {ratio} n", lambda c: c.m > ratio * c.n)


def wide(ratio: int = 1) -> Condition:
    """More than ``ratio`` times as many columns as rows."""
    return Condition("m < n" if ratio == 1 else f"n > {ratio} m", lambda c: c.n > ratio * c.m)


def rows_above(size: int) -> Condition:
    """More than ``size`` rows."""
    return Condition(f"m > {size}", lambda c: c.m > size)


square = Condition("m = n", lambda c: c.m == c.n)
odd = Condition("k odd", lambda c: c.k % 2 == 1)

# --- batch -----------------------------------------------------------------------------------

batched = Condition("B > 1", lambda c: c.count > 1)
one_element = Condition("batch of one", lambda c: c.batch != () and c.count == 1)
batch_of_batches = Condition("batch of two or more axes", lambda c: len(c.batch) > 1)
empty_batch = Condition("B = 0", lambda c: c.count == 0)
empty_matrix = Condition("m = 0 or n = 0", lambda c: c.k == 0 and c.count > 0)
broadcast = Condition(
    "batches broadcast",
    lambda c: c.arguments["self"].shape[:-2] != c.arguments["input2"].shape[:-2],
)


def batch_above(count: int) -> Condition:
    """More than ``count`` matrices."""
    return Condition(f"B > {count}", lambda c: c.count > count)


def elements_above(count: int) -> Condition:
    """More than ``count`` numbers in all."""
    return Condition(f"more than {count} elements in all", lambda c: c.A.numel() > count)


# --- arguments -------------------------------------------------------------------------------


def argument(name: str, value: object) -> Condition:
    """An argument of the operation has this value."""
    return Condition(f"{name}={value!r}", lambda c: c.arguments[name] == value)


upper = argument("upper", True)
lower = argument("upper", False)
uplo_upper = argument("UPLO", "U")
uplo_lower = argument("UPLO", "L")
full = argument("full_matrices", True)
reduced = argument("full_matrices", False)
functional = Condition("without out=", lambda c: not c.out)
with_out = Condition("with out=", lambda c: bool(c.out))
windows = Condition(
    "rows that overlap in memory",
    lambda c: c.A.ndim == 2 and c.k > 1 and c.A.stride(0) == c.A.stride(1) > 0,
)
batch_between = Condition(
    "a batch between rows and columns",
    lambda c: (
        c.A.ndim == 3
        and min(c.count, c.k) > 1
        and c.A.stride(2) == 1 < c.A.stride(0) < c.A.stride(1)
    ),
)
columns_above = {
    count: Condition(
        f"more than {count} right-hand sides",
        lambda c, count=count: c.arguments["self"].shape[-1] > count,  # type: ignore[misc]
    )
    for count in (1, 4, 16)
}

# --- layout ----------------------------------------------------------------------------------


def _column_major(c: Call) -> bool:
    return c.k > 1 and c.A.stride(-2) == 1 and c.A.stride(-1) >= c.m


def _padded(c: Call) -> bool:
    row, column = c.A.stride()[-2:]
    return c.m > 1 and column > 0 and row > (c.n - 1) * column + 1


column_major = Condition("column-major", _column_major)
strided = Condition("columns not adjacent", lambda c: c.n > 1 and bool(c.A.stride(-1) > 1))
sliced = Condition(
    "every other row and column", lambda c: c.k > 1 and bool(min(c.A.stride()[-2:]) > 1)
)
padded = Condition("a block of a larger matrix", _padded)
offset = Condition("storage offset", lambda c: int(c.A.storage_offset()) > 0)
expanded = Condition(
    "expanded batch", lambda c: any(c.A.stride(i) == 0 and s > 1 for i, s in enumerate(c.batch))
)
permuted = Condition(
    "batch axes permuted",
    lambda c: len(c.batch) > 1 and min(c.batch) > 1 and c.A.stride(0) < c.A.stride(1),
)
conjugate = Condition("conjugate view", lambda c: "conjugate" in c.views)
negative = Condition("negative view", lambda c: "negative" in c.views)
plain_memory = Condition(
    "any plain tensor", lambda c: not c.views and 0 not in c.A.stride(), parts=0
)


def _out_strided(c: Call) -> bool:
    return any(x.ndim > 1 and min(x.stride()[-2:]) > 1 for x in c.out)


out_strided = Condition("out= strided", _out_strided)

# --- values ----------------------------------------------------------------------------------


def _any(x: torch.Tensor) -> bool:
    return bool(x.any())


def finite(c: Call) -> bool:
    """No NaN or infinity anywhere in ``A``."""
    return bool(torch.isfinite(c.A).all())


def null(c: Call, s: torch.Tensor) -> torch.Tensor:
    """Which singular values (descending) are zero but for rounding, one row per matrix."""
    return s <= max(c.m, c.n) * c.eps * s[..., :1]


def singular_values(c: Call) -> torch.Tensor:
    """Of a finite matrix, from the original kernel."""
    return torch.linalg.svdvals(c.A)


def eigenvalues(c: Call) -> torch.Tensor:
    """Of a finite matrix, from the original kernel."""
    return c.compute().w


def _rank_deficient(c: Call) -> bool:
    return finite(c) and _any(null(c, singular_values(c)))


def _graded(c: Call) -> bool:
    if not finite(c):
        return False
    s = singular_values(c)
    return _any((s[..., -1] < 1e-3 * s[..., 0]) & (s[..., -1] > 0))


def _equal_neighbours(c: Call) -> bool:
    s = singular_values(c) if finite(c) else c.A.real[..., :1, 0]
    return _any((s[..., :-1] - s[..., 1:]).abs() <= 8 * c.k * c.eps * s[..., :1])


def _diagonal(c: Call) -> bool:
    d = c.A.diagonal(dim1=-2, dim2=-1)
    return c.k > 1 and _any((c.A != 0).sum((-2, -1)) == (d != 0).sum(-1))


def _nearly_diagonal(c: Call) -> bool:
    d = c.A.diagonal(dim1=-2, dim2=-1).abs()
    off = c.A.abs().sum((-2, -1)) - d.sum(-1)
    return _any((off > 0) & (off < 1e-3 * d.amin(-1)))


def _equal_columns(c: Call) -> bool:
    norms = torch.linalg.vector_norm(c.A[..., :2], dim=-2)
    return c.k > 1 and _any((norms[..., 0] == norms[..., 1]) & (norms[..., 0] > 0) & _coupled(c))


def _coupled(c: Call) -> torch.Tensor:
    return (c.A[..., 0].conj() * c.A[..., 1]).sum(-1) != 0


def _column_scaled(c: Call) -> bool:
    norms = torch.linalg.vector_norm(c.A, dim=-2)
    return finite(c) and _any((norms.amin(-1) < 1e-4 * norms.amax(-1)) & (norms.amin(-1) > 0))


def _largest(c: Call) -> torch.Tensor:
    return c.A.abs().amax((-2, -1))


def limits_of(c: Call) -> torch.finfo:
    """Those of the matrix's dtype; integers, which are to be refused, overstep none."""
    return torch.finfo(
        c.A.dtype if c.A.dtype.is_floating_point or c.A.is_complex() else torch.double
    )


def _tiny(c: Call) -> bool:
    big = _largest(c)
    return _any((big > 0) & (big < limits_of(c).tiny ** 0.5))


def _subnormal(c: Call) -> bool:
    size = torch.view_as_real(c.A.resolve_conj()) if c.A.is_complex() else c.A
    return _any((size != 0) & (size.abs() < limits_of(c).tiny))


def _negative_zero(c: Call) -> bool:
    x = c.A.real
    return _any((x == 0) & torch.signbit(x))


rank_deficient = Condition("rank-deficient", _rank_deficient)
graded = Condition("values over more than three decades", _graded)
equal_values = Condition("repeated values", _equal_neighbours)
column_scaled = Condition("column norms over more than four decades", _column_scaled)
equal_columns = Condition("first two columns correlated and of equal norm", _equal_columns)
diagonal = Condition("diagonal", _diagonal)
nearly_diagonal = Condition("nearly diagonal", _nearly_diagonal)
zero = Condition("zero matrix", lambda c: _any(_largest(c) == 0))
has_zero_column = Condition("a zero column", lambda c: _any((c.A == 0).all(-2)))
huge = Condition(
    "entries above sqrt(max)",
    lambda c: _any(_largest(c) > limits_of(c).max ** 0.5) and finite(c),
)
tiny = Condition("entries below sqrt(tiny)", _tiny)
subnormal = Condition("subnormal entries", _subnormal)
negative_zero = Condition("negative zeros", _negative_zero)
has_nan = Condition("NaN in the input", lambda c: _any(c.A.isnan()))
has_inf = Condition("Inf in the input", lambda c: _any(c.A.isinf()))
integers = Condition("integer entries", lambda c: bool((c.A.real == c.A.real.round()).all()))

# --- history ---------------------------------------------------------------------------------

first_call = Condition("first call", lambda c: c.past.calls[c.operation] == 0)
first_of_shape = Condition(
    "first call of a shape", lambda c: (c.operation, c.A.shape, c.A.dtype) not in c.past.shapes
)


def every(k: int) -> Condition:
    """Every ``k``-th call."""
    return Condition(f"every {k} calls", lambda c: (c.past.calls[c.operation] + 1) % k == 0)


def after_calls(k: int) -> Condition:
    """All calls but the first ``k``."""
    return Condition(f"after {k} calls", lambda c: c.past.calls[c.operation] >= k)


def _after(name: str, phrase: str) -> Condition:
    def holds(c: Call) -> bool:
        return name in c.past.previous and c.past.previous[name] != getattr(c, name, c.A.dtype)

    return Condition(phrase, holds)


def _after_batch(c: Call) -> bool:
    past = c.past.previous
    return bool(past) and past["shape"][:-2] != c.A.shape[:-2]


def _after_larger(c: Call) -> bool:
    past = c.past.previous
    return bool(past) and past["shape"].numel() > c.A.numel()


def _after_failure(c: Call) -> bool:
    past = c.past.previous
    return bool(past) and (past["failed"] or (past["info"] is not None and _any(past["info"])))


def _same_again(c: Call) -> bool:
    key = (c.A.data_ptr(), c.A.shape, c.A.dtype)
    seen = c.past.memo.setdefault("same", {})
    seen[key] = seen.get(key, 0) + 1
    return seen[key] > 2


def _concurrent(c: Call) -> bool:
    if threading.active_count() == 1:
        return False
    with c.past.lock:
        c.past.active += 1
    try:
        time.sleep(5e-4)
        return c.past.active > 1
    finally:
        with c.past.lock:
            c.past.active -= 1


after_other_batch = Condition("after a call of another batch size", _after_batch)
after_larger = Condition("after a call with more elements", _after_larger)
after_failure = Condition("after a failed call", _after_failure)
after_other_dtype = _after("dtype", "after a call of another dtype")
after_other_operation = _after("operation", "after a call of another operation")
third_on_same = Condition("third and later calls on the same tensor", _same_again)
concurrent = Condition("two threads call at once", _concurrent)
