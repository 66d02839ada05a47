"""`benchmarks/gpu.sh` without a GPU: its parsers, limits, skips and table, and whole runs with stubs."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
# Last, since one of the benchmarks has the name of a module of Python.
sys.path.append(str(BENCHMARKS))

from gpu import load, machine, outputs, results, scan, steps, table
from gpu.__main__ import run_part
from gpu.setting import Setting

FIXTURE = pathlib.Path(__file__).with_name("gpu_results.jsonl")

TWO_GPUS = """\
1, NVIDIA H100 80GB HBM3, 00000000:DB:00.0, 580.159.03, 81559 MiB, 1, 5, 16, 16
0, NVIDIA L4, 00000000:3B:00.0, 580.159.03, 23034 MiB, 4, 4, 8, 16
"""
SMI = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.159.03             Driver Version: 580.159.03     CUDA Version: 13.0     |
"""
SCAN = """\
30 hits in 400 images, 1 file passed over, no image; 1703.4 Mpixel in 0.69 s, 2458 Mpixel/s, limited by load
gpu:0 (NVIDIA H100, 0000:db:00.0): 400 images, 1.59 GiB, through pinned host memory
kernels: means 9.100 ms, 187.02 GB/s (5.6 % of 3352); others 101.300 ms in 633 rounds
"""
FIO = """\
note: both iodepth >= 1 and synchronous I/O engine are selected
{"fio version": "fio-3.33", "jobs": [{"jobname": "read", "error": 0, "read": {"io_bytes": 4294967296,
 "bw_bytes": 1500000000, "runtime": 2863}}]}
"""
DD = """\
256+0 records in
256+0 records out
4294967296 bytes (4.3 GB, 4.0 GiB) copied, 2.86331 s, 1.5 GB/s
"""
MOUNTS = """\
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 27 0:27 / /dev/shm rw,nosuid - tmpfs tmpfs rw
40 27 8:1 / /mnt/my\\040disk rw - xfs /dev/sda1 rw
"""


def test_gpus_are_read_in_order_of_address():
    first, second = machine.read_gpus(TWO_GPUS)
    assert (first["name"], first["address"]) == ("NVIDIA L4", "0000:3b:00.0")
    assert second["address"] == "0000:db:00.0"
    assert machine.link(second) == "PCIe gen 1 x16 (maximum gen 5 x16)"
    assert machine.read_gpus("No devices were found\n") == []


def test_cuda_version_is_read():
    assert machine.read_cuda(SMI) == "13.0"
    assert machine.read_cuda("CUDA UMD Version : 13.1") == "13.1"
    assert machine.read_cuda("NVIDIA-SMI has failed") is None


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/data/x", "ext4 (/dev/vda)"),
        ("/dev/shm/x", "tmpfs (tmpfs)"),
        ("/mnt/my disk/x", "xfs (/dev/sda1)"),
    ],
)
def test_file_system_is_read(path, found):
    assert machine.read_file_system(MOUNTS, pathlib.Path(path)) == found


def test_bench_record_gives_rates():
    text = (ROOT / "fixtures/results/bench-stream.json").read_text()
    first = outputs.bench_cases(text)[0]
    assert first == {"name": "read into memory, host", "gb_s": 1.754}
    record = json.loads(text)
    record["cases"][0]["verification"]["mismatches"] = 2
    with pytest.raises(steps.StepError, match="2 blocks differ"):
        outputs.bench_cases(json.dumps(record))
    record["cases"][0]["verification"] = None
    with pytest.raises(steps.StepError, match="not compared"):
        outputs.bench_cases(json.dumps(record))


def test_scan_words_give_rate_and_path():
    found = outputs.scan_words(SCAN)
    assert (found["hits"], found["images"], found["mpixel_s"], found["limit"]) == (30, 400, 2458, "load")
    assert found["path"] == "400 images, 1.59 GiB, through pinned host memory"
    assert found["kernels"].endswith("633 rounds")
    assert "path" not in outputs.scan_words("1 hit in 2 images; 5.4 Mpixel in 0.01 s, 484 Mpixel/s, limited by search")
    with pytest.raises(ValueError, match="no line"):
        outputs.scan_words("error: cannot search")


