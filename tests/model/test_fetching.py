"""Configs from a hub: here a folder, served on this machine."""

import json
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from roofline.errors import InputError, MissingEnvironmentError
from roofline.model import checkpoint, parameters
from roofline.model.catalog import architecture
from roofline.model.fetching import fetch

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "torch_dtype": "bfloat16",
}
QUANTISED = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}


class _Quiet(SimpleHTTPRequestHandler):
    """Files of a folder, parts of them too."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer with a file, or with the bytes that are asked for."""
        span = self.headers.get("Range")
        if span is None:
            super().do_GET()
            return
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        first, last = (int(each) for each in span.removeprefix("bytes=").split("-"))
        content = path.read_bytes()[first : last + 1]
        self.send_response(206)
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "hub" / "some" / "net" / "resolve" / "main"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path / "hub")))
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("ROOFLINE_HOME", str(tmp_path / "home"))
    yield folder
    server.shutdown()
    server.server_close()


def test_a_fetched_network_is_known_by_its_id(hub: Path) -> None:
    fetch("some/net")
    assert architecture("some/net").d_model == 64


def test_its_format_is_that_of_the_file_beside_its_config(hub: Path) -> None:
    (hub / "hf_quant_config.json").write_text(json.dumps(QUANTISED))
    fetch("some/net")
    assert architecture("some/net").weight_format == "fp8"


def test_what_was_taken_away_is_not_kept(hub: Path) -> None:
    beside = hub / "hf_quant_config.json"
    beside.write_text(json.dumps(QUANTISED))
    fetch("some/net")
    beside.unlink()
    fetch("some/net")
    assert architecture("some/net").weight_format == "bf16"


def test_the_size_of_a_single_file_is_read_from_its_header_alone(hub: Path) -> None:
    network = architecture(str(hub))
    size = parameters.weight_bytes(network)
    header = json.dumps({"all": {"dtype": "BF16", "shape": [1], "data_offsets": [0, size]}})
    # The file ends after its header: who reads on fails.
    (hub / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header.encode())
    stored = checkpoint.stored_bytes(fetch("some/net"))
    assert stored is not None
    assert stored.bytes == size
    assert not any("checkpoint has" in note for note in architecture("some/net").notes)


def test_a_name_that_the_hub_has_not_is_refused(hub: Path) -> None:
    with pytest.raises(InputError, match=r"no config\.json of some/other"):
        fetch("some/other")
    with pytest.raises(InputError, match="no hub id"):
        fetch("../net")


def test_a_hub_that_is_silent_is_something_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(MissingEnvironmentError, match="cannot be asked"):
        fetch("some/net")
