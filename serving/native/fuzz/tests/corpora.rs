//! Every input that was kept, through its decoder once more: those that reach far into it, and those that once broke it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_fuzz::{DECODERS, Target};

/// Faults on any thread, also those that the plane itself survives.
static FAULTS: AtomicUsize = AtomicUsize::new(0);

fn corpus(decoder: &str) -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../tests/corpora").join(decoder);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn replay(decoder: &str, target: Target) {
    let files = corpus(decoder);
    assert!(!files.is_empty(), "{decoder} has no inputs");
    for file in files {
        let input = std::fs::read(&file).unwrap();
        let before = FAULTS.load(Ordering::Relaxed);
        let done = std::panic::catch_unwind(|| target(&input));
        let faults = FAULTS.load(Ordering::Relaxed) - before;
        assert!(done.is_ok() && faults == 0, "{} broke its decoder: see above", file.display());
    }
}

/// One after the other: a decoder's memory is counted over all threads.
#[test]
fn no_kept_input_breaks_its_decoder() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |fault| {
        FAULTS.fetch_add(1, Ordering::Relaxed);
        print(fault);
    }));
    for (decoder, target) in DECODERS {
        replay(decoder, target);
    }
}
