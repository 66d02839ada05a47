"""Shared parts of the benchmarks: sizes, content, caches, commands and their costs, spreads."""
import argparse, os, random, statistics, subprocess, sys, tempfile, time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_of(text: str) -> int:
    return int(float(text[:-1]) * UNITS[text[-1].upper()]) if text[-1].upper() in UNITS else int(text)


def drop_caches() -> bool:
    """Empties the page cache, which needs root; returns whether it could."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
        return True
    except OSError:
        return False


def fill(path, size, seed):
    """Writes bytes that neither compress nor repeat: no layer below can cheat."""
    generator, left = random.Random(seed), size
    with open(path, "wb") as out:
        while left:
            piece = generator.randbytes(min(left, 64 << 20))
            out.write(piece)
            left -= len(piece)
        out.flush()
        os.fsync(out.fileno())


@dataclass
class Run:
    """A command that ended: nanoseconds, bytes that it caused to be read from a disk, seconds of CPU, its output, and
    the most memory that it had, in bytes."""
    ns: int
    read: int
    cpu: float
    text: str
    peak: int


def run(command, statuses=(0,)):
    """Runs a command to its end; one with another status ends the benchmark with its message."""
    command = [str(word) for word in command]
    with tempfile.TemporaryFile() as errors:
        begin = time.monotonic_ns()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        text = process.stdout.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = time.monotonic_ns() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in statuses:
            errors.seek(0)
            sys.exit(f"{' '.join(command)}: status {process.returncode}\n{errors.read().decode()}")
    return Run(elapsed, usage.ru_inblock * 512, usage.ru_utime + usage.ru_stime, text, usage.ru_maxrss << 10)


def spread(values, digits=3):
    """The median, the lowest and the highest."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def parser(text, seed=1):
    """The options of every benchmark."""
    options = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=seed)
    options.add_argument("--peerlane", type=Path, default=HERE.parent / "target/release/peerlane")
    options.add_argument("--json", type=Path)
    return options


def need(program):
    """Ends the benchmark where the program was not built."""
    if not program.exists():
        sys.exit(f"{program} is missing: build with `cargo build --release -p peerlane-cli`")
