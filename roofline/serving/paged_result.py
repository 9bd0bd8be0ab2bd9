"""Allocation schemes as a result: sentences, tables, notes."""

from math import exp
from typing import Any, Final

from roofline.serving.explain.figures import kv
from roofline.serving.explain.parts import derived
from roofline.serving.paged import PagingScheme, PagingSchemes
from roofline.serving.static import CENTRAL, static_batch
from roofline.table import Derivation, Result, Table, table
from roofline.units import count, show, show_binary

VLLM: Final = "Kwon et al. 2023 (arXiv 2309.06180)"


def result_of(made: PagingSchemes) -> Result:
    """Tables, derivations, notes and inputs of schemes side by side."""
    deployment, work = made.deployment, made.workload
    return Result(
        kind="paging",
        tables={"headline": headline(made), "schemes": schemes(made)},
        derivations=explain_all(made),
        notes=notes(made),
        metadata={
            **deployment.metadata,
            "batch": work.batch,
            "prompt": work.prompt,
            "output": work.output,
            "samples": made.samples,
            **({"beams": made.beams} if made.beams > 1 else {}),
            "page": made.page,
            "reserved": made.reserved,
            "convention": "engine",
            "basis": "datasheet" if made.deployment.calibration is None else "calibrated",
            "fits": made.schemes[-1].requests > 0,
            "summary": sentences(made),
        },
    )


def headline(made: PagingSchemes) -> Table:
    """Room for caches on each device, and bytes of a token, a sequence and a page."""
    rate = made.deployment.node.gpu.hbm_bytes_per_s
    seconds = 2.0 * made.copied * made.page * made.token_bytes / rate
    apart, shared = made.moved_apart, made.moved_shared
    beams = (
        ("beam_copies_bytes", apart, "B", "datasheet", "moved by a step, beams apart"),
        ("beam_copies_s", apart / rate, "s", "datasheet", "to move them"),
        ("beam_pages_bytes", shared, "B", "datasheet", "moved by a step, shared pages"),
        ("beam_pages_s", shared / rate, "s", "datasheet", "to move them"),
    )
    external = (("external_share", made.external, "", "derived", "lost between contiguous caches"),)
    rows = [
        {"metric": metric, "value": value, "unit": unit, "basis": basis, "meaning": meaning}
        for metric, value, unit, basis, meaning in (
            ("pool_bytes", max(made.memory.pool, 0.0), "B", "assumed", "room for caches"),
            ("token_bytes", made.token_bytes, "B", "datasheet", "of a cached token"),
            ("state_bytes", made.state_bytes, "B", "datasheet", "of a sequence of any length"),
            ("page_bytes", made.page * made.token_bytes, "B", "datasheet", "of a page"),
            ("copied_pages", made.copied, "", "datasheet", "copied on write, each prompt"),
            ("copied_s", seconds, "s", "datasheet", "to read and write them"),
            ("table_bytes", made.table_bytes, "B", "datasheet", "block table of a sequence"),
            ("tables_bytes", made.tables_read, "B", "datasheet", "tables that a step reads"),
            ("tables_s", made.tables_read / rate, "s", "datasheet", "to read them"),
            *(external if made.spread else ()),
            *(beams if made.beams > 1 else ()),
        )
    ]
    return table(rows, {})


def schemes(made: PagingSchemes) -> Table:
    """Schemes: slots, use of the room, and the sequences that fit."""
    calibrated = made.deployment.calibration is not None

    def ends(scheme: PagingScheme) -> dict[str, float]:
        wide = exp(CENTRAL * scheme.log_sd)
        low, high = scheme.tok_s / wide, scheme.tok_s * wide
        return {"decode_tok_s_low": low, "decode_tok_s_high": high} if calibrated else {}

    def row(scheme: PagingScheme) -> dict[str, Any]:
        states = made.states(scheme)
        waiting = scheme.waiting / scheme.mean_slots
        return {
            "scheme": scheme.name,
            "title": scheme.title,
            "slots": scheme.slots,
            "mean_slots": scheme.mean_slots,
            "token_share": states,
            "waiting_share": waiting,
            "unused_share": max(1.0 - states - waiting, 0.0),
            "sequences": scheme.requests * made.branches,
            "sequences_on_average": scheme.steady * made.branches,
            "decode_tok_s": scheme.tok_s,
            **ends(scheme),
        }

    units = {"slots": "token", "mean_slots": "token"}
    units |= dict.fromkeys(("decode_tok_s", "decode_tok_s_low", "decode_tok_s_high"), "token/s")
    return table([row(scheme) for scheme in made.schemes], units, made.deployment.basis)


