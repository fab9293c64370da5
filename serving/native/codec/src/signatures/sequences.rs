//! Sequences: requests that belong together, whose model keeps something from one to the next, as in Triton. Three inputs
//! of such a signature say where in its sequence a request is.

use std::borrow::Cow;

/// The input, and the parameter, that says which sequence.
pub const SEQUENCE_ID: &str = "sequence_id";
/// Those that say whether it begins here.
pub const SEQUENCE_START: &str = "sequence_start";
/// Those that say whether it ends here.
pub const SEQUENCE_END: &str = "sequence_end";

/// Where in its sequence a request is, as its parameters say.
#[derive(Debug, Default)]
pub struct Turn<'a> {
    /// Empty where it is part of none.
    pub id: Cow<'a, str>,
    /// Whether it is the first.
    pub start: bool,
    /// Whether it is the last.
    pub end: bool,
}

/// Whether this is one of the three inputs.
pub fn is_turn(name: &str) -> bool {
    [SEQUENCE_ID, SEQUENCE_START, SEQUENCE_END].contains(&name)
}
