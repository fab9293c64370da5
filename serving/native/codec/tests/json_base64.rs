//! Base64 in JSON, as all programs write it.

use crate::json::{one, read, refused};
use tidegate_codec::dtype::DType;
use tidegate_codec::tensors::Column;

#[test]
fn base64_may_have_line_breaks_no_padding_and_either_alphabet() {
    let texts = one(DType::String, &[-1]);
    let body = |encoded: &str| format!(r#"{{"instances":[{{"b64":"{encoded}"}}]}}"#);
    for encoded in ["/+8AAA==", r"/+8A\nAA==\n", r"/+8A\r\n AA==", "/+8AAA", "_-8AAA==", "/+8AAB=="] {
        let (_, columns) = read(&texts, &body(encoded)).unwrap();
        let Column::Strings(found) = &*columns[0] else { panic!("raw") };
        assert_eq!(found.get(0), [0xff, 0xef, 0, 0], "{encoded}");
    }
    for encoded in ["/+8A*A==", "/", r"/\n", "/+_8"] {
        assert!(refused(&texts, &body(encoded)).ends_with("Unable to base64 decode"), "{encoded}");
    }
}
