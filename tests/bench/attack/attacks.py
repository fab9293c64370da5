"""What is done to an engine by clients who mean harm, or who do not know better; each ends by itself.

A process of its own does it (`python -m tests.bench.attack.attacks NAME GRPC REST SECONDS`), started by `siege`; the
figures that only the attacker can know go to standard output as JSON. What the engine answers is otherwise not looked
at: refusals are what attackers should get.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from tests.bench.attack import crowds, floods, full_queues, trickles, wire
from tests.bench.attack.models import PIXELS, TABLES
from tests.bench.attack.wire import CLASSIFY, MEGABYTE, PREDICT, Target
from tests.bench.rows import Row
from tests.support.clients.http2 import HELLO, PREFACE, SETTINGS, call_frames, frame, grpc_message, settings
from tests.support.clients.http2_streams import Streams

from tidegate_serving.contract.messages import message

Rows = Sequence[Row]
CONNECTIONS = 4200
LITTLE = {"request_memory_bytes": 256 << 20}


def filled_tensors(target: Target) -> Rows:
    """200 requests of 48 bytes whose tensors have a shape of 15 million elements and no values."""
    wire.calls(target, PREDICT, [wire.predict_request("image", (100, PIXELS), b"")] * 200)
    return ()


def large_bodies(target: Target) -> Rows:
    """60 REST clients that send 60 MB each and go on waiting."""
    body = b'{"instances": [' + b"1.0," * (15 * MEGABYTE - 8)
    wire.all_at_once(target, wire.post("small", body, more=5), 60)
    return ()


def large_streams(target: Target) -> Rows:
    """60 streams of one gRPC connection that send all but the last byte of 60 MB each."""
    body = grpc_message(wire.predict_request("small", (15 * MEGABYTE,), bytes(60 * MEGABYTE)))
    streams = Streams(target.grpc, PREDICT, body, 60, {"grpc-timeout": "60S"})
    streams.send_all(len(body) - 1, target.until)
    time.sleep(1)
    streams.close()
    return ()


def shared_context(target: Target) -> Rows:
    """1,000 examples that share a context of 30 MB."""
    request = message("tensorflow.serving.ClassificationRequest")()
    request.model_spec.name = "examples"
    listed = request.input.example_list_with_context
    listed.context.features.feature["blob"].bytes_list.value.append(bytes(30 * MEGABYTE))
    for number in range(1000):
        listed.examples.add().features.feature["x"].float_list.value.append(number)
    wire.calls(target, CLASSIFY, [request.SerializeToString()])
    return ()


def gzip_bombs(target: Target) -> Rows:
    """Bodies and messages of 60 kB that unpack to 60 MB."""
    numbers = gzip.compress(b'{"instances": [' + b"1.0," * (15 * MEGABYTE) + b"1.0]}")
    zeros = gzip.compress(wire.predict_request("small", (15 * MEGABYTE,), bytes(60 * MEGABYTE)))
    message = b"\1" + len(zeros).to_bytes(4, "big") + zeros
    while time.monotonic() < target.until:
        wire.exchange(target, wire.post("small", numbers, "Content-Encoding: gzip\r\n"))
        streams = Streams(target.grpc, PREDICT, message, 1, {"grpc-encoding": "gzip"})
        streams.send_all(len(message), target.until)
        streams.finish(target.until)
        streams.close()
    return ()


def wrong_length(target: Target) -> Rows:
    """Bodies of 62 MB whose one list is longer than the signature says."""
    body = b'{"instances": [[' + b"1," * (31 * MEGABYTE) + b"1]]}"
    return _again(target, wire.post("image", body))


def escapes(target: Target) -> Rows:
    """A name of a million escapes."""
    body = b'{"signature_name": "' + b"\\u0041" * MEGABYTE + b'", "instances": [1.0]}'
    return _again(target, wire.post("small", body))


def nested(target: Target) -> Rows:
    """A megabyte of numbers in a list nested 254 deep, where the signature has none."""
    body = b'{"instances": [' + b"[" * 253 + b"1.0," * (MEGABYTE // 4) + b"1.0" + b"]" * 253 + b"]}"
    return _again(target, wire.post("small", body))


def metrics(target: Target) -> Rows:
    """/metrics of 1,000 models more, again and again."""
    return _again(target, b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")


def silent_grpc(target: Target) -> Rows:
    """4,200 gRPC connections that say nothing after their preface."""
    return _silent("silent-grpc", target, target.grpc, PREFACE + frame(SETTINGS, 0, 0))


def half_headers(target: Target) -> Rows:
    """4,200 REST connections that send half a header."""
    return _silent("half-headers", target, target.rest, b"POST /v1/models/small:predict HTTP/1.1\r\nHos")


def unread_rest(target: Target) -> Rows:
    """400 REST clients that ask for an answer of 400 kB each and read none of it."""
    return _silent("unread-rest", target, target.rest, wire.post("large", b'{"instances": [1.5]}'), 400)


def unread_grpc(target: Target) -> Rows:
    """4,000 answers of 400 kB over 4 gRPC connections that give no room for any."""
    no_room = PREFACE + settings({4: 0})
    request = wire.predict_request("large", (1,), b"")
    asked = (call_frames(1 + 2 * number, PREDICT, request) for number in range(1000))
    return _silent("unread-grpc", target, target.grpc, no_room + b"".join(asked), 4)


def slow_model(target: Target) -> Rows:
    """1,500 requests at once that a model needs two minutes for, with a deadline of eight seconds."""
    began = time.monotonic()
    codes = wire.calls(target, PREDICT, [wire.predict_request("slow", (1,), bytes(4))] * 1500, timeout=8)
    seconds = time.monotonic() - began
    refused, late = codes.get("RESOURCE_EXHAUSTED", 0), codes.get("DEADLINE_EXCEEDED", 0)
    words = (
        f"slow-model: of 1,500 requests with 8 s, waited in vain ({refused:,} refused; all over after {seconds:.1f} s)"
    )
    return [Row(words, late, "requests", "at most 75", late <= 75)]


def hung_model(target: Target) -> Rows:
    """A call that never returns, and 2,000 requests behind it."""
    bad = wire.predict_request("hangs", (1,), b"\0\0\x80\xbf")
    good = wire.predict_request("hangs", (1,), bytes(4))
    wire.calls(target, PREDICT, [bad, *[good] * 2000], timeout=5)
    return ()


def busy_model(target: Target) -> Rows:
    """A call that computes in Python for ever, in a process that good clients' model is in too."""
    return _trouble(target, b"\0\0\0\xc0")


