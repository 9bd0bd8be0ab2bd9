"""Workload files: those that are shipped, and what is refused where."""

from pathlib import Path

import pytest

from roofline.content import shipped
from roofline.errors import DocumentError, UnknownNameError
from roofline.serving.requests import check
from roofline.serving.traffic.draw import draw
from roofline.serving.traffic.files import read_traffic
from roofline.serving.traffic.lengths import ConstantLength, Empirical, Lognormal, Uniform
from roofline.serving.traffic.presets import preset_names, traffic_named
from roofline.serving.traffic.traffic import (
    Bursty,
    Closed,
    Even,
    Poisson,
    RecordedArrivals,
    SharedPrefixes,
    SubAgents,
    Tools,
    Turns,
)

FOLDER = shipped("scenarios") / "workloads"


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def figure(value: str) -> str:
    return f"{{value: {value}, source: assumed, note: a guess}}"


def plain(
    *, arrivals: str = f"{{kind: poisson, rate: {figure('2 request/s')}}}", more: str = ""
) -> str:
    return (
        "schema_version: 1\nname: mine\ntitle: Mine\n"
        f"prompt: {{kind: constant, tokens: {figure('8 token')}}}\n"
        f"output: {{kind: constant, tokens: {figure('4 token')}}}\n"
        f"arrivals: {arrivals}\n{more}"
    )


@pytest.mark.parametrize("name", preset_names())
def test_a_shipped_workload_can_be_drawn_and_is_called_as_its_file(name: str) -> None:
    traffic, facts = read_traffic(FOLDER / f"{name}.yaml")
    assert traffic.name == name
    assert traffic == traffic_named(name.upper())
    assert facts
    for fact in facts.values():
        assert fact.source != "assumed" or len(fact.note) > 5
        assert fact.location.startswith("scenarios/workloads/")
    check(draw(traffic, 0))


def test_the_kinds_of_work_people_ask_about_are_there() -> None:
    assert set(preset_names()) >= {
        "chat", "code-completion", "rag", "reasoning", "long-context", "batch", "rl-rollouts",
        "evaluation", "multi-turn",
    }  # fmt: skip
    assert traffic_named("rag").shared is not None
    assert traffic_named("multi-turn").turns is not None
    assert traffic_named("rl-rollouts").samples == 16
    chat, reasoning = traffic_named("chat"), traffic_named("reasoning")
    assert isinstance(chat.prompt, Lognormal)
    assert isinstance(reasoning.output, Lognormal)
    assert chat.prompt.median == 1020
    assert chat.slo == "ttft_p99=450ms,tpot_p99=40ms"


def test_the_turns_of_a_session_have_the_mean_that_the_note_says() -> None:
    turns = traffic_named("multi-turn").turns
    assert turns is not None
    assert isinstance(turns.number, Empirical)
    pairs = zip(turns.number.tokens, turns.number.weights, strict=True)
    assert sum(n * w for n, w in pairs) / 100 == pytest.approx(2.54, abs=0.05)


@pytest.mark.parametrize(
    ("arrivals", "meant"),
    [
        (f"{{kind: poisson, rate: {figure('2 request/s')}}}", Poisson(2.0)),
        (f"{{kind: even, rate: {figure('500 mrequest/s')}}}", Even(0.5)),
        (f"{{kind: bursty, rate: {figure('2 request/s')}, cv: {figure('3')}}}", Bursty(2.0, 3.0)),
        (f"{{kind: closed, concurrency: {figure('64')}}}", Closed(64)),
        (
            "{kind: recorded, times: [0, 0.5, 3], source: assumed, note: x}",
            RecordedArrivals((0.0, 0.5, 3.0)),
        ),
    ],
)
def test_arrivals_are_read_as_written(tmp_path: Path, arrivals: str, meant: object) -> None:
    assert read_traffic(written(tmp_path, plain(arrivals=arrivals)))[0].arrivals == meant


