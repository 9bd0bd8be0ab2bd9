import base64
import gzip
import hashlib
import json
import re
from typing import Any

import pytest

import roofline
from roofline.content import shipped
from roofline.records import replace
from roofline.report import render
from roofline.report.figures import COLOURS
from roofline.report.page import environment
from roofline.report.sections import blocks
from roofline.table import Result, table
from roofline.view.block import NO_UNIT, Cell, Head, PageTable
from tests.report.pages import Page, taken_apart, unpacked

MOST_BYTES = 2_100_000


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def _policy(page: Page) -> dict[str, list[str]]:
    (meta,) = [
        element
        for element in page.all("meta")
        if element.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    parts = [part.split() for part in (meta.attributes["content"] or "").split(";")]
    return {part[0]: part[1:] for part in parts}


def test_the_same_result_gives_the_same_bytes(either: Result) -> None:
    assert render(either) == render(either)


@pytest.mark.slow
def test_the_page_is_small_enough_to_send(result: Result) -> None:
    assert len(render(result).encode()) < MOST_BYTES
    assert len(render(roofline.analyze()).encode()) < MOST_BYTES
    many = roofline.analyze("deepseek-v3", "h200-sxm", tp=8, ep=8)
    assert len(render(many).encode()) < MOST_BYTES


@pytest.mark.slow
def test_the_policy_names_the_two_scripts_and_the_style_and_nothing_else(result: Result) -> None:
    page = taken_apart(render(result))
    scripts = [entry for entry in page.all("script") if "type" not in entry.attributes]
    (style,) = page.all("style")
    packed = next(e for e in page.all("script") if e.attributes.get("id") == "library")
    source = gzip.decompress(base64.b85decode(packed.text.replace(",", "<"))).decode()
    assert len(scripts) == 1
    assert _policy(page) == {
        "default-src": ["'none'"],
        "script-src": [_hash(scripts[0].text), _hash(source)],
        "style-src": [_hash(style.text), _hash("")],
        "img-src": ["data:"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }


def test_nothing_on_the_page_points_outside_it(either: Result) -> None:
    page = taken_apart(render(either))
    for element in page.elements:
        for name in ("src", "href", "action", "srcset", "data", "poster"):
            target = element.attributes.get(name)
            assert target is None or target.startswith("#") or target == "data:,", target
        assert not [name for name in element.attributes if name.startswith("on") or name == "style"]
    assert "url(" not in page.all("style")[0].text
    assert "@import" not in page.all("style")[0].text


def test_ids_are_unique_and_every_reference_has_its_target(either: Result) -> None:
    page = taken_apart(render(either))
    ids = [e.attributes["id"] for e in page.elements if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    for element in page.elements:
        for name in ("aria-labelledby", "aria-describedby", "aria-controls"):
            for target in (element.attributes.get(name) or "").split():
                assert target in ids
        href = element.attributes.get("href") or ""
        assert not href.startswith("#") or href[1:] in ids


def test_tables_have_captions_and_scopes_and_rows_as_long_as_their_heads(either: Result) -> None:
    page = taken_apart(render(either))
    assert len(page.all("table")) == len(page.all("caption")) >= 8
    assert all(head.attributes.get("scope") in ("col", "row") for head in page.all("th"))
    for text in re.findall(r"<table.*?</table>", render(either), re.DOTALL):
        heads = len(re.findall(r"<th scope=\"col\"", text))
        for row in re.findall(r"<tr>.*?</tr>", text.partition("<tbody>")[2], re.DOTALL):
            assert len(re.findall(r"<t[hd][ >]", row)) == heads


def test_every_figure_has_a_role_a_name_and_a_summary(either: Result) -> None:
    page = taken_apart(render(either))
    plots = [entry for entry in page.all("div") if entry.attributes.get("class") == "plot"]
    assert len(plots) == 5
    assert all(plot.attributes["role"] == "img" for plot in plots)
    summaries = page.all("figcaption")
    assert all(len(summary.text) > 40 for summary in summaries)
    assert len(summaries) == len(plots)


@pytest.mark.slow
def test_figures_are_what_plotly_accepts_and_colours_are_of_the_theme(either: Result) -> None:
    import plotly.graph_objects as go

    page = taken_apart(render(either))
    (packed,) = (entry for entry in page.all("script") if entry.attributes.get("id") == "specs")
    specs = json.loads(unpacked(packed.text))
    plots = [entry for entry in page.all("div") if entry.attributes.get("class") == "plot"]
    assert [plot.attributes["id"] for plot in plots] == list(specs)

    def themed(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {name: themed(entry, name) for name, entry in value.items()}
        if isinstance(value, list):
            return [themed(entry, key) for entry in value]
        if key.endswith("color"):
            match = re.fullmatch(r"theme:([a-z]+)(/[\d.]+)?", value)
            assert match, value
            assert match[1] in COLOURS
            return "#000000"
        assert not (isinstance(value, str) and value.startswith("theme:")), key
        return value

    for spec in specs.values():
        drawn = go.Figure(themed(spec, ""))
        assert len(drawn.data) == len(spec["data"])


def test_the_style_sheet_defines_every_colour_for_light_and_dark() -> None:
    style = (shipped("reports") / "report.css").read_text("utf-8")
    light, dark = _palettes(style)
    assert set(light) == set(dark) >= set(COLOURS)


def _palettes(style: str) -> tuple[dict[str, str], dict[str, str]]:
    blocks = re.findall(r":root[^{]*\{([^}]*)\}", style)[:2]
    light, dark = (dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6});", block)) for block in blocks)
    return light, dark


def _luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("text", ["ink", "muted", "link", "good", "bad", "prefill", "decode"])
@pytest.mark.parametrize("theme", [0, 1])
def test_text_has_the_contrast_that_accessibility_asks_for(text: str, theme: int) -> None:
    """WCAG 2.2, 1.4.3: 4.5 to 1."""
    palette = _palettes((shipped("reports") / "report.css").read_text("utf-8"))[theme]
    for ground in ("surface", "page", "raised") if text not in COLOURS else ("surface",):
        light, dark = sorted((_luminance(palette[text]), _luminance(palette[ground])))[::-1]
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ground)


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize(("name", "text"), [("kept", "ink"), ("broken", "muted")])
def test_text_on_a_tinted_cell_has_that_contrast_too(name: str, text: str, theme: int) -> None:
    style = (shipped("reports") / "report.css").read_text("utf-8")
    palette = _palettes(style)[theme]
    found = re.search(rf"\.{name} \{{ background: color-mix\(in srgb, var\(--(\w+)\) (\d+)%", style)
    assert found
    ends = (palette[found[1]], palette["surface"])
    share = int(found[2]) / 100
    over, under = ([int(end[at : at + 2], 16) for at in (1, 3, 5)] for end in ends)
    mixed = [round(share * a + (1 - share) * b) for a, b in zip(over, under, strict=True)]
    ground = "#" + "".join(f"{channel:02x}" for channel in mixed)
    light, dark = sorted((_luminance(palette[text]), _luminance(ground)))[::-1]
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_sections_are_found_in_the_order_of_the_page(either: Result) -> None:
    keys = [block.key for block in blocks(either)]
    assert keys == [
        "verdict", "assumptions", "roofline", "time", "memory", "batch", "what-if", "operators",
        "derivations", "notes", "reproduce",
    ]  # fmt: skip


def test_a_section_without_its_table_is_left_out(result: Result) -> None:
    bare = Result("analyze", {"headline": result.tables["headline"]})
    page = taken_apart(render(bare))
    assert [s.attributes["id"] for s in page.all("section")] == ["verdict", "reproduce"]
    assert len(render(bare)) < 100_000  # no figures, no plotly


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["headline", "ops", "roofs", "memory", "batch_curve", "what_if", "kernels"]
)
def test_an_empty_table_is_no_table(either: Result, name: str) -> None:
    tables = {**either.tables, name: table([], {})}
    taken_apart(render(replace(either, tables=tables)))


def test_what_does_not_fit_says_so_in_words(overflowing: Result) -> None:
    text = render(overflowing)
    assert "✗ Does not fit in memory" in text
    assert "of a deployment that does not fit" in text
    assert "50.0\xa0B too much" in text


def test_the_page_says_that_it_is_a_floor(result: Result) -> None:
    assert "datasheet floor, not a forecast" in render(result)
    measured = replace(result, metadata={**result.metadata, "basis": "measured"})
    assert "datasheet floor" not in render(measured)


@pytest.mark.slow
@pytest.mark.parametrize(
    "question",
    [{}, {"tp": 8}, {"batch": 100_000}, {"output": 1}, {"convention": "textbook"},
     {"kv_cache": False, "prompt": 64, "output": 4}, {"gpu": "a100-sxm", "weights": "fp8"},
     {"calibration": "none"}, {"calibration": "none", "tp": 8, "overlap": 1.0},
     {"weights": "fp8", "tp": 8, "overlap": 1.0}, {"model": "mixtral-8x7b", "gpu": "b200-sxm"},
     {"model": "mamba-2.8b"}, {"gpu": "rtx-4090", "batch": 1, "offload_weights": 0.5}],
    ids=str,
)  # fmt: skip
def test_real_results_make_pages(question: dict[str, Any]) -> None:
    taken_apart(render(roofline.analyze(**question)))


@pytest.mark.slow
def test_the_header_names_the_layout_and_its_replicas() -> None:
    question: dict[str, Any] = {
        "model": "llama-3.1-8b",
        "tp": 2,
        "pp": 2,
        "prompt": 64,
        "output": 4,
    }
    assert "TP 2 × PP 2" in _subtitle(roofline.analyze(gpus=4, **question))
    assert "2 replicas of TP 2 × PP 2" in _subtitle(roofline.analyze(gpus=8, **question))
    assert "TP" not in _subtitle(roofline.analyze("llama-3.1-8b", prompt=64, output=4))


def _subtitle(result: Result) -> str:
    page = taken_apart(render(result))
    (line,) = [p.text for p in page.all("p") if p.attributes.get("class") == "subtitle"]
    return line


@pytest.mark.slow
def test_what_is_kept_outside_is_among_the_assumptions() -> None:
    result = roofline.analyze(
        "llama-3.1-8b", "rtx-4090", prompt=64, output=4, batch=1, offload_weights=0.5
    )
    rows = {row["what"]: row for row in result.tables["assumptions"].rows()}
    assert rows["weights of the layers kept in the host's memory"]["value"] == "50%"
    rate = rows["rtx-4090 links.pcie.bandwidth"]
    assert rate["value"] == "31.5 GB/s"
    assert "PCI Express" in rate["source"]
    page = render(result)
    assert "bound by the host: loads or launches" in page
    assert "rtx-4090 links pcie bandwidth" in page


def test_the_contents_can_be_skipped_on_every_page(result: Result) -> None:
    bare = Result("other", {"runs": table([{"a": 1}], {})})
    for shown in (result, bare):
        page = taken_apart(render(shown))
        target = page.all("a")[0].attributes["href"]
        assert target == f"#{page.all('section')[0].attributes['id']}"


def test_a_number_keeps_room_for_a_unit_only_where_another_in_its_column_has_one() -> None:
    heads = (Head("name"), Head("GPUs", numeric=True), Head("TTFT", numeric=True))
    rows = (
        (Cell("a"), Cell("1", NO_UNIT), Cell("2", "ms")),
        (Cell("b"), Cell("2", NO_UNIT), Cell("–", NO_UNIT)),
    )
    template = environment().from_string("{% import 'macros.html' as m %}{{ m.grid(table) }}")
    page = taken_apart(template.render(table=PageTable("t", "T", heads, rows)))
    assert [cell.attributes["class"] for cell in page.all("td")] == ["n", "n", "n", "n z"]


def test_what_a_note_says_to_type_is_code_and_keeps_its_options_whole(result: Result) -> None:
    said = "See `roofline analyze --layout <NAME>`; --static has <both>."
    page = taken_apart(render(replace(result, notes=(said,))))
    words = [span for span in page.all("span") if span.attributes.get("class") == "word"]
    assert [(word.text, word.around[-1]) for word in words] == [
        ("roofline", "code"),
        ("analyze", "code"),
        ("--layout", "code"),
        ("<NAME>", "code"),
        ("--static", "li"),
    ]