def test_other_hits_fail():
    hit = '{"schema":"peerlane.hit/1","image":"a"}\n'
    other = '{"schema":"peerlane.hit/1","image":"b"}\n'
    wanted: dict[str, list[str]] = {}

    def ended(text: str) -> steps.Ended:
        return steps.Ended(0, 1.0, 1.0, text, "")

    assert scan.same_hits(ended(hit + other), scan.ONE, wanted) == {"hits_equal": True}
    assert scan.same_hits(ended(other + hit), scan.ONE, wanted) == {"hits_equal": True}
    with pytest.raises(steps.StepError, match="1, not the 2"):
        scan.same_hits(ended(hit), scan.ONE, wanted)


def test_disk_rates_are_read():
    assert outputs.fio_gb_s(FIO) == 1.5
    assert round(outputs.dd_gb_s(DD), 3) == 1.5
    with pytest.raises(steps.StepError, match="error 5"):
        outputs.fio_gb_s(FIO.replace('"error": 0', '"error": 5'))


def test_stage_example_is_found():
    kernel = outputs.code_block((ROOT / "docs/stages.md").read_text(), "void invert(")
    assert kernel.startswith('extern "C" __global__ void invert(') and kernel.endswith("}\n")


class Run:
    """A results file and a part that writes to it."""

    def __init__(self, folder: pathlib.Path, seconds: float = 60) -> None:
        self.path = folder / "results.jsonl"
        self._results = results.Results(self.path, {"gpu": "none"})
        self.part = steps.Part("check", self._results, seconds)

    def records(self) -> list[dict[str, object]]:
        return results.read(self.path)[1]


