"""A configuration of Ray Serve LLM, as Ray 2.60 reads it with ``serve run``, and back.

Fields: ``ray/llm/_internal/serve/core/configs/llm_config.py`` of that release (``LLMConfig``,
``ModelLoadingConfig``) and ``doc/source/serve/llm/`` of its repository: ``build_openai_app`` takes
``llm_configs``, ``build_dp_openai_app`` takes one ``llm_config`` with attention data parallelism.
``engine_kwargs`` are vLLM's arguments, the only engine it names.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from roofline.errors import InputError
from roofline.interop.commands import looking, shared, vllm
from roofline.interop.commands.command import Notes, Quoted, ServeCommand, dump
from roofline.interop.commands.flags import Value, keys
from roofline.interop.commands.reading import Files, ParsedCommand, placed
from roofline.interop.commands.served import ReplicaServer, Site
from roofline.records import replace
from roofline.schema import parse_yaml
from roofline.schema.document import Text

NAME: Final = "ray-serve"
VERSION: Final = "2.60"
READ: Final = (
    "model_loading_config", "engine_kwargs", "runtime_env", "accelerator_type", "deployment_config",
)  # fmt: skip
"""Fields of a model's configuration that are looked at."""
FILE: Final = "serve.yaml"
PORT: Final = 8000
"""Port of Ray Serve unless its ``http_options`` say otherwise."""
ACCELERATORS: Final[Mapping[str, str]] = {
    "a100": "A100", "h100": "H100", "h200": "H200", "h20": "H20", "b200": "B200", "b300": "B300",
    "gb200": "GB200", "gb300": "GB300", "l4": "L4", "l40s": "L40S", "t4": "T4", "v100": "V100",
    "a10g": "A10G", "mi300x": "AMD-Instinct-MI300X-OAM", "mi325x": "AMD-Instinct-MI325X-OAM",
    "mi355x": "AMD-Instinct-MI355X-OAM",
}  # fmt: skip
"""Resource names of ``ray.util.accelerators``, by how GPUs of the catalog begin."""


def write(served: ReplicaServer, site: Site) -> ServeCommand:
    """The configuration, how it is run, and ``vllm bench serve``.

    Raises:
        InputError: The engine is not vLLM.
        LayoutError: vLLM has no such layout.
        InfeasibleError: No room is left for a cache.
    """
    if served.engine != vllm.NAME:
        raise InputError(
            f"Ray Serve LLM runs vLLM, not {served.engine}", hint="leave `engine` at vllm"
        )
    notes = Notes()
    settings = vllm.engine_settings(served, site, notes)
    shared.say_nodes(
        served, site, notes, "Ray places them where its nodes have them free; see cross-node "
        "parallelism in its documentation",
    )  # fmt: skip
    config = _config(served, site, settings, notes)
    grouped = served.layout.dp != 1
    builder = "build_dp_openai_app" if grouped else "build_openai_app"
    arguments = {"llm_config": config} if grouped else {"llm_configs": [config]}
    application = {
        "name": "llm",
        "route_prefix": "/",
        "import_path": f"ray.serve.llm:{builder}",
        "args": arguments,
    }
    if site.port != PORT:
        notes.say(f"Ray Serve listens on {PORT} unless http_options of its cluster say otherwise")
    return ServeCommand(
        f"Ray Serve LLM {VERSION}, {vllm.TITLE}",
        (("serve", "run", FILE),),
        files={FILE: dump({"applications": [application]})},
        benchmark=vllm.bench(served.model, site, PORT),
        notes=tuple(notes.said),
        lost=frozenset(notes.lost),
    )


def _config(
    served: ReplicaServer, site: Site, settings: Mapping[str, Any], notes: Notes
) -> dict[str, Any]:
    model = Quoted(served.model)
    out: dict[str, Any] = {"model_loading_config": {"model_id": model, "model_source": model}}
    kind = ACCELERATORS.get(site.gpu.partition("-")[0])
    if kind is not None:
        out["accelerator_type"] = kind
    else:
        notes.say(f"Ray has no accelerator type for {site.gpu}: any GPU of the cluster is taken")
    out["deployment_config"] = {"num_replicas": served.replicas}
    out["engine_kwargs"] = {name: _plain(value) for name, value in settings.items()}
    if variables := shared.stage_variable(vllm.STAGES, served.layout):
        quoted = {name: Quoted(value) for name, value in variables.items()}
        out["runtime_env"] = {"env_vars": quoted}
    return out


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return Quoted(value)
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def is_config(text: str) -> bool:
    """True for a configuration of Ray Serve LLM."""
    return "model_loading_config" in text


def read(text: str, source: str, files: Files) -> ParsedCommand:
    """Read the settings of vLLM in a configuration; `files` is not asked.

    Raises:
        InputError, DocumentError: There is no model, or several, or what is said of it has no
            meaning or is contradictory.
    """
    document = parse_yaml(text, source)
    places = list(_places(document.data, ()))
    if len(places) != 1:
        raise InputError(
            f"{source} is not the configuration of one model",
            hint="give a file with one llm_config: model_loading_config and engine_kwargs",
        )
    where = places[0]
    config = looking.mapping(document, *where)
    loading = (*where, "model_loading_config")
    model = looking.text(document, *loading, "model_source") or looking.text(
        document, *loading, "model_id"
    )
    given = keys(document, (*where, "engine_kwargs"))
    environment = (*where, "runtime_env", "env_vars")
    variables = looking.mapping(document, *environment)
    if vllm.STAGES in variables:
        path = (*environment, vllm.STAGES)
        source_text = Text(document.text, document.source)
        value = looking.text(document, *path)
        stages = Value(value, vllm.STAGES, document.offset(*path), source_text)
        given.values["stages"] = [stages]
    with placed(document.where(*where)):
        found = vllm.from_settings(given, model)
    replicas = looking.count(document, *where, "deployment_config", "num_replicas")
    rest = (
        *given.unused(),
        *(f"{key}: {config[key]!r:.40}" for key in config if key not in READ),
        *(name for name in variables if name != vllm.STAGES),
    )
    return replace(found, served=replace(found.served, replicas=replicas), unused=rest)


def _places(data: Any, path: looking.Path) -> Iterator[looking.Path]:
    """Paths of the models that are described."""
    if isinstance(data, dict):
        if isinstance(data.get("model_loading_config"), dict):
            yield path
            return
        for key, value in data.items():
            yield from _places(value, (*path, key))
    elif isinstance(data, list):
        for place, value in enumerate(data):
            yield from _places(value, (*path, place))
