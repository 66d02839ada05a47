"""Tensors of PyTorch, ranks that share the reading, and checkpoints.

Run by ``tools/test-python --torch``, not with the other tests: it needs PyTorch.
"""

from __future__ import annotations

import io
import json
import os
import pathlib
import socket

import peerlane
import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from peerlane import checkpoint, safetensors
from safetensors.torch import load_file, save_file
from test_examples import run_page
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard


def values() -> dict[str, torch.Tensor]:
    """Tensors of many types, small and large."""
    random = torch.Generator().manual_seed(3)
    large = torch.rand((64, 40_000), generator=random)
    found = {"large": large, "half": large.to(torch.bfloat16), "one": torch.tensor(7), "none": torch.empty(0, 3)}
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float16", "uint16", "bool"):
        found[name] = large[:3, :5].to(getattr(torch, name))
    return found


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file(values(), path)
    return path


def equal(found, expected):
    assert sorted(found) == sorted(expected)
    for name, tensor in expected.items():
        one = found[name]
        assert one.dtype == tensor.dtype and one.shape == tensor.shape
        # As bytes: not all types can be compared.
        assert torch.equal(as_bytes(one), as_bytes(tensor)), name


def as_bytes(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8)


@pytest.mark.parametrize("mapped", [True, False])
def test_tensors_equal_those_of_the_formats_own_loader(file, mapped):
    model = safetensors.open(file, mapped=mapped)
    equal(model.load(), load_file(file))
    equal(dict(model.stream()), load_file(file))
    assert (model.slice("half", 1, 100, 9_000) == values()["half"][:, 100:9_000]).all()
    assert (model.slice("large", 1, 7, 8) == values()["large"][:, 7:8]).all()
    assert model.tensor("large").is_contiguous()


def test_copies_of_a_stream_share_no_memory(file):
    kept = dict(safetensors.open(file, mapped=False, memory="32M").stream())
    storages = {tensor.untyped_storage().data_ptr() for tensor in kept.values() if tensor.numel()}
    assert len(storages) == len(kept) - 1


@pytest.mark.parametrize("mapped", [True, False])
def test_a_tensor_that_is_saved_is_saved_alone(file, mapped):
    file.read_bytes()
    found = safetensors.open(file, mapped=mapped).load()
    saved = io.BytesIO()
    torch.save(found["uint16"], saved)
    assert saved.tell() < 20_000 < found["large"].nbytes
    # Tensors that share memory are refused by the format's own writer; and the file is the one that is mapped.
    save_file(found, file)
    equal(load_file(file), values())


@pytest.mark.parametrize("dtype", [torch.float16, "float16", "torch.float16"])
def test_wide_floats_are_cast_and_others_stay(file, dtype):
    found = safetensors.open(file, dtype=dtype).load()
    kinds = {name: tensor.dtype for name, tensor in values().items()}
    kinds |= {"large": torch.float16, "half": torch.float16, "none": torch.float16}
    assert {name: tensor.dtype for name, tensor in found.items()} == kinds
    assert (found["large"] == values()["large"].half()).all()
    with pytest.raises(peerlane.BadInput, match="dtype"):
        safetensors.open(file, dtype="int9")


def run(work, file, ranks=2):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    torch.multiprocessing.spawn(in_a_group, (work, str(file), ranks, port), nprocs=ranks)


def in_a_group(rank, work, file, ranks, port):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    work(rank, pathlib.Path(file))
    dist.destroy_process_group()


def shared_stream(rank, file):
    model = safetensors.open(file, group=dist, memory="32M")
    equal(dict(model.stream()), load_file(file))
    report = model.report()
    size = sum(tensor.nbytes for tensor in values().values())
    assert sum(report.routes.values()) == size and 0 < report.routes["broadcast"] < size
    read = torch.tensor(size - report.routes["broadcast"])
    dist.all_reduce(read)
    assert int(read) == size, "each byte is read by one rank"
    slices = {"large": (1, 0, 20_000)}
    half = values()["large"][:, :20_000]
    equal(model.load(["large", "one"], slices=slices), {"large": half, "one": values()["one"]})
    assert (model.tensor("half") == values()["half"]).all()


def test_each_part_is_read_by_one_rank_and_broadcast(file):
    run(shared_stream, file, 3)


def different_requests(rank, file):
    model = safetensors.open(file, group=True)
    with pytest.raises(peerlane.BadInput, match="rank 1 asks for other tensors"):
        model.load(["large"] if rank else ["half"])


