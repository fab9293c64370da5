//! The plane's tests as one program, because each program links all of tokio, hyper and rustls anew.
//! A new file beside this one is named below, or the test here fails.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod allowed_sizes;
mod aside;
mod batching;
mod compression;
mod connections;
mod control;
mod counted_once;
mod crowded;
mod deadlines;
mod drain;
mod embedded;
mod ending;
mod endpoints;
mod examples;
mod file_digest;
mod flat;
mod given_up;
mod half_closed;
mod health;
mod large_answers;
mod many_rows;
mod memory;
mod methods;
mod metrics;
mod operators;
mod pacing;
mod path;
mod plain_text;
mod reflection;
mod serving_map;
mod shadow_and_log;
mod small_print;
mod support;
mod tasks;
mod telemetry;
mod tls;
mod unbatched;
mod unread_bodies;

#[test]
fn every_file_of_this_folder_is_part_of_it() {
    let named = include_str!("all.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(name == "all" || named.contains(&format!("mod {name};\n")), "all.rs does not name {}", path.display());
    }
}
