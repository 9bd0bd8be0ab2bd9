// Unpacks plotly.js and draws the figures in the colours of the style sheet, again when they change.
(() => {
  "use strict";
  const root = document.documentElement;
  const plots = [...document.querySelectorAll(".plot")];
  const specs = new Map();
  const drawn = new Map();
  const PAPER = 680; // pixels between the margins of a sheet
  const NARROW = 420; // below this every other tick of a crowded axis has no text

  // Base 85 of RFC 1924 with a comma for the less-than sign: five digits are four bytes.
  const DIGITS =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";

  const unpacked = (text) => {
    const value = new Uint8Array(128);
    for (let i = 0; i < DIGITS.length; i += 1) value[DIGITS.charCodeAt(i)] = i;
    const missing = (5 - (text.length % 5)) % 5;
    const words = new DataView(new ArrayBuffer(((text.length + missing) / 5) * 4));
    const padded = text + "~".repeat(missing);
    for (let i = 0; i < padded.length; i += 5) {
      let word = 0;
      for (let j = i; j < i + 5; j += 1) word = word * 85 + value[padded.charCodeAt(j)];
      words.setUint32((i / 5) * 4, word);
    }
    return new Uint8Array(words.buffer, 0, words.byteLength - missing);
  };

  // Text of an element that holds it packed.
  const unzip = async (id) => {
    const bytes = unpacked(document.getElementById(id).textContent.trim());
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };

  const read = async () => {
    const told = JSON.parse(await unzip("specs"));
    plots.forEach((plot) => specs.set(plot, told[plot.id]));
  };
  const ready = plots.length ? read() : Promise.resolve();

  const load = async () => {
    const script = document.createElement("script");
    script.textContent = await unzip("library");
    // A map library inside plotly.js adds a style sheet that no figure here needs and the policy
    // refuses. The style elements that plotly.js itself adds are empty and filled rule by rule.
    document.createElement = (...given) => {
      const made = Document.prototype.createElement.apply(document, given);
      if (given[0] === "style") Object.defineProperty(made, "textContent", { set() {} });
      return made;
    };
    document.head.append(script); // runs only if its hash is the one in the policy
    delete document.createElement;
    script.remove();
    if (!window.Plotly) throw new Error("plotly.js did not run");
  };

  // "theme:NAME/OPACITY" under a key that ends in "color" becomes a colour of the style sheet.
  const themed = (spec) => {
    const style = getComputedStyle(root);
    const colour = (text) => {
      const match = /^theme:([a-z]+)(?:\/([\d.]+))?$/.exec(text);
      if (!match) return text;
      const hex = style.getPropertyValue(`--${match[1]}`).trim();
      if (!match[2]) return hex;
      const channels = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
      return `rgba(${channels.join(",")},${match[2]})`;
    };
    const walk = (value, isColour) => {
      if (typeof value === "string") return isColour ? colour(value) : value;
      if (Array.isArray(value)) return value.map((entry) => walk(entry, isColour));
      if (value === null || typeof value !== "object") return value;
      return Object.fromEntries(
        Object.entries(value).map(([key, entry]) => [key, walk(entry, /color$/.test(key))]),
      );
    };
    return walk(spec, false);
  };

  // A name on a sloping roof follows the slope, which is one decade each way, and keeps its distance.
  const tilt = (plot, layout) => {
    const { xaxis, yaxis } = plot._fullLayout;
    const decade = (axis) => axis._length / Math.abs(axis.range[1] - axis.range[0]);
    const changes = {};
    (layout.annotations || []).forEach((entry, i) => {
      if (entry.name !== "slope") return;
      const angle = Math.atan2(decade(yaxis), decade(xaxis));
      const [sin, cos] = [Math.sin(angle), Math.cos(angle)];
      const [height, along, gap] = [16, 24, 2]; // pixels
      changes[`annotations[${i}].textangle`] = (-angle * 180) / Math.PI;
      changes[`annotations[${i}].xshift`] = along * cos - (height + gap) * sin;
      changes[`annotations[${i}].yshift`] = along * sin + gap * cos;
    });
    return changes;
  };

  // A name at a point goes where it covers the least: no other name, no point, no edge.
  const settle = (plot, layout) => {
    const frame = plot.querySelector(".nsewdrag").getBoundingClientRect();
    const boxes = (names) => [...plot.querySelectorAll(names)].map((e) => e.getBoundingClientRect());
    const points = boxes(".scatterlayer .points path");
    const taken = [...points];
    const texts = [];
    plot.querySelectorAll(".scatterlayer .js-line").forEach((line) => {
      const place = line.getScreenCTM();
      for (let at = 0; at < line.getTotalLength(); at += 8) {
        const { x, y } = line.getPointAtLength(at).matrixTransform(place);
        taken.push({ left: x - 4, right: x + 4, top: y - 4, bottom: y + 4 });
      }
    });
    const covered = (a, b) =>
      Math.max(0, Math.min(a.right, b.right) - Math.max(a.left, b.left)) *
      Math.max(0, Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));
    const changes = {};
    const named = [...plot.querySelectorAll(".annotation")].map((drawing) => [
      Number(drawing.dataset.index),
      drawing.querySelector(".annotation-text-g").getBoundingClientRect(),
    ]);
    const moves = (i) => layout.annotations[i].showarrow;
    const cost = (box) => taken.reduce((sum, other) => sum + covered(box, other), 0);
    named.forEach(([i, box]) => {
      const entry = layout.annotations[i];
      if (moves(i) || entry.name === "slope") return;
      // The name of a flat roof goes along it to where no point is.
      let [best, least] = [box, entry.name === "roof" && points.some((each) => covered(box, each)) ? cost(box) : 0];
      for (let along = 8; least > 0 && box.left - along > frame.left; along += 8) {
        const tried = { left: box.left - along, right: box.right - along, top: box.top, bottom: box.bottom };
        const worth = cost(tried) + along / 8;
        if (worth < least) [best, least] = [tried, worth];
      }
      if (best !== box) changes[`annotations[${i}].xshift`] = (entry.xshift || 0) + best.left - box.left;
      texts.push(best);
    });
    named.filter(([i]) => moves(i)).forEach(([i, box]) => {
      const { ax, ay, xanchor } = layout.annotations[i];
      const [right, left] = [Math.abs(ax), -Math.abs(ax)];
      const x = (xanchor === "left" ? box.left : box.right) - ax;
      const y = box.top - ay;
      let best = null;
      for (const dx of ax > 0 ? [right, left] : [left, right]) {
        for (let step = 0; step < 8; step += 1) {
          const dy = ay + 16 * step;
          const meant = x + dx - (dx < 0 ? box.width : 0);
          const start = Math.max(frame.left, Math.min(meant, frame.right - box.width));
          const tried = { left: start, right: start + box.width, top: y + dy, bottom: y + dy + box.height };
          const out = box.width * box.height - covered(tried, frame);
          // Near its point, and on the side where it was meant.
          const far = 30 * step + 3 * Math.abs(start - meant) + (dx === ax ? 0 : 20);
          // Two names over each other cannot be read; a name over a line can.
          const worth =
            far +
            100 * out +
            cost(tried) +
            texts.reduce((sum, other) => sum + 20 * covered(tried, other), 0);
          if (!best || worth < best.worth - 1) best = { worth, dx: dx + start - meant, dy, left: dx < 0, tried };
        }
      }
      texts.push(best.tried);
      Object.assign(changes, {
        [`annotations[${i}].ax`]: best.dx,
        [`annotations[${i}].ay`]: best.dy,
        [`annotations[${i}].xanchor`]: best.left ? "right" : "left",
      });
    });
    return changes;
  };

  // Text that would run over the right edge moves to the left.
  const pull = (plot, layout) => {
    // Of the drawing: a sheet of paper is wider than the page that is about to be printed.
    const edge = plot.getBoundingClientRect().left + plot._fullLayout.width - 2;
    const changes = {};
    plot.querySelectorAll(".annotation").forEach((drawing) => {
      const i = Number(drawing.dataset.index);
      const over = drawing.querySelector(".annotation-text-g").getBoundingClientRect().right - edge;
      const entry = layout.annotations[i];
      if (over <= 0 || entry.name === "slope" || entry.showarrow) return;
      changes[`annotations[${i}].xshift`] = (entry.xshift || 0) - over;
    });
    return changes;
  };

  const draw = async (plot, width) => {
    const { data, layout } = themed(specs.get(plot));
    layout.width = width;
    if (layout.meta?.sparse && width < NARROW) {
      layout.xaxis.ticktext = layout.xaxis.ticktext.map((text, i) => (i % 2 ? "" : text));
    }
    drawn.set(plot, width);
    await window.Plotly.react(plot, data, layout, { displayModeBar: false, responsive: false });
    const changes = { ...tilt(plot, layout), ...pull(plot, layout), ...settle(plot, layout) };
    if (Object.keys(changes).length) await window.Plotly.relayout(plot, changes);
  };
  const drawAll = () => {
    const width = root.classList.contains("printing") ? PAPER : 0;
    return Promise.all(plots.map((plot) => draw(plot, width || plot.clientWidth)));
  };

  // One after the other, so that the page can be used meanwhile.
  const drawEach = async () => {
    for (const plot of plots) {
      if (drawn.has(plot)) continue; // it is being printed already
      await draw(plot, plot.clientWidth);
      await new Promise((resolve) => setTimeout(resolve));
    }
  };

  const start = async () => {
    await Promise.all([ready, load()]);
    await drawEach();
    let waiting = false;
    const watch = new ResizeObserver(() => {
      if (waiting || root.classList.contains("printing")) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        for (const plot of plots) {
          if (plot.clientWidth && plot.clientWidth !== drawn.get(plot)) draw(plot, plot.clientWidth);
        }
      });
    });
    plots.forEach((plot) => watch.observe(plot));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
    root.dataset.drawn = "yes";
  };

  // Paper is as wide as it is: what is folded and worth it is unfolded, a table too wide is made smaller.
  const unfolded = [];
  const printing = (on) => {
    if (root.classList.contains("printing") === on) return;
    root.classList.toggle("printing", on);
    if (on) {
      unfolded.push(...document.querySelectorAll("details.paper:not([open])"));
      unfolded.forEach((entry) => (entry.open = true));
    }
    document.querySelectorAll(".scroll > table").forEach((table) => {
      table.style.zoom = "";
      if (on && table.offsetWidth > PAPER) table.style.zoom = PAPER / table.offsetWidth;
    });
    if (!on) unfolded.splice(0).forEach((entry) => (entry.open = false));
    if (window.Plotly) drawAll();
  };
  addEventListener("beforeprint", () => printing(true));
  addEventListener("afterprint", () => printing(false));

  const open = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let entry = target; entry; entry = entry.parentElement) {
      if (entry.tagName === "DETAILS") entry.open = true;
    }
    if (target && target.tagName === "DETAILS") target.scrollIntoView();
  };
  addEventListener("hashchange", open);
  open();

  // The contents say where the reader is: in the last section whose heading is above the upper third.
  const contents = [...document.querySelectorAll("nav a")];
  const places = contents.map((link) => document.getElementById(link.hash.slice(1)));
  let current = null;
  const locate = () => {
    const end = innerHeight + scrollY >= root.scrollHeight - 2;
    const above = places.filter((section) => section.getBoundingClientRect().top < innerHeight / 3);
    const link = contents[end ? contents.length - 1 : Math.max(above.length - 1, 0)];
    if (!link || link === current) return;
    current?.removeAttribute("aria-current");
    current = link;
    link.setAttribute("aria-current", "true");
    const list = link.closest("ul");
    list.scrollLeft += link.getBoundingClientRect().left - list.getBoundingClientRect().left - list.clientWidth / 3;
  };
  addEventListener("scroll", locate, { passive: true });
  addEventListener("resize", locate);
  locate();

  const unfold = document.getElementById("unfold");
  if (unfold) {
    unfold.hidden = false;
    unfold.addEventListener("click", () => {
      const all = [...document.querySelectorAll(".derivations details")];
      const folded = all.some((entry) => !entry.open);
      all.forEach((entry) => {
        entry.open = folded;
      });
      unfold.textContent = folded ? "Fold all" : "Unfold all";
    });
  }

  // What a control draws with: the data of a figure as its specification has them.
  window.roofline = {
    unzip: async (id) => {
      await ready;
      return unzip(id);
    },
    data: (key) => structuredClone(specs.get(document.getElementById(key))?.data),
    redraw: (key, data) => {
      const plot = document.getElementById(key);
      specs.get(plot).data = data;
      if (drawn.has(plot)) draw(plot, drawn.get(plot));
    },
  };

  if (plots.length) {
    start().catch(() => {
      document.getElementById("failure").hidden = false;
      root.classList.add("undrawn");
    });
  }
})();
