//! The engine's tests as one program, which is linked once.
//! A new file beside this one is named below, or the test here fails.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod answering;
mod disposal;
mod histogram;
mod inflight;
mod lanes;
mod log_turns;
mod metrics;
mod priorities;
mod queue;
mod request_id;
mod shapes;
mod stream;
mod support;
mod unanswered;

#[test]
fn every_file_of_this_folder_is_part_of_it() {
    let named = include_str!("all.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(name == "all" || named.contains(&format!("mod {name};\n")), "all.rs does not name {}", path.display());
    }
}
