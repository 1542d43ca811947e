"""Input matrices: numbered families like LAPACK's matrix types. Knows nothing of torch.

``sample("null-space", "general", (8, 8), (2, 3), PRECISIONS["float32"], seed=0).matrix`` is a
batch of 2 x 3 matrices. A new family is a function with ``@family(number, name, kinds, traits)``
in one of the modules of this package:

* ``spectra``: a prescribed spectrum, diagonals, nearly solved (1-39)
* ``named``: plain, rank-deficient, textbook and structured matrices (40-67)
* ``graded``: graded, column-scaled and subnormal ones (68-79)
* ``hermitian``: Hermitian, definite, and refused by Cholesky (80-99)
* ``nonfinite``: NaN and inf (100-119)
* ``sampling``: batches of mixed families (120-129)

A number that is free: 130 and above, in any module.
"""

# Importing these registers their families.
from conformance.matrices import graded, hermitian, named, nonfinite, spectra  # noqa: F401
from conformance.matrices.family import FAMILIES, KINDS, TRAITS, Family
from conformance.matrices.sampling import Sample, families_table, sample

# The table is in the order of the numbers.
_ordered = sorted(FAMILIES.values(), key=lambda each: each.number)
FAMILIES.clear()
FAMILIES.update((each.name, each) for each in _ordered)

__all__ = ["FAMILIES", "KINDS", "TRAITS", "Family", "Sample", "families_table", "sample"]
