"""The store passes zarr's own tests of stores, and says how values were read."""

from __future__ import annotations

import numpy as np
import pytest

zarr = pytest.importorskip("zarr", reason="zarr is not installed")
pytest.importorskip("pytest_asyncio", reason="pytest-asyncio is not installed")

from zarr.core.buffer import cpu  # noqa: E402
from zarr.testing.store import StoreTests  # noqa: E402

from peerlane import Reader  # noqa: E402
from peerlane.zarr import SMALL, Store  # noqa: E402


class TestStore(StoreTests[Store, cpu.Buffer]):
    store_cls = Store
    buffer_cls = cpu.Buffer

    async def get(self, store, key):
        return self.buffer_cls.from_bytes((store.root / key).read_bytes())

    async def set(self, store, key, value):
        path = store.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value.to_bytes())

    @pytest.fixture
    def store_kwargs(self, tmp_path):
        return {"root": str(tmp_path)}

    def test_store_repr(self, store):
        assert str(store) == f"file://{store.root.as_posix()}"

    def test_store_supports_writes(self, store):
        assert store.supports_writes

    def test_store_supports_listing(self, store):
        assert store.supports_listing


def test_arrays_are_those_of_local_stores(tmp_path):
    values = np.arange(400 * 400, dtype="f8").reshape(400, 400)
    written = zarr.create_array(
        zarr.storage.LocalStore(tmp_path), shape=(400, 400), chunks=(200, 200), dtype="f8",
        compressors=None,
    )
    written[:] = values
    store = Store(tmp_path)
    assert (zarr.open_array(store, mode="r")[:] == values).all()
    metadata = (tmp_path / "zarr.json").stat().st_size
    assert store.reading.bytes == values.nbytes + metadata == sum(store.reading[1:])


@pytest.mark.parametrize("size", [0, 1, SMALL - 1, SMALL, SMALL + 7])
def test_values_of_all_sizes_are_read(tmp_path, size):
    content = bytes(range(256)) * (size // 256 + 1)
    (tmp_path / "value").write_bytes(content[:size])
    store = Store(tmp_path)
    assert store.get_sync("value").to_bytes() == content[:size]
    assert store.reading.bytes == size
    is_direct = size >= SMALL and Reader(tmp_path / "value").is_direct
    assert store.reading.page_cache == (0 if is_direct else size)


def test_a_folder_is_no_value(tmp_path):
    (tmp_path / "group").mkdir()
    store = Store(tmp_path)
    assert store.get_sync("group") is None and store.get_sync("group/none") is None