def busy_threads(target: Target) -> Rows:
    """A call that starts 200 threads which compute for ever, without Python's lock."""
    return _trouble(target, b"\0\0\x80\xc0")


def always_raises(target: Target) -> Rows:
    """1,024 requests at once to a model that raises for each of them."""
    bad = wire.predict_request("raises", (1,), b"\0\0\x80\xbf")
    wire.calls(target, PREDICT, [bad] * 1024)
    return ()


def resets(target: Target) -> Rows:
    """Calls that are opened and reset at once, as fast as one connection takes them (CVE-2023-44487)."""
    request = wire.predict_request("small", (1,), bytes(4))
    while time.monotonic() < target.until:
        with wire.connect(target.grpc) as one:
            one.sendall(HELLO)
            for first in range(0, 100_000, 500):
                streams = range(1 + 2 * first, 1 + 2 * (first + 500), 2)
                wire.send(
                    one, b"".join(call_frames(s, PREDICT, request) + frame(3, 0, s, b"\0\0\0\x08") for s in streams)
                )
                if time.monotonic() > target.until:
                    break
    return ()


def busy_core(target: Target) -> Rows:
    """Nothing is sent: only the core that clients share is busy, to see what the harness itself does to them."""
    while time.monotonic() < target.until:
        sum(range(10_000))
    return ()


def _trouble(target: Target, value: bytes) -> Rows:
    wire.calls(target, PREDICT, [wire.predict_request("hangs", (1,), value)], timeout=target.left())
    time.sleep(target.left())
    return ()


def _again(target: Target, data: bytes) -> Rows:
    while time.monotonic() < target.until:
        wire.exchange(target, data)
    return ()


def _silent(name: str, target: Target, address: str, first: bytes, count: int = CONNECTIONS) -> Rows:
    with wire.held(address, count, first) as sockets:
        time.sleep(target.left())
        left = wire.still_open(sockets)
    return [Row(f"{name}: connections left open at the end, of {len(sockets):,} that were made", left, "", "-", None)]


