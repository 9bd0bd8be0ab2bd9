"""Servers and sites that the tests of commands share."""

from hypothesis import strategies as st

from roofline.cost.layout import Layout
from roofline.errors import RooflineError
from roofline.interop.commands import targets
from roofline.interop.commands.command import ServeCommand
from roofline.interop.commands.reading import ParsedCommand
from roofline.interop.commands.served import (
    Adapters,
    BenchmarkLoad,
    DraftSettings,
    OffloadedWeights,
    ReplicaServer,
    Room,
    ServerMemory,
    Site,
)
from roofline.records import replace
from roofline.schema import Document, parse_yaml

GIB = 2**30
ROOM = Room(
    capacity=80.0 * GIB,
    weights=20.0 * GIB,
    activations=3.0 * GIB,
    reserved=1.5 * GIB,
    layers=18.0 * GIB,
    depth=60,
    token=131072.0,
)
SITE = Site(ROOM, "h100-sxm", "NVIDIA", 8, "bf16", BenchmarkLoad())

layouts = st.one_of(
    st.builds(
        lambda tp, pp: Layout(tp=tp, pp=pp), st.sampled_from([1, 2, 4, 8]), st.integers(1, 4)
    ),
    st.builds(lambda dp: Layout(dp=dp, ep=dp), st.sampled_from([2, 4, 8])),
    st.builds(
        lambda dp, tp: Layout(dp=dp, tp=tp), st.sampled_from([2, 4]), st.sampled_from([1, 2])
    ),
    st.builds(
        lambda tp, ep: Layout(tp=tp, ep=ep), st.sampled_from([2, 8]), st.sampled_from([1, 2])
    ),
    st.just(Layout(tp=2, cp=2)),
    st.just(Layout(pp=3, stages=(21, 20, 19))),
    st.just(Layout(tp=4, sequence_parallel=True)),
    st.just(Layout(pp=2, microbatches=6)),
)
speculations = st.one_of(
    st.none(),
    st.builds(DraftSettings, st.sampled_from(["mtp", "ngram"]), st.integers(1, 8)),
    st.builds(
        DraftSettings,
        st.sampled_from(["eagle", "model"]),
        st.integers(1, 8),
        st.sampled_from(["org/draft", "it's a draft"]),
    ),
)
names = st.one_of(
    st.sampled_from(["meta-llama/Llama-3.1-8B", "./a folder/with 'quotes'"]),
    st.text(
        st.characters(exclude_categories=["C", "Z"], include_characters=" "),
        min_size=1,
        max_size=20,
    ).filter(lambda text: text.isprintable() and not text.startswith("-")),
)


@st.composite
def servers(draw: st.DrawFn, model: st.SearchStrategy[str] | None = None) -> ReplicaServer:
    """Settings that any server may be told: each engine has some of them."""
    return ReplicaServer(
        draw(st.sampled_from(list(targets.ENGINES))),
        draw(st.just("meta-llama/Llama-3.1-8B") if model is None else model),
        draw(layouts),
        replicas=draw(st.sampled_from([1, 1, 3])),
        weights=draw(
            st.sampled_from(
                ["", "bf16", "fp16", "fp8", "fp8-block", "mxfp8", "int4", "q4-k-m", "q8-0"]
            )
        ),
        kv=draw(st.sampled_from(["auto", "bf16", "fp16", "fp8", "fp8-e5m2", "int8-kv", "nvfp4"])),
        max_sequences=draw(st.none() | st.integers(1, 1024)),
        token_budget=draw(st.none() | st.integers(1, 2**17)),
        max_context=draw(st.none() | st.integers(1, 2**20)),
        memory=draw(st.none() | st.integers(3100, 10000).map(lambda n: ServerMemory(n / 10000))),
        chunked_prefill=draw(st.booleans()),
        prefix_caching=draw(st.booleans()),
        cuda_graphs=draw(st.booleans()),
        offloaded=draw(
            st.none() | st.sampled_from([1, 6, 15, 30, 45]).map(lambda n: OffloadedWeights(n / 60))
        ),
        speculation=draw(speculations),
        adapters=draw(
            st.none()
            | st.builds(Adapters, st.integers(1, 64), st.sampled_from([8, 16, 24, 64, 512, 600]))
        ),
    )


def no_files(name: str) -> Document:
    """No command asks for a file that it was not written with."""
    raise AssertionError(f"{name} was asked for")


def read_back(written: ServeCommand) -> ParsedCommand:
    """Deployment that a command or a manifest's file describes."""
    texts = written.files

    def files(name: str) -> Document:
        return parse_yaml(texts[name], name)

    first = written.words[0]
    if first in ("kubectl", "serve", "helm"):
        (text,) = texts.values()
        return targets.read(text, no_files, "file")
    return targets.read(written.line, files)


def written_or_refused(target: str, served: ReplicaServer) -> ServeCommand | None:
    """The command; None where the engine refuses, as it may."""
    try:
        return targets.write(target, served, SITE)
    except RooflineError:
        return None


def without(layout: Layout, lost: frozenset[str]) -> Layout:
    """The layout without what a command cannot say of it."""
    if "sequence_parallel" in lost:
        layout = replace(layout, sequence_parallel=False)
    return replace(layout, microbatches=0) if "microbatches" in lost else layout