def sentences(made: PagingSchemes) -> tuple[str, ...]:
    """Summary: gain of pages, and of sharing the prompt."""
    reserved, _, exact, in_pages = made.schemes[:4]
    if not made.schemes[-1].requests:
        room = show_binary(max(made.memory.pool, 0.0))
        return (f"Not even one prompt fits: {room} is left for caches.",)
    many = f"{count(in_pages.steady * made.branches)} sequences on average"
    gain = (
        f"× {in_pages.steady / reserved.steady:.3g}"
        if reserved.steady
        else "where not even one could be reserved"
    )
    out = [
        f"With {made.reserved:,} tokens reserved, {made.states(reserved):.1%} of the room holds "
        f"tokens; in pages of {made.page}, {made.states(in_pages):.1%}: {many}, {gain}.",
        f"If each length were known and reserved it would be {made.states(exact):.1%}: room waits "
        "for tokens to come.",
    ]
    if made.branches > 1:
        shared = made.schemes[-1]
        more = f": × {shared.steady / in_pages.steady:.3g} as many" if in_pages.steady else ""
        what = "beams" if made.beams > 1 else "answers"
        less = 1 - shared.mean_slots / in_pages.mean_slots
        out.append(
            f"A prompt shared by its {made.branches} {what} takes {less:.0%} less room{more}."
        )
    return tuple(out)


def notes(made: PagingSchemes) -> tuple[str, ...]:
    """Conventions and omissions behind the figures."""
    out = [
        "All answers have the same length, and on average are anywhere in their growth alike; what "
        "is lost between contiguous caches of different lengths (external fragmentation) comes on "
        "top of what is unused in them: `length_spread` counts it by first fit. Pages have none.",
        "Attention that looks its keys up in block tables was published to take 20–26 % longer "
        "than a contiguous kernel (Kwon et al. 2023, section 7.1); kernels that were measured have "
        "it in them, and the bytes of the tables are told.",
        "At their longest, all sequences end at once: that many never have to be put off. On "
        "average more fit, and an engine puts some off where their growth coincides.",
    ]
    if made.branches > 1:
        out.append(
            "Sharing saves room and one prefill for each further answer, not reads: every answer "
            "reads the prompt's cache, unless the kernel attends for all of them together."
        )
    if made.beams > 1:
        out.append(
            "Each new beam is taken to come from any of the old ones alike: real ones descend from "
            "fewer, hold less and copy more. Without shared pages every step copies all beams; in "
            "them a page is copied where two beams would write to it. Output tokens are those of "
            "the answers, one to a prompt."
        )
    if made.state_bytes:
        out.append(
            f"Each sequence keeps {show(made.state_bytes, 'B')} beside its tokens on a device, "
            "which is not in pages and not shared."
        )
    return (*out, *made.deployment.precision.notes, *made.deployment.architecture.notes)


def explain_all(made: PagingSchemes) -> dict[str, Derivation]:
    """Derivations: room of each scheme, and the cache itself."""
    work, g = made.workload, made.page
    known: dict[str, float] = {
        "n": made.branches,
        "P": work.prompt,
        "O": work.longest - work.prompt + 1,
        "g": g,
        "reserved": made.reserved,
        "whole pages of P": work.prompt // g,
        "rest of P": work.prompt % g,
        "ancestors": made.schemes[-1].slots / g - work.prompt // g,
    }
    texts = {
        "reserved": "n · reserved",
        "power-of-two": "n · (P + 2^ceil(log2(O)))",
        "exact": "n · (P + O − 1)",
        "paged": "n · ceil((P + O − 1) / g) · g",
        "shared": "(whole pages of P + ancestors) · g"
        if made.beams > 1
        else "whole pages of P · g + n · ceil((rest of P + O − 1) / g) · g",
    }
    source = f"{VLLM}, sections 3.1, 4.3 and 4.4"
    note = "of all answers to a prompt, at their longest" + (
        "; ancestors: beams that the last ones come from, at the end of each page of the answer"
        if made.beams > 1
        else ""
    )
    out = {
        scheme.name: derived(
            f"slots: {scheme.title}",
            scheme.slots,
            "token",
            texts[scheme.name],
            terms=known,
            source=source,
            note=note,
        )
        for scheme in made.schemes
    }
    out["kv"] = kv(static_batch(made.deployment, made.workload))
    return out
