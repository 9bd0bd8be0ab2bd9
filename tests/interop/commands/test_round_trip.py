"""Commands that are written are read back; settings that cannot be are named."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.interop.commands import targets
from roofline.interop.commands.memory import converted, kept_outside
from roofline.interop.commands.served import ReplicaServer
from roofline.records import replace
from tests.cases import examples
from tests.interop.commands.serving import (
    ROOM,
    SITE,
    names,
    read_back,
    servers,
    without,
    written_or_refused,
)

AROUND = ("k8s", "ray-serve", "dynamo", "llm-d")
CONVERTED = ("layout", "memory", "offloaded")


def same(found: ReplicaServer, asked: ReplicaServer, lost: frozenset[str]) -> None:
    """All that is not lost is what was asked for."""
    for name in ReplicaServer.__struct_fields__:
        if name in lost or name in CONVERTED:
            continue
        assert getattr(found, name) == getattr(asked, name), name
    assert found.layout == without(asked.layout, lost)
    if asked.memory is not None and "memory" not in lost:
        assert found.memory is not None
        share = converted(found.memory, "device", ROOM)
        # A token of cache is as fine as llama.cpp counts.
        assert share == pytest.approx(
            asked.memory.value, abs=1.01e-4 if found.memory.of == "tokens" else 1e-9
        )
    if "offloaded" not in lost:
        assert (found.offloaded is None) == (asked.offloaded is None)
        if found.offloaded is not None and asked.offloaded is not None:
            assert kept_outside(found.offloaded, "layers", ROOM) == round(asked.offloaded.value, 4)


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(served=servers())
def test_a_server_is_read_back_from_its_command(served: ReplicaServer) -> None:
    written = written_or_refused(served.engine, served)
    if written is None:
        return
    found = read_back(written)
    same(found.served, served, written.lost)
    assert found.unused == (f"--port {SITE.port}",)


@settings(max_examples=examples(100), deadline=None)
@given(served=servers(names), target=st.sampled_from(AROUND))
def test_a_server_is_read_back_from_the_file_around_its_command(
    served: ReplicaServer, target: str
) -> None:
    written = written_or_refused(target, served)
    if written is None:
        return
    found = read_back(written)
    lost = written.lost | ({"model"} if served.engine == "llamacpp" else set())
    same(found.served, served, lost)


@pytest.mark.slow
@settings(max_examples=examples(200), deadline=None)
@given(served=servers(), target=st.sampled_from(["", *AROUND]))
def test_whatever_is_lost_is_in_a_note(served: ReplicaServer, target: str) -> None:
    written = written_or_refused(target or served.engine, served)
    if written is None:
        return
    assert len(written.notes) >= len(written.lost)
    words = {
        "replicas": "replicas",
        "weights": served.weights,
        "kv": "cache",
        "sequence_parallel": "norms by tokens",
        "microbatches": "micro-batches",
        "max_sequences": "sequences",
        "token_budget": "token",
        "chunked_prefill": "prompts",
        "offloaded": "host",
        "memory": "cache",
        "cuda_graphs": "CUDA graphs",
        "adapters": "rank" if served.engine == "vllm" else "LoRA",
    }
    for name in written.lost:
        sought = words[name] if name != "offloaded" or "GiB" not in str(written.notes) else "GiB"
        assert any(sought in note for note in written.notes), (name, written.notes)


@pytest.mark.slow
@settings(max_examples=examples(200), deadline=None)
@given(served=servers())
def test_a_command_that_was_read_is_written_the_same(served: ReplicaServer) -> None:
    written = written_or_refused(served.engine, served)
    if written is None:
        return
    found = replace(read_back(written).served, memory=served.memory, offloaded=served.offloaded)
    again = written_or_refused(found.engine, found)
    assert again is not None
    assert again.files == written.files
    if served.memory is not None or served.engine in ("sglang", "llamacpp"):
        assert again.words == written.words


def test_every_target_has_a_writer_and_every_engine_a_reader() -> None:
    assert set(targets.WRITERS) == {*targets.ENGINES, *AROUND, "llm-d"}
    assert set(targets.PRICED_AS) == set(targets.READERS) > set(targets.ENGINES)
