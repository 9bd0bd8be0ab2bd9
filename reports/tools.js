// Tables that can be sorted, copied and saved as CSV; figures that can be saved, with their data.
(() => {
  "use strict";
  const PREFIXES = { n: 1e-9, "µ": 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 };
  "KMGTPE".split("").forEach((name, i) => (PREFIXES[`${name}i`] = 1024 ** (i + 1)));
  const UNIT = /^(Ki|Mi|Gi|Ti|Pi|Ei|[nµmkMGTPE])?(s|Wh|W|J|g|B\/s|B|FLOP\/s|FLOP\/B|FLOP)$/;
  const NUMBER = /^([^\d.]*)([\d,]*\.?\d+(?:e[+-]?\d+)?)(.*)$/s;

  const said = (cell) => cell.textContent.replace(/\s+/gu, " ").trim();
  const exact = (value) => Number(value.toPrecision(12)); // 6.72 ms is 0.00672 s

  // A number as it is written: its value in the unit without a prefix, that unit, and the text of a
  // range's other end.
  const read = (text) => {
    const found = NUMBER.exec(text === "same" ? "× 1" : text);
    if (!found) return null;
    const [, before, digits, rest] = found;
    if (/[^\s<>≥≤▼▲×+\-−$]/u.test(before)) return null;
    const [own, other] = rest.split(" – ");
    const money = before.includes("$") ? "$" : "";
    const unit = own.trim() || (other || "").replace(/^[−$\d,.e+\s-]+/, "").trim();
    const prefixed = money ? null : UNIT.exec(unit);
    const bare = prefixed ? prefixed[2] : money || !(unit in PREFIXES) ? money + unit : "";
    const scale = prefixed ? PREFIXES[prefixed[1]] || 1 : bare ? 1 : PREFIXES[unit] || 1;
    const sign = /[-−]/.test(before) ? -1 : 1;
    const value = exact(sign * Number(digits.replaceAll(",", "")) * scale);
    return { value, unit: bare, other, bound: Number(before.includes(">")) - Number(before.includes("<")) };
  };
  const order = (text) => {
    const found = read(text);
    return found === null ? NaN : found.value + 1e-9 * found.bound;
  };

  // What a spreadsheet would run as a formula is a text; a number with a sign is none.
  const SIGNED = /^[+-][\d,.]+( [^\s=@|!()]+)?$/u;
  const harmless = (text) => (/^[=+\-@]/.test(text) && !SIGNED.test(text) ? `'${text}` : text);
  const quoted = (value) => {
    const text = typeof value === "number" ? String(value) : harmless(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  // A byte order mark, without which spreadsheets read µ as two letters.
  const csv = (rows) => `\ufeff${rows.map((row) => row.map(quoted).join(",")).join("\r\n")}\r\n`;

  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const saveCsv = (rows, name) => save(new Blob([csv(rows)], { type: "text/csv" }), `${name}.csv`);

  const lines = (table) => [...table.rows].map((row) => [...row.cells].map(said));

  // Heads that are each there once: of several intervals each says what it is of.
  const told = (heads) => {
    const seen = new Map();
    return heads.map((head, at) => {
      const several = heads.filter((other) => other === head).length > 1;
      const name = several && head === "80 %" ? `${heads[at - 1]} ${head}` : head;
      seen.set(name, (seen.get(name) || 0) + 1);
      return seen.get(name) > 1 ? `${name} (${seen.get(name)})` : name;
    });
  };

  // Columns of a table for other programs: numbers in units without prefixes, a range as two columns.
  const columns = (table) => {
    const [first, ...rows] = lines(table);
    const heads = told(first);
    const out = heads.map(() => []);
    heads.forEach((head, at) => {
      const texts = rows.map((row) => row[at] ?? "");
      if (!table.tHead.rows[0].cells[at].classList.contains("n")) {
        out[at] = [[head, ...texts]];
        return;
      }
      const low = texts.map(read);
      const ends = texts.map((text) => text.split(" – ")[1]);
      const units = new Set(low.filter((entry) => entry).map((entry) => entry.unit));
      const [only] = units.size === 1 ? units : [];
      const name = (end) => head + end + (only ? ` [${only}]` : "");
      const plain = (entry, text) => (entry === null || entry.bound ? text : entry.value);
      const ranged = ends.some((end) => end !== undefined);
      out[at] = [[name(ranged ? " low" : ""), ...low.map((entry, i) => plain(entry, texts[i]))]];
      if (ranged) {
        const high = ends.map((end, i) => (end === undefined ? read(texts[i]) : read(end)));
        out[at].push([name(" high"), ...high.map((entry) => plain(entry, ""))]);
      }
      if (units.size > 1) {
        out[at].push([`${head} unit`, ...low.map((entry) => (entry === null ? "" : entry.unit))]);
      }
    });
    const every = out.flat();
    return every[0].map((_, i) => every.map((column) => column[i]));
  };

  const sort = (table, at, down) => {
    const body = table.tBodies[0];
    const numeric = table.tHead.rows[0].cells[at].classList.contains("n");
    const keyed = [...body.rows].map((row) => {
      const text = row.cells[at] ? said(row.cells[at]) : "";
      return { row, text, key: numeric ? order(text) : text };
    });
    const empty = ({ text, key }) => text === "" || text === "–" || Number.isNaN(key);
    const compare = (a, b) =>
      numeric ? a.key - b.key : a.key.localeCompare(b.key, "en", { numeric: true });
    keyed.sort((a, b) => empty(a) - empty(b) || (empty(a) ? 0 : (down ? -1 : 1) * compare(a, b)));
    body.append(...keyed.map(({ row }) => row));
  };

  // A head sorts up, then down, then as it was.
  const sortable = (table) => {
    const first = [...table.tBodies[0].rows];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, at) => {
      if (!said(head)) return;
      const button = document.createElement("button");
      button.type = "button";
      button.title = "Sort by this column";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const next = { ascending: "descending", descending: "" }[head.ariaSort] ?? "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        if (next) head.setAttribute("aria-sort", next);
        if (next) sort(table, at, next === "descending");
        else table.tBodies[0].append(...first);
      });
    });
  };

  const offer = (before, ...entries) => {
    const bar = document.createElement("div");
    bar.className = "tools";
    for (const [text, label, act] of entries) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      button.setAttribute("aria-label", label);
      button.addEventListener("click", async () => {
        const done = await Promise.resolve().then(act).then(() => "✓", () => "failed");
        button.textContent = `${text} ${done}`;
        setTimeout(() => (button.textContent = text), 1500);
      });
      bar.append(button);
    }
    if (before.matches(".beside > *")) {
      const place = document.createElement("div"); // the bar is no column of its own
      before.replaceWith(place);
      place.append(before);
    }
    before.before(bar);
  };

  document.querySelectorAll(".scroll > table").forEach((table) => {
    const caption = said(table.caption);
    offer(
      table.parentElement,
      ["Copy", `Copy the table: ${caption}`, () =>
        navigator.clipboard.writeText(lines(table).map((row) => row.map(harmless).join("\t")).join("\n"))],
      ["CSV", `Save as CSV: ${caption}`, () => saveCsv(columns(table), table.id)],
    );
    if (table.tBodies[0].rows.length > 1) sortable(table);
  });

  // A figure as it stands on the page, with the title and the legend that the page sets beside it.
  const MARKERS = {
    hatched: "square-cross-open", crossed: "square-x-open", dotted: "square-open-dot",
    open: "square-open", band: "square", stem: "line-ns-open", whisker: "line-ew-open",
    line: "line-ew-open", dash: "line-ew-open", dot: "line-ew-open",
  };
  const HEAD = 76; // pixels for title and legend
  const picture = async (plot, figure) => {
    const { layout, data } = plot;
    const width = plot.clientWidth;
    const keys = [...figure.querySelectorAll(".legend li")].map((entry) => {
      const key = entry.querySelector(".key");
      const symbol = MARKERS[key.dataset.shape] || key.dataset.shape;
      const color = getComputedStyle(key).getPropertyValue("--tint").trim();
      const marker = { symbol, color, size: 9, line: { color, width: symbol.startsWith("line") ? 2 : 0 } };
      return { type: "scatter", mode: "markers", x: [null], y: [null], name: said(entry), marker };
    });
    const height = layout.height + HEAD;
    const shown = {
      ...layout,
      width,
      height,
      margin: { ...layout.margin, t: (layout.margin?.t || 0) + HEAD },
      showlegend: keys.length > 0,
      legend: { orientation: "h", x: 0, xref: "container", y: 1 - 28 / height, yref: "container", yanchor: "top" },
      title: {
        text: said(figure.querySelector("h3")), x: 0, xref: "container", y: 1, yref: "container",
        xanchor: "left", yanchor: "top", pad: { t: 8, l: 8 }, font: { size: 15 },
      },
    };
    const traces = data.map((trace) => ({ ...trace, showlegend: false }));
    const given = { data: [...traces, ...keys], layout: shown };
    const address = await window.Plotly.toImage(given, { format: "svg", width, height });
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * width, 2 * height];
    const context = canvas.getContext("2d");
    context.fillStyle = layout.paper_bgcolor || "white";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
    save(blob, `${plot.id}.png`);
  };

  const bare = (text) => {
    const made = new DOMParser().parseFromString(String(text).replaceAll("<br>", "; "), "text/html");
    return made.body.textContent;
  };
  // Points of a figure, a row each: series, place, ends of its interval, and what it says.
  const points = (plot) => {
    const { data, layout } = plot;
    const title = (name) => bare(layout[name]?.title?.text || "");
    const named = (axis, value) => {
      // Ticks that are names say what a place is; those that are numbers say it less exactly.
      const names = (axis?.ticktext || []).some((text) => text && !read(bare(text)));
      const place = names ? axis.tickvals.indexOf(value) : -1;
      return place < 0 ? value : bare(axis.ticktext[place]);
    };
    const rows = [["series", "x", "y", "x low", "x high", "y low", "y high", "x of", "y of", "said"]];
    data.forEach((trace, number) => {
      const [across, up] = [trace.xaxis || "x", trace.yaxis || "y"].map((name) =>
        name.replace(/^([xy])/, "$1axis"));
      const ends = (name, i) => {
        const error = trace[`error_${name}`];
        if (!error?.array) return ["", ""];
        return [exact(trace[name][i] - error.arrayminus[i]), exact(trace[name][i] + error.array[i])];
      };
      (trace.x || []).forEach((x, i) => {
        if (x === null || trace.y[i] === null) return;
        rows.push([
          trace.name || `${number + 1}`, named(layout[across], x), named(layout[up], trace.y[i]),
          ...ends("x", i), ...ends("y", i), title(across), title(up),
          bare((Array.isArray(trace.hovertext) ? trace.hovertext[i] : trace.hovertext) || ""),
        ]);
      });
    });
    return rows;
  };

  document.querySelectorAll("figure").forEach((figure) => {
    const plot = figure.querySelector(".plot");
    const title = said(figure.querySelector("h3"));
    offer(
      figure.querySelector("h3"),
      ["PNG", `Save as a picture: ${title}`, () => picture(plot, figure)],
      ["Data", `Save its points as CSV: ${title}`, () => saveCsv(points(plot), plot.id)],
    );
  });
})();
