// Drives the page in headless Chromium, and compares what it shows with what the program prints.
//
//     node crates/web/page/test.mjs CHROMIUM PAGE PROGRAM [SHOTS]
//
// PROGRAM is `peerlane`. The folder SHOTS gets pictures at three widths.
import { spawn, execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";

const [browser, page, peerlane, shots] = process.argv.slice(2);
const ROOT = path.join(import.meta.dirname, "../../..");
const address = pathToFileURL(path.resolve(page)).href;
const TEXTS = ["eight-gpus", "switch-redirecting", "switch-direct", "switch-unprivileged"];
/** Longest wait for anything in the page. */
const DEADLINE_MS = 60_000;

/** Chromium by its debugging pipe. */
class Browser {
  constructor() {
    this.profile = fs.mkdtempSync(path.join(os.tmpdir(), "peerlane-page-"));
    const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe", `--user-data-dir=${this.profile}`, "about:blank"];
    this.child = spawn(browser, flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    this.waiting = new Map();
    this.requests = [];
    this.troubles = [];
    this.next = 0;
    let held = "";
    this.child.stdio[4].on("data", (data) => {
      held += data;
      for (let end; (end = held.indexOf("\0")) >= 0; held = held.slice(end + 1)) this.take(JSON.parse(held.slice(0, end)));
    });
  }

  take({ id, result, error, method, params }) {
    if (id) {
      const { resolve, reject } = this.waiting.get(id);
      error ? reject(new Error(error.message)) : resolve(result);
    } else if (method === "Network.requestWillBeSent") {
      this.requests.push(params.request.url);
    } else if (method === "Runtime.exceptionThrown") {
      this.troubles.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    } else if (method === "Log.entryAdded" && params.entry.level === "error") {
      this.troubles.push(params.entry.text);
    }
  }

  send(method, params = {}) {
    const id = ++this.next;
    const sessionId = method.startsWith("Browser.") ? undefined : this.session;
    this.child.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  async start() {
    const { targetInfos } = await this.send("Target.getTargets");
    const { targetId } = targetInfos.find(({ type }) => type === "page");
    ({ sessionId: this.session } = await this.send("Target.attachToTarget", { targetId, flatten: true }));
    for (const domain of ["Page", "Runtime", "Network", "Log"]) await this.send(`${domain}.enable`);
  }

  async run(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    assert.ok(!exceptionDetails, `${expression}: ${exceptionDetails?.exception?.description}`);
    return result.value;
  }

  async until(expression) {
    const end = Date.now() + DEADLINE_MS;
    while (!(await this.run(expression))) {
      if (Date.now() > end) assert.fail(`${expression}; page: ${await this.run("document.getElementById('status')?.parentElement.innerText.slice(0, 2000)")}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async open(url) {
    await this.send("Page.navigate", { url: "about:blank" });
    await this.send("Page.navigate", { url });
    await this.until("typeof state === 'object' && $('example').options.length > 1");
  }

  async key(key, code = key, text) {
    for (const type of ["keyDown", "keyUp"]) await this.send("Input.dispatchKeyEvent", { type, key, code, windowsVirtualKeyCode: { Tab: 9, Enter: 13, ArrowDown: 40, ArrowRight: 39 }[key], text: type === "keyDown" ? text : undefined });
  }

  async paste(text) {
    await this.run(`$("text").value = ${JSON.stringify(text)}; $("answer").hidden = true; $("text").dispatchEvent(new Event("paste")); 1`);
    await this.until("!$('answer').hidden && !$('status').textContent");
  }

  async shot(name, width) {
    await this.send("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: width < 500 });
    const { data } = await this.send("Page.captureScreenshot", { captureBeyondViewport: true });
    fs.writeFileSync(path.join(shots, `${name}-${width}.png`), Buffer.from(data, "base64"));
  }

  async stop() {
    await this.send("Browser.close");
    await new Promise((resolve) => this.child.on("exit", resolve));
    fs.rmSync(this.profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}

/** What the program prints as JSON; an exit status of 1 is an answer. */
function printed(words, input) {
  try {
    return JSON.parse(execFileSync(peerlane, [...words, "--json", "--machine", "-"], { input, cwd: ROOT, stdio: ["pipe", "pipe", "ignore"], maxBuffer: 1 << 28 }));
  } catch (error) {
    if (error.status !== 1) throw error;
    return JSON.parse(error.stdout);
  }
}

const read = (name) => fs.readFileSync(path.join(ROOT, `fixtures/lspci/${name}.txt`), "utf8");

const TESTS = {
  async answers_equal_those_of_the_program(page) {
    for (const name of TEXTS) {
      await page.paste(read(name));
      assert.deepEqual(await page.run("state.shown.doctor"), printed(["doctor"], read(name)), name);
      const headline = await page.run("$('headline').textContent + '. ' + $('headline-rest').textContent");
      const { verdict } = printed(["doctor"], read(name));
      assert.equal(headline.replace(/\. $/, ""), verdict.replaceAll("`", ""));
      assert.equal(await page.run("$('uses').querySelectorAll('tbody tr').length"), printed(["doctor"], read(name)).uses.length);
    }
  },

  async pairs_equal_those_of_the_program(page) {
    await page.paste(read("eight-gpus"));
    await page.run("showPair(['gpu:0', 'gpu:1'])");
    const plan = await page.run("drawing.paths.get('gpu:0 gpu:1').then(({ plan }) => plan)");
    const [target] = plan.jobs[0].targets;
    assert.ok(target.explanation.length > 0);
    delete target.explanation;
    assert.deepEqual(plan, printed(["plan", "gpu:0", "gpu:1"], read("eight-gpus")));
    assert.ok(await page.run("document.querySelectorAll('#drawing .path').length > 3"));
    assert.ok(await page.run("document.querySelectorAll('#drawing .decides').length > 0"));
  },

  async nothing_is_fetched(page) {
    const policy = await page.run("document.querySelector('meta[http-equiv]').content");
    assert.match(policy, /default-src 'none'/);
    assert.match(policy, /connect-src 'none'/);
    assert.equal(await page.run("fetch('https://example.invalid/').then(() => 'sent', () => 'refused')"), "refused");
    const others = page.requests.filter((url) => !/^(file|blob|data|about):/.test(url));
    assert.deepEqual(others.filter((url) => url !== "https://example.invalid/"), []);
    page.troubles = page.troubles.filter((text) => !text.includes("example.invalid"));
  },

  async what_if_changes_the_answer(page) {
    await page.paste(read("eight-gpus"));
    const before = await page.run("$('headline').textContent");
    await page.run("document.querySelector('#plan input[type=checkbox]').click()");
    await page.until("$('assumed').textContent.includes('disable_acs_redir')");
    assert.notEqual(await page.run("$('headline').textContent"), before);
    await page.run("$('as-is').click()");
    await page.until("!$('assumed').textContent");
    assert.equal(await page.run("$('headline').textContent"), before);
  },

  async shared_address_shows_the_same_without_names(page) {
    const text = read("eight-gpus") + "\nalice@gpu07:~$ uname -a\n";
    await page.paste(text);
    const shown = await page.run("$('headline').textContent");
    await page.run("$('share').click()");
    await page.until("!$('shared').hidden");
    const url = await page.run("$('shared').querySelector('a').href");
    await page.open(url);
    await page.until("!$('answer').hidden && !$('status').textContent");
    assert.equal(await page.run("$('headline').textContent"), shown);
    assert.ok(!(await page.run("$('text').value")).match(/alice|gpu07/));
  },

  async evidence_selects_its_line(page) {
    await page.paste(read("eight-gpus"));
    await page.run("document.querySelector('#findings details').open = true; document.querySelector('#findings button.line').click()");
    assert.match(await page.run("$('text').value.slice($('text').selectionStart, $('text').selectionEnd)"), /ACSCtl/);
  },

  async keyboard_reaches_signs_and_devices(page) {
    await page.paste(read("eight-gpus"));
    await page.run("$('drawing').focus()");
    await page.key("Tab");
    const first = await page.run("document.activeElement.getAttribute('aria-label')");
    assert.ok(first, "a device has the focus");
    await page.run("document.querySelector('[data-pair][tabindex=\"0\"]').focus()");
    await page.key("ArrowDown");
    await page.until("$('path').textContent.includes('->')");
    await page.key("Enter", "Enter", "\r");
    await page.until("!$('pair').hidden && document.activeElement === $('pair')");
  },

  async two_texts_are_compared(page) {
    await page.paste(read("switch-redirecting"));
    await page.run(`$("other").value = ${JSON.stringify(read("switch-direct"))}; $("diff").requestSubmit(); 1`);
    await page.until("$('changes').textContent");
    assert.match(await page.run("$('changes').textContent"), /change/);
  },

  async wrong_texts_are_told(page) {
    await page.run(`$("text").value = "Dear list"; $("form").requestSubmit(); 1`);
    await page.until("!$('trouble').hidden");
    assert.match(await page.run("$('trouble').textContent"), /neither a machine file/);
    assert.ok(await page.run("$('answer').hidden"));
  },

  async archive_and_zip_are_whole(page) {
    const bytes = fs.readFileSync(path.join(ROOT, "fixtures/sysfs/r7515/tree.tar.zst")).toString("base64");
    await page.run(`examine({ name: "tree.tar.zst", bytes: ${JSON.stringify(bytes)} })`);
    await page.until("!$('answer').hidden");
    assert.equal(await page.run("state.shown.doctor.machine.name"), "r7515");
    const zip = await page.run("zip([{ path: 'a/b.sh', content: 'echo', is_executable: true }]).arrayBuffer().then((b) => toBase64(new Uint8Array(b)))");
    const file = path.join(page.profile, "test.zip");
    fs.writeFileSync(file, Buffer.from(zip, "base64"));
    const listed = execFileSync("python3", ["-c", "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); print(z.testzip(), z.read('a/b.sh').decode(), oct(z.infolist()[0].external_attr >> 16))", file]).toString();
    assert.equal(listed.trim(), "None echo 0o100755");
  },

  async narrow_page_does_not_scroll_sideways(page) {
    await page.paste(read("eight-gpus"));
    for (const width of [360, 800, 1280]) {
      await page.send("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: width < 500 });
      assert.ok(await page.run("document.documentElement.scrollWidth <= innerWidth"), `${width}: ${await page.run("document.documentElement.scrollWidth")}`);
      if (shots) await page.shot("page", width);
    }
    if (shots) {
      await page.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: "dark" }] });
      await page.run("showPair(['0000:1a:00.0', 'gpu:0'])");
      for (const width of [360, 1280]) await page.shot("pair-dark", width);
    }
    await page.send("Emulation.clearDeviceMetricsOverride");
  },
};

const tab = new Browser();
let failed = 0;
try {
  await tab.start();
  for (const [name, test] of Object.entries(TESTS)) {
    try {
      await tab.open(address);
      await test(tab);
      assert.deepEqual(tab.troubles, []);
      console.log(`ok ${name}`);
    } catch (error) {
      failed += 1;
      tab.troubles = [];
      console.log(`FAILED ${name}: ${error.stack}`);
    }
  }
} finally {
  await tab.stop();
}
process.exitCode = failed ? 1 : 0;
