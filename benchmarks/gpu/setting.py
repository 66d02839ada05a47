"""Options and folders of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).with_name("programs")
ROOT = Path(__file__).parents[2]
"""The repository."""


@dataclass(frozen=True)
class Setting:
    """Everything that the parts of a run share."""

    program: Path
    """The peerlane program."""
    python: Path
    """The interpreter that has the loaders."""
    env: dict[str, str]
    """Environment of all steps."""
    packages: dict[str, str]
    """Modules that the interpreter has, with their versions."""
    gpu: int
    device: str
    """The GPU as PyTorch names it."""
    address: str
    """PCI address of the GPU."""
    work: Path
    """A folder of the run on the file system that is measured."""
    memory: Path | None
    """A folder of the run in tmpfs; none where there is no tmpfs."""
    size: int
    """Bytes of the weights."""
    images: int
    seed: int

    def missing(self, *modules: str) -> str | None:
        """Returns the reason why something that needs these modules cannot run."""
        lacking = [name for name in modules if name not in self.packages]
        return f"{self.python} has no {' and no '.join(lacking)}" if lacking else None

    def script(self, name: str, *arguments: object) -> list[str]:
        """Returns the command that runs one of the programs by the loaders' interpreter."""
        return [str(self.python), str(PROGRAMS / name), *map(str, arguments)]
