// Headless browsers for the test of the page: Chromium by its debugging pipe, Firefox by WebDriver BiDi.
import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import assert from "node:assert/strict";

/** Longest wait for anything in the page. */
const DEADLINE_MS = 60_000;

/** What both browsers do: a window with one page. */
class Browser {
  constructor() {
    this.profile = fs.mkdtempSync(path.join(os.tmpdir(), "peerlane-page-"));
    this.waiting = new Map();
    /** Addresses that the page asked for, and what it logged as an error. */
    this.requests = [];
    this.troubles = [];
    this.next = 0;
  }

  answered(id, error, result) {
    const { resolve, reject } = this.waiting.get(id);
    this.waiting.delete(id);
    error ? reject(new Error(error)) : resolve(result);
  }

  asked(write) {
    const id = ++this.next;
    const answer = new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
    write(id);
    return answer;
  }

  /** Rejects what still waits once the browser is gone. */
  watch(child) {
    this.child = child;
    this.ended = new Promise((resolve) => child.on("exit", resolve));
    child.on("exit", (code) => [...this.waiting.keys()].forEach((id) => this.answered(id, `the browser ended with ${code}`)));
  }

  async until(expression) {
    const end = Date.now() + DEADLINE_MS;
    while (!(await (typeof expression === "function" ? expression() : this.run(expression)))) {
      if (Date.now() > end) assert.fail(`${expression}; page: ${await this.run("document.getElementById('status')?.parentElement.innerText.slice(0, 2000)")}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async open(url) {
    await this.navigate("about:blank");
    await this.navigate(url);
    await this.until("typeof state === 'object' && $('example').options.length > 1");
  }

  async paste(text) {
    await this.run(`$("text").value = ${JSON.stringify(text)}; $("answer").hidden = true; $("text").dispatchEvent(new Event("paste")); 1`);
    await this.until("!$('answer').hidden && !$('status').textContent");
  }

  async remove() {
    await this.ended;
    fs.rmSync(this.profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}

const KEYS = { Tab: [9, "\uE004"], Enter: [13, "\uE006"], ArrowDown: [40, "\uE015"], ArrowRight: [39, "\uE014"], " ": [32, " "] };

export class Chromium extends Browser {
  static async start(program, isDark) {
    const tab = new Chromium();
    const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe", `--user-data-dir=${tab.profile}`, "about:blank"];
    tab.watch(spawn(program, flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] }));
    let held = "";
    tab.child.stdio[4].setEncoding("utf8").on("data", (data) => {
      held += data;
      for (let end; (end = held.indexOf("\0")) >= 0; held = held.slice(end + 1)) tab.take(JSON.parse(held.slice(0, end)));
    });
    const { targetInfos } = await tab.send("Target.getTargets");
    const { targetId } = targetInfos.find(({ type }) => type === "page");
    ({ sessionId: tab.session } = await tab.send("Target.attachToTarget", { targetId, flatten: true }));
    for (const domain of ["Page", "Runtime", "Network", "Log"]) await tab.send(`${domain}.enable`);
    await tab.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: isDark ? "dark" : "light" }] });
    return tab;
  }

  take({ id, result, error, method, params }) {
    if (id) this.answered(id, error?.message, result);
    else if (method === "Network.requestWillBeSent") this.requests.push(params.request.url);
    else if (method === "Runtime.exceptionThrown") this.troubles.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    else if (method === "Log.entryAdded" && params.entry.level === "error") this.troubles.push(params.entry.text);
  }

  send(method, params = {}) {
    const sessionId = method.startsWith("Browser.") ? undefined : this.session;
    return this.asked((id) => this.child.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0"));
  }

  navigate(url) {
    return this.send("Page.navigate", { url });
  }

  async run(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    assert.ok(!exceptionDetails, `${expression.slice(0, 500)}: ${exceptionDetails?.exception?.description}`);
    return result.value;
  }

  async key(key) {
    const text = { Enter: "\r", " ": " " }[key];
    for (const type of ["keyDown", "keyUp"]) await this.send("Input.dispatchKeyEvent", { type, key, code: key === " " ? "Space" : key, windowsVirtualKeyCode: KEYS[key][0], text: type === "keyDown" ? text : undefined });
  }

  async width(width) {
    await this.send("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: width < 500 });
  }

  async shot(file) {
    const { data } = await this.send("Page.captureScreenshot");
    fs.writeFileSync(file, Buffer.from(data, "base64"));
  }

  async stop() {
    await this.send("Browser.close");
    await this.remove();
  }
}

/** A client of a WebSocket on this machine, for texts (RFC 6455). */
class Socket {
  static connect(port, target, take) {
    const socket = Object.assign(new Socket(), { held: Buffer.alloc(0), text: [], take, stream: net.connect(port, "127.0.0.1") });
    const key = randomBytes(16).toString("base64");
    const expected = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
    socket.stream.write(`GET ${target} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: ${key}\r\nSec-WebSocket-Version: 13\r\n\r\n`);
    return new Promise((resolve, reject) => {
      socket.stream.on("error", reject);
      const greet = (data) => {
        socket.held = Buffer.concat([socket.held, data]);
        const end = socket.held.indexOf("\r\n\r\n");
        if (end < 0) return;
        if (!socket.held.toString("latin1", 0, end).includes(expected)) reject(new Error("the browser takes no WebSocket"));
        socket.held = socket.held.subarray(end + 4);
        socket.stream.off("data", greet).on("data", (more) => socket.read(more));
        socket.read(Buffer.alloc(0));
        resolve(socket);
      };
      socket.stream.on("data", greet);
    });
  }

  read(data) {
    this.held = Buffer.concat([this.held, data]);
    while (this.held.length >= 2) {
      const short = this.held[1] & 127;
      const begin = { 126: 4, 127: 10 }[short] ?? 2;
      if (this.held.length < begin) return;
      const length = begin === 2 ? short : begin === 4 ? this.held.readUInt16BE(2) : Number(this.held.readBigUInt64BE(2));
      if (this.held.length < begin + length) return;
      const [isLast, code] = [this.held[0] & 128, this.held[0] & 15];
      if (code <= 1) this.text.push(this.held.subarray(begin, begin + length));
      this.held = this.held.subarray(begin + length);
      if (code <= 1 && isLast) this.take(JSON.parse(Buffer.concat(this.text.splice(0)).toString()));
    }
  }

  write(text) {
    const bytes = Buffer.from(text), mask = randomBytes(4);
    const short = bytes.length < 126 ? bytes.length : bytes.length < 0x10000 ? 126 : 127;
    const head = Buffer.alloc({ 126: 4, 127: 10 }[short] ?? 2);
    head.set([0x81, 0x80 | short]);
    if (short === 126) head.writeUInt16BE(bytes.length, 2);
    if (short === 127) head.writeBigUInt64BE(BigInt(bytes.length), 2);
    for (let at = 0; at < bytes.length; at++) bytes[at] ^= mask[at % 4];
    this.stream.write(Buffer.concat([head, mask, bytes]));
  }
}

/** A value as WebDriver BiDi writes it. */
function plain({ type, value }) {
  if (type === "array") return value.map(plain);
  if (type === "object") return Object.fromEntries(value.map(([key, one]) => [key, plain(one)]));
  return type === "number" ? Number(value) : type === "null" ? null : value;
}

export class Firefox extends Browser {
  static async start(program, isDark) {
    const tab = new Firefox();
    const settings = {
      "layout.css.prefers-color-scheme.content-override": isDark ? 0 : 1,
      "datareporting.policy.dataSubmissionEnabled": false,
      "toolkit.telemetry.enabled": false,
    };
    fs.writeFileSync(path.join(tab.profile, "user.js"), Object.entries(settings).map(([key, value]) => `user_pref(${JSON.stringify(key)}, ${JSON.stringify(value)});\n`).join(""));
    tab.watch(spawn(program, ["--headless", "--no-remote", "--profile", tab.profile, "--remote-debugging-port", "0", "about:blank"], { stdio: ["ignore", "ignore", "pipe"] }));
    const port = await new Promise((resolve, reject) => {
      let held = "";
      tab.child.stderr.setEncoding("utf8").on("data", (data) => {
        held += data;
        const found = held.match(/BiDi listening on ws:\/\/127\.0\.0\.1:(\d+)/);
        if (found) resolve(Number(found[1]));
      });
      tab.ended.then(() => reject(new Error(`Firefox does not start: ${held}`)));
    });
    tab.socket = await Socket.connect(port, "/session", (message) => tab.take(message));
    await tab.send("session.new", { capabilities: {} });
    await tab.send("session.subscribe", { events: ["log.entryAdded", "network.beforeRequestSent"] });
    // In the first tab the address bar has the focus.
    tab.context = (await tab.send("browsingContext.create", { type: "tab" })).context;
    return tab;
  }

  take({ type, id, result, message, method, params }) {
    if (type === "success" || type === "error") this.answered(id, type === "error" ? message || "refused" : null, result);
    else if (method === "network.beforeRequestSent") this.requests.push(params.request.url);
    else if (method === "log.entryAdded" && params.level === "error") this.troubles.push(params.text);
  }

  send(method, params = {}) {
    return this.asked((id) => this.socket.write(JSON.stringify({ id, method, params })));
  }

  navigate(url) {
    return this.send("browsingContext.navigate", { context: this.context, url, wait: "complete" });
  }

  async run(expression) {
    const { result, exceptionDetails } = await this.send("script.evaluate", { expression, target: { context: this.context }, awaitPromise: true, serializationOptions: { maxDomDepth: 0 } });
    assert.ok(!exceptionDetails, `${expression.slice(0, 500)}: ${exceptionDetails?.text}`);
    return plain(result);
  }

  async key(key) {
    const value = KEYS[key][1];
    await this.send("input.performActions", { context: this.context, actions: [{ type: "key", id: "keyboard", actions: [{ type: "keyDown", value }, { type: "keyUp", value }] }] });
  }

  async width(width) {
    await this.send("browsingContext.setViewport", { context: this.context, viewport: { width, height: 900 } });
  }

  async shot(file) {
    const { data } = await this.send("browsingContext.captureScreenshot", { context: this.context });
    fs.writeFileSync(file, Buffer.from(data, "base64"));
  }

  async stop() {
    await this.send("browser.close");
    await this.remove();
  }
}
