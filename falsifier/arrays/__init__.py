"""What the array API standard lacks, for numpy arrays and torch tensors alike, and the axis glossary.

Axes, used in every docstring: b lane, n flat input of the networks, f free input (what search moves), m flat output,
t target, k atom of a target, r distinct form.

Functions take an array of either kind and return the same kind on the same device. Torch is imported only where a
tensor was handed in. All random draws go through one type, `Rng`, which serves both kinds.
"""

from falsifier.arrays.basic import Array as Array
from falsifier.arrays.basic import add_columns as add_columns
from falsifier.arrays.basic import arange as arange
from falsifier.arrays.basic import as_dtype_of as as_dtype_of
from falsifier.arrays.basic import as_int64 as as_int64
from falsifier.arrays.basic import as_like as as_like
from falsifier.arrays.basic import as_wide as as_wide
from falsifier.arrays.basic import beside as beside
from falsifier.arrays.basic import clip_into as clip_into
from falsifier.arrays.basic import copy_rows as copy_rows
from falsifier.arrays.basic import copy_where as copy_where
from falsifier.arrays.basic import device_bytes as device_bytes
from falsifier.arrays.basic import distinct as distinct
from falsifier.arrays.basic import finite as finite
from falsifier.arrays.basic import full as full
from falsifier.arrays.basic import gather as gather
from falsifier.arrays.basic import is_numpy as is_numpy
from falsifier.arrays.basic import is_out_of_memory as is_out_of_memory
from falsifier.arrays.basic import namespace as namespace
from falsifier.arrays.basic import nan_to as nan_to
from falsifier.arrays.basic import numpy_dtype as numpy_dtype
from falsifier.arrays.basic import put_rows as put_rows
from falsifier.arrays.basic import row_blocks as row_blocks
from falsifier.arrays.basic import signed_into as signed_into
from falsifier.arrays.basic import take_columns as take_columns
from falsifier.arrays.basic import take_rows as take_rows
from falsifier.arrays.basic import to_float64 as to_float64
from falsifier.arrays.basic import to_host as to_host
from falsifier.arrays.basic import top_k as top_k
from falsifier.arrays.basic import wait_for as wait_for
from falsifier.arrays.basic import zeros as zeros
from falsifier.arrays.bits import bits as bits
from falsifier.arrays.bits import from_ordinal as from_ordinal
from falsifier.arrays.bits import ordinal as ordinal
from falsifier.arrays.bits import row_hash as row_hash
from falsifier.arrays.bits import spacing as spacing
from falsifier.arrays.bits import step as step
from falsifier.arrays.rng import Rng as Rng
from falsifier.arrays.sets import Marks as Marks
from falsifier.arrays.sets import first_of as first_of
from falsifier.arrays.sets import pattern_hash as pattern_hash
from falsifier.arrays.sets import place_in as place_in
from falsifier.arrays.sets import put_add as put_add
from falsifier.arrays.sets import put_max as put_max
from falsifier.arrays.sets import stable_order as stable_order
