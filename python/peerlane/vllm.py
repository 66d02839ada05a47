"""Loads the weights of a model that vLLM serves.

    vllm serve MODEL --load-format peerlane

vLLM finds it by itself where the package is installed. Options, as JSON by ``--model-loader-extra-config``:
``mapped``, ``memory`` and ``pinned``, as :func:`peerlane.safetensors.open` has them; ``broadcast``, with which each
rank of tensor parallelism reads its share of the files and sends it to the others.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator
from typing import Any, Literal

from . import safetensors
from .errors import BadInput

__all__ = ["register"]

OPTIONS = {"broadcast", "mapped", "memory", "pinned"}


def register() -> None:
    """Registers the load format ``peerlane``, in each process of vLLM; a second time changes nothing."""
    loaders = importlib.import_module("vllm.model_executor.model_loader")
    if "peerlane" not in getattr(loaders, "_LOAD_FORMAT_TO_MODEL_LOADER", {}):
        loaders.register_model_loader("peerlane")(_loader_class())


def _loader_class() -> type[Any]:
    module: Any = importlib.import_module("vllm.model_executor.model_loader.default_loader")
    logger = importlib.import_module("vllm.logger").init_logger("vllm.peerlane")
    base: Any = module.DefaultModelLoader

    class PeerlaneLoader(base):
        """vLLM's own loader for files of safetensors, whose tensors come by Peerlane."""

        def __init__(self, load_config: Any) -> None:
            options = dict(load_config.model_loader_extra_config or {})
            unknown = sorted(set(options) - OPTIONS)
            if unknown:
                raise ValueError(
                    f"model_loader_extra_config: load format peerlane has no {unknown[0]!r}; "
                    f"it has {', '.join(sorted(OPTIONS))}"
                )
            self._broadcast = options.pop("broadcast", False)
            self._options = options
            self._found: list[str] = []
            super().__init__(
                dataclasses.replace(
                    load_config, load_format="safetensors", model_loader_extra_config={}
                )
            )

        def _prepare_weights(self, *arguments: Any, **options: Any) -> Any:
            found = super()._prepare_weights(*arguments, **options)
            self._found = list(found[1])
            return found

        def _get_weights_iterator(self, source: Any) -> Any:
            # It finds the files, and makes an iterator that reads nothing until it is asked.
            theirs = super()._get_weights_iterator(source)
            if self.load_config.safetensors_load_strategy == "torchao":
                return theirs
            return self._tensors(sorted(self._found), source.prefix)

        def _tensors(self, files: list[str], prefix: str) -> Iterator[tuple[str, Any]]:
            distributed: Any = importlib.import_module("torch.distributed")
            is_first = not distributed.is_initialized() or distributed.get_rank() == 0
            has_bar = self.load_config.use_tqdm_on_load and is_first
            bar: Literal["bar"] | None = "bar" if has_bar else None
            device, group = self._device(), self._group()
            model = safetensors.open(files, device, group=group, progress=bar, **self._options)
            for name, tensor in model.stream(self._wanted(model.keys())):
                yield prefix + name, tensor
            logger.info("peerlane to %s: %s", device, model.report())

        def _device(self) -> str:
            torch: Any = importlib.import_module("torch")
            platform = importlib.import_module("vllm.platforms").current_platform
            if platform.is_cuda():
                return f"cuda:{torch.cuda.current_device()}"
            return "cpu"

        def _group(self) -> Any:
            if not self._broadcast:
                return None
            group = importlib.import_module("vllm.distributed").get_tp_group()
            if group.world_size == 1:
                return None
            return group.cpu_group if self._device() == "cpu" else group.device_group

        def _wanted(self, names: list[str]) -> list[str]:
            """Without the experts of other ranks, if vLLM leaves them out."""
            experts = getattr(self, "local_expert_ids", None)
            if experts is None:
                return names
            if self._broadcast:
                raise BadInput(["broadcast: ranks with experts of their own ask for different tensors"])
            filters: Any = importlib.import_module(
                "vllm.model_executor.model_loader.ep_weight_filter"
            )
            return [name for name in names if not filters.should_skip_weight(name, experts)]

    return PeerlaneLoader
