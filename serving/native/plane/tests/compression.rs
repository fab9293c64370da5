//! Decompression under a size limit, of one message and of each in a stream.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use tidegate_codec::status::Code;
use tidegate_codec::status::Status;
use tidegate_engine::memory::Memory;
use tidegate_plane::endpoints::compression;
use tidegate_plane::endpoints::grpc::reflection;
use tidegate_plane::settings::Settings;

use crate::support::examples::{CLASSIFY, example, list_with_context, request, strings};
use crate::support::grpc::{PREDICT, frame};
use crate::support::infer::{STREAM_INFER, infer, raw};
use crate::support::inference::{of_tensorflow, parses_itself, publish};
use crate::support::messages::predict_x;
use crate::support::{Model, Random, Running, eventually, settings};

fn inflate(encoding: &str, data: &[u8], limit: usize) -> Result<Option<Bytes>, Status> {
    let memory = Arc::new(Memory::new(64 << 20, 1 << 20));
    compression::inflate(encoding, data, limit, &mut || false, &mut memory.of_connection().reservation())
}

#[test]
fn inflated_bytes_are_counted_before_they_are_there() {
    let memory = Arc::new(Memory::new(8 << 20, 1 << 10));
    let mut taken = memory.of_connection().reservation();
    let refused =
        compression::inflate("gzip", &gzip(&vec![0; 4 << 20]), 64 << 20, &mut || false, &mut taken).unwrap_err();
    assert_eq!(refused.code, Code::ResourceExhausted);
    assert!(refused.message.contains("request_memory_bytes is 8388608"), "{}", refused.message);
    assert!(taken.bytes() <= 2 << 20, "a connection's quarter");
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn what_was_compressed_comes_out_plain() {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(b"tide").unwrap();
    assert_eq!(&inflate("gzip", &gzip(b"tide"), 4).unwrap().unwrap()[..], b"tide");
    assert_eq!(&inflate("deflate", &zlib.finish().unwrap(), 4).unwrap().unwrap()[..], b"tide");
}

#[test]
fn limits_broken_streams_and_unknown_encodings_are_refused() {
    let bomb = gzip(&vec![0; 1 << 20]);
    assert_eq!(inflate("gzip", &bomb, 1000).unwrap(), None, "more than the limit");
    assert_eq!(inflate("gzip", &bomb[..100], 1 << 21).unwrap_err().code, Code::InvalidArgument);
    assert_eq!(inflate("gzip", b"plain", 1000).unwrap_err().code, Code::InvalidArgument);
    assert_eq!(inflate("br", b"", 1000).unwrap_err().code, Code::Unimplemented);
}

#[test]
fn what_takes_long_however_little_comes_out_is_left() {
    let memory = Arc::new(Memory::new(64 << 20, 1 << 20));
    let mut taken = memory.of_connection().reservation();
    let mut unpack = |gives_up: &mut dyn FnMut() -> bool| {
        compression::inflate("gzip", &gzip(b"").repeat(3000), 1 << 20, gives_up, &mut taken).unwrap()
    };
    let mut asked = 0;
    let mut at_third = || {
        asked += 1;
        asked == 3
    };
    assert_eq!(unpack(&mut at_third), None);
    assert_eq!(unpack(&mut || false), Some(Bytes::new()));
}

#[test]
fn whether_to_give_up_is_asked_once_a_kibibyte_however_much_comes_out_of_it() {
    let memory = Arc::new(Memory::new(64 << 20, 1 << 20));
    let mut taken = memory.of_connection().reservation();
    let (packed, mut asked) = (gzip(&vec![0; 4 << 20]), 0);
    let mut never = || {
        asked += 1;
        false
    };
    let plain = compression::inflate("gzip", &packed, 4 << 20, &mut never, &mut taken).unwrap().unwrap();
    assert_eq!(plain.len(), 4 << 20);
    let kibibytes = packed.len().div_ceil(1 << 10);
    assert!((kibibytes..=kibibytes + 2).contains(&asked), "asked {asked} times in {kibibytes} KiB");
}

/// The frame of a message that says it is compressed.
fn packed(message: &[u8]) -> Vec<u8> {
    [&[1][..], &frame(message)[1..]].concat()
}

#[test]
fn each_message_of_a_stream_may_be_compressed() {
    let running = Running::with(&Model::half_plus_two());
    let mut client = running.grpc();
    let (few, many) = ([2.0, 4.0], vec![6.0; 200_000]);
    let sent = [packed(&gzip(&infer(&few))), frame(&infer(&few)), packed(&gzip(&infer(&many))), frame(&infer(&few))];
    let (call, mut sending) = client.open_ended(STREAM_INFER, &[("grpc-encoding", "gzip")], sent.concat());
    let mut stream = client.answers(call);
    for expected in [raw(&[3.0, 4.0]), raw(&[3.0, 4.0]), raw(&vec![5.0; 200_000]), raw(&[3.0, 4.0])] {
        let answer = client.next(&mut stream).unwrap();
        assert!(answer.windows(expected.len()).any(|found| found == expected), "not among {} bytes", answer.len());
    }
    let held = || running.sample("tidegate_request_memory_bytes");
    eventually("only the call itself counts", || held() < 8192.0);
    sending.send_data(Bytes::new(), true).unwrap();
    assert_eq!(client.next(&mut stream), Err(0));
    eventually("all is given back", || held() == 0.0);
}

#[test]
fn a_stream_ends_where_a_message_cannot_be_inflated_or_is_too_large() {
    let running = Running::with(&Model::half_plus_two());
    let mut client = running.grpc();
    let methods = [(STREAM_INFER, 1 << 20), (reflection::METHODS[0], 16 << 10)];
    for (path, limit) in methods {
        let bomb = gzip(&vec![0; limit + 1]);
        let cases: [(&str, &[u8], Code, String); 4] = [
            ("gzip", &bomb, Code::ResourceExhausted, format!("limit of {limit} bytes once it is decompressed")),
            ("gzip", b"plain", Code::InvalidArgument, "cannot be decompressed as gzip".to_owned()),
            ("br", b"x", Code::Unimplemented, "encoding 'br' is not supported: send gzip, deflate".to_owned()),
            ("identity", b"x", Code::Internal, "name how in grpc-encoding".to_owned()),
        ];
        for (encoding, message, code, text) in cases {
            let call = client.start(path, &[("grpc-encoding", encoding)], packed(message));
            let answer = client.finish(call);
            assert_eq!(answer.code, code as i32, "{path} {encoding}: {}", answer.message);
            assert!(answer.message.contains(&text), "{path} {encoding}: {}", answer.message);
        }
    }
    eventually("all is given back", || running.sample("tidegate_request_memory_bytes") == 0.0);
}

#[test]
fn what_grpc_asks_of_a_message_that_says_it_is_compressed() {
    let running = Running::with(&Model::half_plus_two());
    let mut client = running.grpc();
    let good = packed(&gzip(&predict_x(&[2.0])));
    let odd = [&[7][..], &good[1..]].concat();
    let cases = [
        (Some("gzip"), &good, Code::Ok),
        (None, &good, Code::Internal),
        (Some("identity"), &good, Code::Internal),
        (Some("gzip"), &odd, Code::Internal),
        (Some("snappy"), &good, Code::Unimplemented),
    ];
    for (encoding, message, code) in cases {
        let headers: Vec<_> = encoding.map(|encoding| ("grpc-encoding", encoding)).into_iter().collect();
        let call = client.start(PREDICT, &headers, message.clone());
        let answer = client.finish(call);
        assert_eq!(answer.code, code as i32, "{headers:?}: {}", answer.message);
        let told = answer.headers.get("grpc-accept-encoding").is_some_and(|value| value == "identity, deflate, gzip");
        assert_eq!(told, code == Code::Unimplemented, "{:?}", answer.headers);
    }
}

/// A packed list of examples fills most of its connection's share, which has as much as two of the largest messages.
#[test]
fn a_packed_list_of_examples_is_not_counted_twice() {
    const MB: usize = 1 << 20;
    let running = Running::start(&Settings { request_memory_bytes: 8 * MB, max_message_bytes: MB, ..settings() });
    running.plane.apply(vec![publish("m", &parses_itself(), of_tensorflow())]).unwrap();
    let mut random = Random(1);
    let mut text =
        |length| (0..length).map(|_| (b'0' + random.below(64) as u8) as char).collect::<String>().replace('\\', "z");
    let (context, words) = (text(10_000), (0..10).map(|_| text(98_000)).collect::<Vec<_>>());
    let list = words.iter().map(|word| format!(r#"{{"b":"{word}"}}"#)).collect::<Vec<_>>().join(",");
    let mut rest = running.rest();
    let body = format!(r#"{{"context":{{"a":"{context}"}},"examples":[{list}]}}"#);
    rest.send("POST", "/v1/models/m:classify", "content-encoding: gzip\r\n", &gzip(body.as_bytes()));
    let answer = rest.receive();
    assert_eq!(answer.status, 200, "{}", answer.body);
    let examples: Vec<_> = words.iter().map(|word| example(&[("b", strings(&[word.as_bytes()]))])).collect();
    let input = list_with_context(&example(&[("a", strings(&[context.as_bytes()]))]), &examples);
    let (mut client, message) = (running.grpc(), packed(&gzip(&request("m", "", &input))));
    let call = client.start(CLASSIFY, &[("grpc-encoding", "gzip")], message);
    let answer = client.finish(call);
    assert_eq!(answer.code, 0, "{}", answer.message);
}
