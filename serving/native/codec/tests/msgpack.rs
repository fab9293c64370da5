//! MessagePack as the JSON that says the same, by the bytes of its specification.

use tidegate_codec::msgpack::{Binary, from_json, to_json};
use tidegate_codec::status::{Code, Status};
use tidegate_codec::tensors::Room;

fn text(message: &[u8]) -> String {
    String::from_utf8(to_json(message, Binary::Text, &mut ()).unwrap()).unwrap()
}

fn refused(message: &[u8]) -> String {
    to_json(message, Binary::Text, &mut ()).unwrap_err().message
}

#[test]
fn every_kind_of_value_is_read_and_comes_back_in_its_shortest_form() {
    let both: [(&[u8], &str); 22] = [
        (b"\xc0", "null"),
        (b"\xc2", "false"),
        (b"\xc3", "true"),
        (b"\x00", "0"),
        (b"\x7f", "127"),
        (b"\xcc\x80", "128"),
        (b"\xcd\x01\x00", "256"),
        (b"\xce\x00\x01\x00\x00", "65536"),
        (b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615"),
        (b"\xff", "-1"),
        (b"\xe0", "-32"),
        (b"\xd0\xdf", "-33"),
        (b"\xd1\xff\x7f", "-129"),
        (b"\xd2\xff\xff\x7f\xff", "-32769"),
        (b"\xd3\x80\x00\x00\x00\x00\x00\x00\x00", "-9223372036854775808"),
        (b"\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00", "1.5"),
        (b"\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00", "Infinity"),
        (b"\xa3a\"\n", "\"a\\\"\\n\""),
        (b"\x80", "{}"),
        (b"\x90", "[]"),
        (b"\x82\xa1a\x01\xa1b\x92\x02\x80", "{\"a\":1,\"b\":[2,{}]}"),
        (b"\x92\x91\x90\x03", "[[[]],3]"),
    ];
    for (message, json) in both {
        assert_eq!(text(message), json, "{message:?}");
        assert_eq!(from_json(json.as_bytes(), Binary::Text).unwrap(), message, "{json}");
    }
    let only_read: [(&[u8], &str); 8] = [
        (b"\xca\x3f\x80\x00\x00", "1.0"),
        (b"\xcd\x00\x01", "1"),
        (b"\xd3\xff\xff\xff\xff\xff\xff\xff\xff", "-1"),
        (b"\xd9\x01a", "\"a\""),
        (b"\xda\x00\x01a", "\"a\""),
        (b"\xdb\x00\x00\x00\x01a", "\"a\""),
        (b"\xdd\x00\x00\x00\x01\x01", "[1]"),
        (b"\xdf\x00\x00\x00\x01\xa1a\xdc\x00\x00", "{\"a\":[]}"),
    ];
    for (message, json) in only_read {
        assert_eq!(text(message), json, "{message:?}");
    }
}

#[test]
fn lengths_choose_the_heads_of_text_lists_objects_and_bytes() {
    let text = |length: usize| format!("\"{}\"", "a".repeat(length));
    let list = |length: usize| format!("[{}]", vec!["1"; length].join(","));
    let object = |length: usize| {
        let members: Vec<String> = (0..length).map(|at| format!("\"{at}\":1")).collect();
        format!("{{{}}}", members.join(","))
    };
    let heads: [(String, &[u8]); 11] = [
        (text(31), &[0xbf]),
        (text(32), &[0xd9, 32]),
        (text(256), &[0xda, 1, 0]),
        (text(1 << 16), &[0xdb, 0, 1, 0, 0]),
        (list(15), &[0x9f]),
        (list(16), &[0xdc, 0, 16]),
        (list(1 << 16), &[0xdd, 0, 1, 0, 0]),
        (object(15), &[0x8f]),
        (object(16), &[0xde, 0, 16]),
        (object(1 << 16), &[0xdf, 0, 1, 0, 0]),
        (format!("[{},{}]", list(16), list(2)), &[0x92, 0xdc, 0, 16]),
    ];
    for (json, head) in heads {
        let packed = from_json(json.as_bytes(), Binary::Text).unwrap();
        assert_eq!(&packed[..head.len()], head);
        assert_eq!(String::from_utf8(to_json(&packed, Binary::Text, &mut ()).unwrap()).unwrap(), json);
    }
    let bytes = |length: usize| {
        to_json(&[&[0xc6], &(length as u32).to_be_bytes()[..], &vec![7; length]].concat(), Binary::Object, &mut ())
    };
    for (length, head) in
        [(0, &[0xc4, 0][..]), (255, &[0xc4, 255]), (256, &[0xc5, 1, 0]), (1 << 16, &[0xc6, 0, 1, 0, 0])]
    {
        let packed = from_json(&bytes(length).unwrap(), Binary::Object).unwrap();
        assert_eq!((&packed[..head.len()], packed.len()), (head, head.len() + length));
    }
}

#[test]
fn bytes_are_base64_in_an_object_or_in_a_text() {
    let message = b"\x81\xa1x\xc4\x02\xff\x00";
    assert_eq!(text(message), "{\"x\":\"/wA=\"}");
    let object = to_json(message, Binary::Object, &mut ()).unwrap();
    assert_eq!(object, b"{\"x\":{\"b64\":\"/wA=\"}}");
    assert_eq!(from_json(&object, Binary::Object).unwrap(), message);
    assert_eq!(from_json(&object, Binary::Text).unwrap(), b"\x81\xa1x\x81\xa3b64\xa4/wA=");
}

#[test]
fn what_is_no_message_is_refused_at_its_place() {
    let wrong: [(&[u8], &str); 9] = [
        (b"", "MessagePack error: the message ends within a value at offset: 0"),
        (b"\x92\x01", "MessagePack error: the message ends within a value at offset: 2"),
        (b"\xdb\xff\xff\xff\xff", "MessagePack error: the message ends within a value at offset: 5"),
        (b"\x01\x02", "MessagePack error: another value follows the first at offset: 1"),
        (b"\x81\x01\x02", "MessagePack error: the name of a member is no text at offset: 1"),
        (b"\x81\xc4\x00\x02", "MessagePack error: the name of a member is no text at offset: 1"),
        (b"\xa1\xff", "MessagePack error: text that is no UTF-8 at offset: 1"),
        (b"\xc1", "MessagePack error: a byte 0xc1, with which no value begins at offset: 0"),
        (
            b"\xd6\xff\x00\x00\x00\x00",
            "MessagePack error: an extension type, for which JSON has no word: send text or a number at offset: 0",
        ),
    ];
    for (message, why) in wrong {
        assert_eq!(refused(message), why, "{message:?}");
    }
}

#[test]
fn nesting_ends_where_that_of_json_does() {
    let deep = |levels: usize| [vec![0x91; levels], vec![0xc0]].concat();
    assert_eq!(text(&deep(256)).len(), 2 * 256 + 4);
    assert_eq!(refused(&deep(257)), "MessagePack error: nested too deeply at offset: 257");
    let json = |levels: usize| ["[".repeat(levels), "]".repeat(levels)].concat();
    assert!(from_json(json(256).as_bytes(), Binary::Text).is_ok());
    assert!(from_json(json(257).as_bytes(), Binary::Text).unwrap_err().message.contains("Nested too deeply"));
}

/// Gives so many bytes.
struct Little(usize);

impl Room for Little {
    fn take(&mut self, bytes: usize) -> Result<(), Status> {
        self.0 = self.0.checked_sub(bytes).ok_or_else(|| Status::exhausted("no more"))?;
        Ok(())
    }
}

#[test]
fn memory_is_taken_for_text_that_is_longer_than_its_message() {
    let nulls = [&[0xdd, 0, 1, 0, 0][..], &[0xc0; 1 << 16]].concat();
    let length = to_json(&nulls, Binary::Text, &mut ()).unwrap().len();
    assert_eq!(length, 5 * (1 << 16) + 1);
    assert!(to_json(&nulls, Binary::Text, &mut Little(4 * length)).is_ok());
    assert_eq!(to_json(&nulls, Binary::Text, &mut Little(length - 1)).unwrap_err().code, Code::ResourceExhausted);
}