def test_everything_a_workload_may_say_is_read(tmp_path: Path) -> None:
    more = (
        f"requests: {figure('70')}\nwarmup: {figure('7')}\nstatistic: median\n"
        f"shared: {{tokens: {figure('100 token')}, prefixes: {figure('3')}, skew: {figure('1')}}}\n"
        f"turns: {{number: {{kind: uniform, low: {figure('1 turn')}, high: {figure('5 turn')}}}, "
        f"think: {figure('500 ms')}, longest: {figure('900 token')}}}\n"
        "slo: {value: ttft=1s, source: assumed, note: a guess}\n"
        "priorities: {shares: [1, 3], source: assumed, note: a guess}\n"
    )
    traffic, facts = read_traffic(written(tmp_path, plain(more=more)))
    assert traffic.prompt == ConstantLength(8)
    assert traffic.requests == 70
    assert traffic.priorities == (1.0, 3.0)
    assert (traffic.warmup, traffic.statistic, traffic.slo) == (7, "median", "ttft=1s")
    assert traffic.shared == SharedPrefixes(100, 3, 1.0)
    assert traffic.turns == Turns(Uniform(1, 5), 0.5, 900)
    assert facts["turns.think"].text == "500 ms"


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        (plain(arrivals="{kind: poison}"), "mine.yaml:6:", "poison"),
        (
            plain(arrivals=f"{{kind: poisson, rate: {figure('2 token/s')}}}"),
            "mine.yaml:6:",
            "not in request/s",
        ),
        (
            plain(arrivals=f"{{kind: poisson, rate: {figure('-2 request/s')}}}"),
            "mine.yaml:6:",
            "cannot be",
        ),
        (
            plain(arrivals=f"{{kind: closed, concurrency: {figure('2.5')}}}"),
            "mine.yaml:6:",
            "cannot be",
        ),
        (
            plain(arrivals=f"{{kind: closed, concurrency: {figure('0')}}}"),
            "mine.yaml:",
            "concurrency is 0",
        ),
        (plain(more="samples: {value: 2, source: assumed}\n"), "mine.yaml:7:", "without a reason"),
        (plain(more="samples: {value: 2, source: paper}\n"), "mine.yaml:7:", "not listed"),
        (
            plain(more="samples: {value: 2, source: p}\nsources: {p: {title: P}}\n"),
            "mine.yaml:7:",
            "does not say where",
        ),
        (plain(more="sources: {p: {title: P}}\n"), "mine.yaml:7:", "nothing uses it"),
        (plain(more="rate: 5\n"), "mine.yaml:7:", "rate"),
        (plain().replace("8 token", "0 token"), "mine.yaml:4:", "cannot be"),
        (plain().replace("8 token", "8.5 token"), "mine.yaml:4:", "cannot be"),
        (
            plain().replace(
                f"kind: constant, tokens: {figure('8 token')}",
                "kind: empirical, seen: [3, 2], source: assumed, note: x",
            ),
            "mine.yaml:4:",
            "out of order",
        ),
        (
            plain().replace(
                f"kind: constant, tokens: {figure('8 token')}",
                f"kind: lognormal, median: {figure('9 token')}, mean: {figure('8 token')}",
            ),
            "mine.yaml:4:",
            "below the median",
        ),
        (
            plain(arrivals="{kind: recorded, times: [1, 0], source: assumed, note: x}"),
            "mine.yaml:",
            "out of order",
        ),
        (
            plain(more="priorities: {shares: [-1, 1], source: assumed, note: x}\n"),
            "mine.yaml:",
            "not shares",
        ),
        ("- 1\n", "mine.yaml:1:", ""),
        ("", "mine.yaml:1:", ""),
    ],
)
def test_a_mistake_is_told_at_its_place(tmp_path: Path, text: str, where: str, said: str) -> None:
    with pytest.raises(DocumentError) as refused:
        read_traffic(written(tmp_path, text))
    assert where in refused.value.where
    assert said in refused.value.message
    assert refused.value.hint


def test_a_workload_nobody_knows_is_told_with_the_nearest_name() -> None:
    with pytest.raises(UnknownNameError, match="no workload 'chatt'") as refused:
        traffic_named("chatt")
    assert "did you mean chat?" in refused.value.hint
    with pytest.raises(DocumentError, match="does not exist"):
        traffic_named("./nowhere.yaml")


SESSIONS = """\
turns:
  number: {{kind: constant, tokens: {turns}}}
  longest: {longest}
  {waits}
  tools:
    steps: {{kind: uniform, low: {one}, high: {five}}}
    result: {{kind: constant, tokens: {result}}}
    wait: {{kind: uniform, low: {fast}, high: {slow}}}
    branches:
      share: {{value: 0.25, source: assumed, note: a guess}}
      number: {{kind: constant, tokens: {agents}}}
      steps: {{kind: constant, tokens: {one}}}
      task: {{kind: constant, tokens: {result}}}
"""
PAUSE = f"pause: {{kind: lognormal, median: {figure('1.5 s')}, mean: {figure('3 s')}}}"


def sessions(waits: str) -> str:
    return SESSIONS.format(
        waits=waits, turns=figure("3 turn"), longest=figure("9000 token"), one=figure("1 step"),
        five=figure("5 step"), result=figure("70 token"), fast=figure("250 ms"),
        slow=figure("2 s"), agents=figure("2 agent"),
    )  # fmt: skip


def test_sessions_with_tools_are_read_with_times_in_milliseconds(tmp_path: Path) -> None:
    traffic, _ = read_traffic(written(tmp_path, plain(more=sessions(PAUSE))))
    branches = SubAgents(0.25, ConstantLength(2), ConstantLength(1), ConstantLength(70))
    tools = Tools(Uniform(1, 5), ConstantLength(70), Uniform(250, 2000), branches)
    pause = Lognormal.of_mean(1500, 3000)
    assert traffic.turns == Turns(ConstantLength(3), 0.0, 9000, pause, tools)


@pytest.mark.parametrize(
    ("waits", "said"),
    [
        ("", "neither think nor pause"),
        (f"think: {figure('3 s')}\n  {PAUSE}", "both think and pause"),
    ],
)
def test_sessions_wait_in_one_way(tmp_path: Path, waits: str, said: str) -> None:
    with pytest.raises(DocumentError, match=said) as error:
        read_traffic(written(tmp_path, plain(more=sessions(waits))))
    assert "mine.yaml:" in str(error.value.where)
