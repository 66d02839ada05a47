// The drawing: signs of the matrix show paths, devices are chosen in it.

const drawing = {
  /** Devices of the answer by their numbers, and the chosen word. */
  devices: new Map(),
  first: null,
  /** A request for each sign that was looked at. */
  paths: new Map(),

  show({ svg, rules, devices }, ask) {
    this.devices = new Map(devices.map((device) => [String(device.id), device]));
    this.ask = ask;
    this.first = null;
    this.paths.clear();
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(rules);
    document.adoptedStyleSheets = [sheet];
    const picture = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
    picture.setAttribute("role", "group");
    picture.setAttribute("aria-label", picture.querySelector("title")?.textContent ?? "");
    for (const leaf of picture.querySelectorAll(".leaf")) {
      const device = this.device(leaf.dataset.f.split(" "));
      if (device) this.button(leaf, `${device.kind} ${device.word}`, 0);
    }
    for (const [at, sign] of [...picture.querySelectorAll("[data-pair]")].entries()) {
      this.button(sign, sign.querySelector("title")?.textContent ?? "pair", at ? -1 : 0);
    }
    $("drawing").replaceChildren(picture);
  },

  button(element, label, index) {
    for (const [name, value] of [["role", "button"], ["tabindex", index], ["aria-label", label]]) element.setAttribute(name, value);
  },

  device(ids) {
    return ids.map((id) => this.devices.get(id)).find(Boolean);
  },

  /** Words of both ends of a sign: the initiator, then the memory. */
  ends(sign) {
    const [memory, initiator] = sign.dataset.pair.split(" ").map((id) => this.device([id])?.word);
    return memory && initiator ? [initiator, memory] : null;
  },

  mark(test, name) {
    for (const one of $("drawing").querySelectorAll("[data-f],[data-b],[data-pair]")) one.classList.toggle(name, test(one));
  },

  clear() {
    for (const name of ["path", "decides"]) this.mark(() => false, name);
    $("path").textContent = "";
  },

  /** Lights up the path between two devices, and says it. */
  async path(ends) {
    const key = ends.join(" ");
    if (!this.paths.has(key)) this.paths.set(key, this.ask(ends));
    this.wanted = key;
    const { plan: { jobs: [{ targets: [plan] }] }, path } = await this.paths.get(key);
    if (this.wanted !== key) return;
    const is = (one, ids) => (one.dataset.f ?? "").split(" ").some((id) => id && ids.includes(Number(id)));
    this.mark((one) => is(one, path.functions) || path.bridges.includes(Number(one.dataset.b ?? -1)), "path");
    this.mark((one) => is(one, path.decide), "decides");
    $("path").textContent = plan.verdict;
  },

  /** The first device, or with one that is chosen already the pair of both. */
  choose(device, show) {
    this.mark((one) => (one.dataset.pair ?? "").split(" ").includes(String(device.id)) || (one.dataset.f ?? "").split(" ").includes(String(device.id)), "chosen");
    if (this.first && this.first !== device.word) {
      show([this.first, device.word]);
      this.first = null;
      return;
    }
    this.first = device.word;
    $("first").value = device.word;
    say(`${device.word} is chosen, its pairs are marked; choose a second device.`);
  },

  /** The sign next to one in the direction of a key. */
  next(sign, key) {
    const [x, y] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
    const middle = (one) => { const { left, top, width, height } = one.getBoundingClientRect(); return [left + width / 2, top + height / 2]; };
    const [left, top] = middle(sign);
    let best, least = Infinity;
    for (const one of $("drawing").querySelectorAll("[data-pair]")) {
      const [dx, dy] = [middle(one)[0] - left, middle(one)[1] - top];
      const along = dx * x + dy * y, aside = Math.abs(dx * y) + Math.abs(dy * x);
      if (along > 1 && along + 50 * aside < least) [best, least] = [one, along + 50 * aside];
    }
    return best;
  },

  listen(show) {
    const box = $("drawing");
    const look = ({ target }) => {
      const ends = target.closest?.("[data-pair]") && this.ends(target.closest("[data-pair]"));
      if (ends) this.path(ends).catch(() => {});
    };
    box.addEventListener("pointerover", look);
    box.addEventListener("focusin", look);
    box.addEventListener("pointerleave", () => this.clear());
    const press = (target) => {
      const sign = target.closest?.("[data-pair]"), leaf = target.closest?.(".leaf");
      const device = leaf && this.device(leaf.dataset.f.split(" "));
      if (sign && this.ends(sign)) show(this.ends(sign));
      else if (device) this.choose(device, show);
    };
    box.addEventListener("click", ({ target }) => press(target));
    box.addEventListener("keydown", (event) => {
      const sign = event.target.closest?.("[data-pair]");
      if (event.key === "Enter" || event.key === " ") {
        if (event.target === box) return;
        event.preventDefault();
        press(event.target);
      } else if (sign && event.key.startsWith("Arrow")) {
        event.preventDefault();
        const next = this.next(sign, event.key);
        if (!next) return;
        for (const [one, index] of [[sign, -1], [next, 0]]) one.setAttribute("tabindex", index);
        next.focus();
      }
    });
  },
};
