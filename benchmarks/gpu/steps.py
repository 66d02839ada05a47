"""Steps with limits: a command or a helper process that takes too long is ended."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .results import Record, Results

NOT_POSSIBLE = 77
"""Exit status of a program that this machine cannot run."""
TERM_SECONDS = 2.0
"""Time that an ended process group has to clean up before it is killed."""
KILL_SECONDS = 5.0
"""Time after which a killed process counts as stuck in the kernel."""
WORDS_MAX = 300
"""Characters of a reason at most."""
MIN_LIMIT = 0.05
"""Shortest limit that a step is started with, in seconds."""


class StepError(Exception):
    """A step failed; the message is the reason."""


class StepCut(Exception):
    """A step was ended at its limit."""


@dataclass(frozen=True)
class Ended:
    """A command that ended by itself, or at its limit."""

    status: int | None
    """Exit status, negative for a signal; none when the limit ended it."""
    seconds: float
    cpu: float
    """User and system time, in seconds."""
    output: str
    errors: str

    def last_lines(self, count: int = 3) -> str:
        """Returns the last lines that the command wrote, errors first."""
        text = self.errors.strip() or self.output.strip()
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        # Above the error of Python stand the lines that raised it.
        words = " / ".join(lines[-1:] if "Traceback (most recent call last)" in text else lines[-count:])
        return words if len(words) <= WORDS_MAX else f"{words[:WORDS_MAX]}..."


def run(
    command: Sequence[object],
    limit: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Ended:
    """Runs a command in a process group of its own, for `limit` seconds at most."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        begin = time.monotonic()
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        cpu = 0.0
        try:
            ended = _wait(process.pid, limit)
            seconds = time.monotonic() - begin
            if ended:
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                cpu = usage.ru_utime + usage.ru_stime
        finally:
            end(process)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
        return Ended(process.returncode if ended else None, seconds, cpu, texts[0], texts[1])


def _wait(pid: int, limit: float) -> bool:
    """Waits for a process; false when the limit comes first."""
    descriptor = os.pidfd_open(pid)
    try:
        return bool(select.select([descriptor], [], [], max(limit, 0))[0])
    finally:
        os.close(descriptor)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and the rest of its group."""
    for number, seconds in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        if process.returncode is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)


class Helper:
    """A process that answers lines of JSON with lines of JSON."""

    def __init__(self, command: Sequence[object], env: Mapping[str, str]) -> None:
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=env,
            start_new_session=True,
        )
        self._unread = b""

    def tell(self, question: Record) -> None:
        """Sends a question; the answers are heard later."""
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise StepError(self._why_it_ended()) from None

    def hear(self, limit: float) -> Record:
        """Returns the next answer.

        Raises StepCut at the limit, and StepError when the process ended or answers with an error.
        """
        assert self._process.stdout
        stop = time.monotonic() + limit
        while b"\n" not in self._unread:
            left = max(stop - time.monotonic(), 0)
            if not select.select([self._process.stdout], [], [], left)[0]:
                raise StepCut(f"cut at {limit:.0f} s")
            more = os.read(self._process.stdout.fileno(), 1 << 16)
            if not more:
                raise StepError(self._why_it_ended())
            self._unread += more
        line, self._unread = self._unread.split(b"\n", 1)
        try:
            answer: Record = json.loads(line)
        except ValueError:
            raise StepError(f"its answer is not JSON: {line[:80]!r}") from None
        if "error" in answer:
            raise StepError(answer["error"])
        return answer

    def close(self) -> None:
        """Ends the process."""
        end(self._process)
        for file in (self._process.stdin, self._process.stdout, self._errors):
            assert file
            with suppress(BrokenPipeError):
                file.close()

    def _why_it_ended(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(TERM_SECONDS)
        self._errors.seek(0)
        errors = self._errors.read().decode(errors="replace")
        status = self._process.returncode
        words = Ended(status, 0, 0, "", errors).last_lines()
        return f"{status_words(status)}: {words}" if words else status_words(status)


def status_words(status: int | None) -> str:
    """Returns an exit status in words."""
    if status is None:
        return "no exit status"
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    return f"exit status {status}"


Judge = Callable[[Ended], Record]
"""Returns the figures of a command that ended well, or raises StepError."""


class Part:
    """A part of the run, which has its own limit as a whole."""

    def __init__(self, name: str, results: Results, seconds: float) -> None:
        self.name = name
        self._results = results
        self._seconds = seconds
        self._stop = time.monotonic() + seconds

    def left(self, limit: float) -> float:
        """Returns the limit of a step that begins now, which the limit of the part may shorten."""
        return min(limit, self._stop - time.monotonic())

    def add(self, name: str, outcome: str, **fields: Any) -> Record:
        """Writes a result of this part."""
        return self._results.add(self.name, name, outcome, **fields)

    def skip(self, name: str, why: str, **fields: Any) -> None:
        """Writes that a step did not run."""
        self.add(name, "skipped", why=why, **fields)

    def is_over(self, name: str, **fields: Any) -> bool:
        """Tests whether the part has no time left, and writes the step as skipped if so."""
        if self.left(MIN_LIMIT) >= MIN_LIMIT:
            return False
        self.skip(name, f"the {self._seconds:.0f} s of this part are over", **fields)
        return True

    def step(
        self,
        name: str,
        command: Sequence[object],
        limit: float,
        judge: Judge = lambda _: {},
        good: Sequence[int] = (0,),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        **fields: Any,
    ) -> Ended | None:
        """Runs a command and writes its result; returns it when it passed."""
        if self.is_over(name, **fields):
            return None
        limit = self.left(limit)
        try:
            ended = run(command, limit, env, cwd)
        except OSError as error:
            self.skip(name, f"cannot start {command[0]}: {error.strerror}", **fields)
            return None
        fields["seconds"] = round(ended.seconds, 3)
        if ended.status is None:
            self.add(name, "cut", why=f"cut at {limit:.0f} s", **fields)
        elif ended.status == NOT_POSSIBLE and NOT_POSSIBLE not in good:
            self.skip(name, ended.last_lines(), **fields)
        elif ended.status not in good:
            why = f"{status_words(ended.status)}: {ended.last_lines()}"
            self.add(name, "failed", why=why, **fields)
        else:
            try:
                figures = judge(ended)
            except StepError as error:
                self.add(name, "failed", why=str(error), **fields)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                self.add(name, "failed", why=f"cannot read its output: {error!r}", **fields)
            else:
                self.add(name, "passed", **fields, **figures)
                return ended
        return None
