"""Whatever is wrong with a numpy file, the user reads one line."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from falsifier.errors import InputError
from falsifier.numpy_file import numpy_file


def packed(**arrays: object) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)  # type: ignore[arg-type]
    return out.getvalue()


WHOLE = packed(x=np.random.default_rng(0).random(1000))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"text",
        b"PK\x03\x04 no archive",
        WHOLE[: len(WHOLE) // 2],
        *(WHOLE[:at] + bytes(40) + WHOLE[at + 40 :] for at in (40, 100, 200, 4000)),
        packed(x=np.array([{}], dtype=object)),
    ],
    ids=["empty", "text", "zip's first bytes", "half", *["damaged"] * 4, "objects"],
)
def test_files_that_hold_no_numbers(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(InputError) as error, numpy_file(path, "no numbers") as archive:
        archive["x"]
    assert str(error.value) == f"{path}: no numbers"


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"x\.npy: cannot be read: No such file"),
        numpy_file(tmp_path / "x.npy", "no numbers"),
    ):
        pass


def test_what_a_caller_refuses_keeps_its_text(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(3))
    with numpy_file(tmp_path / "x.npy", "no numbers") as array:
        assert array.tolist() == [0, 1, 2]

    def refuse() -> None:
        with numpy_file(tmp_path / "x.npy", "no numbers"):
            raise InputError("as it stands")

    with pytest.raises(InputError, match="as it stands"):
        refuse()


def test_an_array_that_nobody_asks_for_may_be_anything(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(packed(x=np.arange(3), other=np.array([{}], dtype=object)))
    with numpy_file(tmp_path / "x.npz", "no numbers") as archive:
        assert archive["x"].tolist() == [0, 1, 2]