@dataclass(frozen=True, slots=True)
class Attack:
    """What is done, how long it goes on at most, and what the engine has to have for it."""

    run: Callable[[Target], Rows]
    seconds: float = 10.0
    tables: int = 0
    config: Mapping[str, object] = field(default_factory=dict)


ATTACKS: dict[str, Attack] = {
    "busy-core": Attack(busy_core),
    "filled-tensors": Attack(filled_tensors, 60),
    "large-bodies": Attack(large_bodies, 60),
    "large-streams": Attack(large_streams, 60),
    "shared-context": Attack(shared_context, 60),
    "gzip-bombs": Attack(gzip_bombs),
    "wrong-length": Attack(wrong_length),
    "escapes": Attack(escapes),
    "nested": Attack(nested),
    "metrics": Attack(metrics, tables=TABLES),
    "silent-grpc": Attack(silent_grpc, 20),
    "half-headers": Attack(half_headers, 20),
    "unread-rest": Attack(unread_rest),
    "unread-grpc": Attack(unread_grpc),
    "slow-model": Attack(slow_model, 20),
    "hung-model": Attack(hung_model, 20),
    "busy-model": Attack(busy_model),
    "busy-threads": Attack(busy_threads, config={"isolation": "own"}),
    "always-raises": Attack(always_raises, 20),
    "full-queue": Attack(full_queues.of_few),
    "full-queue-of-many": Attack(full_queues.of_many),
    "full-queue-of-huge": Attack(full_queues.of_huge),
    "resets": Attack(resets),
    "packed-headers": Attack(floods.packed_headers),
    "endless-headers": Attack(floods.endless_headers),
    "many-fields": Attack(floods.many_fields),
    "empty-continuations": Attack(floods.empty_continuations),
    "slow-resets": Attack(floods.slow_resets),
    "resets-by-the-engine": Attack(floods.resets_by_the_engine),
    "flood-of-settings": Attack(floods.flood_of_settings),
    "flood-of-windows": Attack(floods.flood_of_windows),
    "flood-of-tables": Attack(floods.flood_of_tables),
    "flood-of-pings": Attack(floods.flood_of_pings),
    "flood-of-room": Attack(floods.flood_of_room),
    "no-room": Attack(floods.no_room),
    "flood-of-priorities": Attack(floods.flood_of_priorities),
    "empty-data": Attack(floods.empty_data),
    "data-by-the-byte": Attack(floods.data_by_the_byte),
    "answers-by-the-byte": Attack(floods.answers_by_the_byte),
    "slow-bodies": Attack(trickles.slow_bodies, 20),
    "unread-pipeline": Attack(trickles.unread_pipeline),
    "unread-metrics": Attack(trickles.unread_metrics),
    "endless-extension": Attack(trickles.endless_extension),
    "chunks-by-the-byte": Attack(trickles.chunks_by_the_byte),
    "endless-trailers": Attack(trickles.endless_trailers),
    "endless-path": Attack(trickles.endless_path),
    "many-names": Attack(trickles.many_names),
    "hung-up-streams": Attack(trickles.hung_up_streams),
    "hung-up-calls": Attack(trickles.hung_up_calls),
    "unread-streams": Attack(trickles.unread_streams),
    "held-heads": Attack(trickles.held_heads, config=LITTLE),
    "health-watches": Attack(trickles.health_watches, config=LITTLE),
    "unread-conversations": Attack(trickles.unread_conversations),
    "bodies-for-nobody": Attack(crowds.bodies_for_nobody, 60),
    "packed-for-nobody": Attack(crowds.packed_for_nobody, 60),
    "held-watches": Attack(crowds.held_watches, 20),
    "held-calls": Attack(crowds.held_calls, 20),
    "held-bodies": Attack(crowds.held_bodies, 20),
    "crowd-of-lists": Attack(crowds.crowd_of_lists, tables=300, config=LITTLE),
    "half-closed-lists": Attack(crowds.half_closed_lists, tables=300),
}


def main(name: str, grpc: str, rest: str, seconds: str) -> None:
    """Attacks once."""
    found = ATTACKS[name].run(Target(grpc, rest, time.monotonic() + float(seconds)))
    print(json.dumps([asdict(row) for row in found]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
