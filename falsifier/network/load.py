"""A model from wherever it comes: a path (plain or gzip), bytes, or a ModelProto. Nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from falsifier.errors import InputError, UnsupportedError
from falsifier.input_file import GZIP, MODEL, demand_size, gunzipped, limit_or, opened, read_bytes
from falsifier.network.reference import Reference

if TYPE_CHECKING:
    from falsifier.network.engine import Engine
    from falsifier.network.joint import JointNetwork
    from falsifier.network.lowering import Lowered
    from falsifier.network.selection import Attempt


class Network:
    """A model, and what is made of it on demand: the reference, the lowered program, an engine.

    `origin` names it in messages. `hidden`: names of inner tensors that are read as well, before the outputs. `report`
    says, after `engine`, how each engine fared.
    """

    def __init__(
        self,
        data: bytes | None,
        path: Path | None = None,
        origin: str = "<model>",
        shapes: Sequence[tuple[int, ...]] | None = None,
        hidden: Sequence[str] = (),
    ) -> None:
        self._data = data
        self.path = path
        self.origin = origin
        self.shapes = None if shapes is None else [tuple(s) for s in shapes]
        self.hidden = tuple(hidden)
        self.report: tuple[Attempt, ...] = ()
        self.engines: dict[tuple[str, str], Engine] = {}  # made so far, by name and the device asked for

    @property
    def plain(self) -> bool:
        """Whether there is a file that onnxruntime reads itself: it is not packed."""
        return self.path is not None and self._data is None

    @property
    def data(self) -> bytes:
        """The model's bytes, unpacked."""
        if self._data is not None:
            return self._data
        assert self.path is not None
        return read_bytes(self.path, limit_or(MODEL))  # not kept: a model may be large, and is read twice at most

    @cached_property
    def reference(self) -> Reference:
        """The original in onnxruntime. Raises InputError where it cannot be loaded, or lacks a hidden tensor."""
        # a file by its path, so that onnxruntime finds external data; a packed one by its bytes
        model: str | bytes = str(self.path) if self.plain and _is_text(self.path) else self.data
        beside = None if self.path is None or isinstance(model, str) else self.path.parent.resolve()
        folder = str(beside) if _is_text(beside) else None
        if self.hidden:
            from falsifier.network.hidden_reference import HiddenReference

            return HiddenReference(model, self.hidden, self.shapes, folder=folder, origin=self.origin)
        return Reference(model, self.shapes, folder=folder, origin=self.origin)

    @cached_property
    def lowered(self) -> Lowered:
        """The batched program. Raises UnsupportedError where the model cannot be lowered."""
        from falsifier.network.lowering import lower
        from falsifier.network.stored import reader

        shapes = [i.shape for i in self.reference.inputs]
        with reader(self.path, self._data, self.origin, limit_or(MODEL)) as (text, read), self._explained():
            return lower(self._message(text), shapes, self.hidden, read)

    def proto(self) -> Any:
        """The model as a ModelProto, external data included (imports onnx).

        Raises InputError where it cannot be read, UnsupportedError for external data that onnx refuses.
        """
        with self._explained():
            model = self._message(self.data)
            if self.path is not None:
                _attach(model, self.path.parent)
        return model

    def _message(self, text: bytes) -> Any:
        """The model of some bytes, with the external data that lies inside of subgraphs."""
        import onnx
        from google.protobuf.message import DecodeError

        from falsifier.network.external_files import inner_tensors

        try:
            model = onnx.load_model_from_string(text)
            if self.path is not None:
                for tensor in inner_tensors(model.graph):
                    if tensor.data_location == onnx.TensorProto.EXTERNAL:
                        onnx.external_data_helper.load_external_data_for_tensor(tensor, str(self.path.parent))
                        tensor.data_location = onnx.TensorProto.DEFAULT
                        del tensor.external_data[:]
        except onnx.checker.ValidationError as error:
            raise UnsupportedError(f"{self.origin}: {' '.join(str(error).split())}") from error
        except (DecodeError, ValueError) as error:
            raise InputError(f"{self.origin}: this model cannot be read: {' '.join(str(error).split())}") from error
        return model

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Name the model where a file of its external data cannot be read."""
        try:
            yield
        except OSError as error:
            raise InputError(f"{self.origin}: this model cannot be read: {' '.join(str(error).split())}") from error

    def shaped(self, shapes: Sequence[tuple[int, ...]] | None, hidden: Sequence[str] = ()) -> Network:
        """This network with concrete input shapes, one per input in the model's order, and with hidden tensors."""
        if not hidden and (shapes is None or [tuple(s) for s in shapes] == self.shapes):
            return self
        return Network(self._data, self.path, self.origin, shapes, hidden)

    def engine(
        self, device: str = "auto", box: tuple[NDArray[Any], NDArray[Any]] | None = None, *, check: bool = True
    ) -> Engine:
        """The first engine that passes the self-check over `box` (lower `[n]`, upper `[n]`).

        The order is onnxruntime, torch, the original one sample at a time. Sets `report`. Raises InputError for a
        device that cannot be had.
        """
        from falsifier.network.selection import choose

        engine, self.report = choose(self, device, box, check=check)
        return engine


def load(model: str | Path | bytes | Any) -> Network:
    """A network from a path (plain or gzip), the bytes of a model, or an `onnx.ModelProto`.

    Cheap: a file is opened, nothing of it is interpreted. Raises InputError for a file that cannot be read.
    """
    if isinstance(model, (str, Path)):
        path = Path(model)
        most = limit_or(MODEL)
        with opened(path) as file:
            packed = file.read(2) == GZIP
            if not packed:
                demand_size(file, str(path), most)
        return Network(read_bytes(path, most) if packed else None, path, str(path))
    if isinstance(model, (bytes, bytearray, memoryview)):
        data = bytes(model)
        if data[:2] == GZIP:
            data = gunzipped(BytesIO(data), "<bytes>", limit_or(MODEL))
        return Network(data, origin="<bytes>")
    if hasattr(model, "SerializeToString"):
        return Network(model.SerializeToString(), origin="<ModelProto>")
    raise InputError(f"a network is a path, bytes or a ModelProto, not a {type(model).__name__}")


def joined(networks: Sequence[Network]) -> Network | JointNetwork:
    """Networks, one for each declaration of a query, as one to search; a lone one as it is."""
    if len(networks) == 1:
        return networks[0]
    from falsifier.network.joint import JointNetwork

    return JointNetwork(networks)


def _is_text(path: Path | None) -> bool:
    """Whether a path is text that onnxruntime takes: a file may be named by any bytes."""
    try:
        return path is not None and bool(str(path).encode())
    except UnicodeEncodeError:
        return False


def _attach(model: Any, folder: Path) -> None:
    """Read the external data of a model's initializers. onnx refuses files with links to them, onnxruntime does not.

    Where it may lie is onnxruntime's to judge, which has loaded the model before.
    """
    from onnx import TensorProto

    for tensor in model.graph.initializer:
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        info = {entry.key: entry.value for entry in tensor.external_data}
        with opened(folder / info.get("location", "")) as file:
            file.seek(int(info.get("offset", 0)))
            tensor.raw_data = file.read(int(info["length"]) if "length" in info else -1)
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]
