//! The codec's tests as one program, which is linked once.
//! A new file beside this one is named below, or the test here fails.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod explain;
mod generate;
mod golden;
mod infer_json;
mod json;
mod json_base64;
mod json_numbers;
mod msgpack;
mod properties;
mod support;
mod tensor_decoding;

#[test]
fn every_file_of_this_folder_is_part_of_it() {
    let named = include_str!("all.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(name == "all" || named.contains(&format!("mod {name};\n")), "all.rs does not name {}", path.display());
    }
}
