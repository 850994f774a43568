"""A small language model that serves the OpenAI API, for the tests of the gate.

The model is a causal transformer (2 layers of 64, 4 heads) over letters, in PyTorch on the CPU, with weights drawn from a
seed. The server batches continuously: --slots requests at once, a token each in every step, the others first come, first
served. A letter is a token. It prints its port, and ends with its standard input. GET /pause has it take in requests and
produce nothing until GET /go.
"""

import argparse
import collections
import http.server
import json
import os
import queue
import sys
import threading

import torch
from torch import nn

LETTERS = " abcdefghijklmnopqrstuvwxyz"
WINDOW = 32


class Model(nn.Module):
    """Gives the logits of the next letter."""

    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), 64)
        self.places = nn.Parameter(torch.randn(WINDOW, 64) * 0.1)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(64, len(LETTERS))
        self.register_buffer("mask", torch.triu(torch.full((WINDOW, WINDOW), float("-inf")), 1))

    def forward(self, window):
        x = self.letters(window) + self.places
        return self.head(self.layers(x, mask=self.mask)[:, -1])


class Server:
    """The batch and the queue."""

    def __init__(self, slots):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.model = Model().eval()
        self.slots = slots
        self.waiting = collections.deque()
        self.received = 0
        self.paused = False
        self.changed = threading.Condition()

    def put(self, request):
        with self.changed:
            self.received += 1
            self.waiting.append(request)
            self.changed.notify()

    def pause(self, paused):
        with self.changed:
            self.paused = paused
            self.changed.notify()

    @torch.no_grad()
    def run(self):
        batch = []
        while True:
            with self.changed:
                while self.paused or not batch and not self.waiting:
                    self.changed.wait()
                while self.waiting and len(batch) < self.slots:
                    batch.append(self.waiting.popleft())
            batch = [r for r in batch if not r.gone]
            if not batch:
                continue
            windows = torch.tensor([r.letters[-WINDOW:] for r in batch])
            chosen = torch.multinomial(torch.softmax(self.model(windows), -1), 1)[:, 0].tolist()
            for r, letter in zip(batch, chosen):
                r.letters.append(letter)
                r.left -= 1
                r.out.put(LETTERS[letter])
                if r.left == 0:
                    r.out.put(None)
            batch = [r for r in batch if r.left > 0]


class Request:
    def __init__(self, prompt, most):
        known = [LETTERS.index(c) for c in prompt.lower() if c in LETTERS]
        self.input = len(known)
        self.letters = [0] * WINDOW + known
        self.left = most
        self.out = queue.Queue()
        self.gone = False


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body):
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        if self.path in ("/pause", "/go"):
            self.server.engine.pause(self.path == "/pause")
        self.answer({"received": self.server.engine.received, "data": [{"id": "letters"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body.get("prompt") or "".join(m["content"] for m in body["messages"])
        r = Request(prompt, body.get("max_tokens", 16))
        most = r.left
        self.server.engine.put(r)
        if not body.get("stream"):
            text = "".join(iter(r.out.get, None))
            self.answer({"choices": [{"text": text}], "usage": {"prompt_tokens": r.input, "completion_tokens": most}})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for letter in iter(r.out.get, None):
                self.piece({"choices": [{"index": 0, "text": letter, "delta": {"content": letter}}]})
            if body.get("stream_options", {}).get("include_usage"):
                self.piece({"choices": [], "usage": {"prompt_tokens": r.input, "completion_tokens": most}})
            self.raw(b"data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            r.gone = True
            self.close_connection = True

    def piece(self, body):
        self.raw(b"data: " + json.dumps(body).encode() + b"\n\n")

    def raw(self, text):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
        self.wfile.flush()


class Listener(http.server.ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True

    def handle_error(self, *_):
        pass  # a client has left


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--slots", type=int, default=8)
    engine = Server(p.parse_args().slots)
    threading.Thread(target=engine.run, daemon=True).start()
    listener = Listener(("127.0.0.1", 0), Handler)
    listener.engine = engine
    print(listener.server_address[1], flush=True)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
