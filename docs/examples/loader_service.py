"""A service on the loopback interface that says by which loader a model should be read into a GPU, and why.

    python loader_service.py [--port 8765] [--machine machine.tar.zst]
    curl 'http://127.0.0.1:8765/loader?path=/models/llama.safetensors&device=gpu:0'

It answers `{"loader": "peerlane", "route": "p2p", "because": ...}` where drive and GPU reach each other, and
`"default"` with the reason elsewhere: a server picks vLLM's `--load-format` by it. Nothing is opened for data.
"""

from __future__ import annotations

import argparse
import http.server
import json
import urllib.parse

import peerlane


def choose(path: str, device: str, machine: str | None = None) -> dict[str, str]:
    """The loader for a path and a GPU, the route that decides, and the facts behind it."""
    route = peerlane.route(path, device, machine=machine)
    # Not known is not direct: the default loader always works, and `peerlane doctor` says what is missing.
    loader = "peerlane" if route == "p2p" else "default"
    return {"loader": loader, "route": str(route), "because": route.reason}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers ``GET /loader?path=PATH&device=DEVICE``."""

    machine: str | None = None

    def do_GET(self) -> None:
        """Answers one request by JSON: 400 for wrong words or devices, 404 for another path, 500 where it cannot know."""
        address = urllib.parse.urlsplit(self.path)
        words = dict(urllib.parse.parse_qsl(address.query))
        if address.path != "/loader":
            return self.answer(404, {"error": "GET /loader?path=PATH&device=DEVICE"})
        if set(words) != {"path", "device"}:
            return self.answer(400, {"error": "`path` and `device` are needed, and nothing else"})
        try:
            self.answer(200, choose(words["path"], words["device"], self.machine))
        except peerlane.BadInput as error:
            self.answer(400, {"error": str(error)})
        except peerlane.PeerlaneError as error:
            self.answer(500, {"error": str(error)})

    def answer(self, status: int, body: dict[str, str]) -> None:
        """Sends a JSON object."""
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def server(port: int, machine: str | None = None) -> http.server.ThreadingHTTPServer:
    """The service, bound and not yet running."""
    handler = type("Handler", (Handler,), {"machine": machine})
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="Says by which loader a model should be read.")
    arguments.add_argument("--port", type=int, default=8765)
    arguments.add_argument("--machine")
    given = arguments.parse_args()
    server(given.port, given.machine).serve_forever()
