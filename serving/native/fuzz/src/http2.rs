//! What comes over a gRPC connection. The first byte says how the rest goes over the wire, the second in how many pieces:
//! as it is; as frames after a good beginning; or as the body of a good call, whose method and coding a third byte names.

use tidegate_plane::endpoints::grpc::methods::METHODS;
use tidegate_plane::endpoints::grpc::reflection;

use crate::endpoints::{Via, converse};
use crate::http1::pieces;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The most that a frame may hold where nothing else was agreed.
const FRAME: usize = 16 << 10;

/// `:method POST` and `:scheme http` of the static table; what follows them has names of its own.
const CALL: [u8; 2] = [0x83, 0x86];
/// From here on a byte names the infer method, with every coding.
const INFER: usize = 0xf4;
const INFER_PATH: &str = "/inference.GRPCInferenceService/ModelInfer";
/// The bytes from here on name the methods whose messages are answered one by one, each with every coding.
const STREAMS: usize = 0xf8;
const STREAM_INFER_PATH: &str = "/inference.GRPCInferenceService/ModelStreamInfer";
const CODINGS: [&str; 4] = ["identity", "gzip", "deflate", "br"];

/// Sends what the bytes say.
pub fn run(input: &[u8]) {
    let [mode, size, rest @ ..] = input else { return };
    let via = if mode & 1 == 0 { Via::Grpc } else { Via::GrpcOnUnixSocket };
    let sent = match (mode >> 1) % 3 {
        0 => rest.to_vec(),
        1 => [hello(), rest.to_vec()].concat(),
        _ => match rest.split_first() {
            Some((which, body)) => [hello(), call(usize::from(*which), body)].concat(),
            None => hello(),
        },
    };
    converse(via, &pieces(usize::from(*size), &sent));
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn hello() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// A call with this body, which may be anything.
fn call(which: usize, body: &[u8]) -> Vec<u8> {
    let (method, coding) = match which {
        STREAMS.. if which % 2 == 1 => (reflection::METHODS[0], (0xff - which) / 2),
        STREAMS.. => (STREAM_INFER_PATH, (0xff - which) / 2),
        INFER.. => (INFER_PATH, STREAMS - 1 - which),
        _ => (METHODS[which % METHODS.len()], which / METHODS.len()),
    };
    let coding = CODINGS[coding % CODINGS.len()];
    let mut block = CALL.to_vec();
    let fields =
        [(":path", method), (":authority", "a"), ("content-type", "application/grpc"), ("grpc-encoding", coding)];
    for text in fields.iter().flat_map(|(name, value)| [("\0", *name), ("", *value)]) {
        block.extend_from_slice(text.0.as_bytes());
        block.push(text.1.len() as u8);
        block.extend_from_slice(text.1.as_bytes());
    }
    let mut out = frame(HEADERS, END_HEADERS, 1, &block);
    for part in body.chunks(FRAME) {
        out.extend(frame(DATA, 0, 1, part));
    }
    out.extend(frame(DATA, END_STREAM, 1, &[]));
    out
}
