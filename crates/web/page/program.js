// The program, unpacked and asked.
"use strict";

/** The element of an identifier. */
const $ = (id) => document.getElementById(id);

/** Bytes of base64, also of its form for addresses. */
const fromBase64 = (text) => Uint8Array.from(atob(text.trim().replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));

function toBase64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

/** Bytes that went through a stream: of compression, or back. */
const through = async (bytes, stream) => new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());

/** A failure that has its own words. */
class Refusal extends Error {
  constructor({ message, causes, hint }) {
    super([message, ...(causes ?? [])].join(": "));
    this.hint = hint;
  }
}

/** The program in a worker; a new one after a panic. */
const program = {
  worker: null,
  bytes: null,
  waiting: new Map(),
  next: 0,
  /** The machine that the worker has, as text of JSON. */
  known: null,

  async start() {
    this.bytes ??= await through(fromBase64($("program").textContent), new DecompressionStream("gzip"));
    const source = new Blob([$("worker").textContent], { type: "text/javascript" });
    this.worker = new Worker(URL.createObjectURL(source));
    this.worker.onmessage = ({ data }) => this.settle(data);
    this.worker.onerror = (event) => this.settle({ id: this.next, panic: event.message || "the worker did not start" });
    this.known = null;
    return this.bytes;
  },

  stop() { this.worker?.terminate(); this.worker = null; },

  settle({ id, answer, panic }) {
    const { resolve, reject } = this.waiting.get(id) ?? {};
    this.waiting.delete(id);
    if (panic !== undefined) {
      this.stop();
      for (const other of this.waiting.values()) other.reject(new Error("the program stopped"));
      this.waiting.clear();
      return reject?.(Object.assign(new Error(panic), { isPanic: true }));
    }
    const { ok, error } = JSON.parse(answer);
    return error ? reject?.(new Refusal(error)) : resolve?.(ok);
  },

  /** Asks about a machine; the worker keeps the last one. */
  async ask(machine, question) {
    const bytes = this.worker ? undefined : await this.start();
    const text = JSON.stringify(machine);
    const request = JSON.stringify(text === this.known ? question : { machine, ...question });
    if (question.ask !== "scrub") this.known = text;
    const id = ++this.next;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, bytes, request });
    });
  },
};
