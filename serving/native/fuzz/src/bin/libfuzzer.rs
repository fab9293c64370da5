//! What `make fuzz` runs: libFuzzer over the decoder that the environment variable `DECODER` names.

#![no_main]

use std::sync::LazyLock;

use tidegate_fuzz::{DECODERS, Target, decoder};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("DECODER").unwrap_or_default();
    let names = DECODERS.map(|(name, _)| name).join(", ");
    decoder(&name).unwrap_or_else(|| panic!("DECODER is '{name}': there are {names}"))
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    TARGET(input);
});