def test_ranks_that_ask_for_different_tensors_are_refused(file):
    run(different_requests, file)


def failing_rank(rank, file):
    model = safetensors.open(file, group=True, memory="32M")
    dist.barrier()
    if rank == 1:
        os.truncate(file, 5_000)
    dist.barrier()
    with pytest.raises(peerlane.PeerlaneError, match="became shorter"):
        model.load()


def test_an_error_of_one_rank_is_raised_by_all(file):
    run(failing_rank, file)


def resharded(rank, file):
    mesh = init_device_mesh("cpu", (2,))
    for dim in (0, 1):
        whole = values()["large"]
        part = torch.zeros_like(whole.chunk(2, dim)[rank]).contiguous()
        state = {"large": DTensor.from_local(part, mesh, [Shard(dim)])}
        reader = checkpoint.StorageReader(file.parent)
        dcp.load(state, storage_reader=reader)
        assert (state["large"].to_local() == whole.chunk(2, dim)[rank]).all()
        [model] = reader._models.values()
        assert model.report().bytes == whole.nbytes // 2, "a rank reads its ranges alone"


def test_a_checkpoint_is_resharded_by_ranges(file):
    run(resharded, file)


def test_checkpoints_of_torch_are_read(file, tmp_path, caplog):
    caplog.set_level("INFO", "peerlane")
    state = load_file(file)
    written = tmp_path / "written"
    dcp.save(state, storage_writer=dcp.FileSystemWriter(written), no_dist=True)
    for folder in (written, file.parent):
        found = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
        dcp.load(found, storage_reader=checkpoint.StorageReader(folder), no_dist=True)
        equal(found, state)
        assert caplog.messages.pop()
    [entry] = written.glob("*.distcp")
    os.truncate(entry, entry.stat().st_size // 2)
    with pytest.raises(dcp.api.CheckpointException, match="ends before byte"):
        dcp.load(found, storage_reader=checkpoint.StorageReader(written), no_dist=True)


def test_numbers_of_four_bits_are_those_of_the_formats_own_loader(tmp_path):
    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("this PyTorch has no numbers of four bits")
    content = torch.arange(64, dtype=torch.uint8).view(8, 8)
    save_file({"four": content.view(torch.float4_e2m1fn_x2), "one": torch.ones(3)}, tmp_path / "a.safetensors")
    expected = load_file(tmp_path / "a.safetensors")
    for mapped in (True, False):
        model = safetensors.open(tmp_path, mapped=mapped)
        equal(model.load(), expected)
        equal(dict(model.stream()), expected)
        assert torch.equal(as_bytes(model.slice("four", 1, 4, 8)), as_bytes(content[:, 2:4]))
    state = {name: torch.zeros(one.shape, dtype=torch.uint8).view(one.dtype) for name, one in expected.items() if name == "four"}
    state["one"] = torch.zeros(3)
    dcp.load(state, storage_reader=checkpoint.StorageReader(tmp_path), no_dist=True)
    equal(state, expected)


def test_a_checkpoint_of_an_index_is_what_the_index_names(tmp_path):
    save_file({"a": torch.full((4,), 1.0), "b": torch.full((4,), 2.0)}, tmp_path / "1.safetensors")
    save_file({"a": torch.full((4,), 9.0)}, tmp_path / "2.safetensors")
    save_file({"a": torch.full((4,), 8.0)}, tmp_path / "consolidated.safetensors")
    index = {"weight_map": {"a": "2.safetensors", "b": "1.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    state = {"a": torch.zeros(4), "b": torch.zeros(4)}
    dcp.load(state, storage_reader=checkpoint.StorageReader(tmp_path), no_dist=True)
    assert state["a"].tolist() == [9.0] * 4 and state["b"].tolist() == [2.0] * 4


def test_sharded_files_of_torch_are_one_tensor(tmp_path):
    whole = values()["large"]
    for number, rows in enumerate(whole.chunk(2)):
        sharding = f'{{"large": {{"saved_offsets": [{number * 32}, 0]}}}}'
        save_file({"large": rows.contiguous()}, tmp_path / f"{number}.safetensors", {"DCP_SHARDING_INFO": sharding})
    state = {"large": torch.zeros_like(whole)}
    dcp.load(state, storage_reader=checkpoint.StorageReader(tmp_path), no_dist=True)
    assert (state["large"] == whole).all()


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page("docs/safetensors.md")
