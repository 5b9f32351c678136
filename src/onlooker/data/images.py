"""Pictures of ten classes: digits, MNIST, Fashion-MNIST and CIFAR-10.

The class order is that of the files, and the only preprocessing is the map of the pixel range to [-1, 1]: a
public constant. The mean and deviation that are often used instead were computed from the training rows (rule
16).
"""

from __future__ import annotations

import lzma
import struct
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onlooker.data.federation import DataSettings, Description, Pool
from onlooker.data.files import Folder, damaged, is_there, read
from onlooker.data.partition import held_out
from onlooker.errors import DataError
from onlooker.types import Array, Examples

_SPLIT = "the test set is a fifth of the rows, drawn at random"


def _described(name: str, shape: tuple[int, int, int], highest: int, *more: str) -> Description:
    scaling = f"pixels from 0 to {highest} are mapped to [-1, 1], which is a public constant"
    return Description(name, shape, 10, "classification", (scaling, *more))


DIGITS = _described("digits", (1, 8, 8), 16, _SPLIT)
MNIST = _described("mnist", (1, 28, 28), 255)
FASHION_MNIST = _described("fashion-mnist", (1, 28, 28), 255)
CIFAR10 = _described("cifar10", (3, 32, 32), 255)


@dataclass(frozen=True)
class _Centre:
    """Maps pixels from 0 to `highest` to [-1, 1]; one copy, of the rows it is given."""

    highest: int

    def __call__(self, pixels: Array) -> NDArray[np.float32]:
        centred = pixels.astype(np.float32)
        centred *= 2 / self.highest
        centred -= 1
        return centred


_DIGITS = "sklearn/datasets/data/digits.csv.gz"


def read_digits(settings: DataSettings, generator: np.random.Generator) -> Pool:
    """The 1,797 digits of 8 x 8 pixels that come with scikit-learn; a fifth at random is the test set.

    Raises:
        DataError: if they do not lie where scikit-learn keeps them, or are damaged.
    """
    del settings
    # Read where scikit-learn keeps them, because importing it takes longer than everything else before round 1.
    path = Path(str(distribution("scikit-learn").locate_file(_DIGITS)))
    try:
        rows = np.loadtxt(path, delimiter=",", dtype=np.uint8)
        pixels, labels = rows[:, :-1].reshape(-1, 1, 8, 8), rows[:, -1].astype(np.int64)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(f'data.name = "digits": {path} cannot be read ({error}); install scikit-learn anew.') from error
    examples = Examples(pixels, labels)
    train, test = held_out(np.zeros(len(examples), dtype=np.int64), 0.2, generator)
    return Pool(examples.take(train), examples.take(test), prepare=_Centre(16))


_IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_FOLDERS = {
    "mnist": Folder("mnist", _IDX_FILES, "the four files of MNIST by Y. LeCun and C. Cortes"),
    "fashion-mnist": Folder(
        "fashion-mnist",
        _IDX_FILES,
        "the four files of Fashion-MNIST by Zalando, which Debian packages as dataset-fashion-mnist",
        default=Path("/usr/share/datasets/fashion-mnist"),
    ),
}


def read_idx(settings: DataSettings, generator: np.random.Generator) -> Pool:
    """MNIST or Fashion-MNIST: 60,000 + 10,000 pictures of 28 x 28 pixels, split as published.

    Raises:
        DataError: if the four files are not there or not whole.
    """
    del generator
    train_images, train_labels, test_images, test_labels = _FOLDERS[settings.name].find(settings.root)
    return Pool(
        Examples(_images(train_images), _idx(train_labels, 1).astype(np.int64)),
        Examples(_images(test_images), _idx(test_labels, 1).astype(np.int64)),
        prepare=_Centre(255),
    )


def _images(path: Path) -> NDArray[np.uint8]:
    return _idx(path, 3)[:, None]


def _idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """An IDX file of unsigned bytes: 0, 0, type 8, the number of dimensions, each size, then the data."""
    content = read(path)
    start = 4 + 4 * dimensions
    if content[:4] != bytes((0, 0, 8, dimensions)) or len(content) < start:
        raise damaged(path, f"no IDX header of {dimensions} dimensions")
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    expected = start + int(np.prod(shape, dtype=np.int64))
    if len(content) != expected:
        raise damaged(path, f"{len(content)} bytes where the header promises {expected}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


_BATCHES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
_TEST_BATCH = "test_batch.bin"
_CIFAR_FOLDER = "cifar-10-batches-bin"
_CIFAR_ARCHIVES = ("cifar-10-binary.tar.gz", "cifar-10-binary.tar.xz")
_CIFAR_RECORD = 1 + 3 * 32 * 32


def read_cifar10(settings: DataSettings, generator: np.random.Generator) -> Pool:
    """CIFAR-10: 50,000 + 10,000 pictures of 32 x 32 pixels in three colours, split as published.

    Raises:
        DataError: if neither the folder of batches nor its archive is there, or they are not whole.
    """
    del generator
    batches = _cifar_batches(settings.root)
    train = np.concatenate([batches(name) for name in _BATCHES])
    return Pool(_cifar_rows(train), _cifar_rows(batches(_TEST_BATCH)), prepare=_Centre(255))


def _cifar_rows(records: NDArray[np.uint8]) -> Examples:
    return Examples(records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(np.int64))


def _cifar_batches(root: Path | None) -> Callable[[str], NDArray[np.uint8]]:
    """A function from the name of a batch to its records, `uint8[n, 3073]`."""
    wanted = f"{_CIFAR_FOLDER} or {' or '.join(_CIFAR_ARCHIVES)}, the binary version of CIFAR-10 by A. Krizhevsky"
    if root is None:
        raise DataError(f'data.root is missing: "cifar10" needs a folder with {wanted}.')
    for folder in (root, root / "cifar10", root / "cifar-10"):
        for batches in (folder / _CIFAR_FOLDER, folder):
            if all(is_there(batches / name) for name in (*_BATCHES, _TEST_BATCH)):
                return lambda name, batches=batches: _cifar_records(batches / name, read(batches / name))
        archive = next((folder / name for name in _CIFAR_ARCHIVES if is_there(folder / name)), None)
        if archive is not None:
            members = _unpacked(archive)
            return lambda name: _cifar_records(archive / name, members.get(name, b""))
    raise DataError(f'data.root = "{root}" does not hold "cifar10": put there {wanted}.')


def _unpacked(archive: Path) -> dict[str, bytes]:
    """The batches in an archive, by file name; read in one pass, because going back would unpack it again."""
    try:
        with tarfile.open(archive, "r|*") as stream:
            return {
                Path(member.name).name: file.read()
                for member in stream
                if member.name.endswith(".bin") and (file := stream.extractfile(member))
            }
    except (OSError, EOFError, tarfile.TarError, lzma.LZMAError, zlib.error) as error:
        raise damaged(archive, error) from error


def _cifar_records(path: Path, content: bytes) -> NDArray[np.uint8]:
    expected = 10_000 * _CIFAR_RECORD
    if len(content) != expected:
        raise damaged(path, f"{len(content)} bytes where a batch has {expected}")
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, _CIFAR_RECORD)