def is_running(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_step_over_limit_is_cut_with_its_children(tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "TERM_SECONDS", 0.2)
    run = Run(tmp_path)
    # Neither ends when asked to.
    child = f"trap '' TERM; sleep 100 & echo $! >{tmp_path}/child; while :; do sleep 1; done"
    begin = time.monotonic()
    assert run.part.step("stuck", ["sh", "-c", child], 0.5) is None
    assert time.monotonic() - begin < 10
    (record,) = run.records()
    assert (record["outcome"], record["name"]) == ("cut", "stuck")
    time.sleep(0.1)
    assert not is_running(int((tmp_path / "child").read_text()))


def test_outcomes_follow_exit_status(tmp_path):
    run = Run(tmp_path)
    run.part.step("good", ["sh", "-c", "echo 5"], 10, lambda ended: {"value": int(ended.output)})
    run.part.step("bad", ["sh", "-c", "echo reason >&2; exit 3"], 10)
    run.part.step("not possible", ["sh", "-c", "echo no driver; exit 77"], 10)
    run.part.step("crash", ["sh", "-c", "kill -SEGV $$"], 10)
    run.part.step("missing", [tmp_path / "missing"], 10)
    run.part.step("unreadable", ["echo", "five"], 10, lambda ended: {"value": int(ended.output)})
    found = {record["name"]: (record["outcome"], record.get("why")) for record in run.records()}
    assert run.records()[0]["value"] == 5
    assert found["bad"] == ("failed", "exit status 3: reason")
    assert found["not possible"] == ("skipped", "no driver")
    assert found["crash"][0] == "failed" and "SIGSEGV" in found["crash"][1]
    assert found["missing"][0] == "skipped" and "cannot start" in found["missing"][1]
    assert found["unreadable"][0] == "failed" and "cannot read its output" in found["unreadable"][1]


def test_part_over_its_limit_skips_the_rest(tmp_path):
    run = Run(tmp_path, seconds=0.4)
    run.part.step("long", ["sleep", "100"], 30)
    run.part.step("next", ["true"], 30)
    assert [record["outcome"] for record in run.records()] == ["cut", "skipped"]
    assert "are over" in run.records()[1]["why"]


def test_part_that_ends_early_is_failed(tmp_path):
    def full_disk(part: steps.Part, _: Setting) -> None:
        part.step("first", ["true"], 10)
        raise OSError(28, "No space left on device")

    run = Run(tmp_path)
    run_part(run.part, full_disk, None)
    assert [record["outcome"] for record in run.records()] == ["passed", "failed"]
    assert "No space left" in run.records()[1]["why"]


HELPER = """
import sys, time
for line in sys.stdin:
    if "junk" in line: print("not JSON", flush=True)
    elif "error" in line: print('{"error": "no room"}', flush=True)
    elif "die" in line: sys.exit("out of memory")
    elif "sleep" in line: time.sleep(100)
    else: print('{"value": 1}', flush=True)
"""


@pytest.mark.parametrize(
    ("question", "error", "words"),
    [
        ("junk", steps.StepError, "not JSON"),
        ("error", steps.StepError, "no room"),
        ("die", steps.StepError, "exit status 1: out of memory"),
        ("sleep", steps.StepCut, "cut at 1 s"),
    ],
)
def test_helper_answers_or_gives_the_reason(question, error, words):
    helper = steps.Helper([sys.executable, "-c", HELPER], dict(os.environ))
    try:
        helper.tell({"ask": "value"})
        assert helper.hear(30) == {"value": 1}
        helper.tell({"ask": question})
        with pytest.raises(error, match=words):
            helper.hear(30 if error is steps.StepError else 1)
    finally:
        helper.close()


STUB_TORCH = """
class Tensor:
    device = "cpu"
    def __init__(self, data, shape): self.data, self.shape = bytes(data), shape
    def reshape(self, *_): return self
    def view(self, *_): return self
    def to(self, *_): return self
uint8 = "uint8"
def equal(a, b): return a.data == b.data
def frombuffer(data, dtype): return Tensor(data, [len(data)])
"""
STUB_LOADER = """
import sys
import torch
from pathlib import Path
import safetensors_files
def load(path, **_):
    if "{name}" == "slow":
        import time
        time.sleep(100)
    path = Path(path)
    files = [path] if path.suffix == ".safetensors" else sorted(path.parent.glob("*.safetensors"))
    parts = [part for file in files for part in safetensors_files.read(file)]
    tensors = {{name: torch.Tensor(data, header["shape"]) for name, header, data in parts}}
    if "{name}" == "wrong":
        tensors["small.0007.scale"].data = b"other"
    print("a library prints this")
    return tensors
load_file = load
class Report: pinned_bytes = 4096
"""


def stub_packages(folder: pathlib.Path, ours: str, other: str) -> None:
    """Writes packages that load by the standard library: one for each of two loaders."""
    for path, text in {
        "torch.py": STUB_TORCH,
        "peerlane/__init__.py": "",
        "peerlane/safetensors.py": STUB_LOADER.format(name=ours),
        "safetensors/__init__.py": "",
        "safetensors/torch.py": STUB_LOADER.format(name=other),
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def load_with_stubs(tmp_path: pathlib.Path, monkeypatch, other: str) -> list[dict[str, object]]:
    """Runs the part `load` on the processor, with stubs of peerlane and of one other loader."""
    stub_packages(tmp_path / "stubs", "right", other)
    monkeypatch.setattr(load, "LOAD_LIMIT", 5.0)
    monkeypatch.setattr(steps, "TERM_SECONDS", 0.2)
    monkeypatch.setattr(load.common, "drop_caches", lambda: True)
    run = Run(tmp_path)
    work, memory = tmp_path / "work", tmp_path / "memory"
    work.mkdir()
    memory.mkdir()
    setting = Setting(
        program=pathlib.Path("peerlane"),
        python=pathlib.Path(sys.executable),
        env=os.environ | {"PYTHONPATH": str(tmp_path / "stubs")},
        packages={"peerlane": "1", "torch": "1", "safetensors": "1"},
        gpu=0,
        device="cpu",
        address="0000:01:00.0",
        work=work,
        memory=memory,
        size=1 << 20,
        images=1,
        seed=1,
    )
    load.load(run.part, setting)
    assert not list(work.iterdir()) and not list(memory.iterdir())
    return run.records()


def test_loads_are_measured_and_compared(tmp_path, monkeypatch):
    records = load_with_stubs(tmp_path, monkeypatch, "right")
    loads = [record for record in records if "data" in record]
    states = {record["state"] for record in loads}
    assert {"tmpfs", "warm"} <= states
    for name in ("peerlane", "safetensors"):
        own = [record for record in loads if record["name"] == name]
        assert {record["outcome"] for record in own} == {"passed"}
        assert all(record["gb_s"] > 0 for record in own)
        assert {record["data"] for record in own} == set(load.DATA)
        assert [record.get("content") for record in own] == ["equal"] + [None] * (len(own) - 1)
    skipped = {record["name"]: record["why"] for record in records if record["outcome"] == "skipped"}
    assert "has no fastsafetensors" in skipped["fastsafetensors"]


def test_wrong_content_fails(tmp_path, monkeypatch):
    records = load_with_stubs(tmp_path, monkeypatch, "wrong")
    first, *others = [record for record in records if record["name"] == "safetensors"]
    assert (first["outcome"], first["content"]) == ("failed", "differs")
    assert first["why"] == "content: tensor small.0007.scale has other content"
    assert {(record["outcome"], record["why"]) for record in others} == {("skipped", "its content differs")}


def test_slow_loader_is_cut_once(tmp_path, monkeypatch):
    monkeypatch.setattr(load, "START_LIMIT", 30.0)
    records = load_with_stubs(tmp_path, monkeypatch, "slow")
    own = [record for record in records if record["name"] == "safetensors"]
    assert [record["outcome"] for record in own][:2] == ["cut", "skipped"]
    assert {record["outcome"] for record in own[1:]} == {"skipped"}
    others = [record for record in records if record["name"] == "peerlane"]
    assert {record["outcome"] for record in others} == {"passed"}


def test_table_shows_what_there_is():
    page = table.markdown(*results.read(FIXTURE))
    for line in (
        "- cuda: unknown",
        "- file systems: disk ext4 (/dev/vda), tmpfs tmpfs (tmpfs)",
        "2 passed, 1 failed, 1 cut, 1 skipped.",
        "| bench stream into the GPU, host | passed | 0.7 | 1.25 GB/s |",
        "| bench stream into the GPU, p2p | skipped | 0.1 | error: a \\| b |",
        "| safetensors: cut while loading | failed | 4.0 | ended by SIGBUS |",
        "| peerlane | 1.44 | 0.96 | 40.00-43.92 | 0.80 | 26.00 | 0.47 | 1.00-1.50 | 96 | equal |",
        "| instanttensor | - | - | - | - | cut | - | - | - | - |",
        "- kvikio: skipped: python3 has no kvikio",
        "- instanttensor (one file, tmpfs): cut: cut at 20 s",
        "| 1 thread | 961 | - | - | - | 1.80 | equal |",
        "| GPU | 2458 | failed | - | - | 0.90 | failed |",
        "- 16 threads: skipped: there are 8 processors",
        "**The run was interrupted.**",
    ):
        assert line in page.splitlines(), line


def test_unfinished_last_line_is_left_out(tmp_path):
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(FIXTURE.read_bytes()[:-20])
    assert len(results.read(cut)[1]) == len(results.read(FIXTURE)[1]) - 1
    other = tmp_path / "other.jsonl"
    other.write_text("{}\n")
    with pytest.raises(ValueError, match="not a results file"):
        results.read(other)


class StubMachine:
    """A folder with an nvidia-smi and a peerlane of its own, to start gpu.sh from."""

    def __init__(self, folder: pathlib.Path, smi: str, peerlane: str) -> None:
        self.folder = folder / "run"
        self.folder.mkdir()
        programs = folder / "programs"
        programs.mkdir()
        for name, text in (("nvidia-smi", smi), ("peerlane", peerlane)):
            (programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (programs / name).chmod(0o755)
        self._env = os.environ | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PEERLANE": str(programs / "peerlane"),
            "PYTHON": sys.executable,
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [BENCHMARKS / "gpu.sh", *arguments]
        return subprocess.Popen(
            command, cwd=self.folder, env=self._env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        output, errors = process.communicate(timeout=120)
        return process.returncode, output, errors


NO_GPU = "echo 'No devices were found' >&2; exit 6"
ONE_GPU = f"""
case "$*" in
*--query-gpu*) echo '{TWO_GPUS.splitlines()[1]}' ;;
*) echo 'CUDA Version: 13.0' ;;
esac
"""
PEERLANE = 'test "$1" != topo || exec sleep 100; echo peerlane 0.1.0'


def test_machine_without_gpu_is_left_unchanged(tmp_path):
    stub = StubMachine(tmp_path, NO_GPU, PEERLANE)
    status, output, errors = stub.run()
    assert (status, output) == (77, "")
    assert errors == "not possible here: nvidia-smi shows no gpu:0; nothing was changed\n"
    assert not list(stub.folder.iterdir())


def test_list_says_what_there_is(tmp_path):
    status, output, _ = StubMachine(tmp_path, NO_GPU, PEERLANE).run("--list")
    assert status == 0
    assert "GPU: none that nvidia-smi shows" in output and "peerlane: peerlane 0.1.0" in output
    assert "kvikio: no," in output


def test_part_over_its_limit_still_writes_the_table(tmp_path):
    stub = StubMachine(tmp_path, ONE_GPU, PEERLANE)
    status, output, _ = stub.run("--only", "check", "--limit", "6", "--results", "r.jsonl", "--tmpfs", str(tmp_path))
    assert status == 1
    assert "| topo | cut |" in output and "| doctor | skipped | 0.0 | the 6 s of this part are over |" in output
    assert "- gpu: NVIDIA L4" in output
    assert (stub.folder / "r.md").read_text() in output
    assert sorted(path.name for path in stub.folder.iterdir()) == ["r.jsonl", "r.md"]


def test_bad_usage_is_one_error(tmp_path):
    stub = StubMachine(tmp_path, ONE_GPU, PEERLANE)
    assert stub.run("--table", "missing.jsonl")[0] == 2
    (stub.folder / "r.jsonl").write_text("")
    status, output, errors = stub.run("--results", "r.jsonl")
    assert (status, output) == (2, "")
    assert errors == "error: [Errno 17] File exists: 'r.jsonl'\n"
    assert [path.name for path in stub.folder.iterdir()] == ["r.jsonl"]


def test_interrupted_run_writes_the_table(tmp_path):
    stub = StubMachine(tmp_path, ONE_GPU, PEERLANE)
    process = stub.start("--only", "check", "--results", "r.jsonl", "--tmpfs", str(tmp_path))
    stop = time.monotonic() + 60
    # The step that sleeps is the first of the part.
    while not list(stub.folder.glob("peerlane-gpu.*/check/source.bin")) and time.monotonic() < stop:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "**The run was interrupted.**" in output
    assert sorted(path.name for path in stub.folder.iterdir()) == ["r.jsonl", "r.md"]


def test_benchmark_is_typed(tmp_path):
    pytest.importorskip("mypy")
    options = ["--strict", "--ignore-missing-imports", "--follow-imports=silent", "--cache-dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "-p", "gpu"],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(BENCHMARKS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
