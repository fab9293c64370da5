//! Plain objects in MessagePack: what is read is JSON, which the inputs of every signature are read from, and the way back
//! and forth once more changes nothing.

use tidegate_codec::json::plain_object::PlainObject;
use tidegate_codec::msgpack::{Binary, from_json, to_json};

use crate::pages::{outer, sheets};

/// Reads the bytes for documents and for tensors.
pub fn run(input: &[u8]) {
    for binary in [Binary::Text, Binary::Object] {
        let Some(text) = outer(input, || to_json(input, binary, &mut ()).ok()) else { continue };
        let plain = PlainObject::parse(&text);
        let plain = plain.unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&text)));
        for sheet in sheets() {
            sheet.fill(&text, |signature, page| plain.read_inputs(signature, page));
        }
        // What looks like bytes in base64 may be none.
        let Some(packed) = outer(&text, || from_json(&text, binary).ok()) else { continue };
        let again = |packed: &[u8]| to_json(packed, binary, &mut ()).unwrap_or_else(|why| panic!("{why}: {packed:?}"));
        let settled = again(&packed);
        assert_eq!(from_json(&settled, binary).map(|packed| again(&packed)), Ok(settled));
    }
}
