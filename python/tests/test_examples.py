"""The examples of the documentation work: docstrings, pages, and the notebook."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import json
import pathlib
import pkgutil
import re
import threading
import urllib.error
import urllib.parse
import urllib.request

import peerlane
import pytest

ROOT = pathlib.Path(__file__).parents[2]
# Modules that cannot be imported without a package which these tests do not have.
LEFT_OUT = {"_peerlane", "checkpoint", "fastsafetensors"}
MODULES = [name for _, name, _ in pkgutil.iter_modules(peerlane.__path__) if name not in LEFT_OUT]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(f"peerlane.{name}")
    results = doctest.testmod(module, raise_on_error=False, verbose=False)
    assert results.failed == 0


def test_every_public_function_and_class_has_an_example():
    objects = [getattr(peerlane, name) for name in peerlane.__all__]
    shown = [one for one in objects if callable(one) and not hasattr(one, "__origin__")]
    bare = {"BenchProgress", "Progress", "Reading", "Record", "make_haystack"}
    for one in shown:
        is_error = isinstance(one, type) and issubclass(one, BaseException)
        if not is_error and one.__name__ not in bare:
            assert ">>>" in (one.__doc__ or ""), one.__name__


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "python/README.md"])
def test_examples_of_pages(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(page)


def run_page(page):
    """Runs the blocks of a page, each with the names of those before."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert blocks, f"{page} shows nothing"
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_the_notebook_runs_from_its_first_to_its_last_cell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = ROOT / "python" / "examples" / "donard.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    names: dict[str, object] = {"__name__": "__main__", "SMALL": True}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), path.name, "exec"), names)
    printed = capsys.readouterr().out
    for words in ("Donard", "not measured here", "Mpixel/s"):
        assert words in printed


def test_loader_service_answers_by_the_route():
    path = ROOT / "docs" / "examples" / "loader_service.py"
    spec = importlib.util.spec_from_file_location("loader_service", path)
    service = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(service)
    with service.server(0, machine="pair") as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"

        def ask(query):
            try:
                with urllib.request.urlopen(f"{address}/{query}") as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as error:
                return error.code, json.load(error)

        direct = ask("loader?" + urllib.parse.urlencode({"path": "a", "device": "cmb:c"}))
        assert direct[0] == 200 and direct[1]["loader"] == "peerlane" and direct[1]["because"]
        assert ask("loader?path=a&device=gpu:9")[0] == 400
        assert ask("loader?path=a")[0] == 400
        assert ask("other")[0] == 404
        server.shutdown()
    assert service.choose("a", "b", "split")["loader"] == "default"
